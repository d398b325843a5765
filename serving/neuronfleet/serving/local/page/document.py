"""The page as one self-contained document, and the policy that keeps it so."""

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path

_FOLDER = Path(__file__).parent
_SCRIPTS = ("format.js", "geometry.js", "chart.js", "tables.js", "page.js")
"""Joined in this order into one module: what a script uses comes before it or in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What a browser gets."""

    html: str
    policy: str
    """Content-Security-Policy: only this style, this script and this server's state."""


def read_document() -> Document:
    """The page with its style and its script inside."""
    style = _read("page.css")
    script = "\n".join(_read(name) for name in _SCRIPTS)
    html = _read("index.html")
    html = html.replace("<!-- style -->", f"<style>{style}</style>")
    html = html.replace("<!-- script -->", f'<script type="module">{script}</script>')
    return Document(html=html, policy=_policy(style, script))


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {_source(script)}",
            f"style-src {_source(style)}",
            "connect-src 'self'",
            "img-src data:",  # the empty icon, or browsers ask for /favicon.ico
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
        )
    )


def _source(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
