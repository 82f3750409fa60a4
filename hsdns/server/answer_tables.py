"""The answer tables of all listeners: counted at every scrape, logged every LOG_INTERVAL.

Path: lifecycle.py, beside the sockets; plugins/prometheus.py has fold() called before it shows the metrics.
Rule 1: a table counts while any listener has it.  After that it is counted twice: by the fold that finds it exchanged,
        and by the next one, since a worker may have been in the middle of a batch.
Rule 2: each count is added once and each line written once, however often fold() is called.
Rule 3: lines are written some in a turn, those of a table that was exchanged too: 65,536 may wait, which take seconds.
        It is kept until they are written, but only the last one of a listener: with its lines and the configuration
        that it belongs to it has 10 MB and more, and a loop that has much to do writes slower than reloads come.
        Only the end of the process writes all lines at once.
Rule 4: while nobody reads the log, lines are discarded where they wait, without a look at them.
"""

from __future__ import annotations

import errno
from asyncio import sleep
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from hsdns.answer_table.policy import BlockPolicy
from hsdns.answer_table.writer import AnswerTableWriter
from hsdns.fastpath import IMPLEMENTATION, Versions
from hsdns.metrics import Counter, Registry
from hsdns.server.datagram import client_endpoint
from hsdns.server.listener import Listener
from hsdns.server.query_tap import QueryTap
from hsdns.server.recomputation import Recomputation
from hsdns.server.udp_listener import UdpListener
from hsdns.wire.name import Name

LOG_INTERVAL: Final = 0.05  # seconds between looks at what is to be logged
IDLE_INTERVAL: Final = 2.0
LOG_LINES: Final = 500  # in an interval, of a table: 10,000 lines a second
LOG_SLICE: Final = 16  # lines in a turn of the loop: half a millisecond
MAX_LOG_LINES: Final = 65_536  # that are written at the end
SHED_REASONS: Final = ("query", "response")


def make_writer(
    server: str,
    blocks: Mapping[Name, BlockPolicy],
    versions: Versions,
    queries: QueryTap | None = None,
) -> AnswerTableWriter | None:
    """The answer table of a listener with its writer; None where no reply of its blocks may be stored."""
    tap = (None, 0) if queries is None else (queries.tap, queries.source(server))
    writer = AnswerTableWriter(server, blocks, versions, *tap)
    return writer if writer.is_needed else None


def shed_drops(metrics: Registry) -> Counter:
    """The counter of `shed`; it counts for the servers that it has values of."""
    return metrics.counter(
        "coredns_shed_dropped_total",
        "Counter of queries and responses dropped, per server, by reason.",
        ("server", "reason"),
    )


