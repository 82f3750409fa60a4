"""DNS over HTTPS on loopback: both HTTPs, in both event loops, and every bound."""

from __future__ import annotations

import asyncio
import socket
import ssl
import types
from base64 import urlsafe_b64encode
from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import ConnectionTerminated, DataReceived, ResponseReceived, StreamEnded

from hsdns.block_choice import BlockChoice
from hsdns.chain import Request
from hsdns.metrics import Counter
from hsdns.query import QueryProcessor
from hsdns.server.admission import MAX_OCTETS, STEPS, Credit, TakesSteps
from hsdns.server.doh import DohConnection, DohServer
from hsdns.server.doh_http2 import COUNTED, MAX_STREAMS, MAX_UNSENT, Http2
from hsdns.server.sockets import DEFAULT_LIMITS, Settings
from hsdns.wire.message import Reply
from tests.support.clients import http2_frames
from tests.support.clients.messages import query, summary
from tests.support.cluster.objects import service
from tests.support.coroutines.event_loops import LOOPS, until
from tests.support.servers.cluster_server import ClusterServer
from tests.support.servers.function_processor import Answer, asked_address
from tests.support.servers.memory_server import KUBERNETES, ask, cluster_objects
from tests.support.servers.stream_serving import (
    ADDRESS,
    Serving,
    admission,
    client_context,
    server_context,
    started,
)
from tests.support.servers.udp_listeners import each_kind

pytestmark = pytest.mark.sockets

SERVER = "https://:443"
ANSWER = "0 NOERROR qr aa rd | example.org. 0 IN A 127.0.0.1 |  | "


def get(number: int = 0) -> str:
    wire = query(number=number).to_wire()
    return f"/dns-query?dns={urlsafe_b64encode(wire).decode().rstrip('=')}"


def serving(
    answer: Answer = asked_address, *, tls: bool = True, most: int = 0
) -> AbstractAsyncContextManager[Serving]:
    settings = Settings(tls=server_context() if tls else None, max_connections=most)
    return started(Serving(answer, SERVER, settings))


def statuses(it: Serving) -> dict[str, float]:
    """How many replies had each status."""
    found = it.metrics.counter("coredns_dns_https_responses_total", "").values
    assert all(server == SERVER for server, _ in found)
    return {status: count for (_, status), count in found.items()}


@pytest.fixture(params=LOOPS, autouse=True)
def loop(request: pytest.FixtureRequest) -> str:
    """Play each test on both event loops."""
    return str(request.param)


