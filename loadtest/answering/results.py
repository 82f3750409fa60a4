"""The measurements, the figures computed from them, their limits, and the tables on the terminal and the page.

Path: run.py -> Results -> judge(), section() -> __main__.py.
Rule 1: a figure is the median of its rounds; the minimum is reported too.
Rule 2: a ratio is the median of the rounds' ratios, because the machine's state is similar within a round.
Rule 3: a goal is judged by the more stable method that both sides have; the other method's ratio is shown too.  One
        that was not selected is not judged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from loadtest.answering.mixes import BUSIEST, DNSPERF, DRAIN, Mix
from loadtest.bench import Rows, listed, markdown
from loadtest.figures import Verdict, limit_of, median_of_known, read_goals
from loadtest.programs import ECHO, TITLES

NAME: Final = "bench"  # in the marks of the page
_HEAD = [
    "server", "drain µs", "least", "/ echo", "dnsperf µs", "/ echo", "answers/s", "p50 µs", "p99 µs", "octets",
    "remarks",
]  # fmt: skip
Side = tuple[str, str]  # a mix and a server
Summary = Callable[[Sequence[Any]], float | None]


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


class Results(NamedTuple):
    """A whole run."""

    samples: Sequence[Sample]
    warm_ups: Sequence[WarmUp]

    def figure(
        self, mix: str, server: str, method: str, name: str, of: Summary = median_of_known
    ) -> float | None:
        """A figure of one server in one mix by one method; see Sample for names and units."""
        return of([getattr(each, name) for each in self._chosen(mix, server, method)])

    def ratio(self, ours: Side, others: Side, method: str) -> float | None:
        """Ratio of the CPU times of two (mix, server) pairs by one method; None if they share no round."""
        other = {each.round: each.cpu_us for each in self._chosen(*others, method)}
        shared = [
            each.cpu_us / other[each.round]
            for each in self._chosen(*ours, method)
            if other.get(each.round)
        ]
        return median(shared) if shared else None

    def best_ratio(self, ours: Side, others: Side) -> tuple[float, str] | None:
        """The ratio by the more stable method that both have, and that method."""
        for method in (BUSIEST, DRAIN, DNSPERF):
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


class Goal(NamedTuple):
    """The ratio of `ours` to `others` (each a mix and a server): at most `limit` if given, ideally at most `aim`."""

    what: str
    ours: Side
    others: Side
    limit: float | None
    aim: float | None = None


def _side(words: str) -> Side:
    mix, server = words.split()
    return mix, server


GOALS: Final = [
    Goal(what, _side(ours), _side(others), limit_of(limit), limit_of(aim))
    for what, ours, others, limit, aim in read_goals(Path(__file__).with_name("goals.txt"), 5)
]


def judge(results: Results, mixes: Collection[str], servers: Collection[str]) -> list[Verdict]:
    """Judge every goal whose mixes and servers were selected."""
    verdicts = []
    for goal in GOALS:
        sides = (goal.ours, goal.others)
        if all(mix in mixes and server in servers for mix, server in sides):
            value, method = results.best_ratio(*sides) or (None, "")
            beside = results.ratio(*sides, DNSPERF) if method == DRAIN else None
            verdicts.append(
                Verdict(goal, value, goal.limit, goal.aim, beside=(method, _number(beside)))
            )
    return verdicts


# --- tables ---


def mix_rows(results: Results, mix: Mix) -> Rows:
    """The table of a mix with its header; only the header if nothing was measured."""
    return [_HEAD, *(row for key in TITLES if (row := _row(results, mix, key)) is not None)]


def _row(results: Results, mix: Mix, key: str) -> list[str] | None:
    drained, loaded = (partial(results.figure, mix.key, key, each) for each in (DRAIN, DNSPERF))
    cpu, missing, lost = drained("cpu_us"), drained("lost"), loaded("lost")
    if cpu is None and lost is None:
        return None
    warm_up = results.warm_up(mix.key, key)
    remarks = []
    if missing is not None and missing > 0.01:
        remarks.append(f"drain: kept {1 - missing:.0%}")
    if lost is not None and lost > 0.001:
        remarks.append(f"dnsperf: lost {lost:.1%}")
    if warm_up is not None and warm_up.different:
        remarks.append(f"{warm_up.different / warm_up.asked:.1%} answered differently")
    if warm_up is not None and warm_up.unanswered:
        remarks.append(f"{warm_up.unanswered / warm_up.asked:.1%} unanswered")
    if (busiest := results.figure(mix.key, key, BUSIEST, "cpu_us")) is not None:
        remarks.append(f"busiest thread: {_number(busiest)} µs")
    side, echo = (mix.key, key), (mix.key, ECHO)
    return [
        TITLES[key],
        _number(cpu),
        _number(drained("cpu_us", partial(min, default=None))),
        _number(results.ratio(side, echo, DRAIN)),
        _number(loaded("cpu_us")),
        _number(results.ratio(side, echo, DNSPERF)),
        *(_integer(loaded(each)) for each in ("rate", "p50_us", "p99_us")),
        _integer(warm_up and warm_up.octets),
        "; ".join(remarks),
    ]


def goal_rows(verdicts: Sequence[Verdict]) -> Rows:
    """The table of the goals with its header."""
    rows = [["ratio", "measured", "by", "dnsperf", "limit", "aim", "verdict"]]
    for each in verdicts:
        value, limit, aim = map(_number, (each.value, each.limit, each.aim))
        rows.append([each.goal.what, value, *each.beside, limit, aim, each.word])
    return rows


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if value < 0.1 else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def _integer(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def section(
    results: Results, mixes: Sequence[Mix], verdicts: Sequence[Verdict], context: Mapping[str, str]
) -> str:
    """The section between the marks of the page."""
    parts = ["The figures are those of this run:", listed(context)]
    if verdicts:
        parts.append("### Goals\n\n" + markdown(goal_rows(verdicts)).rstrip())
    for mix in mixes:
        title = f"### {mix.key}\n\n{mix.title[0].upper()}{mix.title[1:]}.\n"
        rows = mix_rows(results, mix)
        parts.append(f"{title}\n{markdown(rows)}".rstrip() if len(rows) > 1 else "")
    return "\n\n".join(part for part in parts if part)
