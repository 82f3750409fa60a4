"""What holds for each transport: UDP on the loop and with workers, TCP, TLS, HTTPS with HTTP/1.1 and with HTTP/2."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from hsdns.assemble import ListenAddress
from hsdns.chain import BlockChoice, Request
from hsdns.fastpath import Terms
from hsdns.fastpath.control import write_address
from hsdns.query import QueryProcessor
from hsdns.server.runtime import Tasks
from hsdns.server.transport.admission import PendingQueries
from hsdns.server.transport.sockets import DEFAULT_LIMITS, Settings, open_udp
from hsdns.server.transport.udp import KNOWN, TURN
from hsdns.wire.message import Reply
from hsdns.wire.name import ROOT
from tests.support.clients.https import Http1Client, Http2Client, get
from tests.support.clients.messages import query, summary
from tests.support.clients.sockets import TcpClient, UdpClient
from tests.support.coroutines.event_loops import LOOPS, until
from tests.support.servers.function_processor import Answer, asked_address, processor
from tests.support.servers.stream_serving import (
    ADDRESS,
    Serving,
    client_context,
    server_context,
    started,
)
from tests.support.servers.udp_listeners import KINDS, NEEDS_NATIVE, PLACES, listen_udp, twin_of

pytestmark = pytest.mark.sockets

SERVERS = {"tcp": "dns://:53", "tls": "tls://:853", "http/1.1": "https://:443", "http/2": "https://:443"}  # fmt: skip
UDP = [
    pytest.param("udp", loop, id=f"udp-{loop}") for loop in LOOPS
] + [pytest.param("udp workers", "uvloop", id="udp-workers", marks=NEEDS_NATIVE)]  # fmt: skip
STREAMS = [pytest.param(kind, loop, id=f"{kind}-{loop}") for kind in SERVERS for loop in LOOPS]
each_transport = pytest.mark.parametrize(("kind", "loop"), [*UDP, *STREAMS])
each_stream = pytest.mark.parametrize(("kind", "loop"), STREAMS)


class Door(NamedTuple):
    """A server, and a client of it: `send` sends queries with these IDs at once, `receive` takes the next reply."""

    server: Any
    send: Callable[..., object]
    receive: Callable[[], Any]
    client: Any
    serving: Serving | None = None

    async def numbers(self, count: int) -> list[int]:
        """The IDs of the next replies."""
        return [int.from_bytes((await self.receive())[:2], "big") for _ in range(count)]

    async def summary(self) -> str:
        """The next reply."""
        return summary(await self.receive())


@asynccontextmanager
async def serving_udp(
    kind: str,
    answer: Answer | QueryProcessor = asked_address,
    host: str = ADDRESS,
    clock: Callable[[], float] = lambda: 100.0,
) -> AsyncIterator[Any]:
    """Serve UDP on the loop, or with workers."""
    tasks, sock = Tasks(), open_udp(ListenAddress(host, 0))
    answers = answer if isinstance(answer, QueryProcessor) else processor(answer)
    twin = "workers" if kind.endswith("workers") else "loop"
    server = listen_udp(twin, [sock], answers, tasks.spawn, clock)
    server.start()
    try:
        yield server
    finally:
        server.close()
        await tasks.cancel()


@asynccontextmanager
async def opened(
    kind: str, answer: Answer = asked_address, host: str = ADDRESS, asked: str = ADDRESS
) -> AsyncIterator[Door]:
    """A server of a kind, and a client that has connected to it."""
    async with AsyncExitStack() as stack:
        if kind.startswith("udp"):
            server = await stack.enter_async_context(serving_udp(kind, answer, host))
            family = socket.AF_INET6 if ":" in asked else socket.AF_INET
            client = stack.enter_context(UdpClient(family))
            address = asked, server.local.port

            def send_datagrams(*numbers: int) -> None:
                for number in numbers:
                    rrtype = "AAAA" if ":" in asked else "A"
                    client.sock.sendto(query("example.org", rrtype, number).to_wire(), address)

            async def receive_datagram() -> bytes:
                wire, came_from = await client.receive()
                assert came_from == asked
                return wire

            yield Door(server, send_datagrams, receive_datagram, client)
            return
        tls = None if kind == "tcp" else server_context()
        serving = Serving(answer, SERVERS[kind], Settings(tls=tls), host)
        await stack.enter_async_context(started(serving, waits=False))
        if kind in ("tcp", "tls"):
            options = {} if tls is None else {"ssl": client_context(), "server_hostname": ADDRESS}
            stream = await stack.enter_async_context(TcpClient((asked, serving.port), **options))

            def send_frames(*numbers: int) -> None:
                rrtype = "AAAA" if ":" in asked else "A"
                stream.send(*(query("example.org", rrtype, each).to_wire() for each in numbers))

            yield Door(serving.server, send_frames, stream.receive, stream, serving)
            return
        http = (Http1Client if kind == "http/1.1" else Http2Client)(serving.port)
        await stack.enter_async_context(http)

        def send_requests(*numbers: int) -> None:
            for number in numbers:
                http.send("GET", get(number))

        async def receive_body() -> bytes:
            return (await http.receive()).body

        yield Door(serving.server, send_requests, receive_body, http, serving)


IPV6 = pytest.mark.skipif(not socket.has_ipv6, reason="this Python has no IPv6")


@pytest.mark.parametrize(
    ("host", "asked"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.2", "127.0.0.2"),
        pytest.param("::1", "::1", marks=IPV6),
        ("", "127.0.0.2"),
        pytest.param("", "::1", marks=IPV6),
        ("0.0.0.0", "127.0.0.2"),
        pytest.param("0.0.0.0", "::1", marks=IPV6),
        pytest.param("::", "127.0.0.2", marks=IPV6),
        pytest.param("::", "::1", marks=IPV6),
    ],
)
@pytest.mark.parametrize("kind", ["udp", pytest.param("udp workers", marks=NEEDS_NATIVE), "tcp"])
async def test_answer_leaves_from_the_address_that_was_asked(
    kind: str, host: str, asked: str
) -> None:
    """And the request has both ends, in plain IPv4 where the client has that."""
    seen: list[Request] = []

    async def note(request: Request) -> Reply:
        seen.append(request)
        return await asked_address(request)

    if kind == "tcp" and host in ("0.0.0.0", "::"):
        pytest.skip("one socket is bound as the Corefile says")
    async with opened(kind, note, host, asked) as door:
        door.send(1)
        rrtype = "AAAA" if ":" in asked else "A"
        expected = f"1 NOERROR qr aa rd | example.org. 0 IN {rrtype} {asked} |  | "
        assert await door.summary() == expected
        (request,) = seen
        assert request.local.address == asked
        if kind == "tcp":
            assert tuple(request.client) == door.client.writer.get_extra_info("sockname")[:2]
        else:
            assert request.client.port == door.client.sock.getsockname()[1]
        assert (
            request.client.address == asked
            if ":" in asked
            else request.client.address[:4] == "127."
        )
        assert (request.protocol, request.now) == (kind[:3], 100.0)


@each_transport
async def test_many_at_once_are_answered(kind: str, loop: str) -> None:
    """More than a batch of datagrams, a record of TLS, or the requests of a turn; none has the place of another."""
    async with opened(kind) as door:
        count = 100 if kind == "http/2" else 500
        door.send(*range(count))
        assert sorted(await door.numbers(count)) == [*range(count)]


@each_transport
async def test_dropped_reply_is_silence(kind: str, loop: str) -> None:
    """HTTP has a status for it."""

    async def drop_first(request: Request) -> Reply:
        return Reply(dropped=request.query.id == 1)

    async with opened(kind, drop_first) as door:
        door.send(1)
        if kind.startswith("http"):
            found = await door.client.receive()
            assert (found.status, found.body) == (500, b"No response\n")
        door.send(2)
        assert await door.summary() == "2 NOERROR qr rd |  |  | "


# --- of connections ---


@each_stream
async def test_end_of_a_listener(kind: str, loop: str) -> None:
    """The client is told: a half-close, close_notify or GOAWAY, no reset; what is in work over HTTP is answered."""
    opens = asyncio.Event()

    async def wait(request: Request) -> Reply:
        await opens.wait()
        return Reply(rcode=3)

    async with opened(kind, wait) as door:
        door.send(1)
        await until(lambda: door.server.pending == 1, "a query in work")
        if kind.startswith("http"):
            door.server.end()
        opens.set()
        assert (await door.summary()).startswith("1 NXDOMAIN")
        door.server.end()
        if kind == "http/2":
            assert door.client.is_terminated
        else:
            assert await door.client.has_ended()
        door.client.writer.close()
        await until(lambda: not door.server.connections, "it closed")


@pytest.mark.parametrize(("kind", "loop"), STREAMS[:6])
@pytest.mark.parametrize("trickles", [False, True])
async def test_client_whose_query_does_not_arrive(kind: str, loop: str, trickles: bool) -> None:
    """Single octets gain no time."""
    async with opened(kind) as door:
        assert door.serving is not None
        connection = await door.serving.connection()
        sent = b"GET /" if kind.startswith("http") else b"\0\x1d\0\1\0"
        for number, octet in enumerate(sent if trickles else b""):
            door.serving.now += DEFAULT_LIMITS.read / 4 if number else 0.0
            door.client.writer.write(bytes((octet,)))
            await until(lambda n=number: connection._octets() == n + 1, "it is read")  # type: ignore[misc]  # mypy has no type for it
            connection.expire(door.serving.now)
        connection.expire(door.serving.now + (0.1 if trickles else DEFAULT_LIMITS.read + 0.1))
        assert await door.client.has_ended()


# UDP on loopback, on the loop and with workers: what a batch is, who waits, and when reading stops.


def serving(
    answer: Answer | QueryProcessor = asked_address,
    host: str = "127.0.0.1",
    clock: Callable[[], float] = lambda: 0.0,
    kind: str = "loop",
) -> AbstractAsyncContextManager[Any]:
    return serving_udp(kind, answer, host, clock)


each_kind = pytest.mark.parametrize("kind", KINDS)
each_place = pytest.mark.parametrize(("kind", "loop"), PLACES)


# --- many at once ---


@each_place
async def test_who_goes_on_asking_keeps_no_port_open(kind: str, loop: str) -> None:
    """Each answer is followed by another query: what arrives while the port closes is not waited for."""
    asked = 0

    with UdpClient() as client:

        async def answer(request: Request) -> Reply:
            nonlocal asked
            asked += 1
            assert asked < 100_000, "the port does not close"
            client.sock.sendto(query(number=asked % 65536).to_wire(), server.local[:2])
            return await asked_address(request)

        async with serving(answer, kind=kind) as server:
            client.sock.sendto(query().to_wire(), server.local[:2])
            await until(lambda: asked > 0, "a query answered")
            server.stop_reading()
    assert 0 < asked < 10_000


# --- when there is too much to do ---


def misses(host: str, count: int) -> list[tuple[bytes, bytes, bytes]]:
    """Queries of one client, numbered; nothing is to be sent to it."""
    client = write_address(socket.AF_INET, (host, 9))
    return [(query(number=number).to_wire(), client, b"") for number in range(count)]


@each_kind
async def test_names_of_services_have_half_of_each_turn(kind: str) -> None:
    """A flood of other names delays a Service's by half a turn, and names of Services cannot stop the others."""
    seen: list[str] = []
    now = 0.0

    async def note(request: Request) -> Reply:
        nonlocal now
        now += TURN / 4
        seen.append(request.client.address[-1])
        return Reply(dropped=True)

    turns = []
    async with serving(note, clock=lambda: now, kind=kind) as server:
        server._waiting[1].offer(0, misses("192.0.2.1", 100))
        server._waiting[0].offer(0, misses("192.0.2.2", 5))
        for _ in range(4):
            server._take()
            turns.append("".join(seen))
            seen.clear()
        assert server.statistics()[0] == 0
    assert turns == ["2211", "2211", "2111", "1111"]


