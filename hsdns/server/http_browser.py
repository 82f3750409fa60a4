"""Keep the pages of the control door from those of other sites that a browser shows.

Path: http_stream.py asks before it answers.
Rule 1: a page of another site cannot read an answer: none allows other origins, and requests that a browser makes for
        another origin are refused, so that such a page cannot change anything either.
Rule 2: a name that another site owns may lead to this address (DNS rebinding), and then its page has the same origin.
        So a host must be an address or localhost, which nobody else's name is, or the request has the token, which no
        other site knows: within a network of containers, a server is asked by its name there.
Rule 3: a client that is no browser sends neither, and is not kept out: that is for who may connect, and for the token.
Source: the Fetch standard, "Origin" header; RFC 9110 section 7.2 (Host); RFC 6761 section 6.3 (localhost).
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

# With each answer: no other site may embed it, and JSON is not read as anything else.
HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def fault_of(host: str, origin: str | None, *, any_host: bool = False) -> str:
    """Why a request with this Host and Origin is refused, as a sentence; empty where it is not."""
    if host and not any_host and not _is_own(host):
        return (
            f"the name in {host} may be that of another site; "
            "open this address as localhost or by its IP address"
        )
    if origin is not None and origin.partition("://")[2].lower() != host.lower():
        return f"{origin} is another site, and may not ask here"
    return ""


def _is_own(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
