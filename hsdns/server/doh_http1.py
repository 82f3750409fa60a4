"""HTTP/1.1 on one connection of DNS over HTTPS, without sockets; its interface is that of Http2 (doh_http2.py).

Path: doh.py passes in the octets -> http_request.py.
Rule: doh.py asks for the next request when it has replied to the one before it.
"""

from __future__ import annotations

from typing import Final

from hsdns.server import http_request
from hsdns.server.doh_http2 import HttpRequest
from hsdns.server.doh_message import MAX_BODY_LEN, HttpReply
from hsdns.server.http_request import Malformed, Request, RequestReader

_TOO_LONG: Final = b"\0" * (MAX_BODY_LEN + 1)  # stands for a body that was not read to its end


class Http1:
    """The server's side of one connection."""

    # It has no windows, and its clients exceed no limit but those of a request.
    unsent_since: Final = None
    excess: Final = ""
    has_fault = False

    def __init__(self) -> None:
        self.is_over = False
        self._reader = RequestReader()
        self._request: Request | None = None  # which has no reply yet
        self._out = b""

    def feed(self, data: bytes, now: float) -> None:
        """Accept octets of the client; requests wait for step()."""
        del now
        if not self.is_over:
            self._reader.feed(data)

    @property
    def has_waiting(self) -> bool:
        """Whether a request may wait for step()."""
        return self._reader.has_waiting and not self.is_over

    def step(self) -> HttpRequest | None:
        """Return the next request, if it has arrived."""
        try:
            self._request = request = self._reader.take()
        except Malformed as bad:
            self._out += http_request.refuse(bad)
            self.is_over = True
            return None
        if request is None:
            self._out += self._reader.interim()
            return None
        body = _TOO_LONG if request.body is None else request.body
        return HttpRequest(0, request.method, request.target, body)

    def reply(self, stream: int, reply: HttpReply, now: float, *, head_only: bool = False) -> None:
        """Answer the request."""
        del stream, now
        request, self._request = self._request, None
        headers = (*reply.headers, ("server", "hsdns"))
        self._out += http_request.head_of(reply.status, headers, request)
        self._out += b"" if head_only else reply.body
        self.is_over = self.is_over or request is None or not request.keeps

    def end(self) -> None:
        """Accept no more requests."""
        self.is_over = True

    def forget(self) -> None:
        """Free the closed connection."""
        self._request = None

    def to_send(self) -> bytes:
        """Return and clear the octets to send."""
        out, self._out = self._out, b""
        return out

    @property
    def octets(self) -> int:
        """The number of octets that are kept."""
        return self._reader.octets
