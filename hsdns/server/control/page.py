"""The web page for people: /.

Path: routes.py -> here -> page.html, which requests /v1/top/events and /v1/explain from the browser.
Rule 1: the page is one static file without data of the server, so it is sent without a token; the page asks for the
        token.
Rule 2: the Content-Security-Policy allows the browser to run and show only the contents of the file: no script from
        text in DNS data, and nothing from other origins.  Trusted types prevent text from becoming HTML by mistake.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import AsyncGenerator, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from hsdns.http_page import Asked
from hsdns.server.control.door import Door

HTML: Final = "text/html; charset=utf-8"
FILE: Final = Path(__file__).with_name("page.html")


async def page(door: Door, asked: Asked) -> AsyncGenerator[bytes, None]:
    """Send the file."""
    yield _content()


@cache
def headers() -> Mapping[str, str]:
    """The policy for the browser."""
    text = _content().decode()
    allowed = {
        "default-src": "'none'",
        "script-src": _hash_of(text, "script"),
        "style-src": _hash_of(text, "style"),
        "connect-src": "'self'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    policy = "; ".join(f"{name} {value}" for name, value in allowed.items())
    return {"Content-Security-Policy": policy}


@cache
def _content() -> bytes:
    return FILE.read_bytes()


def _hash_of(text: str, element: str) -> str:
    (content,) = re.findall(rf"<{element}>(.*?)</{element}>", text, re.DOTALL)
    return f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"
