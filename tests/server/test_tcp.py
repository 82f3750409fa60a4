"""TCP in memory and on loopback: what only frames have, and every bound; what all transports have is in test_transports.py."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any

import pytest

from hsdns.chain import Request
from hsdns.server.transport import tcp as tcp_listener
from hsdns.server.transport.admission import MAX_CREDIT_WAIT, SECONDS, STEPS, Places, Turns
from hsdns.server.transport.connection import RECORDS, TlsConnection
from hsdns.server.transport.sockets import DEFAULT_LIMITS, Limits, Settings
from hsdns.server.transport.tcp import KNOWN, MAX_IN_WORK
from hsdns.wire.framing import frame
from hsdns.wire.message import RR, Reply
from tests.support.clients.messages import query, summary
from tests.support.clients.sockets import TcpClient
from tests.support.coroutines.event_loops import DEADLINE, LOOPS, until
from tests.support.servers.function_processor import Answer, asked_address
from tests.support.servers.noted import Noted
from tests.support.servers.stream_serving import (
    ADDRESS,
    DATA,
    MemoryServing,
    MemoryTransport,
    Serving,
    backlog,
    client_context,
    server_context,
    started,
)

QUERY = frame(query(number=2).to_wire())


def over_sockets(test: object) -> object:
    """On loopback, on both event loops."""
    return pytest.mark.sockets(pytest.mark.parametrize("loop", LOOPS)(test))


def serving(answer: Answer = asked_address) -> AbstractAsyncContextManager[Serving]:
    return started(Serving(answer), waits=False)


@pytest.fixture
def it() -> Iterator[MemoryServing]:
    found = MemoryServing()
    yield found
    found.close()


# --- in memory: turns, and what waits ---


def frames(octets: bytes) -> list[bytes]:
    """The messages that were written."""
    found, at = [], 0
    while at < len(octets):
        end = at + 2 + int.from_bytes(octets[at : at + 2], "big")
        found.append(octets[at + 2 : end])
        at = end
    return found


def test_known_ones_are_not_written_for_a_client_that_does_not_read(it: MemoryServing) -> None:
    it.processor.size, transport = 65_535, it.connect(reads=False)
    connection = transport.connection
    connection.data_received(QUERY * 100)
    it.finish()
    assert (len(it.processor.looked_up), transport.is_paused) == (1, True)
    transport.reads = True
    connection.resume_writing()
    it.finish()
    assert [len(each) for each in frames(transport.written)] == [65_535] * 100
    assert (connection.pending, transport.is_paused) == (0, False)


@pytest.mark.parametrize("is_blocked", [True, False])
def test_a_client_that_does_not_read_is_left(it: MemoryServing, is_blocked: bool) -> None:
    """Also one whose replies are below the mark from which writing pauses, and one that has half-closed."""
    transport = it.connect(reads=not is_blocked)
    transport.connection.data_received(QUERY)
    transport.reads = False
    limit = DEFAULT_LIMITS.write
    transport.connection.expire(it.now + limit)
    assert not transport.is_over
    transport.connection.expire(it.now + limit + 0.1)
    assert transport.is_aborted is True


def test_known_ones_of_a_step_are_bounded(it: MemoryServing) -> None:
    """Each step may have some of them; the replies of the first are written at once."""
    it.server.clock = it.server.turns._clock = lambda: (
        0.6 * SECONDS / KNOWN * len(it.processor.looked_up)
    )
    transport = it.connect()
    transport.connection.data_received(QUERY * (3 * KNOWN))
    assert [len(frames(each)) for each in transport.writes] == [KNOWN, KNOWN]
    it.finish()
    assert [len(frames(each)) for each in transport.writes] == [KNOWN, KNOWN, KNOWN]


def test_queries_in_work_are_bounded(it: MemoryServing) -> None:
    it.processor.knows, transport = "none", it.connect()
    transport.connection.data_received(QUERY * 3 * MAX_IN_WORK)
    it.finish()
    assert len(it.processor.chained) == MAX_IN_WORK
    assert it.server.pending == MAX_IN_WORK + 1
    assert transport.is_paused


@pytest.mark.parametrize(
    ("seconds", "asked"),
    [pytest.param(0.0, STEPS - 1, id="in-number"), pytest.param(0.4 * SECONDS, 3, id="in-time")],
)
def test_a_turn_is_bounded_for_all_connections_together(
    it: MemoryServing, seconds: float, asked: int
) -> None:
    """However many are busy, UDP, timers and health checks have their turns in between."""
    spend(it, seconds)
    for _ in range(10):
        it.connect().connection.data_received(QUERY * (2 * STEPS))
    assert len(it.processor.chained) == asked
    it.finish()
    assert len(it.processor.chained) == 10 * 2 * STEPS


def spend(it: MemoryServing, seconds: float) -> None:
    """Have each query take some time in the chain, which is silent."""

    def drop() -> None:
        it.now += seconds

    it.processor.knows, it.processor.drops = "none", drop


def test_each_message_has_its_own_time(it: MemoryServing) -> None:
    """Whole messages without a pause between them are never late."""
    transport = it.connect()
    transport.connection.data_received(QUERY[:5])
    for _ in range(3):
        transport.connection.data_received(QUERY[5:] + QUERY[:5])
        it.now += DEFAULT_LIMITS.read
        transport.connection.expire(it.now)
    assert not transport.is_over
    it.server.settings = Settings(Limits(read=DEFAULT_LIMITS.read / 2))
    transport.connection.expire(it.now)
    assert transport.is_over, "the limits may be exchanged"


@pytest.mark.parametrize("is_known", [True, False], ids=["at-once", "later"])
def test_last_query_that_is_allowed_ends_the_connection(is_known: bool, it: MemoryServing) -> None:
    """What comes after it is not answered, and no reset takes away the replies."""
    it.server.settings = Settings(Limits(max_queries=2))
    it.processor.knows, transport = "all" if is_known else "none", HalfClosed("192.0.2.1")
    transport.connection = it.server.make_connection()
    transport.connection.connection_made(transport)
    transport.connection.data_received(QUERY * 4)
    it.finish()
    assert len(it.processor.looked_up) == 2
    assert (len(frames(transport.written)), transport.has_said_end) == (2 * is_known, is_known)
    transport.connection.data_received(QUERY)
    it.finish()
    assert len(it.processor.looked_up) == 2
    assert not transport.is_over


class HalfClosed(MemoryTransport):
    """One whose end of data is noted."""

    has_said_end = False

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.has_said_end = True


# --- who is admitted ---


@pytest.mark.parametrize("is_busy", [False, True])
def test_connections_of_the_process_are_bounded(it: MemoryServing, is_busy: bool) -> None:
    it.server.places.most, it.processor.knows = 1, "none" if is_busy else "all"
    first = it.connect()
    first.connection.data_received(QUERY)
    second = it.connect()
    assert (first.is_over, second.is_aborted) == (not is_busy, is_busy)
    assert (it.server._rejected.values, len(it.server.places)) == ({(): is_busy}, 1)
    for each in (first, second):
        each.connection.connection_lost(None)
    assert (len(it.server.places), it.server.connections) == (0, set())


@pytest.mark.parametrize("missing", ["peername", "sockname", "listener"])
def test_connection_that_has_ended_or_comes_after_the_end_is_aborted(
    missing: str, it: MemoryServing
) -> None:
    transport = MemoryTransport("192.0.2.1")
    transport._extra[missing] = None  # type: ignore[attr-defined]  # asyncio's
    if missing == "listener":
        it.server.close()
    transport.connection = it.server.make_connection()
    transport.connection.connection_made(transport)
    assert (transport.is_aborted, it.server.connections) == (True, set())
    assert it.server._rejected.values == {(): 0}


def test_client_without_credit_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read from its connection meanwhile; one that would wait too long is refused."""
    it, timers = MemoryServing("https"), list[Any]()
    monkeypatch.setattr(it.server, "_call_later", lambda *timer: timers.append(timer))
    it.credit.charge("192.0.2.1", 1 << 30, 0, it.now)
    first = it.connect()
    ((seconds, call),) = timers
    assert (first.is_paused, seconds) == (True, pytest.approx(MAX_CREDIT_WAIT))
    call()
    assert not first.is_paused
    assert it.connect().is_aborted
    assert it.server._rejected.values == {(): 1}
    other = it.connect("192.0.2.2")
    it.server.settings = Settings()
    ingress = it.connect()
    assert not any(each.is_paused or each.is_aborted for each in (other, ingress))


