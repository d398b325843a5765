"""One question to a health endpoint on this machine."""

import urllib.request


def answers(url: str) -> bool:
    """Whether it answers with success."""
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except OSError:
        return False
