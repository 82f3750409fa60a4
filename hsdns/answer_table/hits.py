"""Counts the hits of an answer table, in groups with the same labels, and logs them.

Path: beside step 2; writer.py gives each stored reply the number of its group.  server/answer_tables.py adds the counts
before each scrape, takes records from the table at intervals and gives them to HitLog.write().
Rule 1: a hit counts in the same metrics as a query that the chain answers.
Rule 2: lines that were dropped are said once, after those that waited.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, NamedTuple

from hsdns.answer_table.capabilities import CountsCacheHits, CountsHits, HitCounts, HitLabels
from hsdns.answer_table.policy import BlockPolicy
from hsdns.chain import BlockChoice, Endpoint, Request
from hsdns.fastpath import AnswerTable, LogRecord
from hsdns.wire.decode import decode
from hsdns.wire.name import Name

# A block whose log shows the server's address has no answer table.
_UNKNOWN: Final = Endpoint("", 0)
_log = logging.getLogger("hsdns.answer_table")


class HitGroup(NamedTuple):
    """Hits that are counted together; None if the block has no plugin that counts them."""

    queries: tuple[CountsHits, HitLabels] | None
    cache: tuple[CountsCacheHits, str] | None  # with the kind


class HitGroups:
    """The groups of one answer table, which identifies them by number."""

    def __init__(self, server: str, table: AnswerTable) -> None:
        self._server = server
        self._table = table
        self._numbers: dict[HitGroup, int] = {}
        self._groups: list[HitGroup] = []
        self._adding = threading.Lock()

    def number(
        self, zone: Name, policy: BlockPolicy, qtype: int, rcode: int, kind: str | None
    ) -> int:
        """The number of a group; `kind` is the cache's kind, None if the cache does not count the reply."""
        labels = HitLabels(self._server, zone, qtype, rcode)
        group = HitGroup(
            (policy.counter, labels) if policy.counter is not None else None,
            (policy.cache, kind) if policy.cache is not None and kind is not None else None,
        )
        number = self._numbers.get(group)
        if number is None:
            with self._adding:  # replies are also computed in the watch thread (writer.py)
                number = self._numbers.get(group)
                if number is None:
                    number = len(self._groups)
                    self._groups.append(group)
                    self._numbers[group] = number
        return number

    def count(self) -> None:
        """Add the table's counts since the last call to the metrics."""
        for number, is_tcp, cells in self._table.take_counts():
            group, counts = self._groups[number], HitCounts.from_cells(cells)
            if group.queries is not None:
                counter, labels = group.queries
                counter.count_hits(labels, "tcp" if is_tcp else "udp", counts)
            if group.cache is not None and counts.cache_hits + counts.cache_misses:
                cache, kind = group.cache
                cache.count_cache_hits(self._server, kind, counts.cache_hits, counts.cache_misses)

    def forwarded(self) -> Iterator[tuple[CountsCacheHits, str, int]]:
        """The number of entries of each kind that compiled code has stored for a cache."""
        for number, count in self._table.statistics().forwarded:
            cache = self._groups[number].cache
            if cache is not None:
                yield (*cache, count)


class HitLog:
    """The log of one table; `is_wanted` says whether any block logs what the table answers.

    `lost` are the lines that were discarded and that the log has not counted.
    """

    def __init__(
        self, server: str, blocks: BlockChoice[BlockPolicy], policies: Collection[BlockPolicy]
    ) -> None:
        self._server = server
        self._blocks = blocks
        logs = [each.log for each in policies if each.log is not None and each.stores_any]
        self.is_wanted = bool(logs)
        # Finding the block of a line costs ten times as much as dropping it.
        self._drop = logs[0].drop_lines if logs and all(each.logs_all for each in logs) else None
        self.lost = 0
        self._told = 0  # of the lost lines

    def is_refused(self) -> bool:
        """Whether each hit would have a line, and none can be written now."""
        return self._drop is not None and self._drop(0)

    def lose(self, lines: int) -> None:
        """Count lines that are not made."""
        if lines and (self._drop is None or not self._drop(lines)):
            self.lost += lines

    def tell(self, dropped: int) -> None:
        """Log how many lines were lost since the last call; `dropped` are those that the table had no room for."""
        new = dropped + self.lost - self._told
        if new:
            self._told += new
            verb = "line of the log was" if new == 1 else "lines of the log were"
            _log.warning("%d %s dropped because more came than could be written", new, verb)

    def write(self, records: Sequence[LogRecord], endpoint: Callable[[bytes], Endpoint]) -> None:
        """Write the lines of hits; `endpoint` reads a socket address."""
        drop = self._drop
        for record in records:
            if drop is not None and drop():
                continue
            query = decode(record.query)
            found = self._blocks.match(query.qname, query.qtype)
            policy = found.block if found is not None else None
            if found is None or policy is None or policy.log is None:
                continue
            request = Request(
                policy.lower_payload(query),
                endpoint(record.address),
                _UNKNOWN,
                "tcp" if record.is_tcp else "udp",
                self._server,
                found.zone,
                0.0,
            )
            policy.log.log_hit(request, record)
