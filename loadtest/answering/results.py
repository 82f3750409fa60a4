"""The measurements, and the figures computed from them.

Path: run.py -> here -> goals.py, report.py.
Rule 1: a figure is the median of its rounds; the minimum is reported too.
Rule 2: a ratio is the median of the rounds' ratios, because the machine's state is similar within a round.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from loadtest.answering.mixes import DNSPERF, DRAIN
from loadtest.figures import median_of_known


class Sample(NamedTuple):
    """One server in one round.  `cpu_us`: microseconds per answered query; `lost`: share from 0 to 1."""

    mix: str
    server: str
    method: str
    round: int
    cpu_us: float
    lost: float
    rate: float | None = None  # answers a second
    p50_us: float | None = None
    p99_us: float | None = None


class WarmUp(NamedTuple):
    """The answers of a server during its warm-up, compared with those of the first server."""

    mix: str
    server: str
    asked: int
    unanswered: int
    different: int  # another rcode, or another number of records
    octets: float  # of a reply, mean


class Figures(NamedTuple):
    """One server in one mix by one method; see Sample for the units."""

    cpu_us: float
    min_us: float
    lost: float
    rounds: int
    rate: float | None
    p50_us: float | None
    p99_us: float | None


class Results(NamedTuple):
    """A whole run."""

    samples: Sequence[Sample]
    warm_ups: Sequence[WarmUp]

    def figures(self, mix: str, server: str, method: str) -> Figures | None:
        """Summarize; None if nothing was measured."""
        chosen = self._chosen(mix, server, method)
        if not chosen:
            return None
        return Figures(
            median(each.cpu_us for each in chosen),
            min(each.cpu_us for each in chosen),
            median(each.lost for each in chosen),
            len(chosen),
            median_of_known([each.rate for each in chosen]),
            median_of_known([each.p50_us for each in chosen]),
            median_of_known([each.p99_us for each in chosen]),
        )

    def ratio(self, ours: tuple[str, str], others: tuple[str, str], method: str) -> float | None:
        """Ratio of the CPU times of two (mix, server) pairs by one method; None if they share no round."""
        other = {each.round: each.cpu_us for each in self._chosen(*others, method)}
        shared = [
            each.cpu_us / other[each.round]
            for each in self._chosen(*ours, method)
            if other.get(each.round)
        ]
        return median(shared) if shared else None

    def best_ratio(
        self, ours: tuple[str, str], others: tuple[str, str]
    ) -> tuple[float, str] | None:
        """The ratio by the more stable method that both have, and that method."""
        for method in (DRAIN, DNSPERF):
            found = self.ratio(ours, others, method)
            if found is not None:
                return found, method
        return None

    def warm_up(self, mix: str, server: str) -> WarmUp | None:
        """The answers of a server during its warm-up, if there was one."""
        return next((r for r in self.warm_ups if (r.mix, r.server) == (mix, server)), None)

    def _chosen(self, mix: str, server: str, method: str) -> list[Sample]:
        wanted = (mix, server, method)
        return [each for each in self.samples if (each.mix, each.server, each.method) == wanted]
