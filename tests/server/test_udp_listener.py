"""UDP on loopback, on the loop and with workers: what a batch is, who waits, and when reading stops."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import SimpleNamespace
from typing import Any

import pytest

from hsdns.assemble import ListenAddress
from hsdns.chain import BlockChoice, Request
from hsdns.fastpath import Terms
from hsdns.fastpath.control import write_address
from hsdns.query import QueryProcessor
from hsdns.server.runtime import Tasks
from hsdns.server.transport.admission import PendingQueries
from hsdns.server.transport.sockets import open_udp
from hsdns.server.transport.udp import KNOWN, TURN
from hsdns.wire.message import Reply
from hsdns.wire.name import ROOT
from tests.server.test_transports import serving_udp
from tests.support.clients.messages import query
from tests.support.clients.sockets import UdpClient
from tests.support.coroutines.event_loops import until
from tests.support.servers.function_processor import Answer, asked_address, processor
from tests.support.servers.udp_listeners import KINDS, PLACES, listen_udp, twin_of

pytestmark = pytest.mark.sockets


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
