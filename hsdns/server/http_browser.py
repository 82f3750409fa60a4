"""Protects the pages of the control door from pages of other sites in the operator's browser.

Path: http_connection.py calls it before it answers.
Rule 1: a page of another site cannot read a response, because no response allows other origins.  Nor can it change or
        ask anything, because requests with the Origin of another site are refused, and those that a browser sends for
        another site without an Origin (images, scripts), except that it may lead to the page at `/`.
Rule 2: another site may point a name of its own to this address (DNS rebinding), and then its page has the same origin.
        So the host must be an address or localhost, which no site owns, or the request must have the token, which no
        other site knows: in a network of containers, clients use a name for the server.
Rule 3: clients other than browsers send no such headers and are not refused here; socket permissions and the token
        restrict them.
Source: the Fetch standard, "Origin" header; W3C Fetch Metadata Request Headers; RFC 9110 section 7.2 (Host); RFC 6761
section 6.3 (localhost).
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

# In each response: no other site may embed it, and browsers must not interpret JSON as anything else.
HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_OTHER: Final = ("cross-site", "same-site")  # another port of this host is the same site


def fault_of(method: str, path: str, headers: Mapping[str, str], *, any_host: bool = False) -> str:
    """Why a request with these headers is refused, as a sentence; empty if it is accepted."""
    host, origin = headers.get("host", ""), headers.get("origin")
    if host and not any_host and not _is_own(host):
        return (
            f"the name in {host} may be that of another site; "
            "open this address as localhost or by its IP address"
        )
    if origin is not None and origin.partition("://")[2].lower() != host.lower():
        return f"{origin} is another site, and may not ask here"
    fetch = [headers.get(f"sec-fetch-{each}") for each in ("site", "mode", "dest")]
    if fetch[0] in _OTHER and [method, path, *fetch[1:]] != ["GET", "/", "navigate", "document"]:
        return "another site may not ask here; it may only lead to the page at /"
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
