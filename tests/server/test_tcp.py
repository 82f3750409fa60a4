"""TCP on loopback: frames however they are cut, replies that overtake, and every bound."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from functools import partial

import pytest

from hsdns.chain import Endpoint, Request
from hsdns.server import tcp as tcp_listener
from hsdns.server.admission import MAX_OCTETS, SECONDS, STEPS, Places
from hsdns.server.sockets import DEFAULT_LIMITS, Limits, Settings, client_endpoint
from hsdns.server.tcp import KNOWN, MAX_IN_WORK, TcpConnection
from hsdns.wire.framing import frame
from hsdns.wire.message import RR, Reply
from tests.support.clients.messages import query, summary
from tests.support.clients.sockets import TcpClient
from tests.support.coroutines.event_loops import DEADLINE, LOOPS, until
from tests.support.servers.function_processor import Answer, asked_address
from tests.support.servers.stream_serving import ADDRESS, Serving, started

pytestmark = pytest.mark.sockets


def serving(
    answer: Answer = asked_address, host: str = ADDRESS, places: Places | None = None
) -> AbstractAsyncContextManager[Serving]:
    return started(Serving(answer, host=host, places=places), waits=False)


@pytest.fixture(params=LOOPS, autouse=True)
def loop(request: pytest.FixtureRequest) -> str:
    """Play each test on both event loops."""
    return str(request.param)


class HoldingHandler:
    """Answers at once, but holds back queries whose ID is 1 to `held` until it is opened."""

    def __init__(self, held: int = 1) -> None:
        self.opened = asyncio.Event()
        self.held = held
        self.asked = 0

    async def __call__(self, request: Request) -> Reply:
        self.asked += 1
        if request.query.id <= self.held:
            await self.opened.wait()
        return Reply()


async def large(request: Request) -> Reply:
    """Answer with 60,000 octets."""
    record = RR(request.query.qname, 16, 0, (b"\xff" + bytes(255)) * 234)
    return Reply(answer=(record,))


class Known:
    """Stands in for a writer: its table knows the queries with an even ID, and answers with `size` octets."""

    def __init__(self, size: int = 20) -> None:
        self.table = self
        self.size = size
        self.asked: list[tuple[int, Endpoint, float]] = []

    def lookup(self, wire: bytes, *, client: bytes, limit: int, now: float) -> bytes | None:
        assert limit == 65535
        self.asked.append((wire[0] << 8 | wire[1], client_endpoint(client), now))
        return None if wire[1] & 1 else wire[:2] + bytes(self.size - 2)

    def make(self, wire: bytes, now: float) -> bool:
        return False

    def dependencies(self) -> None:
        return None

    def flush(self) -> None:
        pass


class InMemory(asyncio.Transport):
    """The connection of a client that reads everything."""

    def __init__(self, address: str) -> None:
        local = ("::1", 53, 0, 0) if ":" in address else ("127.0.0.1", 53)
        super().__init__({"peername": (address, 1024, *local[2:]), "sockname": local})
        self.written: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        pass


class Stubborn(InMemory):
    """The connection of a client that reads nothing."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.protocol: TcpConnection
        self.is_aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        super().write(data)
        self.protocol.pause_writing()

    def abort(self) -> None:
        self.is_aborted = True

    def get_write_buffer_size(self) -> int:
        return sum(map(len, self.written))


# --- what the table knows ---


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_known_ones_are_answered_at_once_and_the_others_by_the_chain(host: str) -> None:
    async with serving(host=host) as it, TcpClient(it.address) as client:
        known = Known()
        it.server.processor.writer = known  # type: ignore[assignment]  # it stands in for one
        client.ask(*range(1, 6))
        replies = {wire[1]: wire for wire in [await client.receive() for _ in range(5)]}
        assert sorted(replies) == [1, 2, 3, 4, 5]
        assert replies[2] == b"\0\2" + bytes(18)
        assert replies[4] == b"\0\4" + bytes(18)
        assert summary(replies[1]).startswith("1 NOERROR qr aa rd | ")
        local = Endpoint(*client.writer.get_extra_info("sockname")[:2])
        assert known.asked == [(number, local, 100.0) for number in range(1, 6)]
        assert (await it.connection()).pending == 0


