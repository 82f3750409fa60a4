"""When answers are made again: after each event, some in a turn, and for the tables of a reload."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hsdns.answer_table.recompute import RecomputedNames, key_of
from hsdns.cluster.freshness import ANYTHING
from hsdns.cluster.objects import Upserted
from hsdns.fastpath import IMPLEMENTATION, Versions
from hsdns.server import answer_tables
from hsdns.server.answer_tables import TURN, Recomputation
from hsdns.wire.decode import decode
from tests.support.cluster.objects import service
from tests.support.coroutines.event_loops import until
from tests.support.servers.cluster_server import ClusterServer
from tests.support.servers.memory_server import KUBERNETES, ask, cluster_objects
from tests.support.servers.udp_listeners import each_kind

WEB = ask("web.default.svc.cluster.local.")


class Writer:
    """A table with its writer of which the names are true; each of `missing` is left to who asks."""

    def __init__(self, *counters: tuple[int, ...]) -> None:
        self.recomputed = RecomputedNames()
        self.table = self
        self.used: dict[bytes, int] = {}
        self.made: list[int] = []
        self.stored: list[tuple[int, bool]] = []  # and whether the entry before was stale
        self.is_stale: Callable[[bytes], bool] = lambda query: True
        self.missing: set[bytes] = set()
        self.seconds = 0.0
        self.now = 0.0
        self.queries = [ask(f"{number}.example.") for number in range(len(counters))]
        self.counters = dict(zip(self.queries, counters, strict=True))
        for query, found in self.counters.items():
            self.recomputed.add(key_of(decode(query)), query, found)
            self.used[query] = 0

    def uses(self, query: bytes) -> int | None:
        return self.used.get(query)

    def recompute(self, query: bytes, now: float) -> tuple[int, ...] | None:
        assert now == self.now
        number = self.queries.index(query)
        self.made.append(number)
        self.now += self.seconds
        if query in self.missing:
            raise ValueError("made so")
        if not self.counters[query]:
            return None
        self.stored.append((number, self.is_stale(query)))
        return self.counters[query]


class Bench:
    """Recomputation of one writer that run on the running loop."""

    def __init__(self, *counters: tuple[int, ...]) -> None:
        self.versions, self.writer = Versions(), Writer(*counters)
        self.recomputation = Recomputation(self.versions, lambda: self.writer.now)
        self.use(self.writer)
        self.recomputation.attach()

    def use(self, *writers: Writer) -> None:
        used: Any = writers
        self.recomputation.writers = used

    async def turns(self, count: int = 1) -> list[int]:
        """What is made in the next turns of the loop."""
        self.writer.made.clear()
        for _ in range(count):
            await asyncio.sleep(0)
        return [*self.writer.made]


async def test_what_an_event_has_ended_is_made_once_after_it() -> None:
    bench = Bench((1, 2), (2,), (3,))
    for index in (1, 2, ANYTHING):
        bench.recomputation.bump(index)
        assert bench.recomputation.read(index) == 1
    assert bench.writer.made == []
    assert sorted(await bench.turns()) == [0, 1]
    bench.recomputation.bump(2)
    assert await bench.turns() == [], "nobody has asked since"
    bench.recomputation.bump(2)
    bench.writer.used[bench.writer.queries[0]] = 3
    assert await bench.turns() == [], "so they have been forgotten"


@pytest.mark.skipif(IMPLEMENTATION != "rust", reason="the compiled part is not built")
async def test_replies_are_stored_before_the_end_of_an_event() -> None:
    bench = Bench((1, 2), (2,), (3,))
    bench.writer.is_stale = lambda query: not bench.versions.held()
    bench.recomputation.hold()
    for index in (1, 2, ANYTHING):
        bench.recomputation.bump(index)
    assert bench.versions.held() == [1, 2, ANYTHING]
    assert bench.writer.made == []
    bench.recomputation.release()
    assert sorted(bench.writer.stored) == [(0, False), (1, False)]
    assert bench.versions.held() == []
    assert await bench.turns() == [], "it is done"
    bench.recomputation.bump(3)
    assert await bench.turns() == [2]
    assert bench.writer.stored[-1] == (2, True)


async def test_a_batch_is_recomputed_at_its_end() -> None:
    bench = Bench((1,), (2,), (3,))
    for index, more, made in ((1, True, []), (2, False, [0, 1]), (3, True, [0, 1])):
        bench.recomputation.hold()
        bench.recomputation.bump(index)
        bench.recomputation.release(more=more)
        assert sorted(bench.writer.made) == made
    assert await bench.turns() == [2], "the end of the batch does not come"


async def test_replies_that_cannot_be_recomputed_are_left_to_the_next_query(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench((1,), (1,), (1,))
    writer = bench.writer
    writer.missing.add(writer.queries[0])
    writer.counters[writer.queries[1]] = ()
    del writer.used[writer.queries[2]]  # it was evicted
    bench.recomputation.bump(1)
    assert await bench.turns() == [0, 1]
    assert len(writer.recomputed) == 0
    (record,) = caplog.records
    assert record.message.startswith("a reply cannot be recomputed in advance")
    assert record.levelname == "ERROR"


async def test_many_are_made_some_in_a_turn() -> None:
    bench = Bench(*[(1,)] * 7)
    bench.writer.seconds = TURN / 2.5
    bench.recomputation.bump(1)
    assert await bench.turns() == [0, 1, 2]
    bench.recomputation.bump(1)  # an event comes between, and has ended what was made
    bench.writer.used = dict.fromkeys(bench.writer.queries, 3)
    assert await bench.turns() == [3, 4, 5]
    assert sorted(await bench.turns(9)) == [0, 1, 2, 3, 4, 5, 6]


async def test_a_table_that_was_exchanged_is_left_alone() -> None:
    bench = Bench(*[(1,)] * 3)
    bench.writer.seconds = TURN
    bench.recomputation.bump(1)
    assert await bench.turns() == [0]
    bench.use()
    assert await bench.turns(5) == []


async def test_counters_move_in_any_thread_and_without_a_loop() -> None:
    bench = Bench((1,))
    thread = threading.Thread(target=bench.recomputation.bump, args=(1,))
    thread.start()
    thread.join()
    await until(lambda: bench.writer.made == [0], "it is made on this loop")
    bench.recomputation.detach()
    bench.recomputation.bump(1)
    assert await bench.turns(3) == []
    assert bench.versions.read(1) == 2
    await bench.recomputation.warm(bench.writer, bench.writer)  # type: ignore[arg-type]  # a stand-in
    assert bench.writer.made == []


@pytest.mark.parametrize(("implementation", "is_apart"), [("rust", True), ("python", False)])
async def test_the_thread_is_that_of_the_table(
    implementation: str, is_apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_tables, "IMPLEMENTATION", implementation)

    made = Recomputation(Versions(), lambda: 0.0, apart=True)
    made.attach()
    assert (made._loop is None) is is_apart
    made.attach(apart=True)
    assert made._loop is asyncio.get_running_loop()


async def test_a_new_table_begins_with_what_the_last_one_was_asked_for() -> None:
    bench = Bench((1,), (2,))
    old = Writer((1,), (2,), (3,))
    del bench.writer.recomputed._added[1]
    bench.writer.queries = old.queries
    bench.writer.counters = old.counters | {old.queries[1]: ()}
    bench.writer.seconds = TURN / 2
    await bench.recomputation.warm(old, bench.writer)  # type: ignore[arg-type]  # a stand-in
    assert bench.writer.made == [0, 1, 2]
    assert bench.writer.recomputed.queries() == [old.queries[0], old.queries[2]]


@pytest.mark.sockets
@each_kind
async def test_a_server_knows_a_change_before_anybody_asks(kind: str, tmp_path: Path) -> None:
    """Of a name that was asked for, and after a reload too."""
    text = f".:PORT {{\nbind 127.0.0.1\ncache 30\n{KUBERNETES}}}\n"
    objects = cluster_objects(service("default/web", "10.96.0.1"))

    def _ask(address: tuple[str, int]) -> None:
        with socket.socket(type=socket.SOCK_DGRAM) as sock:
            sock.settimeout(30)
            sock.sendto(WEB, address)
            sock.recv(512)

    async with ClusterServer(tmp_path, text, objects) as site:

        def table() -> Any:
            assert site.server.instance is not None
            (processor,) = site.server.instance.processors.values()
            return processor.table

        def known() -> bytes | None:
            client, now = b"\2\0\0\0\x7f\0\0\1" + bytes(8), site.server.clock()
            found: bytes | None = table().lookup(WEB, client=client, limit=512, now=now)
            return found

        await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, _ask, site.address)
        await until(lambda: known() is not None, "the chain has answered")
        for number in (2, 3):
            site.apply(Upserted(service("default/web", f"10.96.0.{number}", version=str(number))))
            reply = known()
            assert reply is not None
            assert reply[2:4] == b"\x85\0"
            assert reply.endswith(bytes((0, 4, 10, 96, 0, number)))
        before = table()
        site.objects[-1] = service("default/web", "10.96.0.3", version="3")
        site.write(text + "# another one\n")
        assert await site.server.reload()
        assert table() is not before
        reply = known()
        assert reply is not None
        assert reply.endswith(bytes((0, 4, 10, 96, 0, 3)))
