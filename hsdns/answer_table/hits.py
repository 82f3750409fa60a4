"""What the hits of an answer table count as: groups of hits with the same labels.

Path: beside step 2; writer.py gives each stored reply the number of its group, server/answer_tables.py has the counts
added before each scrape.
Rule 1: a hit counts in the same metrics as a query that the chain answers.
"""

from __future__ import annotations

from typing import NamedTuple

from hsdns.answer_table.capabilities import CountsCacheHits, CountsHits, HitLabels
from hsdns.answer_table.hit_counts import HitCounts
from hsdns.answer_table.policy import BlockPolicy
from hsdns.fastpath import AnswerTable
from hsdns.wire.name import Name


class HitGroup(NamedTuple):
    """Hits that count alike; None where the block has no plugin that counts them."""

    queries: tuple[CountsHits, HitLabels] | None
    cache: tuple[CountsCacheHits, str] | None  # and as which kind


class HitGroups:
    """The groups of one answer table; the table knows them by their numbers."""

    def __init__(self, server: str, table: AnswerTable) -> None:
        self._server = server
        self._table = table
        self._numbers: dict[HitGroup, int] = {}
        self._groups: list[HitGroup] = []

    def number(
        self, zone: Name, policy: BlockPolicy, qtype: int, rcode: int, kind: str | None
    ) -> int:
        """The number of a group; `kind` is that of the cache, None where the cache does not count the reply."""
        labels = HitLabels(self._server, zone, qtype, rcode)
        group = HitGroup(
            (policy.counter, labels) if policy.counter is not None else None,
            (policy.cache, kind) if policy.cache is not None and kind is not None else None,
        )
        number = self._numbers.get(group)
        if number is None:
            number = self._numbers[group] = len(self._groups)
            self._groups.append(group)
        return number

    def count(self) -> None:
        """Add what the table has counted since the last time to the metrics."""
        for number, is_tcp, cells in self._table.take_counts():
            group, counts = self._groups[number], HitCounts.from_cells(cells)
            if group.queries is not None:
                counter, labels = group.queries
                counter.count_hits(labels, "tcp" if is_tcp else "udp", counts)
            if group.cache is not None and counts.cache_hits + counts.cache_misses:
                cache, kind = group.cache
                cache.count_cache_hits(self._server, kind, counts.cache_hits, counts.cache_misses)