@pytest.mark.parametrize("size", [20, 65_535])
async def test_a_flood_of_known_ones_is_answered_whole(size: int) -> None:
    count = 4 * STEPS
    async with serving() as it, TcpClient(it.address) as client:
        it.server.processor.writer = Known(size)  # type: ignore[assignment]  # as above
        client.ask(*range(0, 2 * count, 2))
        for number in range(count):
            wire = await client.receive()
            assert len(wire) == size
            assert wire[0] << 8 | wire[1] == 2 * number


async def test_known_ones_are_not_written_for_a_client_that_does_not_read() -> None:
    async with serving() as it, TcpClient(it.address) as client:
        known = Known(65_535)
        it.server.processor.writer = known  # type: ignore[assignment]  # as above
        client.ask(*range(0, 2 * 1000, 2))
        connection = await it.connection()
        await until(lambda: connection.pending > 0 and len(known.asked) > 0, "a full buffer")
        asked = len(known.asked)
        for _ in range(1000):
            await asyncio.sleep(0)
        assert len(known.asked) - asked < 500
        for _ in range(1000):
            await client.receive()
        assert connection.pending == 0


# --- frames ---


async def test_request_knows_both_ends() -> None:
    seen: list[Request] = []

    async def note(request: Request) -> Reply:
        seen.append(request)
        return Reply()

    async with serving(note, "") as it, TcpClient(("127.0.0.2", it.address[1])) as client:
        client.ask(1)
        await client.receive()
        assert tuple(seen[0].client) == client.writer.get_extra_info("sockname")
        assert tuple(seen[0].local) == ("127.0.0.2", it.address[1])
        assert (seen[0].protocol, seen[0].now) == ("tcp", 100.0)


@pytest.mark.parametrize(
    ("host", "asked", "rrtype"),
    [
        pytest.param("127.0.0.1", "127.0.0.1", "A", id="ipv4"),
        pytest.param("", "127.0.0.2", "A", id="all-ipv4"),
        pytest.param("", "::1", "AAAA", id="all-ipv6"),
        pytest.param("::1", "::1", "AAAA", id="ipv6"),
    ],
)
async def test_answer(host: str, asked: str, rrtype: str) -> None:
    async with serving(host=host) as it, TcpClient((asked, it.port)) as client:
        client.send(query(rrtype=rrtype).to_wire())
        expected = f"1 NOERROR qr aa rd | example.org. 0 IN {rrtype} {asked} |  | "
        assert summary(await client.receive()) == expected


@pytest.mark.parametrize(
    ("sent", "reply"),
    [
        pytest.param(query(number=7).to_wire() + bytes(65535 - 29), "0007 8101 0000 0000 0000 0000", id="65535-octets"),
        pytest.param(query(number=7).to_wire()[:12], "0007 8101 0000 0000 0000 0000", id="header-alone"),
        pytest.param(bytes.fromhex("0007 2900 0001 0000 0000 0000"), "0007 a804 0000 0000 0000 0000", id="update"),
        pytest.param(b"", None, id="empty"),
        pytest.param(b"\0" * 11, None, id="shorter-than-a-header"),
        pytest.param(b"\0\7\x81\0" + bytes(8), None, id="reply"),
    ],
)  # fmt: skip
async def test_what_is_no_query_ends_no_connection(sent: bytes, reply: str | None) -> None:
    async with serving() as it, TcpClient(it.address) as client:
        client.send(sent, query(number=8).to_wire())
        if reply is not None:
            assert await client.receive() == bytes.fromhex(reply)
        assert await client.numbers(1) == [8]


# --- several queries in work ---


@pytest.mark.parametrize("half_closes", [False, True])
async def test_replies_overtake_and_come_after_a_half_close(half_closes: bool) -> None:
    holding = HoldingHandler()
    async with serving(holding) as it, TcpClient(it.address) as client:
        client.ask(1, 2, 3)
        if half_closes:
            client.writer.write_eof()
        order = await client.numbers(2)
        assert it.server.pending == 1
        holding.opened.set()
        assert [*order, *await client.numbers(1)] == [2, 3, 1]
        client.writer.write_eof()
        assert await client.has_ended()
        await until(lambda: not it.server.connections, "no connection")


