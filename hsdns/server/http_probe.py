"""Answer what probes ask without an HTTP library, which takes 0.14 s to import and a tenth of the memory.

Path: http.py hands in the first octets of a connection -> a page of http_page.py -> the octets of the answer.
Rule: only what the kubelet, curl and the like send is understood, a whole GET or HEAD without a body and without any
      header that would change its answer.  All else is the library's.
Source: RFC 9112; Kubernetes pkg/probe/http (a GET with Connection: close).
"""

from __future__ import annotations

import re
from email.utils import formatdate
from http import HTTPStatus
from typing import Final, NamedTuple

_REQUEST: Final = re.compile(
    rb"(GET|HEAD) (/[!-$&-~]*) HTTP/1\.1\r\n"
    rb"((?:(?i:host|user-agent|accept|accept-encoding|accept-language|connection): ?[ -~]*\r\n)*)\r\n"
)
_CONNECTION: Final = re.compile(rb"(?im)^connection: *([ -~]*?) *\r$")


class Probe(NamedTuple):
    """A request; `path` is with what stands after a question mark."""

    path: str
    has_body: bool  # whether the answer has one
    keeps: bool  # whether the connection stays


def read_probe(data: bytes) -> Probe | None:
    """The request that these octets are; None if they are not a whole one, or not one that is understood."""
    found = _REQUEST.fullmatch(data)
    if found is None:
        return None
    method, path, headers = found.groups()
    wanted = [each.lower() for each in _CONNECTION.findall(headers)]
    if len(wanted) > 1 or (wanted and wanted[0] not in (b"close", b"keep-alive")):
        return None
    return Probe(path.decode("ascii"), method == b"GET", wanted != [b"close"])


def answer(probe: Probe, status: int, content_type: str, body: bytes) -> bytes:
    """The octets of an answer."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    closing = "" if probe.keeps else "Connection: close\r\n"
    head = (
        f"HTTP/1.1 {status} {phrase}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        f"Date: {formatdate(usegmt=True)}\r\n{closing}\r\n"
    )
    return head.encode("latin-1") + (body if probe.has_body else b"")