class Answered(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class Http1Client:
    """A connection that speaks HTTP/1.1; an asynchronous context."""

    def __init__(self, it: Serving | ClusterServer, *, tls: bool = True) -> None:
        self._port = it.port
        self._options: dict[str, Any] = {}
        if tls:
            self._options = {"ssl": client_context("http/1.1"), "server_hostname": ADDRESS}

    async def __aenter__(self) -> Http1Client:
        self.reader, self.writer = await asyncio.open_connection(
            ADDRESS, self._port, **self._options
        )
        return self

    async def __aexit__(self, *error: object) -> None:
        self.writer.close()

    async def ask(self, method: str, target: str, body: bytes = b"") -> Answered:
        """Send a request and take its reply."""
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        self.writer.write(f"{method} {target} HTTP/1.1\r\nHost: x\r\n{length}\r\n".encode() + body)
        async with asyncio.timeout(30):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            size = 0 if method == "HEAD" else int(headers["content-length"])
            return Answered(int(head[0].split()[1]), headers, await self.reader.readexactly(size))

    async def has_ended(self) -> bool:
        """Whether the server has closed."""
        async with asyncio.timeout(30):
            try:
                return await self.reader.read(1) == b""
            except ConnectionError:
                return True


class Http2Client:
    """A connection that speaks HTTP/2; an asynchronous context."""

    def __init__(self, it: Serving) -> None:
        self._port = it.port
        self.h2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self.events: list[Any] = []
        self.has_ended = False

    async def __aenter__(self) -> Http2Client:
        self.reader, self.writer = await asyncio.open_connection(
            ADDRESS, self._port, ssl=client_context("h2", "http/1.1"), server_hostname=ADDRESS
        )
        self.h2.initiate_connection()
        self.flush()
        return self

    async def __aexit__(self, *error: object) -> None:
        self.writer.close()

    def flush(self) -> None:
        """Send what is to go out."""
        self.writer.write(self.h2.data_to_send())

    def send(self, method: str, target: str, body: bytes = b"") -> int:
        """Send a request; return its stream."""
        stream = self.h2.get_next_available_stream_id()
        headers = [
            (":method", method), (":path", target), (":scheme", "https"), (":authority", "x"),
        ]  # fmt: skip
        self.h2.send_headers(stream, headers, end_stream=not body)
        if body:
            self.h2.send_data(stream, body, end_stream=True)
        self.flush()
        return stream

    async def receive(self, stream: int) -> Answered:
        """The reply on a stream."""

        def found(kind: type[Any]) -> list[Any]:
            return [
                event
                for event in self.events
                if isinstance(event, kind) and event.stream_id == stream
            ]

        async with asyncio.timeout(30):
            while not found(StreamEnded):
                await self.read()
                assert found(StreamEnded) or not self.has_ended
        headers = dict(found(ResponseReceived)[0].headers)
        body = b"".join(event.data for event in found(DataReceived))
        return Answered(int(headers[":status"]), headers, body)

    async def read(self) -> None:
        """Take what comes next."""
        data = await self.reader.read(65536)
        self.has_ended = not data
        self.events += self.h2.receive_data(data)
        self.flush()

    async def ask(self, method: str, target: str, body: bytes = b"") -> Answered:
        """Send a request and take its reply."""
        return await self.receive(self.send(method, target, body))


def check(answered: Answered) -> None:
    assert answered.status == 200
    assert summary(answered.body) == ANSWER
    assert answered.headers["content-type"] == "application/dns-message"
    assert answered.headers["cache-control"] == "max-age=0"
    assert answered.headers["content-length"] == str(len(answered.body))
    assert "date" in answered.headers


@pytest.mark.parametrize("client", [Http1Client, Http2Client])
async def test_queries(client: type[Http1Client] | type[Http2Client]) -> None:
    """GET and POST, one after the other on one connection; what is wrong does not end it."""
    async with serving() as it, client(it) as connection:
        check(await connection.ask("GET", get()))
        check(await connection.ask("POST", "/dns-query", query(number=0).to_wire()))
        found = await connection.ask("GET", "/other")
        assert (found.status, found.body) == (404, b"\n")
        found = await connection.ask("HEAD", get())
        assert (found.status, found.body) == (400, b"")
        found = await connection.ask("DELETE", get())
        assert (found.status, found.body) == (400, b"invalid request\n")
        check(await connection.ask("GET", get()))
        assert statuses(it) == {"200": 3, "404": 1, "400": 2}
        assert len(it.server.connections) == 1


async def test_without_a_certificate_it_is_plain_http() -> None:
    """As with CoreDNS: for a proxy in front that ends TLS."""
    async with serving(tls=False) as it, Http1Client(it, tls=False) as client:
        found = await client.ask("GET", get())
        check(found)
        assert found.headers["server"] == "hsdns"
        client.writer.write(
            f"GET {get()} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
        )
        async with asyncio.timeout(30):
            assert (await client.reader.read()).startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize("client", [Http1Client, Http2Client])
async def test_body_that_is_too_long(client: type[Http1Client] | type[Http2Client]) -> None:
    async with serving() as it, client(it) as connection:
        if isinstance(connection, Http1Client):
            found = await connection.ask("POST", "/dns-query", bytes(70_000))
        else:
            found = await connection.ask("POST", "/dns-query", bytes(16_000))
        assert (found.status, found.body) == (400, b"invalid request\n")


async def test_pipelined_requests_take_turns() -> None:
    """Over HTTP/1.1 too, one client with many requests at once does not hold the loop."""
    async with serving(tls=False) as it, Http1Client(it, tls=False) as client:
        entered = 0
        enter = it.server.turns.enter

        def count(connection: TakesSteps) -> None:
            nonlocal entered
            entered += 1
            enter(connection)

        it.server.turns.enter = count  # type: ignore[method-assign] # to see it called
        client.writer.write(f"GET {get()} HTTP/1.1\r\nHost: x\r\n\r\n".encode() * 99)
        check(await client.ask("GET", get()))
        for _ in range(99):
            head = await client.reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 ")
            size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            await client.reader.readexactly(size)
        assert entered == 100


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: a\r\n" * 2730, 431, id="long head"),
        pytest.param(b"GET /" + b"a" * 16_400, 414, id="long target"),
        pytest.param(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", 400, id="bad chunk"),
        pytest.param(b"GET / HTTP/9.9\r\n\r\n", 505, id="version"),
    ],
)  # fmt: skip
async def test_malformed_requests_end_the_connection(sent: bytes, status: int) -> None:
    """That one alone; nothing of it is kept."""
    async with (
        serving(tls=False) as it,
        Http1Client(it, tls=False) as client,
        Http1Client(it, tls=False) as other,
    ):
        check(await other.ask("GET", get()))
        client.writer.write(sent)
        head = await client.reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 %d " % status)
        await client.reader.readexactly(
            int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0])
        )
        assert await client.has_ended()
        check(await other.ask("GET", get()))
        assert it.server.places.octets == 0