# --- on loopback ---


@over_sockets
@pytest.mark.parametrize(("most", "expected"), [(3, 1), (40, 10), (8192, 1024)])
async def test_new_connections_that_wait_are_a_quarter_of_all(
    most: int, expected: int, loop: str
) -> None:
    """Before it accepts, as while a server starts, many may wait."""
    opened = Serving(places=Places(most))
    assert backlog(opened.server.sock) == 1024
    async with started(opened):
        assert backlog(opened.server.sock) == expected


async def large(request: Request) -> Reply:
    """Answer with 60,000 octets."""
    record = RR(request.query.qname, 16, 0, (b"\xff" + bytes(255)) * 234)
    return Reply(answer=(record,))


class Holding:
    """Answers at once, but holds back the query with ID 1 until it is opened."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.asked = 0

    async def __call__(self, request: Request) -> Reply:
        self.asked += 1
        if request.query.id == 1:
            await self.opened.wait()
        return Reply()


@over_sockets
@pytest.mark.parametrize("client_ends", [False, True])
async def test_replies_come_after_a_half_close(client_ends: bool, loop: str) -> None:
    holding = Holding()
    async with serving(holding) as it, TcpClient(it.address) as client:
        client.ask(1, 2, 3)
        if client_ends:
            client.writer.write_eof()
        order = await client.numbers(2)
        holding.opened.set()
        assert [*order, *await client.numbers(1)] == [2, 3, 1]
        if not client_ends:
            client.writer.write_eof()
        assert await client.has_ended()
        await until(lambda: not it.server.connections, "no connection")


@over_sockets
async def test_client_that_leaves_while_its_query_waits(loop: str) -> None:
    holding = Holding()
    async with serving(holding) as it:
        async with TcpClient(it.address) as client:
            client.ask(1)
            connection = await it.connection()
            await until(lambda: connection.in_work == 1, "a query in work")
            sock = client.writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.writer.transport.abort()
            await until(lambda: not it.server.connections, "no connection")
        holding.opened.set()
        await until(lambda: connection.in_work == 0, "no query in work")


class Deaf:
    """A client with a small buffer that does not read; an asynchronous context."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address

    async def __aenter__(self) -> socket.socket:
        self._sock = socket.socket()
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(self._sock, self._address)
        return self._sock

    async def __aexit__(self, *error: object) -> None:
        self._sock.close()