def with_table(kind: str, answer: Answer) -> QueryProcessor:
    """A processor with an answer table that knows what has been answered once."""
    table = twin_of(kind).AnswerTable(twin_of(kind).Versions(), 1 << 20)

    def enqueue(wire: bytes, query: object, reply: object, out: bytes, found: object) -> None:
        table.store(wire, out, [], Terms(0), size=len(out))

    async def stored(request: Request) -> Reply:
        return (await answer(request)).replace(fresh=True)

    found = processor(stored)
    found.writer = SimpleNamespace(  # type: ignore[assignment]  # the part that is asked for here
        table=table,
        dependencies=lambda: SimpleNamespace(cached=None, settle=lambda: None),
        enqueue=enqueue,
        flush=bool,
        make=lambda wire, now: False,
    )
    return found


@each_kind
async def test_what_has_waited_is_looked_up_again(kind: str) -> None:
    """Those who ask for what has just changed miss until one of them is answered; the chain is asked once for them."""
    seen: list[str] = []
    now = 0.0

    async def take_long(request: Request) -> Reply:
        nonlocal now
        now += TURN
        seen.append(request.client.address)
        return await asked_address(request)

    left = []
    async with serving(with_table(kind, take_long), clock=lambda: now, kind=kind) as server:
        one, other = (write_address(socket.AF_INET, (f"127.0.0.{host}", 9)) for host in (2, 3))
        same, *others = (query(name).to_wire() for name in ("hot.test", "b.test", "c.test"))
        server._waiting[1].offer(
            0, [(same, one, b"")] * 40 + [(each, other, b"") for each in others]
        )
        for _ in range(4):
            server._take()
            left.append(len(server._waiting[1]))
    assert left == [41, 40, 39 - KNOWN, 0], "what is known takes no turn, but for every KNOWN"
    assert seen == ["127.0.0.2", "127.0.0.3", "127.0.0.3"]