async def test_no_more_is_read_while_a_request_is_in_progress() -> None:
    """Of HTTP/1.1, whose replies are in the order of requests."""
    go_on = asyncio.Event()

    async def answer(request: Request) -> Reply:
        await go_on.wait()
        return await asked_address(request)

    async with serving(answer, tls=False) as it, Http1Client(it, tls=False) as client:
        connection = await it.connection()
        many = 10_000
        client.writer.write(f"GET {get()} HTTP/1.1\r\nHost: x\r\n\r\n".encode() * many)
        await until(lambda: connection._is_paused, "it reads no more")
        assert connection._http is not None
        assert connection.pending == 1
        assert 0 < connection._http.octets <= 262_144
        go_on.set()
        for _ in range(many):
            head = await client.reader.readuntil(b"\r\n\r\n")
            size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            await client.reader.readexactly(size)


@pytest.mark.parametrize("client", [Http1Client, Http2Client])
async def test_silence_is_status_500(client: type[Http1Client] | type[Http2Client]) -> None:
    async def drop(request: Request) -> Reply:
        return Reply(dropped=True)

    async with serving(drop) as it, client(it) as connection:
        found = await connection.ask("GET", get())
        assert (found.status, found.body) == (500, b"No response\n")
        assert statuses(it) == {"500": 1}


async def test_replies_may_overtake_each_other() -> None:
    go_on = asyncio.Event()

    async def answer(request: Request) -> Reply:
        assert (request.protocol, request.server) == ("tcp", SERVER)
        if request.query.id == 1:
            await go_on.wait()
        return Reply(rcode=3)

    async with serving(answer) as it, Http2Client(it) as client:
        held, other = client.send("GET", get(1)), client.send("GET", get(2))
        assert summary((await client.receive(other)).body).startswith("2 NXDOMAIN")
        assert it.server.pending == 1
        go_on.set()
        assert summary((await client.receive(held)).body).startswith("1 NXDOMAIN")
        assert it.server.pending == 0


@pytest.mark.parametrize("client", [Http1Client, Http2Client])
async def test_end_lets_what_is_in_work_be_answered(
    client: type[Http1Client] | type[Http2Client],
) -> None:
    go_on = asyncio.Event()

    async def answer(request: Request) -> Reply:
        await go_on.wait()
        return Reply(rcode=3)

    async with serving(answer) as it, client(it) as connection:
        asking = asyncio.create_task(connection.ask("GET", get()))
        await until(lambda: it.server.pending == 1, "a query in work")
        it.server.end()
        go_on.set()
        assert summary((await asking).body).startswith("0 NXDOMAIN")
        await until(lambda: not it.server.connections, "it closed")
        if isinstance(connection, Http2Client):
            assert any(isinstance(event, ConnectionTerminated) for event in connection.events)


async def test_end_of_a_connection_that_said_nothing() -> None:
    async with serving(tls=False) as it, Http1Client(it, tls=False) as client:
        await it.connection()
        it.server.end()
        assert await client.has_ended()


