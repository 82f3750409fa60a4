"""The answer tables of all listeners: reads their counts before each scrape, and logs their hits every LOG_INTERVAL.

Path: lifecycle.py, beside the sockets; plugins/prometheus calls fold() before it makes its page.
Rule 1: a table is counted while a listener uses it.  After a listener has replaced its table, the old table is counted
        twice more, by the fold() that notices this and by the next one, because a worker may have been in the middle of
        a batch.
Rule 2: each count is added once and each line is written once, however often fold() is called.
Rule 3: each iteration of the loop writes a limited number of lines, also for a table that was replaced: up to 65,536
        lines may wait, and to write them takes seconds.  A replaced table is kept until its lines are written, but only
        the last one of each listener: with its lines and its configuration, such a table takes 10 MB or more, and a
        busy loop writes more slowly than reloads arrive.  Only the end of the process writes all lines at once.
Rule 4: while nobody reads the log, waiting lines are discarded without being read.

Recomputes replies as soon as an event has invalidated them, before the next query:
Rule 1: with a compiled answer table, this runs in the watch thread (watch_loop.py), at the end of the event.  So a new
        reply does not wait for other work of the main loop.  In pure Python it runs on the main loop, to which the
        table belongs.
Rule 2: it recomputes for at most TURN seconds before the thread checks for events again.
Rule 3: replies to an event that came alone are computed before the counters are incremented, and stored right after
        that: the next query gets the new reply, and none in between waits for the main loop.
Rule 4: the new table of a reload is filled with replies for the names that clients queried in the previous table, so
        that a reload does not cause a flood of misses.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import threading
from asyncio import sleep
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from hsdns.answer_table.policy import BlockPolicy
from hsdns.answer_table.recompute import Key, key_of
from hsdns.answer_table.writer import AnswerTableWriter
from hsdns.cluster.freshness import ANYTHING
from hsdns.fastpath import IMPLEMENTATION, Versions
from hsdns.metrics import Counter, Registry
from hsdns.server.query_tap import QueryTap
from hsdns.server.transport.listeners import Listener
from hsdns.server.transport.sockets import client_endpoint
from hsdns.server.transport.udp import UdpListener
from hsdns.wire.decode import decode
from hsdns.wire.name import Name

TURN: Final = 0.0005  # seconds
MOST: Final = 4096  # counters that wait; only the first list of a cluster changes more
WARM_TIMEOUT: Final = 2.0  # seconds that a reload waits until its tables are filled
_LARGEST_USES: Final = 2  # of an entry that has just been replaced (AnswerTable.uses)

log = logging.getLogger("hsdns.server")


class Recomputation:
    """The counters of the process, and the replies to recompute when they are incremented.

    `writers` belong to the tables in use; `apart`: there is a watch thread.
    """

    def __init__(
        self, counters: Versions, clock: Callable[[], float], *, apart: bool = False
    ) -> None:
        self._is_apart = apart and IMPLEMENTATION == "rust"
        self.writers: tuple[AnswerTableWriter, ...] = ()
        self.versions = counters
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._holders: set[int] = set()  # the threads between hold() and release()
        self._moved: deque[int] = deque(maxlen=MOST)
        self._is_due = False
        self._waiting: dict[tuple[AnswerTableWriter, Key], None] = {}
        self._has_next_turn = False

    def attach(self, *, apart: bool = False) -> None:
        """Use the running loop from now on, the main or the watch thread's, if replies are recomputed there."""
        if apart is self._is_apart:
            self._thread = threading.get_ident()
            self._loop = asyncio.get_running_loop()

    def detach(self) -> None:
        """Use no loop any more: recompute nothing."""
        self._loop = None

    def bump(self, index: int) -> None:
        """Increment a counter; from any thread."""
        self.versions.bump(index)
        if self._loop is None or index == ANYTHING or threading.get_ident() in self._holders:
            return
        self._moved.append(index)
        self._begin_soon()

    def hold(self) -> None:
        """Begin an event of this thread."""
        self._holders.add(threading.get_ident())
        self.versions.hold()

    def release(self, *, more: bool = False) -> None:
        """End an event: recompute the replies that it invalidates, unless `more` follow, then show the increments."""
        self._holders.discard(threading.get_ident())
        try:
            if self._loop is not None:
                moved = [index for index in self.versions.held() if index != ANYTHING]
                if more or threading.get_ident() != self._thread:
                    self._moved.extend(moved)
                    if moved:
                        self._begin_soon()
                else:
                    self._recompute_all(moved)
        finally:
            self.versions.release()

    def settle(self, seconds: float) -> None:
        """Wait until the events of other threads are shown, for so long at most."""
        self.versions.settle(seconds)

    def read(self, index: int) -> int:
        """The value of a counter."""
        return self.versions.read(index)

    async def warm(self, old: AnswerTableWriter, new: AnswerTableWriter) -> None:
        """Fill a new table with replies for the names queried in the old one; wait at most WARM_TIMEOUT."""
        if self._loop is None:
            return
        warming = asyncio.run_coroutine_threadsafe(self._warm(old, new), self._loop)
        await asyncio.wait([asyncio.wrap_future(warming)], timeout=WARM_TIMEOUT)

    async def _warm(self, old: AnswerTableWriter, new: AnswerTableWriter) -> None:
        end = self._clock() + TURN
        for query in old.recomputed.queries():
            counters = self._compute(new, query, self._clock())
            if counters is not None:
                new.recomputed.add(key_of(decode(query)), query, counters)
            if self._clock() >= end:
                await asyncio.sleep(0)
                end = self._clock() + TURN

    def _call(self, function: Callable[[], None]) -> None:
        loop = self._loop
        with contextlib.suppress(RuntimeError):  # the loop is being closed
            if loop is None:
                return
            if threading.get_ident() == self._thread:
                loop.call_soon(function)
            else:
                loop.call_soon_threadsafe(function)

    def _begin_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._call(self._begin)

    def _begin(self) -> None:
        self._is_due = False
        self._recompute_all(())

    def _recompute_all(self, moved: Iterable[int]) -> None:
        """Recompute for TURN seconds what depends on these counters and those that wait."""
        moved = set(moved)
        while self._moved:
            moved.add(self._moved.popleft())
        waiting = self._waiting
        for writer in self.writers:
            for key in writer.recomputed.invalidated(moved):
                waiting[writer, key] = None
        if waiting and not self._has_next_turn:
            self._take_some()

    def _take_some(self) -> None:
        """Recompute waiting replies for TURN seconds; the others in the next iteration of the loop."""
        waiting = self._waiting
        now = self._clock()
        end = now + TURN
        while waiting and now < end:
            writer, key = next(iter(waiting))
            del waiting[writer, key]
            if writer in self.writers:
                self._recompute(writer, key, now)
            now = self._clock()
        self._has_next_turn = bool(waiting)
        if waiting:
            self._call(self._take_some)

    def _recompute(self, writer: AnswerTableWriter, key: Key, now: float) -> None:
        """Recompute the reply for a name, or forget the name if no client has asked for it since."""
        names = writer.recomputed
        name = names.by_key.get(key)
        uses = None if name is None else writer.table.uses(name.query)
        counters = None
        if name is not None and uses is not None and uses > name.uses:
            counters = self._compute(writer, name.query, now)
        if uses is None or counters is None:
            names.forget(key)
        else:
            names.note_recomputed(key, counters, min(uses, _LARGEST_USES))

    def _compute(
        self, writer: AnswerTableWriter, query: bytes, now: float
    ) -> tuple[int, ...] | None:
        try:
            return writer.recompute(query, now)
        except Exception:
            log.exception(
                "a reply cannot be recomputed in advance; the next query for it computes it"
            )
            return None