async def test_handler_that_raises_costs_one_query() -> None:
    async def fail_first(request: Request) -> Reply:
        if request.query.id == 1:
            raise RuntimeError("broken")
        return Reply()

    async with serving(fail_first) as it, TcpClient(it.address) as client:
        client.ask(1, 2)
        replies = [summary(await client.receive()) for _ in range(2)]
        assert replies == ["1 SERVFAIL qr rd |  |  | ", "2 NOERROR qr rd |  |  | "]
        assert it.server.pending == 0


async def test_client_that_leaves_while_its_query_waits() -> None:
    holding = HoldingHandler()
    async with serving(holding) as it:
        async with TcpClient(it.address) as client:
            client.ask(1)
            connection = await it.connection()
            await until(lambda: connection.in_work == 1, "a query in work")
            linger = struct.pack("ii", 1, 0)  # closing resets the connection
            client.writer.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, linger
            )
            client.writer.transport.abort()
            await until(lambda: not it.server.connections, "no connection")
        holding.opened.set()
        await until(lambda: connection.in_work == 0, "no query in work")
        async with TcpClient(it.address) as client:
            client.ask(2)
            assert await client.numbers(1) == [2]


async def test_queries_in_work_are_bounded() -> None:
    count = 3 * MAX_IN_WORK
    holding = HoldingHandler(held=count)
    async with serving(holding) as it, TcpClient(it.address) as client:
        client.ask(*range(1, count + 1))
        connection = await it.connection()
        await until(lambda: connection.pending == MAX_IN_WORK + 1, "all that is allowed")
        assert holding.asked == connection.in_work == MAX_IN_WORK
        assert it.server.pending == MAX_IN_WORK + 1
        holding.opened.set()
        assert set(await client.numbers(count)) == set(range(1, count + 1))
        assert it.server.pending == 0
        client.ask(9999)
        assert await client.numbers(1) == [9999]


