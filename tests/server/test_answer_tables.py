"""What the tables of a process count, log and make again."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from hsdns.answer_table.recompute import RecomputedNames, key_of
from hsdns.answer_table.writer import AnswerTableWriter
from hsdns.cluster.freshness import ANYTHING, PATIENCE, Dependencies
from hsdns.cluster.objects import Upserted
from hsdns.fastpath import Versions
from hsdns.metrics import Registry
from hsdns.server import answer_tables
from hsdns.server.answer_tables import SHED_REASONS, TURN, AnswerTables, Recomputation, shed_drops
from hsdns.server.transport.udp import UdpListener
from hsdns.wire.decode import decode
from tests.support.cluster.objects import service
from tests.support.servers.memory_server import KUBERNETES, MemoryServer, ask, cluster_objects
from tests.support.servers.udp_listeners import KINDS, twin_of

COREFILE = f".:53 {{\n{KUBERNETES}\n}}\n"
WEB = ask("web.default.svc.cluster.local.")


def idle() -> Recomputation:
    """Nothing is recomputed in advance."""
    return Recomputation(Versions(), lambda: 0.0)


class Statistics(UdpListener):
    """A listener of which only the counters are wanted."""

    def __init__(self, server: str = "dns://:53") -> None:
        self._processor: Any = SimpleNamespace(server=server)
        self.dropped = 0
        self.errors: dict[int, int] = {}

    def statistics(self) -> tuple[int, dict[int, int]]:
        return self.dropped, dict(self.errors)


class Listening:
    """The listeners of a process, of which only tables and counters are wanted."""

    def __init__(self, metrics: Registry) -> None:
        self.tables = AnswerTables(metrics, lambda: self.listeners, idle())
        self.listeners: list[Any] = []

    def use(self, *tables: AnswerTableWriter | None, udp: Sequence[UdpListener] = ()) -> None:
        """Exchange all of them."""
        processors = [SimpleNamespace(writer=table) for table in tables]
        self.listeners = [SimpleNamespace(processor=each, udp=None) for each in processors]
        nothing = SimpleNamespace(writer=None)
        self.listeners += [SimpleNamespace(processor=nothing, udp=each) for each in udp]
        self.tables.fold()


def make_memory_server(kind: str) -> MemoryServer:
    return MemoryServer(
        COREFILE, twin_of(kind), cluster_objects(service("default/web", "10.96.0.1"))
    )


def make_logging_server() -> MemoryServer:
    """One whose table has the reply to WEB."""
    memory_server = MemoryServer(
        f".:53 {{\nlog\n{KUBERNETES}\n}}\n",
        twin_of("loop"),
        cluster_objects(service("default/web", "10.96.0.1")),
    )
    memory_server.from_chain(WEB)
    return memory_server


def values(metrics: Registry, name: str, kind: str = "counter") -> dict[tuple[str, ...], float]:
    found: dict[tuple[str, ...], float] = getattr(metrics, kind)(name, ("",)).values
    return dict(found)


@pytest.mark.parametrize("kind", KINDS)
def test_stale_and_refused_are_counted(kind: str) -> None:
    metrics, memory_server = Registry(), make_memory_server(kind)
    Listening(metrics).use(memory_server.writer)
    held: list[Any] = []
    note = memory_server.writer.enqueue
    memory_server.writer.enqueue = lambda *found: held.append(found)  # type: ignore[method-assign]  # stored later
    memory_server.from_chain(WEB)
    memory_server.writer.enqueue = note  # type: ignore[method-assign]  # as it was
    memory_server.from_chain(WEB)
    memory_server.apply(Upserted(service("default/web", "10.96.0.9", version="2")))
    note(*held[0])
    memory_server.writer.flush()
    assert memory_server.from_table(WEB) is None
    metrics.fold()
    changes = {
        labels[1]: count for labels, count in values(metrics, "hsdns_table_changes_total").items()
    }
    assert changes == {"learned": 1, "refused": 1, "stale": 1}


def test_table_that_was_exchanged_stays_until_its_lines_are_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Tens of thousands may wait, and all at once would hold up everything else."""
    caplog.set_level("INFO", "hsdns.plugin.log")
    metrics, old, new = Registry(), make_logging_server(), make_memory_server("loop")
    listening = Listening(metrics)
    listening.use(old.writer)
    for _ in range(3 * answer_tables.LOG_SLICE):
        assert old.from_table(WEB) is not None
    caplog.clear()
    written = []
    listening.use(new.writer)
    for _ in range(5):
        written.append((len(caplog.records), len(listening.tables._tables)))
        metrics.fold()
    size = answer_tables.LOG_SLICE
    assert written == [(0, 2), (size, 2), (2 * size, 2), (3 * size, 2), (3 * size, 1)]
    assert old.writer.table.statistics().entries == 0


