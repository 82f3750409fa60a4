"""Reads the query of an HTTPS request, and makes the HTTP response from the reply; without sockets.

Path: doh.py calls it before and after step 2 to 6.
Source: RFC 8484; CoreDNS 1.14.7 plugin/pkg/doh and core/dnsserver server_https.go: any error in a request except an
unknown path is status 400, and the content type of a POST is not checked.
"""

from __future__ import annotations

import binascii
import re
import time
from base64 import urlsafe_b64decode
from typing import Final, NamedTuple
from urllib.parse import parse_qs, unquote

from hsdns.wire.decode import BadQuery, decode, outline
from hsdns.wire.message import Outcome, Query, outcome

PATH: Final = "/dns-query"
CONTENT_TYPE: Final = "application/dns-message"
MAX_BODY_LEN: Final = 65_536
SHORT_AGE: Final = 5  # seconds, for a reply without any TTL (CoreDNS plugin/pkg/dnsutil ttl.go)
LONGEST_AGE: Final = 3600
_TEXT: Final = "text/plain; charset=utf-8"
_BASE64: Final = re.compile(r"[A-Za-z0-9_-]*")
_KEPT: Final = frozenset({Outcome.POSITIVE, Outcome.NODATA, Outcome.NXDOMAIN})


class HttpReply(NamedTuple):
    """Status, headers and body, for both versions of HTTP."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


class BadRequest(Exception):
    """A request without a valid query; `reply` is the response to send."""

    def __init__(self, reply: HttpReply) -> None:
        super().__init__(f"status {reply.status}")
        self.reply = reply


def read_request(method: str, target: str, body: bytes) -> tuple[bytes, Query]:
    """Return the query of a request, as octets and parsed; raise BadRequest.

    `target` is the path with its query string.
    """
    path, _, parameters = target.partition("?")
    if unquote(path) != PATH:
        raise BadRequest(_error(404, ""))
    wire = _from_parameters(parameters) if method == "GET" else body
    if wire is None or method not in ("GET", "POST") or len(wire) > MAX_BODY_LEN:
        raise BadRequest(_error(400, "invalid request"))
    try:
        return wire, decode(wire)
    except BadQuery as bad:
        raise BadRequest(_error(400, "invalid request")) from bad


def make_reply(query: Query, wire: bytes | None) -> HttpReply:
    """Wrap a reply; without a reply the status is 500."""
    if wire is None:
        return _error(500, "No response")
    headers = (
        ("content-type", CONTENT_TYPE),
        ("cache-control", f"max-age={max_age(query, wire)}"),
        ("content-length", str(len(wire))),
    )
    return HttpReply(200, headers, wire)


def max_age(query: Query, wire: bytes) -> int:
    """The number of seconds for which a reply may be cached: its smallest TTL (RFC 8484 section 5.1)."""
    found = outline(wire)
    if found is None or found.ttl is None or outcome(query, found.reply, time.time) not in _KEPT:
        return SHORT_AGE
    return min(LONGEST_AGE, found.ttl)


def _from_parameters(text: str) -> bytes | None:
    """The value of the only parameter `dns`, decoded from base64url without padding."""
    try:
        found = parse_qs(text, keep_blank_values=True, max_num_fields=16).get("dns", [])
    except ValueError:
        return None
    if len(found) != 1 or not _BASE64.fullmatch(found[0]):
        return None
    try:
        return urlsafe_b64decode(found[0] + "=" * (-len(found[0]) % 4))
    except binascii.Error:
        return None


def _error(status: int, text: str) -> HttpReply:
    body = f"{text}\n".encode()
    headers = (
        ("content-type", _TEXT),
        ("x-content-type-options", "nosniff"),
        ("content-length", str(len(body))),
    )
    return HttpReply(status, headers, body)
