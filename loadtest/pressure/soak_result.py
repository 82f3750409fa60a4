"""The result of a soak, whether it is within the limits, and its table on the terminal and in the docs.

Path: soak.py -> scrape(), between(), Soak -> rows(), section() -> __main__.py.
Rule 1: memory is flat if the line through the second half of its samples rises by at most FLAT octets an hour, or by at
        most NOISE octets over the half: a short soak has too few samples for an hour's slope.
Rule 2: events and /health have the limits of the rows (results.py), and at least JUDGED answers a second must have been
        judged, because a silent server is not right.  An event is applied when the server can answer with it, and shown
        by the first answer that a client gets.
Rule 3: the worst delay counts without the time in which a process that only wakes was late, too, by LONG or more
        (machine.py): no server on these cores can do anything then.  The table shows the machine's own delays beside
        the server's.
Rule 4: the server says itself how soon events are applied, in buckets: of a time the bounds of its bucket are known.
        Where a limit is within the bucket, the time until they were shown decides, which is longer, and known of each
        event that the judge waits for.  What is not known is None, with a sentence that says why.
Rule 5: slices that exist when a server starts, or lists again, are in the metric with their age; those that were last
        changed longer than OLDEST ago are left out.
Rule 6: what presses has a lower priority than the server, so that it must have sent at least SENT of its rate.
Rule 7: after the soak, an honest client's p99 QUIET_AFTER seconds after the end must be at most 3 times the one before.
"""

from __future__ import annotations

import http.client
import urllib.request
from collections.abc import Mapping, Sequence
from statistics import linear_regression
from typing import Final, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from hsdns.load.verify.judge import STALE, WRONG
from loadtest.bench import Rows, listed, markdown
from loadtest.pressure.judge import FAILED
from loadtest.pressure.machine import RATE, Machine, without
from loadtest.pressure.results import EVENT_P99_MS, EVENT_WORST_MS, KUBEADM_MB, MB, PROBES_ANSWERED
from loadtest.programs import TITLES

METRIC: Final = "coredns_kubernetes_dns_programming_duration_seconds"
OLDEST: Final = 60.0  # seconds
_TIMEOUT: Final = 10.0

Buckets = Mapping[float, float]  # upper bound in seconds -> changes that took at most as long


class Scraped(NamedTuple):
    """The buckets of a server at one time, or why they are unknown."""

    buckets: Buckets
    failure: str = ""


class Bounds(NamedTuple):
    """Of a time: it is above `above` and at most `most`, in seconds."""

    above: float
    most: float


class Applied(NamedTuple):
    """The number of changes, and their times; `unknown` says why there are none."""

    changes: int
    p99: Bounds | None
    worst: Bounds | None
    unknown: str = ""


def scrape(port: int) -> Scraped:
    """Read the metric of a server on this machine."""
    address = f"http://127.0.0.1:{port}/metrics"
    try:
        with urllib.request.urlopen(address, timeout=_TIMEOUT) as reply:
            return Scraped(read(reply.read().decode()))
    except (OSError, http.client.HTTPException, ValueError) as error:
        return Scraped({}, f"{address} does not say how soon events are applied: {error}")


def read(text: str) -> dict[float, float]:
    """The buckets of all kinds of Service together; empty without any."""
    found: dict[float, float] = {}
    for family in text_string_to_metric_families(text):
        if family.name == METRIC:
            for sample in family.samples:
                if sample.name == f"{METRIC}_bucket":
                    bound = float(sample.labels["le"])
                    found[bound] = found.get(bound, 0.0) + sample.value
    return found


def between(before: Scraped, after: Scraped) -> Applied:
    """The changes that were applied between two scrapes."""
    failure = before.failure or after.failure
    counts = {
        bound: count - before.buckets.get(bound, 0.0)
        for bound, count in sorted(after.buckets.items())
        if bound <= OLDEST
    }
    changes = max(counts.values(), default=0.0)
    if failure or not changes:
        return Applied(0, None, None, failure or f"{METRIC} counts no event that was applied")
    return Applied(int(changes), _bucket(counts, 0.99 * changes), _bucket(counts, changes))


def _bucket(counts: Buckets, least: float) -> Bounds:
    above = 0.0
    for bound, count in counts.items():
        if count >= least:
            return Bounds(above, bound)
        above = bound
    raise AssertionError("the last bucket has all changes")