@each_kind
async def test_what_waits_is_bounded_and_shared(kind: str) -> None:
    """Of queries that wait for an upstream a client has half of the room, and others get in."""

    async def wait(request: Request) -> Reply:
        await asyncio.Event().wait()
        return Reply()

    async with serving(wait, kind=kind) as server:
        server._pending = PendingQueries(8)
        for host, count, pending, dropped in (
            ("192.0.2.1", 9, 4, 5),
            ("192.0.2.2", 1, 5, 5),
            ("192.0.2.1", 1, 5, 6),
        ):
            server._waiting[1].offer(0, misses(host, count))
            server._take()
            assert (server.pending, server.statistics()[0]) == (pending, dropped)


# --- what goes wrong ---


class Faulty(QueryProcessor):
    """A processor with a fault of its own, which no chain catches."""

    def __init__(self, bad: int) -> None:
        super().__init__("dns://:53", BlockChoice.by_zone({ROOT: asked_address}))
        self.bad = bad

    async def answer(self, wire: bytes, *args: Any, **options: Any) -> bytes | None:
        if wire[1] == self.bad:
            raise RuntimeError("a fault of the spine")
        return await super().answer(wire, *args, **options)


@each_kind
async def test_fault_outside_of_the_chain_costs_one_query(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The others of the same batch are answered."""
    count, bad = 40, 7

    tasks = Tasks()
    sock = open_udp(ListenAddress("127.0.0.1", 0))
    server = listen_udp(kind, [sock], Faulty(bad), tasks.spawn, lambda: 0.0)
    with UdpClient() as client:
        for number in range(count):  # all are there before it begins to read
            client.sock.sendto(query(number=number).to_wire(), sock.getsockname())
        server.start()
        found = {(await client.receive())[0][1] for _ in range(count - 1)}
        assert server.pending == 0
        server.close()
    await tasks.cancel()
    assert found == set(range(count)) - {bad}
    assert "a fault of the spine" in caplog.text


@each_kind
async def test_what_is_not_sent_at_the_end_counts(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the last datagrams, too, those that the kernel does not take are counted."""
    found = SimpleNamespace(received=0, send_errors={errno.EPERM: 2})
    last = SimpleNamespace(serve=lambda table: [], statistics=lambda: found)
    async with serving(kind=kind) as server:
        monkeypatch.setattr("hsdns.server.transport.udp.Batch", lambda fd, wildcard: last)
        server.stop_reading()
        assert server.statistics() == (0, {errno.EPERM: 2})