class Busy:
    """Answers with silence, after some time by the clock that it moves; knows who asked."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.now = 0.0
        self.asked: list[Endpoint] = []
        self._seconds = seconds

    async def __call__(self, request: Request) -> Reply:
        self.asked.append(request.client)
        self.now += self._seconds
        return Reply(dropped=True)


@pytest.mark.parametrize(
    ("seconds", "asked"),
    [
        pytest.param(0.0, STEPS, id="in-number"),
        pytest.param(0.4 * SECONDS, 3, id="in-time"),
    ],
)
async def test_a_turn_is_bounded_for_all_connections_together(seconds: float, asked: int) -> None:
    """However many are busy, UDP, timers and health checks have their turns in between."""
    busy = Busy(seconds)
    async with serving(busy) as it:
        it.server.clock = it.server.turns._clock = lambda: busy.now
        wires = frame(query(number=1).to_wire()) * (2 * STEPS)
        connections = [TcpConnection(it.server) for _ in range(10)]
        for connection in connections:
            connection.connection_made(InMemory("192.0.2.1"))
            connection.data_received(wires)
        assert len(busy.asked) == asked
        await until(lambda: not it.server.pending, "the rest is taken up")
        assert len(busy.asked) == 2 * STEPS * len(connections)


async def test_a_client_with_many_busy_connections_does_not_delay_another() -> None:
    busy = Busy(SECONDS)
    async with serving(busy) as it:
        it.server.clock = it.server.turns._clock = lambda: busy.now
        wire = frame(query(number=1).to_wire())
        for number in range(50):
            connection = TcpConnection(it.server)
            connection.connection_made(InMemory(f"2001:db8::{number:x}"))
            connection.data_received(wire * 20)
        other = TcpConnection(it.server)
        other.connection_made(InMemory("2001:db8:0:1::1"))
        other.data_received(wire)
        await until(lambda: not other.pending, "its turn")
        asked = [client.address for client in busy.asked]
        assert asked.index("2001:db8:0:1::1") <= 2


async def test_known_ones_of_a_step_are_bounded() -> None:
    """Each step may have some of them; their replies are written at the end of the turn, at once."""

    class Slow(Known):
        def lookup(self, wire: bytes, *, client: bytes, limit: int, now: float) -> bytes | None:
            super().lookup(wire, client=client, limit=limit, now=now)
            return wire

    async with serving() as it:
        known = Slow()
        it.server.clock = it.server.turns._clock = lambda: 0.6 * SECONDS / KNOWN * len(known.asked)
        it.server.processor.writer = known  # type: ignore[assignment]  # it stands in for one
        connection, transport = TcpConnection(it.server), InMemory("192.0.2.1")
        connection.connection_made(transport)
        wire = frame(query(number=2).to_wire())
        connection.data_received(wire * (3 * KNOWN))
        assert transport.written == [wire * (2 * KNOWN)]
        await until(lambda: not connection.pending, "the rest is taken up")
        assert transport.written == [wire * (2 * KNOWN), wire * KNOWN]


async def test_octets_are_cut_into_messages_as_they_are_taken_up() -> None:
    """A read full of empty messages costs no more than others in a turn."""
    async with serving() as it:
        connection = TcpConnection(it.server)
        connection.connection_made(InMemory("192.0.2.1"))
        connection.data_received(b"\0\0" * (3 * STEPS))
        assert connection._taken == STEPS
        await until(lambda: not connection.pending, "the rest is taken up")
        assert connection._taken == 3 * STEPS


# --- time limits, by a scripted clock ---


async def sweep(it: Serving, connection: TcpConnection, seconds: float) -> None:
    it.now += seconds
    connection.expire(it.now)


@pytest.mark.parametrize(
    ("asks", "seconds", "is_late"),
    [
        pytest.param(False, DEFAULT_LIMITS.read, False, id="before-the-first-query"),
        pytest.param(False, DEFAULT_LIMITS.read + 0.1, True, id="late-before-the-first-query"),
        pytest.param(True, DEFAULT_LIMITS.idle, False, id="between-queries"),
        pytest.param(True, DEFAULT_LIMITS.idle + 0.1, True, id="late-between-queries"),
    ],
)
async def test_silent_client(asks: bool, seconds: float, is_late: bool) -> None:
    async with serving() as it, TcpClient(it.address) as client:
        connection = await it.connection()
        if asks:
            client.ask(1)
            await client.receive()
        await sweep(it, connection, seconds)
        if is_late:
            assert await client.has_ended()
            await until(lambda: not it.server.connections, "no connection")
        else:
            client.ask(3)
            assert await client.numbers(1) == [3]


async def test_client_that_sends_single_octets_is_late_too() -> None:
    async with serving() as it, TcpClient(it.address) as client:
        connection = await it.connection()
        for octet in b"\0\x1d\0\1":  # a length of 29, then the ID
            it.now += 1
            client.writer.write(bytes((octet,)))
            await until(lambda: connection._last_used == it.now, "an octet read")
            connection.expire(it.now)
        await sweep(it, connection, 0.1)
        assert await client.has_ended()


async def test_each_message_has_its_own_time() -> None:
    """Whole messages without a pause between them are never late."""
    async with serving() as it, TcpClient(it.address) as client:
        connection = await it.connection()
        wire = query().to_wire()
        framed = len(wire).to_bytes(2, "big") + wire
        client.writer.write(framed[:5])
        for _ in range(3):
            client.writer.write(framed[5:] + framed[:5])
            await client.receive()
            await sweep(it, connection, DEFAULT_LIMITS.read)
        assert it.server.connections


async def test_query_in_work_is_no_silence() -> None:
    holding = HoldingHandler()
    async with serving(holding) as it, TcpClient(it.address) as client:
        connection = await it.connection()
        client.ask(1)
        await until(lambda: connection.in_work == 1, "a query in work")
        await sweep(it, connection, 100)
        holding.opened.set()
        assert await client.numbers(1) == [1]


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


async def ask_deaf(sock: socket.socket, count: int) -> None:
    wire = query().to_wire()
    await asyncio.get_running_loop().sock_sendall(
        sock, (len(wire).to_bytes(2, "big") + wire) * count
    )


async def test_client_that_does_not_read_fills_no_memory_and_is_left() -> None:
    async with serving(large) as it, Deaf(it.address) as sock:
        connection = await it.connection()
        await ask_deaf(sock, 500)  # 30 MB of replies
        await until(lambda: connection._blocked_since is not None, "a blocked connection")
        transport = connection._transport
        assert transport is not None
        assert transport.get_write_buffer_size() < 200_000
        assert connection.pending > 0
        await sweep(it, connection, DEFAULT_LIMITS.write)
        assert it.server.connections
        await sweep(it, connection, 0.1)
        await until(lambda: not it.server.connections, "no connection")
        assert connection.pending == 0


def is_handled(connection: TcpConnection) -> bool:
    return not connection.pending or connection._unread > 0


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(frame(bytes(65_535))[:-1], id="incomplete-messages"),
        pytest.param(frame(query(number=2).to_wire()) * 3, id="unread-replies"),
    ],
)
async def test_octets_of_all_connections_are_bounded(sent: bytes) -> None:
    """They are those of one client, and it loses its connections; a client that has less loses none."""
    async with serving() as it:
        it.server.processor.writer = Known(65_535)  # type: ignore[assignment]  # it stands in for one
        transports = [Stubborn("192.0.2.2"), *(Stubborn("192.0.2.1") for _ in range(600))]
        for transport in transports:
            connection = transport.protocol = TcpConnection(it.server)
            connection.connection_made(transport)
            connection.data_received(sent)
            await until(partial(is_handled, connection), "an unread reply")
            if transport.is_aborted:
                connection.connection_lost(None)
        kept = [each for each in transports if not each.is_aborted]
        octets = sum(len(sent) + each.get_write_buffer_size() for each in kept)
        assert MAX_OCTETS * 3 / 4 < octets <= MAX_OCTETS
        assert transports[0] in kept
        assert it.server.places.closed == len(transports) - len(kept)
        for each in transports:
            each.protocol.connection_lost(None)
        assert it.server.places.octets == 0


async def test_ordinary_messages_and_replies_are_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def hold(*_: object) -> None:
        raise AssertionError

    async with serving() as it, TcpClient(it.address) as client:
        monkeypatch.setattr(it.server.places, "hold", hold)
        it.server.processor.writer = Known(500)  # type: ignore[assignment]  # as above
        wire = frame(query(number=2).to_wire())
        for part in (wire, wire[:5], wire[5:], wire * 10):
            client.writer.write(part)
        for _ in range(12):
            assert len(await client.receive()) == 500


async def test_replies_behind_a_long_one_are_counted() -> None:
    async with serving() as it:
        transport = Stubborn("192.0.2.1")
        connection = transport.protocol = TcpConnection(it.server)
        connection.connection_made(transport)
        connection.in_work = 3
        connection._take_more(iter([bytes(5000)]))
        for _ in range(3):
            connection._send(bytes(60_000))
        assert it.server.places.octets == 60_002 + 2 * 60_000
        connection.resume_writing()
        assert it.server.places.octets == 5002 + 2 * 60_002, "all are written, and unread"


async def test_client_that_reads_late_gets_everything() -> None:
    count = 200
    async with serving(large) as it, Deaf(it.address) as sock:
        connection = await it.connection()
        await ask_deaf(sock, count)
        await until(lambda: connection._blocked_since is not None, "a blocked connection")
        got, event_loop = 0, asyncio.get_running_loop()
        async with asyncio.timeout(2 * DEADLINE):
            while got < count * 59_000:
                got += len(await event_loop.sock_recv(sock, 1 << 20))
            while connection.pending or connection._blocked_since is not None:
                got += len(await event_loop.sock_recv(sock, 1 << 20))
        assert it.server.connections


@pytest.mark.parametrize("half_closes", [False, True])
async def test_closed_connection_does_not_wait_for_a_deaf_client(half_closes: bool) -> None:
    """Replies below the transport's high water mark never block, but closing waits for them to be read."""
    async with serving(large) as it, Deaf(it.address) as sock:
        connection = await it.connection()
        await until(lambda: connection._transport is not None, "a transport")
        transport = connection._transport
        assert transport is not None
        transport.set_write_buffer_limits(high=1 << 30)
        await ask_deaf(sock, 200)
        await until(lambda: transport.get_write_buffer_size() > 0, "unsent replies")
        await until(lambda: connection.pending == 0, "no query waiting")
        if half_closes:
            sock.shutdown(socket.SHUT_WR)
            await until(transport.is_closing, "a closing connection")
        await sweep(it, connection, DEFAULT_LIMITS.idle + 0.1)
        await until(lambda: not it.server.connections, "no connection")


