"""DNS over HTTPS: connections with HTTP/2, or with HTTP/1.1 if the client wants it or there is no TLS.

Path: steps 1 and 7 for https:// keys (RFC 8484), in place of transport/tcp.py's connections.
Source: RFC 8484; CoreDNS 1.14.7 core/dnsserver server_https.go and plugin/pkg/doh: any error in a request except an
unknown path is status 400, and the content type of a POST is not checked.
Rule 1: a query over HTTPS counts as one over TCP everywhere: size of replies, metrics, log.
Rule 2: timeouts count from the last request, not from the last octet, so a client cannot extend them by sending slowly.
Rule 3: a request that the client cancels counts as in progress until its handler returns.  With MAX_STREAMS requests in
        progress, the connection starts no more and pauses reading.
Rule 4: the connections of all clients take turns (admission.py): each step counts frames, or handles one frame or one
        request.  The server closes a connection that exceeds a limit of doh_http2.py, and charges its
        address for the work, which delays further ones if there are many (admission.py).
Rule 5: the connections of a listener are limited (`max_connections`) as those of all listeners are: at the limit, the
        client with the most loses the one that was silent longest (admission.py).
"""

from __future__ import annotations

import asyncio
import functools
import re
import time
from base64 import urlsafe_b64decode
from typing import Any, Final
from urllib.parse import parse_qs, unquote

from hsdns import eager
from hsdns.chain import Endpoint
from hsdns.http2 import MEDIA_TYPE
from hsdns.http_page import TEXT
from hsdns.metrics import Counter
from hsdns.server.http.doh_http2 import MAX_BODY_LEN, MAX_STREAMS, Http2
from hsdns.server.http.request import Malformed, Request, RequestReader, Response
from hsdns.server.transport.admission import Places
from hsdns.server.transport.tcp import DnsConnection, TcpListener
from hsdns.wire.decode import BadQuery, decode, outline
from hsdns.wire.edns import Edns
from hsdns.wire.iana import RRType
from hsdns.wire.message import Outcome, Query, outcome
from hsdns.wire.name import ROOT

PATH: Final = "/dns-query"
SHORT_AGE: Final = 5  # seconds, for a reply without any TTL (CoreDNS plugin/pkg/dnsutil ttl.go)
LONGEST_AGE: Final = 3600
_BASE64: Final = re.compile(r"[A-Za-z0-9_-]*")
_USUAL: Final = re.compile(r"dns=[A-Za-z0-9_-]*")
# What matters of a query that the answer table answers; of those without DO, no reply has signatures.
_PLAIN: Final = Query.ask(ROOT, RRType.A, edns=Edns(0, do=True))
_KEPT: Final = frozenset({Outcome.POSITIVE, Outcome.NODATA, Outcome.NXDOMAIN})


class BadRequest(Exception):
    """A request without a valid query; `reply` is the response to send."""

    def __init__(self, reply: Response) -> None:
        super().__init__(f"status {reply.status}")
        self.reply = reply


class DohServer(TcpListener):
    """Accepts on one bound TCP socket of an https:// key; counts responses by status, and connections by excess."""

    alpn = ("h2", "http/1.1")

    def __init__(self, *args: Any, counters: tuple[Counter, Counter]) -> None:
        super().__init__(*args)
        self._responses, self._excesses = counters
        self._most = self.places.most
        self.places = Places(self._most, self.places)

    def admit(
        self, connection: DnsConnection, transport: asyncio.Transport
    ) -> tuple[Endpoint, Endpoint] | None:
        """Register a new connection, within the limit of this listener."""
        self.places.most = self.settings.max_connections or self._most
        return super().admit(connection, transport)

    def make_connection(self) -> DohConnection:
        """Make the protocol of one connection."""
        return DohConnection(self)

    def count(self, status: int) -> None:
        """Count a reply by its status."""
        self._responses.inc((self.processor.server, str(status)))

    def charge(self, client: Endpoint, http2: Http2) -> None:
        """Charge an address for the work for a connection that its client made the server close."""
        if self._credit is not None:
            frames = http2.frames
            self._credit.charge(client.address, frames.counted, frames.fed, self.clock())
        if http2.excess:
            self._excesses.inc((self.processor.server, http2.excess))


