"""Answers HTTP probes without an HTTP library, whose import takes 0.14 s and a tenth of the memory.

Path: http.py passes in the first octets of a connection -> a page of http_page.py -> the octets of the response.
Rule: it accepts only the requests of the kubelet, curl and similar clients: a complete GET or HEAD without a body and
      without headers that would change the response.  The library handles all others.
Source: RFC 9112; Kubernetes pkg/probe/http (a GET with Connection: close).
"""

from __future__ import annotations

import re
import time
from http import HTTPStatus
from typing import Final, NamedTuple

_REQUEST: Final = re.compile(
    rb"(GET|HEAD) (/[!-$&-~]*) HTTP/1\.1\r\n"
    rb"((?:(?i:host|user-agent|accept|accept-encoding|accept-language|connection): ?[ -~]*\r\n)*)\r\n"
)
_CONNECTION: Final = re.compile(rb"(?im)^connection: *([ -~]*?) *\r$")


class Probe(NamedTuple):
    """A request; `path` includes the query string."""

    path: str
    has_body: bool  # whether the response has one
    keeps: bool  # whether the connection stays open


def read_probe(data: bytes) -> Probe | None:
    """Parse a request; None if it is incomplete, or if the library must handle it."""
    found = _REQUEST.fullmatch(data)
    if found is None:
        return None
    method, path, headers = found.groups()
    wanted = [each.lower() for each in _CONNECTION.findall(headers)]
    if len(wanted) > 1 or (wanted and wanted[0] not in (b"close", b"keep-alive")):
        return None
    return Probe(path.decode("ascii"), method == b"GET", wanted != [b"close"])


def date(now: float) -> str:
    """Seconds since the epoch as a date of HTTP (RFC 9110 section 5.6.7); email.utils takes 3 ms to import."""
    day, month, number, clock, year = time.asctime(time.gmtime(now)).split()
    return f"{day}, {int(number):02} {month} {year} {clock} GMT"


def answer(probe: Probe, status: int, content_type: str, body: bytes) -> bytes:
    """The octets of a response."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    closing = "" if probe.keeps else "Connection: close\r\n"
    head = (
        f"HTTP/1.1 {status} {phrase}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        f"Date: {date(time.time())}\r\n{closing}\r\n"
    )
    return head.encode("latin-1") + (body if probe.has_body else b"")