@over_sockets
@pytest.mark.parametrize("reads", [True, False])
async def test_client_that_reads_late_fills_no_memory_and_gets_everything(
    loop: str, reads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or is left, also where a reload took the address away meanwhile."""
    monkeypatch.setattr(tcp_listener, "SWEEP_INTERVAL", 0.001)
    count, got, event_loop = 500, 0, asyncio.get_running_loop()  # 30 MB of replies
    async with serving(large) as it, Deaf(it.address) as sock:
        connection = await it.connection()
        await event_loop.sock_sendall(sock, QUERY * count)
        await until(lambda: connection._blocked_since is not None, "a blocked connection")
        transport = connection._transport
        assert transport is not None
        assert transport.get_write_buffer_size() < 200_000
        assert connection.pending > 0
        async with asyncio.timeout(2 * DEADLINE):
            while reads and (
                got < count * 59_000 or connection.pending or connection._blocked_since is not None
            ):
                got += len(await event_loop.sock_recv(sock, 1 << 20))
        if not reads:
            it.server.close()
            it.now += DEFAULT_LIMITS.write + 0.1
            await until(lambda: not it.server.connections, "no connection")
        assert bool(it.server.connections) is reads


@over_sockets
async def test_sweeper_looks_at_every_connection(
    loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tcp_listener, "SWEEP_INTERVAL", 0.001)
    async with serving() as it, TcpClient(it.address) as one, TcpClient(it.address) as two:
        await until(lambda: len(it.server.connections) == 2, "two connections")
        it.now += DEFAULT_LIMITS.read + 0.1
        assert await one.has_ended()
        assert await two.has_ended()


@over_sockets
async def test_client_that_has_broken_off_does_not_disturb_the_end(loop: str) -> None:
    """The loop does not know of it yet, and the kernel takes no end of what is over."""
    async with serving() as it, TcpClient(it.address) as client:
        with socket.create_connection(it.address) as sock:
            await until(lambda: len(it.server.connections) == 2, "two connections")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        it.server.end()
        assert await client.has_ended()
        it.server.close()
        await until(lambda: not it.server.connections, "no connection")


# --- replies of several messages ---


class Long:
    """Answers ID 1 with so many messages of so many octets after the first, others with one; ID 3 waits."""

    def __init__(self, count: int, octets: int = 100, fails_at: int = -1) -> None:
        self.count, self.octets, self.fails_at = count, octets, fails_at
        self.made = 0
        self.opened = asyncio.Event()
        self.waits: set[int] = set()

    async def __call__(self, request: Request) -> Reply:
        if request.query.id in self.waits:
            await self.opened.wait()
        if request.query.id != 1:
            return Reply()
        return Reply(answer=(self._record(request, 0),), following=self._messages(request))

    def _messages(self, request: Request) -> Iterator[tuple[RR, ...]]:
        for index in range(1, self.count + 1):
            if index == self.fails_at:
                raise ValueError("no more")
            self.made = index
            yield (self._record(request, index),)

    def _record(self, request: Request, index: int) -> RR:
        return RR(request.query.qname, 16, index, (b"\x63" + b"x" * 99) * (self.octets // 100))


@over_sockets
@pytest.mark.parametrize("behind", [(2,), (2, 3), (2, 1, 3)], ids=str)
async def test_queries_behind_a_long_reply_are_answered_after_it(
    behind: tuple[int, ...], loop: str
) -> None:
    async with serving(Long(300, 1000)) as it, TcpClient(it.address) as client:
        client.ask(1, *behind)
        expected = [each for each in (1, *behind) for _ in range(301 if each == 1 else 1)]
        assert await client.numbers(len(expected)) == expected
        connection = await it.connection()
        await until(lambda: connection.in_work == 0, "an end")


@over_sockets
async def test_messages_are_made_as_the_client_reads(loop: str) -> None:
    long = Long(10_000, 10_000)
    async with serving(long) as it:
        async with TcpClient(it.address) as client:
            client.ask(1)
            connection = await it.connection()
            await until(lambda: connection._blocked_since is not None, "a slow client")
            made = long.made
            assert made < 5000
            for _ in range(20):
                await asyncio.sleep(0)
            assert long.made == made
            for _ in range(made):
                await client.receive()
            await until(lambda: long.made > made, "more of it")
        await until(lambda: not it.server.connections, "an end")
        assert long.made < 10_000, "nothing is made for a client that has gone"


@over_sockets
async def test_a_reply_that_breaks_off_ends_the_connection(
    loop: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(Long(10, fails_at=3)) as it, TcpClient(it.address) as client:
        client.ask(1)
        await until(lambda: not it.server.connections, "an end")
        with suppress(ConnectionResetError):
            assert len(await client.reader.read()) < 3 * 150
    assert "a reply of several messages breaks off: 127.0.0.1" in caplog.messages


# TLS on loopback and in memory: handshakes, ends, certificates exchanged under open connections.


def serving_tls(
    answer: Answer = asked_address,
    context: ssl.SSLContext | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> AbstractAsyncContextManager[Serving]:
    return started(Serving(answer, "tls://:853", Settings(limits, context or server_context())))


def framed(*numbers: int) -> bytes:
    wires = [query(number=number).to_wire() for number in numbers]
    return b"".join(len(wire).to_bytes(2, "big") + wire for wire in wires)


async def receive(reader: asyncio.StreamReader) -> str:
    async with asyncio.timeout(30):
        size = int.from_bytes(await reader.readexactly(2), "big")
        return summary(await reader.readexactly(size))


@over_sockets
async def test_client_certificates(loop: str) -> None:
    async with serving_tls(context=server_context(clients=True)) as it:
        known = client_context()
        known.load_cert_chain(DATA / "client.pem", DATA / "client.key")
        reader, writer = await it.connect(known)
        writer.write(framed(1))
        assert (await receive(reader)).startswith("1 NOERROR")
        writer.close()
        # With TLS 1.3 the client's handshake ends before the server has looked.
        reader, writer = await it.connect(client_context())
        writer.write(framed(1))
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            await receive(reader)
        writer.close()
        await until(lambda: not it.server.connections, "the stranger's connection closed")


@over_sockets
async def test_old_versions_and_plain_text_are_refused(loop: str) -> None:
    async with serving_tls() as it:
        async with TcpClient((ADDRESS, it.port)) as plain:
            plain.send(query().to_wire())
            alert = await plain.reader.read(7)
            assert alert[:1] in (b"\x15", b"")  # an alert, no DNS
            assert await plain.has_ended()
        await until(lambda: not it.server.connections, "the connection closed")


# --- in memory ---


class Outside(Noted):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.out = bytearray()

    def write(self, data: bytes) -> None:
        self.out += data

    def is_closing(self) -> bool:
        return "close" in self.calls

    def get_extra_info(self, name: str) -> None:
        pass


class Inside(Noted):
    """The protocol above, which keeps what it receives."""

    client = b"\xc0\0\2\1"
    encrypted = 0

    def data_received(self, data: bytes) -> None:
        self.calls.append(data)

    def count_encrypted(self, octets: int) -> None:
        self.encrypted = octets


class Pair:
    """A client and a server in memory that have shaken hands; `turns` are those that wait for the server."""

    def __init__(self) -> None:
        inside: Any = Inside()
        outside: Any = Outside()
        self.inside, self.outside = inside, outside
        self.turns: list[Callable[[], None]] = []
        turns = Turns(lambda: 0.0, self.turns.append)
        self.server = TlsConnection(inside, server_context(), turns=turns, connection=inside)
        self.server.connection_made(outside)
        incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = client_context().wrap_bio(incoming, self.outgoing, server_hostname=ADDRESS)
        for _ in range(3):
            with suppress(ssl.SSLWantReadError):
                self.client.do_handshake()
            self.server.data_received(self.outgoing.read())
            incoming.write(outside.out)
            outside.out.clear()

    def finish(self) -> None:
        while self.turns:
            self.turns.pop()()


def sent_in_records(pair: Pair, count: int) -> bytes:
    """Records of one octet each."""
    for number in range(count):
        pair.client.write(bytes((number % 256,)))
    return pair.outgoing.read()


def test_small_records_are_decrypted_in_turns() -> None:
    """A read full of them does not hold up others; what waits is counted, and nothing is read meanwhile."""
    pair = Pair()
    sent = sent_in_records(pair, 100 * RECORDS)
    pair.outside.calls.clear()
    pair.inside.calls.clear()
    pair.server.data_received(sent[:-1])
    at_once = (1 + STEPS) * RECORDS
    assert len(b"".join(pair.inside.calls)) == at_once
    assert pair.outside.calls == ["pause_reading"]
    assert pair.inside.encrypted == len(sent) * (100 * RECORDS - at_once) // (100 * RECORDS) - 1
    pair.server.pause_reading()
    pair.server.resume_reading()
    assert pair.outside.calls == ["pause_reading"] * 3, "some still wait"
    pair.finish()
    assert pair.outside.calls == ["pause_reading"] * 3 + ["resume_reading"]
    assert pair.inside.encrypted == 0
    pair.server.data_received(sent[-1:])
    assert b"".join(pair.inside.calls) == bytes(range(256)) * (100 * RECORDS // 256) + bytes(
        range(100 * RECORDS % 256)
    )
    assert pair.outside.calls == ["pause_reading"] * 3 + ["resume_reading"]


@pytest.mark.parametrize("how", ["end", "lost"])
def test_an_end_while_records_wait(how: str) -> None:
    pair = Pair()
    sent = sent_in_records(pair, 100 * RECORDS)
    if how == "end":
        with pytest.raises(ssl.SSLWantReadError):
            pair.client.unwrap()
        sent += pair.outgoing.read()
    pair.server.data_received(sent)
    if how == "lost":
        pair.server.connection_lost(None)
    pair.finish()
    heard = sum(len(each) for each in pair.inside.calls if isinstance(each, bytes))
    assert heard == (100 * RECORDS if how == "end" else (1 + STEPS) * RECORDS)
    assert pair.inside.calls[-1] == ("eof_received" if how == "end" else "connection_lost")
    assert ("close" in pair.outside.calls) is (how == "end")
    assert pair.inside.encrypted == 0