LOG_INTERVAL: Final = 0.05  # seconds between two checks for lines to log
IDLE_INTERVAL: Final = 2.0
LOG_LINES: Final = 500  # lines of one table in an interval: 10,000 lines a second
LOG_SLICE: Final = 16  # lines in one iteration of the loop: half a millisecond
MAX_LOG_LINES: Final = 65_536  # lines that are written at the end of the process
SHED_REASONS: Final = ("query", "response")
# Fields of a table's statistics, by their labels.
_LOOKUPS: Final = {
    "hit": "hits",
    "region": "negative_hits",
    "miss": "misses",
    "unusual": "not_plain",
}
_CHANGES: Final = {
    "learned": "stored",
    "refused": "refused",
    "stale": "stale",
    "evicted": "evicted",
}


def make_writer(
    server: str,
    blocks: Mapping[Name, BlockPolicy],
    versions: Versions,
    queries: QueryTap | None = None,
) -> AnswerTableWriter | None:
    """The answer table of a listener with its writer; None if no reply of its blocks may be stored."""
    tap = (None, 0) if queries is None else (queries.tap, queries.source(server))
    writer = AnswerTableWriter(server, blocks, versions, *tap)
    return writer if writer.is_needed else None


def shed_drops(metrics: Registry) -> Counter:
    """The counter of `shed`; it counts only for servers that already have a value."""
    return metrics.counter("coredns_shed_dropped_total", ("server", "reason"))


