"""A page as one HTML file: its script, its style and its data are inside, and opening it fetches nothing.

Its policy lets run the one script that it was written with and nothing else, and lets nothing be loaded from anywhere.
"""

import base64
import hashlib
from html import escape
from pathlib import Path
from typing import Literal

STATIC = Path(__file__).with_name("static")
"""What `make page` builds from `frontend/`."""
Page = Literal["report", "play"]
LESS = "\\u003c"
"""What could end a script element or open a comment in it begins with <. In JSON that stands in texts alone, where the
escape says the same."""


def page_html(page: Page, title: str, data: str) -> str:
    """`data`: the JSON that the page shows."""
    script, style = static(f"{page}.js"), static(f"{page}.css")
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(script, style)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        '<div id="page"></div>\n<noscript>This page needs JavaScript; report.json has the same data.</noscript>\n'
        f'<script type="application/json" id="data">{inert(data)}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def served_html(page: Page, title: str, data: str) -> str:
    """The same page where a server has its script and style, and says what may be loaded."""
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape(title)}</title>\n<link rel="icon" href="data:,">\n'
        f'<link rel="stylesheet" href="/static/{page}.css">\n'
        f'<script src="/static/{page}.js" defer></script>\n</head>\n<body>\n<div id="page"></div>\n'
        f'<script type="application/json" id="data">{inert(data)}</script>\n</body>\n</html>\n'
    )


def static(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")


def inert(data: str) -> str:
    """JSON that no parser of HTML takes for markup; it is the same JSON."""
    return data.replace("<", LESS)


def policy(script: str, style: str) -> str:
    """A content security policy for a page with this script and style inside."""
    allowed = f"script-src {_digest(script)}; style-src {_digest(style)}; img-src data:"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
