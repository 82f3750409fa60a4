"""Serves /health, /ready, /metrics and the control API over HTTP.

Path: beside the queries; plugins register pages through `runtime.serve_http`, instance.py opens the sockets,
lifecycle.py closes them; request.py reads what clients send.
Rule 1: pages belong to a configuration (HttpPages), sockets to the process (HttpListeners).  If a reload has pages at
        the same address, it replaces the pages and keeps the socket open, so a probe of the kubelet never finds it
        closed.
Rule 2: an address with a page that has a `tls` context is served over HTTPS; a reload replaces the context, too.
Rule 3: the number of connections over all sockets is limited, and the octets that wait in them.  At the limit, the
        server closes a connection of the client with the most connections for a new one (admission.py), so that clients
        that connect and send nothing cannot keep probes out.
Rule 4: the addresses of the control API have a limit of their own, so that its readers and the probes of the kubelet
        do not take each other's connections.  Its streams continue after a reload, and end when its socket closes.
Rule 5: at most MAX_READERS streams that do not end are sent at an address at a time.  Clients share them as they share
        connections; pages that end are none of them, so a reader keeps no page from anybody.

A client's connection reads requests, and answers one after the other:
Rule 1: a page is made on the event loop, so that /health proves that the loop runs; a slow page is made in a thread.
Rule 2: the next piece of a stream is generated when the kernel has accepted the previous one, so a reader that reads
        nothing costs one piece.  The first piece is generated before the status is sent.  A later error closes the
        connection without the last chunk, so that no reader takes a part for the whole.
Rule 3: a client has TIMEOUT to send a request, to stay idle and to read a response.  What has arrived when that is over
        is read first (turns.py).
Rule 4: all octets that wait here are counted, and requests take turns, with those of all other clients (admission.py).
        Nothing is read while a request waits, beyond what one reading brings.
Rule 5: the control API is protected from pages of other sites in the operator's browser (fault_of()).  None of them
        can read a response, because no response allows other origins.  Nor can it change or ask anything, because
        requests with the Origin of another site are refused, and those that a browser sends for another site without an
        Origin (images, scripts), except that it may lead to the page at `/`.
Rule 6: another site may point a name of its own to this address (DNS rebinding), and then its page has the same origin.
        So the host must be an address or localhost, which no site owns, or the request must have the token, which no
        other site knows: in a network of containers, clients use a name for the server.  Clients other than browsers
        are restricted by socket permissions and the token.
Source: CoreDNS 1.14.7 plugin/health, plugin/ready, plugin/metrics: time limits of 5 s, SO_REUSEPORT, other paths 404;
the Fetch standard, "Origin" header; W3C Fetch Metadata Request Headers; RFC 9110 section 7.2 (Host);
RFC 6761 section 6.3 (localhost).
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from hsdns.corefile.keys import split_host_port
from hsdns.http_page import TEXT, HttpPage, HttpRefusal, HttpStream, PageRequest
from hsdns.server.host import PREFIX, UnixSocket
from hsdns.server.http.request import (
    MAX_BODY,
    MAX_HEAD,
    Malformed,
    Request,
    RequestReader,
    Response,
    head_of,
)
from hsdns.server.transport.admission import Places, Turns, client_of
from hsdns.server.transport.connection import Connection, TlsConnection
from hsdns.server.transport.sockets import BACKLOG
from hsdns.turns import Timer
from hsdns.wire import is_address

# Connections accepted in one iteration of the loop.  uvloop accepts one for each descriptor of a socket, which is too
# few if an iteration takes long, so the socket is duplicated; less often where the descriptor limit is low.
ACCEPTED: Final = 8
MAX_CONTROL: Final = 32  # connections to the control API
MAX_READERS: Final = 16  # streams that do not end, at one address
INTERVAL: Final = 60.0  # seconds between two lines about malformed requests
_NO_IPV6: Final = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
_DIRECTIVES: Final = {"/metrics": "prometheus", "/": "dashboard"}
log = logging.getLogger("hsdns.server.http.pages")
Paths = dict[str, HttpPage | HttpStream]


def _is_control(paths: Paths) -> bool:
    """Whether these are the pages of the control API."""
    return any(isinstance(page, HttpStream) and not page.is_public for page in paths.values())


class HttpError(Exception):
    """A sentence for the operator: the address and its directive, and why the server cannot listen there."""


class HttpPages:
    """The pages of one configuration: address -> path -> page."""

    def __init__(self) -> None:
        self.by_address: dict[str, Paths] = {}

    @property
    def control(self) -> HttpPages:
        """The pages of the control API alone."""
        found = HttpPages()
        for address, paths in self.by_address.items():
            if _is_control(paths):
                found.serve(address, paths)
        return found

    def serve(self, address: str, paths: Mapping[str, HttpPage | HttpStream]) -> None:
        """Add pages (this is `Runtime.serve_http`); of several for one path of an address the last one counts."""
        self.by_address.setdefault(address, {}).update(paths)


class MalformedCount:
    """Requests that could not be read: a line in the log for the first one, then at most one for each INTERVAL."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._count = 0
        self._next = -inf

    def add(self, client: str, reason: str) -> None:
        """Count one."""
        self._count += 1
        now = self._clock()
        if now >= self._next:
            log.warning(
                "http: %d malformed requests were refused; the last one, from %s: %s",
                self._count, client, reason,
            )  # fmt: skip
            self._count, self._next = 0, now + INTERVAL


