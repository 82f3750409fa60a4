"""What was measured, and the figures made of it.

Path: run.py -> here -> goals.py, report.py, plot.py.
Rule 1: a figure is the median of its rounds; the least is kept beside it.
Rule 2: a ratio is the median of the rounds' own ratios: both servers of a round met the machine in the same mood.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any, NamedTuple

from loadtest.answering.mixes import DNSPERF, DRAIN
from loadtest.figures import middle


class Sample(NamedTuple):
    """One server in one round.  `cpu_us`: microseconds a query that was answered; `lost`: share of 0 to 1."""

    mix: str
    server: str
    method: str
    round: int
    cpu_us: float
    lost: float
    rate: float | None = None  # answers a second
    p50_us: float | None = None
    p99_us: float | None = None


class Reach(NamedTuple):
    """What a server answered while it was warmed up, beside the first server's answers."""

    mix: str
    server: str
    asked: int
    unanswered: int
    different: int  # other rcode, or another count of records
    octets: float  # of a reply, mean


class Figures(NamedTuple):
    """One server in one mix by one method; see Sample for the units."""

    cpu_us: float
    least_us: float
    lost: float
    rounds: int
    rate: float | None
    p50_us: float | None
    p99_us: float | None


class Results(NamedTuple):
    """A whole run."""

    samples: Sequence[Sample]
    reaches: Sequence[Reach]

    def figures(self, mix: str, server: str, method: str) -> Figures | None:
        """Sum up; None where nothing was measured."""
        chosen = self._chosen(mix, server, method)
        if not chosen:
            return None
        return Figures(
            median(each.cpu_us for each in chosen),
            min(each.cpu_us for each in chosen),
            median(each.lost for each in chosen),
            len(chosen),
            middle([each.rate for each in chosen]),
            middle([each.p50_us for each in chosen]),
            middle([each.p99_us for each in chosen]),
        )

    def ratio(self, ours: tuple[str, str], others: tuple[str, str], method: str) -> float | None:
        """CPU time of one (mix, server) over another's by one method; None where they share no round."""
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
        """The ratio by the steadier method that both have, and which method that is."""
        for method in (DRAIN, DNSPERF):
            found = self.ratio(ours, others, method)
            if found is not None:
                return found, method
        return None

    def reach(self, mix: str, server: str) -> Reach | None:
        """What the server answered at all."""
        return next((r for r in self.reaches if (r.mix, r.server) == (mix, server)), None)

    def to_json(self) -> dict[str, Any]:
        """Everything, for a file."""
        return {
            "samples": [each._asdict() for each in self.samples],
            "reaches": [each._asdict() for each in self.reaches],
        }

    def _chosen(self, mix: str, server: str, method: str) -> list[Sample]:
        wanted = (mix, server, method)
        return [each for each in self.samples if (each.mix, each.server, each.method) == wanted]
