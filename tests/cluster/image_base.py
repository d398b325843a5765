"""A Debian with Python in a directory: the base that stands for the published ones."""

import os
import shutil
import subprocess
from pathlib import Path

from tests.cluster.errors import ClusterError

SUITE = "bookworm"
PACKAGES = ("ca-certificates", "python3", "python3-venv")
MIRROR = "DEBIAN_MIRROR"
"""Environment variable that names another mirror than Debian's own."""
_DEBIAN = "http://deb.debian.org"
_STRIPPED = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info")
_EMPTIED = ("var/cache/apt", "var/lib/apt/lists", "var/log")


def make(root: Path) -> None:
    """Fill an empty directory.

    Raises:
        ClusterError: debootstrap is missing, or failed.
    """
    mirror = os.environ.get(MIRROR, f"{_DEBIAN}/debian")
    command = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}"]
    try:
        subprocess.run(
            [*command, SUITE, str(root), mirror], check=True, capture_output=True, text=True
        )
    except FileNotFoundError as error:
        raise ClusterError("debootstrap is missing: apt-get install debootstrap") from error
    except subprocess.CalledProcessError as error:
        raise ClusterError(f"debootstrap: {error.stdout[-2000:]}") from error
    for folder in _STRIPPED:
        shutil.rmtree(root / folder, ignore_errors=True)
    for folder in _EMPTIED:
        for path in (root / folder).iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    security = f"deb {_DEBIAN}/debian-security {SUITE}-security main\n"
    sources = f"deb {mirror} {SUITE} main\n{security}"
    (root / "etc/apt/sources.list").write_text(sources)