async def test_client_without_credit_is_served_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even its handshake is read before; what it has sent meanwhile is answered then."""
    async with serving() as it:
        timers: list[Any] = []
        monkeypatch.setattr(it.server, "_call_later", lambda *timer: timers.append(timer))
        assert it.server._credit is not None
        it.server._credit.charge(ADDRESS, 1 << 30, 0, it.now)
        client = Http2Client(it)
        opening = asyncio.ensure_future(client.__aenter__())
        await it.connection()
        done, _ = await asyncio.wait([opening], timeout=0.05)
        assert not done
        ((_, call),) = timers
        call()
        async with asyncio.timeout(10):
            await opening
        check(await client.ask("GET", get()))
        await client.__aexit__()


@pytest.mark.parametrize(
    ("asked", "limit"),
    [
        pytest.param(False, DEFAULT_LIMITS.read, id="before-the-first-request"),
        pytest.param(True, DEFAULT_LIMITS.idle, id="between-requests"),
    ],
)
async def test_silence_ends_the_connection(asked: bool, limit: float) -> None:
    async with serving(tls=False) as it, Http1Client(it, tls=False) as client:
        if asked:
            await client.ask("GET", get())
        connection = await it.connection()
        connection.expire(it.now + limit)
        assert it.server.connections
        connection.expire(it.now + limit + 0.1)
        assert await client.has_ended()


async def test_client_that_trickles_gains_nothing() -> None:
    async with serving(tls=False) as it, Http1Client(it, tls=False) as client:
        connection = await it.connection()
        it.now += DEFAULT_LIMITS.read + 0.1
        client.writer.write(b"GET /dns")
        await until(lambda: connection._http is not None, "octets")
        connection.expire(it.now)
        assert await client.has_ended()


class MemoryTransport(asyncio.Transport):
    """Takes what a connection does; TLS has agreed on HTTP/2."""

    def __init__(self, client: str) -> None:
        super().__init__({"peername": (client, 40000), "sockname": (ADDRESS, 443)})
        self.written = b""
        self.is_over = self.is_paused = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "ssl_object":
            return SimpleNamespace(selected_alpn_protocol=lambda: "h2")
        return super().get_extra_info(name, default)

    def write(self, data: Any) -> None:
        assert not self.is_over
        self.written += data

    def close(self) -> None:
        self.is_over = True

    def abort(self) -> None:
        self.is_over = True

    def is_closing(self) -> bool:
        return self.is_over

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False


class MemoryProcessor(QueryProcessor):
    """Answers from a table that knows each question, or without one and never."""

    def __init__(self, *, is_known: bool) -> None:
        super().__init__(SERVER, BlockChoice.by_zone({}))
        self.asked = 0
        self.padding = b""  # after each reply
        self._is_known = is_known

    @property
    def lookup(self) -> Any:
        return self._look_up

    def _look_up(self, wire: bytes, **_: object) -> bytes | None:
        self.asked += 1
        return wire[:2] + b"\x84" + wire[3:] + self.padding if self._is_known else None

    async def answer(self, *_: object, **__: object) -> bytes | None:
        await forever()
        return None


@types.coroutine
def forever() -> Generator[None, None, None]:
    """Wait, without a loop."""
    yield


class MemoryServing:
    """A server whose turns the test begins."""

    def __init__(self, *, is_known: bool = True) -> None:
        self.now = 100.0
        self.next: list[Callable[[], None]] = []
        self.credit = Credit()
        self.excesses = Counter("excesses", "Excesses.", ("server", "limit"))
        self.coroutines: list[Any] = []
        self.processor = MemoryProcessor(is_known=is_known)
        with socket.socket() as sock:
            self.server = DohServer(
                sock, self.processor, self.coroutines.append, lambda: self.now,
                admission(lambda: self.now, credit=self.credit, call_soon=self.next.append),
                Settings(tls=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)),
                counters=(Counter("responses", "Responses.", ("server", "status")), self.excesses),
            )  # fmt: skip

    def connect(self, client: str = "192.0.2.1") -> tuple[DohConnection, MemoryTransport]:
        """A new connection."""
        transport, connection = MemoryTransport(client), DohConnection(self.server)
        connection.connection_made(transport)
        return connection, transport

    def turn(self) -> None:
        """Begin the next turn of the loop."""
        calls, self.next[:] = list(self.next), []
        for call in calls:
            call()


def codes(octets: bytes) -> list[int]:
    """The codes of the GOAWAY frames of a server."""
    client = H2Connection(H2Configuration(client_side=True))
    client.initiate_connection()
    # It has not asked, but only the last frame counts.
    return [
        int(event.error_code or 0)
        for part in http2_frames.split(octets)
        if part[3] in (http2_frames.SETTINGS, http2_frames.GOAWAY)
        for event in client.receive_data(part)
        if isinstance(event, ConnectionTerminated)
    ]


BEGIN = http2_frames.PREFACE + http2_frames.frame(http2_frames.SETTINGS, 0, 0)


def gets(count: int, first: int = 1, *, reset: bool = False) -> bytes:
    """Requests, each taken back at once if `reset`."""
    headers = http2_frames.get_headers(get())
    return b"".join(
        http2_frames.frame(http2_frames.HEADERS, 5, stream, headers)
        + (http2_frames.frame(http2_frames.RST_STREAM, 0, stream, b"\0\0\0\x08") if reset else b"")
        for stream in range(first, first + 2 * count, 2)
    )


def test_messages_of_a_turn_are_bounded() -> None:
    """100 requests in one write of each of two clients: each turn has 64 frames, and both have a part of them."""
    it = MemoryServing()
    clients = [it.connect() for _ in range(2)]
    for connection, transport in clients:
        connection.data_received(BEGIN + gets(100))
        assert transport.is_paused
    asked = [it.processor.asked]
    while it.next:
        it.turn()
        asked.append(it.processor.asked)
    assert max(later - earlier for earlier, later in pairwise([0, *asked])) == STEPS
    assert it.processor.asked == 200
    for _, transport in clients:
        assert len(http2_frames.split(transport.written)) == 2 + 2 * 100
        assert not transport.is_paused


def test_small_frames_of_a_turn_are_bounded() -> None:
    """Reads full of small frames are not looked through at once, and the next ones wait."""
    it = MemoryServing()
    small = http2_frames.frame(http2_frames.WINDOW_UPDATE, 0, 0, b"\0\0\0\1") * 5000
    clients = [it.connect() for _ in range(20)]
    for connection, _ in clients:
        connection.data_received(BEGIN + small)
    counted = 0.0
    for connection, _ in clients:
        assert isinstance(connection._http, Http2)
        counted += 5000 - connection._http.frames._left["window updates"]
    assert counted <= STEPS * COUNTED
    assert all(transport.is_paused for _, transport in clients)
    while it.next:
        it.turn()
    assert not any(transport.is_paused or transport.is_over for _, transport in clients)
    clients[0][0].data_received(small[:13])
    assert codes(clients[0][1].written) == [ErrorCodes.ENHANCE_YOUR_CALM]


ATTACKS = {
    "resets": BEGIN + gets(401, reset=True),
    "streams": BEGIN + gets(5001),
    "pings": BEGIN + http2_frames.frame(http2_frames.PING, 0, 0, bytes(8)) * 60,
    "settings": BEGIN + http2_frames.frame(http2_frames.SETTINGS, 0, 0) * 101,
    "header octets": BEGIN + http2_frames.frame(http2_frames.HEADERS, 1, 1, bytes(16_384))
    + http2_frames.frame(http2_frames.CONTINUATION, 4, 1, b"x"),
}  # fmt: skip


BOMB = http2_frames.frame(
    # A field of 3,000 octets in the table of HPACK, and references to it of one octet each.
    http2_frames.HEADERS, 5, 1,
    b"\x82\x87\x04\x01/\x40\x01a\x7f\xb9\x16" + bytes(b"b" * 3000) + b"\xbe" * 10,
)  # fmt: skip
FAULTS = {
    "PROTOCOL_ERROR": (BEGIN + http2_frames.frame(http2_frames.HEADERS, 5, 0, b""), ""),
    "HPACK bomb": (BEGIN + BOMB, "header octets"),
    **{limit: (octets, limit) for limit, octets in ATTACKS.items()},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_connection_is_closed_for_a_fault_and_its_address_is_not_refused(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of a read beyond a limit is parsed; only after many such connections the next one has to wait."""
    it = MemoryServing()
    monkeypatch.setattr(it.server, "_call_later", lambda *_: None)
    octets, limit = FAULTS[fault]
    count = 0
    while not (found := it.connect())[1].is_paused:
        connection, transport = found
        connection.data_received(octets)
        while it.next:
            it.turn()
        count += 1
        assert transport.is_over
        code = ErrorCodes.ENHANCE_YOUR_CALM if limit else ErrorCodes.PROTOCOL_ERROR
        assert codes(transport.written) == [code]
        assert it.excesses.values == ({(SERVER, limit): count} if limit else {})
        connection.connection_lost(None)
    assert it.processor.asked == 0
    assert count >= 8
    assert not found[1].is_over
    assert not it.connect("192.0.2.2")[1].is_paused