QUIET_AFTER: Final = 2.0  # seconds
SLOWER: Final = 3.0  # times
JUDGED: Final = 100  # answers a second
SENT: Final = 0.95  # of the rate of each pressing client
FLAT: Final = 10 * MB  # octets an hour
NOISE: Final = 5 * MB
_FIRST: Final = 60.0  # seconds after the start: most of a server's memory is in use


class Check(NamedTuple):
    """A figure and its limit in words, whether it holds, and the sentence for a violation."""

    figure: str
    measured: str
    limit: str
    holds: bool
    sentence: str


class Soak(NamedTuple):
    """The result.  Seconds, octets, microseconds; `memory`: time since the start and resident octets.

    `shown_p99` and `shown_worst` are None if no event was waited for; `ended` says why the server or the soak ended
    early.
    """

    server: str
    seconds: float
    changes: int = 0
    judged: dict[str, int] = {}  # noqa: RUF012 - a default that nothing changes
    worst_age: float = 0.0  # of a stale answer
    shown_p99: float | None = None
    shown_worst: float | None = None
    applied: Applied = Applied(0, None, None)
    health: float = 0.0  # share
    memory: Sequence[tuple[float, int]] = ()
    quiet_p99_us: float = 0.0
    after_p99_us: float = 0.0
    after_share: float = 0.0
    machine: Machine | None = None
    slow: Sequence[tuple[float, float]] = ()  # events that were shown late: written and shown when
    sent: float = 1.0  # the least share of its rate that a pressing client has sent
    ended: str = ""

    @property
    def slope(self) -> float:
        """The rise of the second half of the samples, in octets an hour."""
        return slope(self._half()) * 3600

    def _half(self) -> Sequence[tuple[float, int]]:
        return self.memory[len(self.memory) // 2 :]

    @property
    def own_worst(self) -> float | None:
        """The worst delay without the machine's own, in seconds; None if no event was waited for."""
        if self.shown_worst is None or self.machine is None:
            return self.shown_worst
        gaps = self.machine.gaps
        return max((without(gaps, *event) for event in self.slow), default=self.shown_worst)

    @property
    def is_flat(self) -> bool:
        """Whether memory does not grow."""
        half = self._half()
        rise = slope(half) * (half[-1][0] - half[0][0]) if half else 0.0
        return self.slope <= FLAT or rise <= NOISE

    @property
    def checks(self) -> list[Check]:
        """All figures with a limit; none for a server that ended."""
        if self.ended:
            return []
        rate = (sum(self.judged.values()) - self.judged.get(FAILED, 0)) / self.seconds
        wrong, all_judged = (
            self.judged.get(STALE, 0) + self.judged.get(WRONG, 0),
            sum(self.judged.values()),
        )
        age = f", by {self.worst_age * 1e3:,.0f} ms at most" if wrong else ""
        found, own_worst = self.applied, self.own_worst
        soon = f"{EVENT_P99_MS:.0f}, {EVENT_WORST_MS:.0f}"
        p99, worst, own = map(_ms, (self.shown_p99, self.shown_worst, own_worst))
        within = _told(found.p99, EVENT_P99_MS), _told(found.worst, EVENT_WORST_MS)
        rise, most = self.slope / MB, max((octets for _, octets in self.memory), default=0) / MB
        early = next((octets for at, octets in self.memory if at >= _FIRST), 0) / MB
        end = self.memory[-1][1] / MB if self.memory else 0.0
        before, after = self.quiet_p99_us / 1e3, self.after_p99_us / 1e3
        return [Check(*row) for row in (
            ("sent of what each pressing client should send", f"{self.sent:.1%}", f"at least {SENT:.0%}",
             self.sent >= SENT, f"a pressing client has sent {self.sent:.1%} of what it should send"),
            ("answers judged, a second", f"{rate:,.0f}", f"at least {JUDGED}",
             rate >= JUDGED, f"only {rate:.0f} answers a second were judged"),
            ("events applied: 99 % and all within, ms", ", ".join(within), soon,
             _is_soon(found.p99, self.shown_p99, EVENT_P99_MS)
             and _is_soon(found.worst, own_worst, EVENT_WORST_MS),
             found.unknown or f"99 % of {found.changes:,} events were applied within {within[0]} ms, "
             f"and all within {within[1]} ms"),
            ("events shown: p99, ms", p99, f"{EVENT_P99_MS:.0f}",
             self.shown_p99 is not None and self.shown_p99 * 1e3 <= EVENT_P99_MS,
             "no event was waited for" if self.shown_p99 is None else f"events were shown after {p99} ms (p99)"),
            ("the worst, and without the time in which a process that only wakes was late, ms",
             f"{worst}, {own}", f"any, {EVENT_WORST_MS:.0f}",
             own_worst is None or own_worst * 1e3 <= EVENT_WORST_MS,
             f"an event was shown after {own} ms, without the machine's own delays"),
            ("/health answered", f"{self.health:.1%}", f"at least {PROBES_ANSWERED:.0%}",
             self.health >= PROBES_ANSWERED, f"/health answered {self.health:.1%} of the probes"),
            ("answers stale or wrong", f"{wrong:,} of {all_judged:,}{age}", "0",
             not wrong, f"{wrong:,} answers were stale or wrong{age}"),
            ("memory after a minute, at the end, most, MB", f"{early:,.0f}, {end:,.0f}, {most:,.0f}", f"{KUBEADM_MB}",
             most <= KUBEADM_MB, f"memory was {most:,.0f} MB, and may be {KUBEADM_MB} MB"),
            ("its rise in the second half, MB an hour", f"{rise:,.0f}", f"{FLAT / MB:.0f}",
             self.is_flat, f"memory rises by {rise:.0f} MB an hour in the second half"),
            (f"p99 of an honest client before, and {QUIET_AFTER:.0f} s after, ms",
             f"{before:.2f}, {after:.2f}", f"at most {SLOWER:.0f} times",
             self.after_share >= 1 and after <= SLOWER * before,
             f"{QUIET_AFTER:.0f} s after the end p99 is {after:.1f} ms, before it was {before:.1f} ms, "
             f"and {self.after_share:.1%} is answered"),
        )]  # fmt: skip

    @property
    def faults(self) -> list[str]:
        """The violated limits, as sentences."""
        if self.ended:
            return [self.ended]
        return [check.sentence for check in self.checks if not check.holds]


def _is_soon(applied: Bounds | None, shown: float | None, limit: float) -> bool:
    """Whether events were applied within a limit in ms, which some were shown after so many seconds."""
    if applied is None:
        return False
    if applied.above * 1e3 < limit < applied.most * 1e3:
        return shown is not None and shown * 1e3 <= limit
    return applied.most * 1e3 <= limit


def _told(found: Bounds | None, limit: float) -> str:
    if found is None:
        return _ms(None)
    is_open = found.above * 1e3 < limit < found.most * 1e3
    return f"{_ms(found.above)} to {_ms(found.most)}" if is_open else _ms(found.most)


def _ms(seconds: float | None) -> str:
    return "not known" if seconds is None else f"{seconds * 1e3:,.0f}"


def slope(samples: Sequence[tuple[float, float]]) -> float:
    """The slope of the line of least squares through pairs of x and y; 0 for fewer than two x."""
    x, y = [each[0] for each in samples], [each[1] for each in samples]
    return linear_regression(x, y).slope if len(set(x)) > 1 else 0.0


NAME: Final = "soak"  # in the marks of the page
_MACHINE: Final = (
    f"a process that only wakes {RATE:.0f} times a second was late: p99 and worst, ms",
    "time of all cores with nothing to run, and taken by a hypervisor",
)


def rows(results: Sequence[Soak]) -> Rows:
    """A line for each figure, with its limit, and a column for each server; a figure beyond its limit is marked."""
    found = [["figure", "limit", *(TITLES[each.server] for each in results)]]
    whole = [each for each in results if not each.ended]
    for number, check in enumerate(whole[0].checks if whole else ()):
        found.append([check.figure, check.limit, *(_measured(each, number) for each in results)])
    for number, figure in enumerate(_MACHINE):
        found.append([figure, "", *(_of_machine(each.machine)[number] for each in results)])
    return found


def _measured(soak: Soak, number: int) -> str:
    if soak.ended:
        return "ended"
    check = soak.checks[number]
    return check.measured if check.holds else f"{check.measured}: FAILS"


def _of_machine(machine: Machine | None) -> tuple[str, str]:
    if machine is None:
        return "", ""
    late = f"{machine.p99 * 1e3:,.1f}, {machine.worst * 1e3:,.0f}"
    return late, f"{machine.idle:.0%}, {machine.stolen:.1%}"


def section(context: Mapping[str, str], results: Sequence[Soak]) -> str:
    """The section between the marks of the page."""
    parts = [listed(context), markdown(rows(results)).rstrip()]
    parts += [f"{TITLES[each.server]}: {fault}" for each in results for fault in each.faults]
    return "\n\n".join(parts)