async def test_sweeper_looks_at_every_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp_listener, "SWEEP_INTERVAL", 0.001)
    async with serving() as it, TcpClient(it.address) as one, TcpClient(it.address) as two:
        await until(lambda: len(it.server.connections) == 2, "two connections")
        it.now += DEFAULT_LIMITS.read + 0.1
        assert await one.has_ended()
        assert await two.has_ended()


async def test_deaf_client_of_a_server_that_has_closed_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A reload took the address away; the connection must not stay for good."""
    monkeypatch.setattr(tcp_listener, "SWEEP_INTERVAL", 0.001)
    async with serving(large) as it, Deaf(it.address) as sock:
        connection = await it.connection()
        await ask_deaf(sock, 500)
        await until(lambda: connection._blocked_since is not None, "a blocked connection")
        it.server.close()
        assert it.server.connections
        it.now += DEFAULT_LIMITS.write + 0.1
        await until(lambda: not it.server.connections, "no connection")


# --- how many connections ---


async def test_the_connection_that_was_silent_longest_makes_room() -> None:
    async with serving(places=Places(3)) as it:
        clients = [TcpClient(it.address) for _ in range(4)]
        for number, client in enumerate(clients[:3]):
            await client.__aenter__()
            await until(lambda: len(it.server.connections) == number + 1, "a connection")  # noqa: B023 - awaited here
        clients[0].ask(5)
        assert await clients[0].numbers(1) == [5]
        await clients[3].__aenter__()
        assert await clients[1].has_ended()
        for client in (clients[0], clients[2], clients[3]):
            client.ask(6)
            assert await client.numbers(1) == [6]
        assert it.rejected == 0
        for client in clients:
            await client.__aexit__()


async def test_a_connection_whose_query_is_in_progress_makes_no_room() -> None:
    handler = HoldingHandler()
    async with serving(handler, places=Places(1)) as it, TcpClient(it.address) as client:
        client.ask(1)
        await until(lambda: handler.asked == 1, "a query in progress")
        async with TcpClient(it.address) as late:
            assert await late.has_ended()
        assert it.rejected == 1
        handler.opened.set()
        assert await client.numbers(1) == [1]


# --- the end ---


async def test_stop_accepting_leaves_open_connections() -> None:
    async with serving() as it, TcpClient(it.address) as client:
        await it.connection()
        it.server.stop_accepting()
        client.ask(4)
        assert await client.numbers(1) == [4]
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*it.address)


async def test_close_sends_what_was_written() -> None:
    holding = HoldingHandler()
    async with serving(holding) as it, TcpClient(it.address) as client:
        client.ask(1)
        connection = await it.connection()
        await until(lambda: connection.in_work == 1, "a query in work")
        holding.opened.set()
        await until(lambda: connection.in_work == 0, "the reply written")
        it.server.close()
        assert await client.numbers(1) == [1]
        assert await client.has_ended()


async def test_client_that_has_broken_off_does_not_disturb_the_end() -> None:
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
    """Answers ID 1 with so many messages of so many octets after the first, others with one."""

    def __init__(self, count: int, octets: int = 100, fails_at: int = -1) -> None:
        self.count = count
        self.octets = octets
        self.fails_at = fails_at
        self.made = 0

    async def __call__(self, request: Request) -> Reply:
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


def ttl_of(wire: bytes, asked: bytes) -> int:
    """The TTL of a message's first record, whose owner is a pointer."""
    at = len(asked) + 6
    return int.from_bytes(wire[at : at + 4], "big")