def test_requests_taken_back_stay_bounded() -> None:
    """Rapid reset (CVE-2023-44487): streams that are closed again do not count, but the work for them does."""
    it = MemoryServing(is_known=False)
    connection, transport = it.connect()
    connection.data_received(BEGIN)
    for first in range(1, 401, 2):
        connection.data_received(gets(1, first))
        connection.data_received(http2_frames.frame(http2_frames.RST_STREAM, 0, first, bytes(4)))
        it.turn()
    assert connection.pending == it.processor.asked == MAX_STREAMS
    assert transport.is_paused
    for coroutine in it.coroutines:
        coroutine.close()


def test_replies_that_wait_for_windows_are_bounded() -> None:
    """A client that asks on, but never opens its window, keeps a bounded number of octets here."""
    it = MemoryServing()
    connection, transport = it.connect()
    no_window = http2_frames.frame(http2_frames.SETTINGS, 0, 0, b"\0\4\0\0\0\0")
    connection.data_received(http2_frames.PREFACE + no_window)
    it.processor.padding = bytes(60_000)
    first = 1
    while not transport.is_over:
        connection.data_received(gets(1, first))
        first += 2
        it.turn()
    assert first // 2 == MAX_UNSENT // 60_000 + 1
    assert codes(transport.written) == [ErrorCodes.ENHANCE_YOUR_CALM]


