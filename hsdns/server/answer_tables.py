"""The answer tables of all listeners: made with the chains, exchanged with them, counted at every scrape.

Path: lifecycle.py, beside the sockets; plugins/prometheus.py has fold() called before it shows the metrics.
Rule 1: a table that was exchanged is counted once more a little later, at the latest at the next scrape, since a
        worker may have been amid a batch.
Rule 2: the table of an address that a reload takes away answers on until that closes; so long it is counted and logged.
"""

from __future__ import annotations

import errno
from asyncio import sleep
from collections.abc import Mapping, Sequence
from typing import Final

from hsdns.answer_table.policy import BlockPolicy
from hsdns.answer_table.writer import AnswerTableWriter
from hsdns.assemble import ListenAddress
from hsdns.fastpath import IMPLEMENTATION, Versions
from hsdns.metrics import Registry
from hsdns.server.datagram import client_endpoint
from hsdns.server.udp import UdpListener
from hsdns.wire.name import Name


def make_writer(
    server: str, blocks: Mapping[Name, BlockPolicy], versions: Versions
) -> AnswerTableWriter | None:
    """The answer table of a listener with its writer; None where no reply of its blocks may be stored."""
    writer = AnswerTableWriter(server, blocks, versions)
    return writer if writer.is_needed else None


LOG_INTERVAL: Final = 0.05  # seconds between looks at what is to be logged
IDLE_INTERVAL: Final = 2.0
LOG_LINES: Final = 500  # at a time, some milliseconds of work: 10,000 lines a second
MAX_LOG_LINES: Final = 65_536  # what waits when a table ends


class AnswerTables:
    """All tables of the process, and what the UDP sockets have counted."""

    def __init__(self, metrics: Registry) -> None:
        self._keepers: list[AnswerTableWriter] = []
        self._old: list[AnswerTableWriter] = []
        self._leaving: list[AnswerTableWriter] = []
        self._leaving_udp: list[UdpListener] = []
        self._udp: Mapping[ListenAddress, UdpListener] = {}
        self._seen: dict[tuple[str, object], dict[str, float]] = {}  # what was counted, and by whom
        self._lost = metrics.counter(
            "hsdns_udp_send_errors_total",
            "Replies that the kernel did not take, by its reason.",
            ("errno",),
        )
        self._dropped = metrics.counter(
            "hsdns_udp_queue_drops_total",
            "Queries dropped because too many waited for an answer that was not known.",
        )
        self._unlogged = metrics.counter(
            "hsdns_log_drops_total",
            "Lines of the query log that were left out because more came than could be written.",
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

    def use(
        self,
        keepers: Mapping[ListenAddress, AnswerTableWriter | None],
        udp: Mapping[ListenAddress, UdpListener],
        leaving: Sequence[AnswerTableWriter] = (),
        leaving_udp: Sequence[UdpListener] = (),
    ) -> None:
        """Count these from now on, and until let_go() those of listeners that are `leaving`."""
        self._write_logs(MAX_LOG_LINES)
        self.fold()
        self._leaving += leaving
        self._leaving_udp += leaving_udp
        self._old = [
            keeper
            for keeper in self._keepers
            if keeper not in keepers.values() and keeper not in self._leaving
        ]
        self._keepers = [keeper for keeper in keepers.values() if keeper is not None]
        self._udp = udp
        self._forget()

    def let_go(
        self, left: Sequence[AnswerTableWriter], left_udp: Sequence[UdpListener] = ()
    ) -> None:
        """Count those of listeners that have closed once more; each was `leaving`."""
        self._write_logs(MAX_LOG_LINES)
        self.fold()
        for keeper in left:
            self._leaving.remove(keeper)
        for listener in left_udp:
            self._leaving_udp.remove(listener)
        kept = (*self._keepers, *self._leaving)
        self._old = [*self._old, *(keeper for keeper in left if keeper not in kept)]
        self._forget()

    def _forget(self) -> None:
        """Forget what was seen of others than those that count, and show no tables until the next fold()."""
        sources = {*self._all(), *self._listeners()}
        self._seen = {key: seen for key, seen in self._seen.items() if key[1] in sources}
        for gauge in (self._entries, self._octets):
            gauge.values.clear()

    def finish(self) -> None:
        """Count and log what is left; the sockets are closed."""
        self._write_logs(MAX_LOG_LINES)
        self.fold()

    def fold(self) -> None:
        """Add to the metrics what has been counted beside them."""
        for keeper in self._all():
            keeper.hits.count()
            self._fold_log(keeper)
        if self._old:
            old = set(self._old)
            self._seen = {key: seen for key, seen in self._seen.items() if key[1] not in old}
            self._old.clear()
        for keeper in (*self._leaving, *self._keepers):
            self._fold_statistics(keeper)
        for listener in self._listeners():
            dropped, errors = listener.statistics()
            found = {"dropped": float(dropped)}
            found |= {errno.errorcode.get(code, "UNKNOWN"): count for code, count in errors.items()}
            for name, amount in self._new("udp", listener, found).items():
                if name == "dropped":
                    self._dropped.inc((), amount)
                elif amount:
                    self._lost.inc((name,), amount)

    def _fold_log(self, keeper: AnswerTableWriter) -> None:
        found = {"dropped": float(keeper.table.log_drops)}
        for amount in self._new("log", keeper, found).values():
            self._unlogged.inc((), amount)

    async def write_logs(self) -> None:
        """Write the lines about what the tables have answered, and let go of old tables, until cancelled."""
        while True:
            # A server that logs nothing is not woken for it.
            logs = any(keeper.hit_log.is_wanted for keeper in (*self._leaving, *self._keepers))
            aged = self._old
            await sleep(LOG_INTERVAL if logs else IDLE_INTERVAL)
            self._write_logs(LOG_LINES)
            if aged and aged is self._old:  # nobody scrapes, and a table is many octets
                self.fold()

    def _write_logs(self, most: int) -> None:
        for keeper in self._all():
            if keeper.hit_log.is_wanted:
                keeper.hit_log.write(keeper.table.take_log(most), client_endpoint)

    def _all(self) -> tuple[AnswerTableWriter, ...]:
        return (*self._old, *self._leaving, *self._keepers)

    def _listeners(self) -> tuple[UdpListener, ...]:
        return (*self._leaving_udp, *self._udp.values())

    def _fold_statistics(self, keeper: AnswerTableWriter) -> None:
        found = keeper.table.statistics()
        server = keeper.server
        self._entries.set(found.entries, (server,))
        self._octets.set(found.octets, (server,))
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
        for counter, amounts in ((self._lookups, lookups), (self._changes, changes)):
            for name, amount in self._new(counter.name, keeper, amounts).items():
                if amount:
                    counter.inc((server, name), amount)

    def _new(self, what: str, source: object, amounts: Mapping[str, float]) -> dict[str, float]:
        """What has been added since the last time."""
        seen = self._seen.get((what, source), {})
        self._seen[what, source] = dict(amounts)
        return {name: amount - seen.get(name, 0) for name, amount in amounts.items()}