class AnswerTables:
    """All tables of the process, and what the UDP sockets have counted.

    `listeners` gives those of all configurations, the one that serves last: its tables are the ones that gauges show.
    `recomputation` are told of all tables.
    """

    def __init__(
        self,
        metrics: Registry,
        listeners: Callable[[], Iterable[Listener]],
        recomputation: Recomputation | None = None,
    ) -> None:
        self._listeners = listeners
        self._recomputation = recomputation
        # What was seen of each that is counted, by the counter's name; a dict, for its order.
        self._tables: dict[AnswerTableWriter, _Seen] = {}
        self._sockets: dict[UdpListener, _Seen] = {}
        self._exchanged: list[AnswerTableWriter | UdpListener] = []  # counted once more
        self._send_errors = metrics.counter(
            "hsdns_udp_send_errors_total",
            "Replies that the kernel did not take, by its reason.",
            ("errno",),
        )
        self._queue_drops = metrics.counter(
            "hsdns_udp_queue_drops_total",
            "Queries dropped because too many waited for an answer that was not known.",
        )
        self._shed_drops = shed_drops(metrics)
        self._log_drops = metrics.counter(
            "hsdns_log_drops_total",
            "Lines of the log that were dropped because more came than could be written.",
        )
        self._entries = metrics.gauge("hsdns_table_entries", "Answers in the table.", ("server",))
        self._octets = metrics.gauge(
            "hsdns_table_bytes", "Memory of the answers in the table.", ("server",)
        )
        self._lookups = metrics.counter(
            "hsdns_table_lookups_total",
            "Questions that the table was asked: hit, region (no such name), miss, unusual.",
            ("server", "result"),
        )
        self._changes = metrics.counter(
            "hsdns_table_changes_total",
            "What became of answers: learned, refused, stale (an event came), evicted.",
            ("server", "what"),
        )
        metrics.gauge(
            "hsdns_fastpath_info", "The fast path that runs: rust or python.", ("implementation",)
        ).set(1, (IMPLEMENTATION,))
        metrics.before_collect(self.fold)

    def settle(self) -> None:
        """Count what there is; called when listeners have exchanged their tables, or closed."""
        self.fold()

    def close(self) -> None:
        """Log and count what there is; called when all listeners have closed."""
        if self._recomputation is not None:
            self._recomputation.detach()
        for table in self._tables:
            self._write_log(table, MAX_LOG_LINES)
        self.fold()

    def fold(self) -> None:
        """Add to the metrics what has been counted beside them."""
        listeners = list(self._listeners())
        tables = [each.processor.writer for each in listeners]
        live = {table: None for table in tables if table is not None}
        sockets = {each.udp: None for each in listeners if each.udp is not None}
        if self._recomputation is not None:
            self._recomputation.writers = tuple(live)
        for table in live:
            self._tables.setdefault(table, _Seen())
        for listener in sockets:
            self._sockets.setdefault(listener, _Seen())
        for table, seen in self._tables.items():
            self._fold_table(table, seen)
        for listener, seen in self._sockets.items():
            self._fold_socket(listener, seen)
        self._show_sizes(live)
        last = {each.server: each for each in self._tables if each not in live}
        for each in self._exchanged:
            if each not in live and each not in sockets:
                self._forget(each, is_last=each in last.values())
        self._exchanged = [table for table in self._tables if table not in live]
        self._exchanged += [listener for listener in self._sockets if listener not in sockets]

    async def write_logs(self) -> None:
        """Write the lines about what the tables have answered, and forget exchanged tables, until cancelled."""
        if self._recomputation is not None:
            self._recomputation.attach_main()
        while True:
            # A server that logs nothing is not woken for it.
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
            # No scrape has come, and a table is many octets.
            if before and before is self._exchanged:
                self.fold()

    def _forget(self, each: AnswerTableWriter | UdpListener, *, is_last: bool) -> None:
        if isinstance(each, UdpListener):
            self._sockets.pop(each, None)
            return
        if is_last and self._write_log(each, LOG_SLICE) == LOG_SLICE:
            each.table.clear()  # write_logs() has more to do
            return
        each.hit_log.lose(each.table.discard_log())
        self._count_drops(each, self._tables.pop(each))

    @staticmethod
    def _write_log(table: AnswerTableWriter, most: int) -> int:
        """Write so many lines at most; return how many there were."""
        if not table.hit_log.is_wanted:
            return 0
        if table.hit_log.is_refused():
            table.hit_log.lose(table.table.discard_log())
            return 0
        records = table.table.take_log(most)
        table.hit_log.write(records, client_endpoint)
        return len(records)

    def _fold_table(self, writer: AnswerTableWriter, seen: _Seen) -> None:
        writer.hits.count()
        self._count_drops(writer, seen)
        found, server = writer.table.statistics(), writer.server
        lookups = {
            "hit": found.hits,
            "region": found.negative_hits,
            "miss": found.misses,
            "unusual": found.not_plain,
        }
        changes = {
            "learned": found.stored,
            "refused": found.refused,
            "stale": found.stale,
            "evicted": found.evicted,
        }
        seen.add(self._lookups, {(server, name): count for name, count in lookups.items()})
        seen.add(self._changes, {(server, name): count for name, count in changes.items()})

    def _count_drops(self, writer: AnswerTableWriter, seen: _Seen) -> None:
        seen.add(self._log_drops, {(): writer.table.log_drops + writer.hit_log.lost})

    def _fold_socket(self, listener: UdpListener, seen: _Seen) -> None:
        dropped, errors = listener.statistics()
        names = {code: errno.errorcode.get(code, "UNKNOWN") for code in errors}
        counts: dict[tuple[str, ...], float] = {}
        for code, count in errors.items():
            counts[(names[code],)] = counts.get((names[code],), 0) + count
        seen.add(self._queue_drops, {(): dropped})
        seen.add(self._send_errors, counts)
        server = listener.processor.server
        for reason, count in zip(SHED_REASONS, (dropped, sum(errors.values())), strict=True):
            if (server, reason) in self._shed_drops.values:
                seen.add(self._shed_drops, {(server, reason): count})

    def _show_sizes(self, live: Iterable[AnswerTableWriter]) -> None:
        entries: dict[tuple[str, ...], float] = {}
        octets: dict[tuple[str, ...], float] = {}
        for writer in live:
            found = writer.table.statistics()
            entries[(writer.server,)], octets[(writer.server,)] = found.entries, found.octets
        self._entries.values, self._octets.values = entries, octets


class _Seen(dict[tuple[str, tuple[str, ...]], float]):
    """What has been added to the metrics for one table or socket, by metric and labels."""

    def add(self, counter: Counter, amounts: Mapping[tuple[str, ...], float]) -> None:
        """Add to a counter what has come since the last time."""
        for labels, amount in amounts.items():
            new = amount - self.get((counter.name, labels), 0)
            self[counter.name, labels] = amount
            if new:
                counter.inc(labels, new)