class Http1:
    """The server's side of one connection with HTTP/1.1; its interface is that of Http2, without sockets."""

    unsent_since: Final = None  # it has no windows

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

    def step(self) -> Request | None:
        """Return the next request, if it has arrived."""
        try:
            self._request = request = self._reader.take()
        except Malformed as bad:
            self._out += bad.response.to(None)
            self.is_over = True
            return None
        if request is None:
            self._out += self._reader.interim()
        return request

    def reply(self, stream: int, reply: Response, now: float, *, head_only: bool = False) -> None:
        """Answer the request."""
        del stream, now, head_only
        request, self._request = self._request, None
        headers = (*reply.headers, ("server", "hsdns"))
        self._out += reply._replace(headers=headers).to(request)
        self.is_over = self.is_over or request is None or not request.keeps

    def end(self) -> None:
        """Accept no more requests."""
        self.is_over = True

    def take_out(self) -> bytes:
        """Return and clear the octets to send."""
        out, self._out = self._out, b""
        return out

    @property
    def octets(self) -> int:
        """The number of octets that are kept."""
        return self._reader.octets


class DohConnection(DnsConnection):
    """One client's connection."""

    def __init__(self, server: DohServer) -> None:
        super().__init__(server)
        self._server: DohServer = server
        self._http: Http1 | Http2 | None = None
        self._most = MAX_STREAMS  # requests in progress
        self._is_ending = self._is_stepping = False

    def data_received(self, data: bytes) -> None:
        """Pass the octets to HTTP/2 or HTTP/1.1, as negotiated."""
        if self._transport is None or self._transport.is_closing():
            return
        if self._http is None:
            self._http = self._choose(self._transport)
        self._http.feed(data, self._server.clock())
        self._go_on()
        self._count()

    def step(self) -> bool:
        """Handle a frame of HTTP/2 or a request of HTTP/1.1; return whether the next one may follow."""
        if self._http is None or not self._may_step():
            return False
        request = self._http.step()
        if request is not None:
            self._is_stepping = True  # immediate replies are sent at the end of this iteration
            try:
                self._ask(request)
            finally:
                self._is_stepping = False
        return self._may_step()

    def end_turn(self) -> None:
        """Send the replies, and resume reading if no frame waits."""
        self._flush()
        self._read_or_pause()

    def _may_step(self) -> bool:
        return (
            self._http is not None
            and self._http.has_waiting
            and self._is_open
            and self._blocked_since is None
            and self.pending < self._most
        )

    def connection_lost(self, exc: Exception | None) -> None:
        """Free the connection."""
        super().connection_lost(exc)
        self._http = None

    def end(self) -> None:
        """Accept no more requests, tell the client so, and close after the replies in progress."""
        if self._http is not None:
            self._is_ending = True
            self._flush()
        else:
            self.close()

    def _octets(self) -> int:
        return super()._octets() + (self._http.octets if self._http is not None else 0)

    def _unsent_since(self, now: float) -> float:
        since = self._http.unsent_since if self._http is not None else None
        return now if since is None else since  # further requests do not widen the client's windows

    def _is_busy(self) -> bool:
        if super()._is_busy() or self.pending >= self._most:
            return True
        return self._http is not None and self._http.has_waiting

    def _choose(self, transport: asyncio.Transport) -> Http1 | Http2:
        """Use HTTP/2 if TLS has negotiated it, else HTTP/1.1, as Go's server does."""
        tls = transport.get_extra_info("ssl_object")
        if tls is not None and tls.selected_alpn_protocol() == "h2":
            return Http2(self._server.clock())
        self._most = 1  # replies go out in the order of requests
        return Http1()

    def _ask(self, request: Request) -> None:
        """Answer a request at once, or later in a task."""
        server = self._server
        self._has_asked = True
        self._last_used = now = server.clock()
        self._places.touch(self)
        try:
            wire = read_request(request.method, request.target, request.body)
            known = server.processor.known(wire, self._address, now)
            if known is not None:
                self._reply(request, make_reply(_PLAIN, known))
                return
            query = read_query(wire)
        except BadRequest as bad:
            self._reply(request, bad.reply)
            return
        self.pending += 1
        try:
            eager.start(
                server.processor.answer(wire, self._client, self._local, "tcp", now),
                functools.partial(self._answered, request, query),
                server.spawn,
            )
        except BaseException:
            self.pending -= 1
            raise

    def _answered(self, request: Request, query: Query, wire: bytes | None) -> None:
        self.pending -= 1
        self._last_used = self._server.clock()
        self._reply(request, make_reply(query, wire))
        self._server.processor.flush()
        self._go_on()

    def _reply(self, request: Request, reply: Response) -> None:
        self._server.count(reply.status)
        if self._http is not None:
            head_only = request.method == "HEAD"
            self._http.reply(request.stream, reply, self._server.clock(), head_only=head_only)
            if not self._is_stepping:
                self._flush()

    def _flush(self) -> None:
        http, transport = self._http, self._transport
        if http is None or transport is None:
            return
        is_idle = not self.pending and http.unsent_since is None and not http.has_waiting
        if self._is_ending and is_idle:  # the client hears the last stream that is answered
            http.end()
        out = http.take_out()
        if out:
            self._write_out(transport, out)
        self._count()
        if isinstance(http, Http2) and http.has_fault and not transport.is_closing():
            self._server.charge(self._client, http)
            transport.close()
        elif http.is_over and is_idle:
            transport.close()


