"""Protects the pages of the control door from pages of other sites in the operator's browser.

Path: http_stream.py calls it before it answers.
Rule 1: a page of another site cannot read a response, because no response allows other origins.  Nor can it change
        anything, because requests with the Origin of another site are refused.
Rule 2: another site may point a name of its own to this address (DNS rebinding), and then its page has the same origin.
        So the host must be an address or localhost, which no site owns, or the request must have the token, which no
        other site knows: in a network of containers, clients use a name for the server.
Rule 3: clients other than browsers send no such headers and are not refused here; socket permissions and the token
        restrict them.
Source: the Fetch standard, "Origin" header; RFC 9110 section 7.2 (Host); RFC 6761 section 6.3 (localhost).
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


def fault_of(host: str, origin: str | None, *, any_host: bool = False) -> str:
    """Why a request with this Host and Origin is refused, as a sentence; empty if it is accepted."""
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