class AnswerTables:
    """All answer tables of the process, and the counts of the UDP sockets.

    `listeners` returns the listeners of all configurations, the serving one last: gauges show its tables.
    `recomputation` is told of all tables.
    """

    def __init__(
        self,
        metrics: Registry,
        listeners: Callable[[], Iterable[Listener]],
        recomputation: Recomputation,
    ) -> None:
        self._listeners = listeners
        self._recomputation = recomputation
        # The counts of each table and socket at the last fold(), by the counter's name; a dict keeps the order.
        self._tables: dict[AnswerTableWriter, _Seen] = {}
        self._sockets: dict[UdpListener, _Seen] = {}
        self._exchanged: list[AnswerTableWriter | UdpListener] = []  # counted once more
        self._send_errors = metrics.counter("hsdns_udp_send_errors_total", ("errno",))
        self._queue_drops = metrics.counter("hsdns_udp_queue_drops_total")
        self._shed_drops = shed_drops(metrics)
        self._log_drops = metrics.counter("hsdns_log_drops_total")
        self._entries = metrics.gauge("hsdns_table_entries", ("server",))
        self._octets = metrics.gauge("hsdns_table_bytes", ("server",))
        self._lookups = metrics.counter("hsdns_table_lookups_total", ("server", "result"))
        self._changes = metrics.counter("hsdns_table_changes_total", ("server", "what"))
        metrics.gauge("hsdns_fastpath_info", ("implementation",)).set(1, (IMPLEMENTATION,))
        metrics.before_collect(self.fold)

    def close(self) -> None:
        """Log the hits and add the counts; called after all listeners have closed."""
        self._recomputation.detach()
        for table in self._tables:
            self._write_log(table, MAX_LOG_LINES)
        self.fold()

    def fold(self) -> None:
        """Add the counts of tables and sockets to the metrics; also called when listeners have changed their tables."""
        listeners = list(self._listeners())
        tables = [each.processor.writer for each in listeners]
        live = {table: None for table in tables if table is not None}
        sockets = {each.udp: None for each in listeners if each.udp is not None}
        self._recomputation.writers = tuple(live)
        for table in live:
            self._tables.setdefault(table, _Seen())
        for listener in sockets:
            self._sockets.setdefault(listener, _Seen())
        for table, seen in self._tables.items():
            self._fold_table(table, seen)
        for listener, seen in self._sockets.items():
            self._fold_socket(listener, seen)
        sizes = {(each.server,): each.table.statistics() for each in live}
        self._entries.values = {labels: found.entries for labels, found in sizes.items()}
        self._octets.values = {labels: found.octets for labels, found in sizes.items()}
        last = {each.server: each for each in self._tables if each not in live}
        for each in self._exchanged:
            if each not in live and each not in sockets:
                self._forget(each, is_last=each in last.values())
        self._exchanged = [table for table in self._tables if table not in live]
        self._exchanged += [listener for listener in self._sockets if listener not in sockets]

    async def write_logs(self) -> None:
        """Write the log lines of hits, and release replaced tables, until cancelled."""
        self._recomputation.attach()
        while True:
            # A server that logs nothing is not woken for this.
            writers = (each.processor.writer for each in self._listeners())
            logs = any(
                each is not None and each.hit_log.is_wanted for each in (*self._tables, *writers)
            )
            before = self._exchanged
            await sleep(LOG_INTERVAL if logs else IDLE_INTERVAL)
            for table in [*self._tables]:
                for _ in range(0, LOG_LINES, LOG_SLICE):
                    if self._write_log(table, LOG_SLICE) < LOG_SLICE:
                        break
                    await sleep(0)
            # There was no scrape meanwhile, and a table takes much memory.
            if before and before is self._exchanged:
                self.fold()

    def _forget(self, each: AnswerTableWriter | UdpListener, *, is_last: bool) -> None:
        if isinstance(each, UdpListener):
            self._sockets.pop(each, None)
            return
        if is_last and self._write_log(each, LOG_SLICE) == LOG_SLICE:
            each.table.clear()  # write_logs() continues
            return
        each.hit_log.lose(each.table.discard_log())
        each.hit_log.tell(each.table.log_drops)
        self._count_drops(each, self._tables.pop(each))

    @staticmethod
    def _write_log(table: AnswerTableWriter, most: int) -> int:
        """Write at most this many lines; return how many were written."""
        if not table.hit_log.is_wanted:
            return 0
        if table.hit_log.is_refused():
            table.hit_log.lose(table.table.discard_log())
            return 0
        records = table.table.take_log(most)
        table.hit_log.write(records, client_endpoint)
        if len(records) < most:
            table.hit_log.tell(table.table.log_drops)
        return len(records)

    def _fold_table(self, writer: AnswerTableWriter, seen: _Seen) -> None:
        writer.hits.count()
        writer.count_forwarded()
        self._count_drops(writer, seen)
        found = writer.table.statistics()
        for counter, fields in ((self._lookups, _LOOKUPS), (self._changes, _CHANGES)):
            for name, each in fields.items():
                seen.add(counter, {(writer.server, name): getattr(found, each)})

    def _count_drops(self, writer: AnswerTableWriter, seen: _Seen) -> None:
        seen.add(self._log_drops, {(): writer.table.log_drops + writer.hit_log.lost})

    def _fold_socket(self, listener: UdpListener, seen: _Seen) -> None:
        dropped, errors = listener.statistics()
        counts = defaultdict[tuple[str, ...], float](float)
        for code, count in errors.items():
            counts[errno.errorcode.get(code, "UNKNOWN"),] += count
        seen.add(self._queue_drops, {(): dropped})
        seen.add(self._send_errors, counts)
        server = listener.processor.server
        for reason, count in zip(SHED_REASONS, (dropped, sum(errors.values())), strict=True):
            if (server, reason) in self._shed_drops.values:
                seen.add(self._shed_drops, {(server, reason): count})


class _Seen(dict[tuple[str, tuple[str, ...]], float]):
    """The counts of one table or socket that are already in the metrics, by metric and labels."""

    def add(self, counter: Counter, amounts: Mapping[tuple[str, ...], float]) -> None:
        """Add to a counter the increase since the last call."""
        for labels, amount in amounts.items():
            new = amount - self.get((counter.name, labels), 0)
            self[counter.name, labels] = amount
            if new:
                counter.inc(labels, new)