def test_lines_are_discarded_where_they_wait_while_nobody_reads_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log counts them itself; those that it does not count are counted with the table's."""
    asked: list[int] = []
    is_read = [False, False, False, True]  # at the end, when the last ones are to be counted

    def passes(record: object) -> bool:
        asked.append(getattr(record, "lines", 1))
        return is_read[len(asked) - 1]

    metrics, memory_server = Registry(), make_logging_server()
    listening = Listening(metrics)
    listening.use(memory_server.writer)
    caplog.set_level("INFO", "hsdns.plugin.log")
    monkeypatch.setattr(logging.getLogger("hsdns.plugin.log"), "filters", [passes])
    for number in (50, 70):
        for _ in range(number):
            assert memory_server.from_table(WEB) is not None
        assert listening.tables._write_log(memory_server.writer, answer_tables.LOG_SLICE) == 0
        assert memory_server.writer.table.take_log(1) == []
    metrics.fold()
    assert asked == [0, 50, 0, 70]
    assert values(metrics, "hsdns_log_drops_total") == {(): 70}


def test_what_sockets_counted_is_shown_by_server_where_shed_is() -> None:
    metrics = Registry()
    listening = Listening(metrics)
    for reason in SHED_REASONS:
        shed_drops(metrics).inc(("dns://:53", reason), 0)
    one, other = Statistics(), Statistics("dns://:5353")
    listening.use(udp=[one, other])
    for _ in range(2):
        one.dropped, other.dropped = one.dropped + 3, 4
        one.errors = other.errors = {errno.EPERM: 2, errno.EAGAIN: 5}
        metrics.fold()
    assert values(metrics, "coredns_shed_dropped_total") == {
        ("dns://:53", "query"): 6,
        ("dns://:53", "response"): 7,
    }


@pytest.mark.parametrize("kind", KINDS)
def test_listener_that_closes_is_counted_once_more(kind: str) -> None:
    metrics, memory_server, listener = Registry(), make_memory_server(kind), Statistics()
    listening = Listening(metrics)
    listening.use(memory_server.writer, udp=[listener])
    memory_server.from_chain(WEB)
    for _ in range(2):
        assert memory_server.from_table(WEB) is not None
        listener.dropped += 3
        listener.errors = {errno.EPERM: listener.dropped}
        listening.use()
    metrics.fold()
    assert values(metrics, "hsdns_table_lookups_total")["dns://:53", "hit"] == 2
    assert values(metrics, "hsdns_table_entries", "gauge") == {}
    assert values(metrics, "hsdns_udp_queue_drops_total") == {(): 6}
    assert values(metrics, "hsdns_udp_send_errors_total") == {("EPERM",): 6}
    assert (listening.tables._tables, listening.tables._sockets) == ({}, {})


def test_lines_about_hits_are_written_some_in_a_turn(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other tasks run in between, and no more than LOG_LINES are written before the next pause."""
    caplog.set_level("INFO", "hsdns.plugin.log")
    memory_server = make_logging_server()
    listening = Listening(Registry())
    listening.use(memory_server.writer)
    for _ in range(answer_tables.LOG_LINES + 2 * answer_tables.LOG_SLICE):
        assert memory_server.from_table(WEB) is not None
    caplog.clear()
    seen: list[tuple[float, int]] = []

    async def sleep(seconds: float) -> None:
        seen.append((seconds, len(caplog.records)))
        if len([pause for pause, _ in seen if pause]) == 3:
            raise asyncio.CancelledError

    monkeypatch.setattr(answer_tables, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(listening.tables.write_logs())
    pauses = [count for pause, count in seen if pause]
    slices = [after - before for (_, before), (_, after) in pairwise(seen)]
    assert max(slices) == answer_tables.LOG_SLICE
    assert pauses[0] == 0
    assert answer_tables.LOG_LINES <= pauses[1] < answer_tables.LOG_LINES + answer_tables.LOG_SLICE
    assert pauses[2] == answer_tables.LOG_LINES + 2 * answer_tables.LOG_SLICE


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


def test_a_reply_waits_until_the_events_of_other_threads_are_shown() -> None:
    waits: list[float] = []
    counters: Any = SimpleNamespace(settle=waits.append)
    Dependencies(Recomputation(counters, lambda: 0.0)).settle()
    assert waits == [PATIENCE]


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