async def test_messages_of_one_reply_come_in_order() -> None:
    long = Long(50)
    async with serving(long) as it, TcpClient(it.address) as client:
        asked = query(number=1).to_wire()
        client.send(asked, asked)
        found = [ttl_of(await client.receive(), asked) for _ in range(102)]
        assert sorted(found) == sorted([*range(51)] * 2)
        connection = await it.connection()
        await until(lambda: connection.in_work == 0, "an end")


@pytest.mark.parametrize("behind", [(2,), (2, 3), (2, 1, 3)], ids=str)
@pytest.mark.parametrize("is_known", [False, True])
async def test_queries_behind_a_long_reply_are_answered_after_it(
    behind: tuple[int, ...], is_known: bool
) -> None:
    async with serving(Long(300, 1000)) as it, TcpClient(it.address) as client:
        if is_known:
            it.server.processor.writer = Known()  # type: ignore[assignment]  # it stands in for one
        client.ask(1, *behind)
        expected = [each for each in (1, *behind) for _ in range(301 if each == 1 else 1)]
        assert await client.numbers(len(expected)) == expected
        connection = await it.connection()
        await until(lambda: connection.in_work == 0, "an end")


async def test_replies_that_come_during_a_long_one_wait_for_its_end() -> None:
    """Two queries before it that wait for an upstream; the second one has a long reply, too."""

    class Slow(Long):
        opened = asyncio.Event()

        async def __call__(self, request: Request) -> Reply:
            number = request.query.id
            if number == 3:
                await self.opened.wait()
            if number == 1 and self.made:
                await self.opened.wait()
            return await super().__call__(request)

    slow = Slow(300, 1000)
    slow.opened = asyncio.Event()
    slow.made = 1  # so that the first one waits
    async with serving(slow) as it, TcpClient(it.address) as client:
        client.ask(3, 1)
        connection = await it.connection()
        await until(lambda: connection.in_work == 2, "two that wait")
        slow.made = 0
        client.ask(1)
        assert await client.numbers(1) == [1]
        slow.opened.set()
        found = await client.numbers(300 + 1 + 301)
        assert found == [*[1] * 300, 3, *[1] * 301]
        await until(lambda: connection.in_work == 0, "an end")