@dataclass(slots=True)
class HttpListener:
    """An open socket and its current pages."""

    paths: Paths
    accepting: list[asyncio.Server]
    bound: tuple[str, int]  # for a Unix socket its path, and 0
    places: Places
    path: UnixSocket | None
    turns: Turns
    malformed: MalformedCount
    readers: Places  # of streams that do not end
    streams: set[asyncio.Task[None]] = field(default_factory=set)  # sends pages in pieces
    clients: set[HttpConnection] = field(default_factory=set)

    def connect(self) -> asyncio.Protocol:
        """Make the protocol of one connection."""
        contexts = (page.tls for page in self.paths.values() if isinstance(page, HttpPage))
        context = next((each for each in contexts if each is not None), None)
        connection = HttpConnection(self)
        return connection if context is None else TlsConnection(connection, context, is_http=True)

    def page_for(self, path: str) -> HttpPage | HttpStream | None:
        """The page of a path without its parameters; "/debug/pprof/" has all paths below it."""
        folder = path.rpartition("/")[0]
        page = self.paths.get(path)
        return self.paths.get(f"{folder}/") if page is None and folder else page


class HttpListeners:
    """The HTTP sockets of the process, one per address; all connections share `places`."""

    def __init__(self, places: Places) -> None:
        self._open: dict[str, HttpListener] = {}
        self._places = places
        self._control = Places(MAX_CONTROL)
        self._turns = Turns(time.monotonic, lambda call: asyncio.get_running_loop().call_soon(call))
        self._malformed = MalformedCount()

    @property
    def bound(self) -> dict[str, tuple[str, int]]:
        """The address and port that each address of the Corefile was bound to."""
        return {address: listener.bound for address, listener in self._open.items()}

    async def open(self, pages: HttpPages) -> None:
        """Serve these pages from now on: open the missing sockets, and replace the pages of open ones.

        May be called again after pages were added.  Sockets without any of these pages stay open until close_others().
        Raises HttpError without having changed anything.
        """
        fresh: dict[str, HttpListener] = {}
        try:
            for address, paths in pages.by_address.items():
                if address not in self._open:
                    fresh[address] = await self._listen(address, paths)
        except BaseException:
            for listener in fresh.values():
                await _close(listener)
            raise
        self._open |= fresh
        for address, paths in pages.by_address.items():
            self._open[address].paths = dict(paths)

    async def close_others(self, pages: HttpPages) -> None:
        """Close the sockets without any of these pages."""
        for address in [address for address in self._open if address not in pages.by_address]:
            await _close(self._open.pop(address))

    async def go_back(self, pages: HttpPages) -> None:
        """Serve these pages, whose sockets are open, and close all other sockets."""
        await self.open(pages)
        await self.close_others(pages)

    async def close(self) -> None:
        """Close all sockets."""
        await self.close_others(HttpPages())

    async def _listen(self, address: str, paths: Paths) -> HttpListener:
        places = self._control if _is_control(paths) else self._places
        path = min(paths, default="/")
        directive = "control" if _is_control(paths) else _DIRECTIVES.get(path, path.strip("/"))
        unix: UnixSocket | None = None
        try:
            if address.startswith(PREFIX):
                unix = UnixSocket(address.removeprefix(PREFIX))
            sock = await _bind(address) if unix is None else unix.sock
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            if address.startswith(PREFIX):
                raise HttpError(
                    f"cannot listen on the control socket {address.removeprefix(PREFIX)}: {reason};"
                    ' give another path after "control" in the Corefile or after --control'
                ) from error
            raise HttpError(
                f"cannot listen on {address} for {path}: {reason};"
                f' give another address after "{directive}" in the Corefile'
            ) from error

        listener: HttpListener
        loop = asyncio.get_running_loop()
        create = loop.create_server if unix is None else loop.create_unix_server
        backlog = min(BACKLOG, 2 * places.most)
        accepted = 1 if unix is not None else max(1, min(ACCEPTED, places.most // ACCEPTED))
        socks = [sock, *(sock.dup() for _ in range(accepted - 1))]
        try:
            accepting = [
                await create(
                    lambda: listener.connect(), sock=each, backlog=backlog, start_serving=False
                )
                for each in socks
            ]
            bound = sock.getsockname()[:2] if unix is None else (str(unix.path), 0)
            shared = self._turns, self._malformed, Places(MAX_READERS)
            listener = HttpListener(dict(paths), accepting, bound, places, unix, *shared)
            for door in accepting:
                await door.start_serving()
        except BaseException:
            for each in socks:
                each.close()
            if unix is not None:
                unix.remove()
            raise
        return listener


async def _close(listener: HttpListener) -> None:
    if listener.path is not None:
        listener.path.remove()
    for door in listener.accepting:
        door.close()
    for stream in listener.streams:
        stream.cancel()
    for client in [*listener.clients]:
        client.end()
    tasks = [client.task for client in listener.clients if client.task is not None]
    if tasks:
        await asyncio.wait(tasks, timeout=TIMEOUT)
    for client in [*listener.clients]:
        client.close()


async def _bind(address: str) -> socket.socket:
    """Open a socket; an empty host means all addresses of both families, a name its first IPv4 address, as in Go."""
    parts = split_host_port(address)
    if parts is None:
        raise ValueError("this is not an address and port")
    if not parts.host:
        try:
            return _bound(socket.AF_INET6, ("::", parts.port), dual_stack=True)
        except OSError as error:
            if error.errno not in _NO_IPV6:
                raise
            return _bound(socket.AF_INET, ("0.0.0.0", parts.port))
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(parts.host, parts.port, type=socket.SOCK_STREAM)
    family, _, _, _, where = min(found, key=lambda entry: entry[0] != socket.AF_INET)
    return _bound(family, where)


def _bound(family: int, where: Any, *, dual_stack: bool = False) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not dual_stack)
        sock.bind(where)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


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
        return f"{origin} is another site, whose requests are rejected"
    fetch = [headers.get(f"sec-fetch-{each}") for each in ("site", "mode", "dest")]
    if fetch[0] in _OTHER and [method, path, *fetch[1:]] != ["GET", "/", "navigate", "document"]:
        return "requests from other sites are rejected; only a link to the page at / works"
    return ""


def _is_own(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return name == "localhost" or name.endswith(".localhost") or is_address(name)


TIMEOUT: Final = 5.0  # seconds to send a request, to stay idle, and to read a response
# Seconds in which a client may read the last response, as in Go; nothing of what it sends is read meanwhile.
LINGER: Final = 0.5
MAX_PARAMETERS: Final = 16
JSON: Final = "application/json"
NO_TOKEN: Final = (
    "this address needs the header Authorization: Bearer TOKEN, with the token that the server was given; "
    "commands of hsdns take it from HSDNS_CONTROL_TOKEN"
)


_NOT_FOUND: Final = Response.of(
    404, TEXT, b"404 page not found\n", [("X-Content-Type-Options", "nosniff")]
)
_FAILED: Final = Response.of(500, TEXT, b"internal server error\n")


class HttpConnection(Connection):
    """One client's connection."""

    def __init__(self, listener: HttpListener) -> None:
        super().__init__(listener.places, listener.turns)
        self.address = ""
        self.task: asyncio.Task[None] | None = None  # makes a response
        self._listener = listener
        self._reader = RequestReader()
        self._timer: Timer | None = None
        self._written: asyncio.Future[None] | None = None  # while the client does not read

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection, if there is a place for it."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's has another class
        peer = transport.get_extra_info("peername")
        if self._listener.path is not None:
            peer = ("127.0.0.1", 0)  # all clients of a Unix socket count as one
        if not peer or not self._places.take(self, self._transport, peer[0]):
            self._transport.abort()
            return
        self.address = peer[0]
        self.client = client_of(self.address)
        self._listener.clients.add(self)
        self._transport.set_write_buffer_limits(0)  # pause as soon as anything waits to be sent
        self._limit_time(TIMEOUT)

    def data_received(self, data: bytes) -> None:
        """Accept octets of requests."""
        if not self._ended:
            self._reader.feed(data)
            self._go_on()

    def step(self) -> bool:
        """Answer a request, or begin to; return whether the next one may follow."""
        transport = self._transport
        if transport is None or not self._may_step():
            return False
        try:
            request = self._reader.take()
        except Malformed as bad:
            self._listener.malformed.add(self.address, str(bad))
            self._end_with(bad.response.to(None))
            return False
        if request is None:
            if interim := self._reader.interim():
                transport.write(interim)
            return self._may_step()
        self._places.touch(self)
        self._forget_limit()
        self._answer(request)
        return self._may_step()

    def end_turn(self) -> None:
        """Count what waits, and read on."""
        self._count()
        self._read_or_pause()

    def eof_received(self) -> None:
        """Close: a client that sends no more does not wait for a response."""

    def pause_writing(self) -> None:
        """Give the client TIMEOUT to read its responses."""
        self._written = asyncio.get_running_loop().create_future()
        self._limit_time(TIMEOUT)
        self._go_on()

    def resume_writing(self) -> None:
        """Continue to write."""
        written, self._written = self._written, None
        if written is not None and not written.done():
            written.set_result(None)
        if not self._ended:
            self._forget_limit()
            if not self.pending:
                self._limit_time(TIMEOUT)
        self._go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        """Free the connection; nobody reads what is being made."""
        self._ended, self._transport = True, None
        self._forget_limit()
        self._listener.clients.discard(self)
        self._places.release(self)
        self._listener.readers.release(self)
        if self.task is not None:
            self.task.cancel()

    def end(self) -> None:
        """Close after the response in progress."""
        self._ended = True
        if not self.pending:
            self.close()

    def _may_step(self) -> bool:
        return (
            self._reader.has_waiting
            and not self.pending
            and not self._ended
            and self._written is None
            and self._is_open
        )

    def _is_busy(self) -> bool:
        return self._reader.has_waiting and self._reader.octets >= MAX_HEAD

    def _octets(self) -> int:
        unsent = 0 if self._transport is None else self._transport.get_write_buffer_size()
        return self._reader.octets + unsent

    def _go_on(self) -> None:
        super()._go_on()
        self._count()

    def _limit_time(self, seconds: float) -> None:
        if self._timer is None and self._transport is not None:
            self._timer = Timer(asyncio.get_running_loop(), seconds, self._give_up)

    def _forget_limit(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if self._reader.has_head and not self._ended and self._written is None:
            late = f"the body of the request has not arrived after {TIMEOUT:g} s"
            self._end_with(_refusal(408, late).to(None))
        else:
            self.abort()

    def _end_with(self, last: bytes) -> None:
        """Write the last response; the client can read it before the rest of what it sends resets the connection."""
        transport = self._transport
        self._ended = True
        self._forget_limit()
        if transport is not None and not transport.is_closing():
            self._limit_time(LINGER)
            self._reader = RequestReader()
            transport.write(last)
            transport.write_eof()
            transport.pause_reading()

    def _answer(self, request: Request) -> None:
        page = self._listener.page_for(unquote(request.path))
        if (isinstance(page, HttpPage) and not page.is_slow) or page is None:
            made = self._missing(request) if page is None else _made(page, request)
            self._finish(request, made.to(request))
            return
        if request.is_old and isinstance(page, HttpStream):  # its end is that of the connection
            request = request._replace(keeps=False)
        self.pending = 1
        self.task = asyncio.get_running_loop().create_task(self._work(page, request))

    def _missing(self, request: Request) -> Response:
        paths = self._listener.paths
        if not all(isinstance(each, HttpStream) for each in paths.values()):
            return _NOT_FOUND
        missing = unquote(request.path)
        return _refusal(404, f"this hsdns has no {missing}; it has {', '.join(sorted(paths))}")

    def _finish(self, request: Request, last: bytes) -> None:
        """Write the end of a response."""
        transport = self._transport
        if transport is None:
            return
        if request.body is None:
            self._end_with(last)
            return
        transport.write(last)
        if request.keeps and not self._ended:
            self._limit_time(TIMEOUT)
        else:
            self._ended = True
            transport.close()

    async def _work(self, page: HttpPage | HttpStream, request: Request) -> None:
        """Make a response that takes longer than a step."""
        try:
            if isinstance(page, HttpPage):
                page.prepare()
                loop = asyncio.get_running_loop()
                last = (await loop.run_in_executor(None, _made, page, request)).to(request)
            else:
                self._listener.streams.add(cast("asyncio.Task[None]", self.task))
                last = await self._send(page, request)
        except asyncio.CancelledError:
            self.abort()
            raise
        except Exception:
            log.exception("http: the page %s could not be made", request.path)
            self.close()
        else:
            self.pending = 0
            self._finish(request, last)
        finally:
            self.pending = 0
            self._listener.readers.release(self)
            if self.task is not None:
                self._listener.streams.discard(self.task)
                self.task = None
            self._places.touch(self)
            self._go_on()

    async def _send(self, page: HttpStream, request: Request) -> bytes:
        """Send a stream; return its end, or the response to a refused request."""
        try:
            authorization = request.headers.get("authorization", "")
            is_allowed = await _is_allowed(page, authorization, self.client)
            asked = _read(page, request, is_allowed=is_allowed)
            transport = self._transport
            if transport is None:
                return b""
            if page.is_endless and not self._listener.readers.take(self, transport, self.address):
                most = self._listener.readers.most
                raise HttpRefusal(503, f"{most} others read from this address; close one of them")
            async with aclosing(page.pieces(asked)) as pieces:
                try:
                    piece = await anext(pieces, b"")
                except HttpRefusal:
                    raise
                except Exception:
                    log.exception("http: the page %s could not be made", request.path)
                    raise HttpRefusal(
                        500, "the server failed to answer; its log says why"
                    ) from None
                coding = () if request.is_old else (("Transfer-Encoding", "chunked"),)
                own = ("Content-Type", page.content_type), *HEADERS.items(), *page.headers.items()
                transport.write(head_of(200, (*own, *coding), request))
                if request.method == "HEAD":
                    return b""
                await self._write(transport, piece, request)
                async for piece in pieces:
                    await self._write(transport, piece, request)
                return b"" if request.is_old else b"0\r\n\r\n"
        except HttpRefusal as error:
            return _refusal(error.status, str(error), error.headers).to(request)

    async def _write(self, transport: asyncio.Transport, piece: bytes, request: Request) -> None:
        if piece:
            transport.write(piece if request.is_old else b"%x\r\n%b\r\n" % (len(piece), piece))
        if self._written is not None:
            await self._written


def _made(page: HttpPage, request: Request) -> Response:
    try:
        return Response.of(*page.handler(request.target))
    except Exception:
        log.exception("http: the page %s could not be made", request.path)
        return _FAILED


def _refusal(status: int, sentence: str, headers: Mapping[str, str] = {}) -> Response:
    body = f"{json.dumps({'error': sentence})}\n".encode()
    return Response.of(status, JSON, body, (*HEADERS.items(), *headers.items()))


def _read(page: HttpStream, request: Request, *, is_allowed: bool) -> PageRequest:
    """What is asked of a stream; raise HttpRefusal."""
    path, headers = unquote(request.path), request.headers
    any_host = page.any_host or (page.token is not None and is_allowed)
    if sentence := fault_of(request.method, path, headers, any_host=any_host):
        raise HttpRefusal(403, sentence)
    if not is_allowed:
        raise HttpRefusal(401, NO_TOKEN, {"WWW-Authenticate": "Bearer"})
    methods = page.methods + (("HEAD",) if "GET" in page.methods else ())
    if request.method not in methods:
        sentence = f"{path} has no {request.method}; it has {', '.join(page.methods)}"
        raise HttpRefusal(405, sentence, {"Allow": ", ".join(methods)})
    query = request.target.partition("?")[2]
    try:
        given = parse_qsl(query, keep_blank_values=True, max_num_fields=MAX_PARAMETERS)
    except ValueError:
        sentence = f"{path} takes at most {MAX_PARAMETERS} parameters"
        raise HttpRefusal(400, sentence) from None
    found = dict(given)
    for name in found:
        if name not in page.parameters:
            which = ", ".join(page.parameters)
            its = f"it has {which}" if which else f"leave out ?{query}"
            raise HttpRefusal(400, f"{path} has no parameter {name}; {its}")
    for name in found:
        if [each for each, _ in given].count(name) > 1:
            raise HttpRefusal(400, f"{path} takes {name} once")
    if request.body is None:
        raise HttpRefusal(413, f"{path} takes at most {MAX_BODY} octets")
    return PageRequest(request.method, found, request.body)


async def _is_allowed(page: HttpStream, authorization: str, client: bytes) -> bool:
    if page.token is None:
        return True
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer":
        return False  # nothing is guessed
    clock = asyncio.get_running_loop().time
    if pause := page.token.pause(client, clock()):
        await asyncio.sleep(pause)
    return page.token.is_text(token.strip(), client, clock())
