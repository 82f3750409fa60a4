"""The counts of hits that have a group and a transport in common, by name.

Path: AnswerTable.take_counts() gives a plain list of numbers; hits.py wraps it, `prometheus` and `cache` read it.
Rule 1: the positions of the numbers are those of fastpath/hit_counts.py, which both twins share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

from hsdns.fastpath import hit_counts as layout


class HitCounts(NamedTuple):
    """Queries by family of the client's address, with DO, by size and duration, and how they count for `cache`.

    The sizes and durations are what metrics.Histogram.add() takes: counts by class, then the sum (octets, seconds).
    """

    ipv4: int
    ipv6: int
    do: int
    request_sizes: Sequence[float]
    response_sizes: Sequence[float]
    durations: Sequence[float]
    cache_hits: int
    cache_misses: int

    @classmethod
    def from_cells(cls, cells: Sequence[int]) -> Self:
        """Name the numbers of one row of take_counts()."""
        return cls(
            ipv4=cells[layout.CELL_IPV4],
            ipv6=cells[layout.CELL_IPV6],
            do=cells[layout.CELL_DO],
            request_sizes=cells[layout.CELL_REQUEST_SIZES : layout.CELL_REPLY_SIZES],
            response_sizes=cells[layout.CELL_REPLY_SIZES : layout.CELL_TIMES],
            durations=(
                *cells[layout.CELL_TIMES : layout.CELL_TIME_SUM],
                cells[layout.CELL_TIME_SUM] / 1e9,
            ),
            cache_hits=cells[layout.CELL_CACHE_HITS],
            cache_misses=cells[layout.CELL_CACHE_MISSES],
        )

    @property
    def queries(self) -> int:
        """All of them."""
        return self.ipv4 + self.ipv6