@pytest.mark.parametrize(
    ("clients", "is_idle", "new", "closed"),
    [
        pytest.param("aaa", True, "b", [0], id="idle-for-a-client-with-fewer"),
        pytest.param("aaa", False, "b", [0], id="busy-for-a-client-with-fewer"),
        pytest.param("abc", True, "d", [0], id="idle-where-all-have-one"),
        pytest.param("abc", False, "d", [3], id="the-new-one-where-all-are-busy"),
    ],
)
def test_a_client_with_all_connections_keeps_no_others_out(
    clients: str, is_idle: bool, new: str, closed: list[int]
) -> None:
    """Though each connection of it asked a moment ago, and the process has room for many more."""
    it = MemoryServing(is_known=is_idle)
    it.server.settings = it.server.settings._replace(max_connections=len(clients))
    found = [it.connect(f"192.0.2.{ord(client)}") for client in clients]
    for connection, _ in found:
        connection.data_received(BEGIN + gets(1))
    found.append(it.connect(f"192.0.2.{ord(new)}"))
    assert [index for index, (_, each) in enumerate(found) if each.is_over] == closed
    within = it.server.places._within
    assert within is not None
    assert len(it.server.places) == len(within) == len(clients)
    assert within.closed == (closed[0] < len(clients))
    for coroutine in it.coroutines:
        coroutine.close()


def unfinished(streams: int, size: int) -> bytes:
    """POST requests whose bodies do not end."""
    headers = http2_frames.get_headers("/dns-query").replace(b"\x82", b"\x83")
    return BEGIN + b"".join(
        http2_frames.frame(http2_frames.HEADERS, 4, stream, headers)
        + http2_frames.frame(http2_frames.DATA, 0, stream, bytes(size)) * 3
        for stream in range(1, 2 * streams, 2)
    )