def read_request(method: str, target: str, body: bytes | None) -> bytes:
    """Return the message of a request; raise BadRequest.

    `target` is the path with its query string.
    """
    path, _, parameters = target.partition("?")
    if unquote(path) != PATH:
        raise BadRequest(_error(404, ""))
    wire = _from_parameters(parameters) if method == "GET" else body
    if wire is None or method not in ("GET", "POST") or len(wire) > MAX_BODY_LEN:
        raise BadRequest(_error(400, "invalid request"))
    return wire


def read_query(wire: bytes) -> Query:
    """Decode a message that the answer table does not know; raise BadRequest."""
    try:
        return decode(wire)
    except BadQuery as bad:
        raise BadRequest(_error(400, "invalid request")) from bad


def make_reply(query: Query, wire: bytes | None) -> Response:
    """Wrap a reply; without a reply the status is 500."""
    if wire is None:
        return _error(500, "No response")
    headers = (
        ("content-type", MEDIA_TYPE),
        ("cache-control", f"max-age={max_age(query, wire)}"),
        ("content-length", str(len(wire))),
    )
    return Response(200, headers, wire)


def max_age(query: Query, wire: bytes) -> int:
    """The number of seconds for which a reply may be cached: its smallest TTL (RFC 8484 section 5.1)."""
    try:
        reply, ttl = outline(wire)
    except IndexError:
        return SHORT_AGE
    if ttl is None or outcome(query, reply, time.time) not in _KEPT:
        return SHORT_AGE
    return min(LONGEST_AGE, ttl)


def _from_parameters(text: str) -> bytes | None:
    """The value of the only parameter `dns`, decoded from base64url without padding."""
    found = [text[4:]]
    try:
        if not _USUAL.fullmatch(text):
            found = parse_qs(text, keep_blank_values=True, max_num_fields=16).get("dns", [])
        if len(found) != 1 or not _BASE64.fullmatch(found[0]):
            return None
        return urlsafe_b64decode(found[0] + "=" * (-len(found[0]) % 4))
    except ValueError:
        return None


def _error(status: int, text: str) -> Response:
    body = f"{text}\n".encode()
    headers = (
        ("content-type", TEXT),
        ("x-content-type-options", "nosniff"),
        ("content-length", str(len(body))),
    )
    return Response(status, headers, body)