async def test_messages_are_made_as_the_client_reads() -> None:
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


async def test_a_client_that_has_asked_its_last_gets_all_of_it() -> None:
    async with serving(Long(30)) as it, TcpClient(it.address) as client:
        client.ask(1)
        client.writer.write_eof()
        for _ in range(31):
            await client.receive()
        assert await client.has_ended()


async def test_nothing_is_made_for_a_client_that_client_has_ended() -> None:
    long = Long(10_000, 10_000)
    async with serving(long) as it:
        async with TcpClient(it.address) as client:
            client.ask(1)
            await client.receive()
        await until(lambda: not it.server.connections, "an end")
        assert long.made < 10_000


async def test_a_reply_that_breaks_off_ends_the_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(Long(10, fails_at=3)) as it, TcpClient(it.address) as client:
        client.ask(1)
        await until(lambda: not it.server.connections, "an end")
        with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
            await client.reader.readexactly(1 << 20)
    assert "a reply of several messages breaks off: 127.0.0.1" in caplog.messages


# --- limits of the Corefile ---


@pytest.mark.parametrize("held", [0, 2], ids=["at-once", "later"])
async def test_last_query_that_is_allowed_ends_the_connection(held: int) -> None:
    """What comes after it is not answered, and no reset takes away the replies."""
    holding = HoldingHandler(held)
    async with serving(holding) as it, TcpClient(it.address) as client:
        it.server.settings = Settings(Limits(max_queries=2))
        client.ask(*(1, 2, 3, 4))
        await until(lambda: holding.asked == 2, "queries taken")
        holding.opened.set()
        assert {summary(await client.receive())[0] for _ in range(2)} == {"1", "2"}
        client.ask(5)
        async with asyncio.timeout(DEADLINE):
            assert await client.reader.read() == b""
        assert holding.asked == 2


async def test_limits_of_time_may_be_exchanged() -> None:
    async with serving() as it, TcpClient(it.address) as client:
        connection = await it.connection()
        it.server.settings = Settings(Limits(read=30.0))
        connection.expire(it.now + 29)
        assert it.server.connections
        connection.expire(it.now + 31)
        assert await client.has_ended()


async def test_end_waits_for_the_client() -> None:
    async with serving() as it, TcpClient(it.address) as client:
        client.ask(1)
        assert summary(await client.receive()).startswith("1 NOERROR")
        it.server.end()
        client.ask(2)
        async with asyncio.timeout(DEADLINE):
            assert await client.reader.read() == b""
        assert len(it.server.connections) == 1
        client.writer.close()
        await until(lambda: not it.server.connections, "the connection closed")


async def test_end_of_a_connection_whose_client_client_has_ended() -> None:
    holding = HoldingHandler()
    async with serving(holding) as it, TcpClient(it.address) as client:
        client.ask(1)
        await until(lambda: holding.asked == 1, "a query in work")
        client.writer.write_eof()
        connection = await it.connection()
        assert isinstance(connection, TcpConnection)
        await until(lambda: connection._client_has_ended, "the client's end")
        it.server.end()
        await until(lambda: not it.server.connections, "the connection closed")
        assert await client.has_ended()