@pytest.mark.parametrize("what", ["bodies", "windows", "unread"])
def test_octets_of_all_connections_are_bounded(what: str) -> None:
    """Of bodies that do not end, of replies for shut windows, and of replies that are not read."""
    it = MemoryServing()
    it.processor.padding = bytes(60_000)
    no_window = http2_frames.frame(http2_frames.SETTINGS, 0, 0, b"\0\4\0\0\0\0")
    wide = http2_frames.frame(http2_frames.SETTINGS, 0, 0, b"\0\4\x7f\0\0\0")
    wide += http2_frames.frame(http2_frames.WINDOW_UPDATE, 0, 0, b"\x10\0\0\0")
    sent, each = {
        "bodies": (unfinished(20, 16_000), 20 * 48_000),
        "windows": (http2_frames.PREFACE + no_window + gets(16), 16 * 60_000),
        "unread": (http2_frames.PREFACE + wide + gets(16), 16 * 60_000),
    }[what]
    small = [it.connect("192.0.2.2")]
    found = [it.connect() for _ in range(60)]
    for connection, transport in small + found:
        if what == "unread":
            write = transport.write

            def write_and_pause(data: bytes, write: Any = write, one: Any = connection) -> None:
                write(data)
                one.pause_writing()

            transport.write = write_and_pause  # type: ignore[method-assign]
        connection.data_received(sent)
        while it.next:
            it.turn()
        if transport.is_over:
            connection.connection_lost(None)
    kept = sum(not transport.is_over for _, transport in found)
    places = it.server.places._within
    assert places is not None
    assert MAX_OCTETS * 3 / 4 < kept * each < places.octets <= MAX_OCTETS
    assert not small[0][1].is_over
    for connection, _ in small + found:
        connection.connection_lost(None)
    assert places.octets == 0


def test_slow_window_ends_the_connection() -> None:
    """Requests in between do not lengthen the time for a reply that waits for its window."""
    it = MemoryServing()
    connection, transport = it.connect()
    no_window = http2_frames.frame(http2_frames.SETTINGS, 0, 0, b"\0\4\0\0\0\0")
    connection.data_received(http2_frames.PREFACE + no_window + gets(1))
    it.now += DEFAULT_LIMITS.write
    connection.data_received(gets(1, 3))
    connection.expire(it.now)
    assert not transport.is_over
    connection.expire(it.now + 0.1)
    assert transport.is_over


async def test_reading_goes_on_when_less_is_in_work() -> None:
    go_on = asyncio.Event()

    async def answer(request: Request) -> Reply:
        await go_on.wait()
        return Reply(rcode=3)

    async with serving(answer) as it, Http2Client(it) as client:
        streams = [client.send("GET", get()) for _ in range(MAX_STREAMS)]
        connection = await it.connection()
        await until(lambda: connection._is_paused, "as many as may be open")
        go_on.set()
        for stream in streams:
            assert (await client.receive(stream)).status == 200
        assert not connection._is_paused
        assert (await client.ask("GET", get())).status == 200


@each_kind
async def test_table_answers(kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Queries over HTTPS are counted and logged alike, whoever answers them."""
    text = f"https://.:PORT {{\nbind 127.0.0.1\nprometheus 127.0.0.1:HTTP\nlog\n{KUBERNETES}}}\n"
    objects = cluster_objects(service("default/web", "10.96.0.1"))

    async with ClusterServer(tmp_path, text, objects) as cluster_server:
        client = Http1Client(cluster_server, tls=False)
        async with client:
            _, port = client.writer.get_extra_info("sockname")
            for number in range(5):
                found = await client.ask(
                    "POST", "/dns-query", ask("web.default.svc.cluster.local.", query_id=number)
                )
                assert summary(found.body) == (
                    f"{number} NOERROR qr aa rd | web.default.svc.cluster.local. 5 IN A 10.96.0.1 |  | "
                )
                assert found.headers["cache-control"] == "max-age=5"
        assert cluster_server.hits() == 4
        server = f"https://127.0.0.1:{cluster_server.port}"
        requests = cluster_server.value("coredns_dns_requests_total")
        assert requests == {(server, ".", "", "tcp", "1", "A"): 5}
        assert cluster_server.value("coredns_dns_https_responses_total") == {(server, "200"): 5}
    lines = [line for line in caplog.messages if " IN " in line]
    assert [line.rpartition(" ")[0] for line in lines] == [
        f'127.0.0.1:{port} - {number} "A IN web.default.svc.cluster.local. tcp 47 false 65535"'
        " NOERROR qr,aa,rd 92"
        for number in range(5)
    ]
