"""The result of one server under one kind of pressure.

Path: run.py, soak.py -> here -> goals.py, report.py.
Rule: a p99 under pressure is compared with the quiet one, or with that of an otherwise idle process under the same
      pressure (lateness.py): quiet, a query takes 0.1 ms, which is less than a core is waited for when others run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from loadtest.figures import Spread, ratio
from loadtest.pressure.clients import Counts
from loadtest.pressure.probes import Probed

MB = 1_000_000
TIMEOUT_US = 1e6  # the timeout of an honest client (asker.c)


class Honest(NamedTuple):
    """An honest client, without pressure and under it."""

    quiet: Counts
    pressed: Counts

    def slowdown(self, late_us: float) -> float | None:
        """The p99 of all its queries under pressure, divided by the quiet one, or by `late_us` if that is longer."""
        return ratio(self.pressed.all_p99_us, max(self.quiet.all_p99_us, late_us))


class Outcome(NamedTuple):
    """One server in one row.  Seconds, octets; `ended`: why the server or the measurement ended early."""

    row: str
    server: str
    pressing: Counts
    clients: Mapping[str, Honest] = {}  # honest ones (run.HONEST_NAMES)
    # health, TCP, and with DoH also DoT and DoH from the address of the attackers
    probed: Mapping[str, Probed] = {}
    events: Spread | None = None  # from the write to the API server to the first answer
    judged: dict[str, int] = {}  # noqa: RUF012 - a default that nothing changes
    worst_age: float = 0.0
    cpu: float = 0.0
    seconds: float = 0.0
    memory_before: int = 0
    memory_after: int = 0
    memory_peak: int = 0
    log_lines: int = 0  # under pressure
    late: float = 0.0  # seconds that an otherwise idle process was late under pressure (p99)
    ended: str = ""

    @property
    def honest(self) -> list[Honest]:
        """The honest clients of the row."""
        return list(self.clients.values())

    def figure(self, name: str) -> float | None:
        """A figure of goals.py by its name; None if it was not measured."""
        found: float | None = None if self.ended else _FIGURES[name](self)
        return found


def _share(kind: str) -> Callable[[Outcome], float | None]:
    def share(outcome: Outcome) -> float | None:
        probed = outcome.probed.get(kind)
        return None if probed is None or not probed.sent else probed.answered / probed.sent

    return share


def _slowdown(outcome: Outcome) -> float | None:
    found = [each.slowdown(outcome.late * 1e6) for each in outcome.honest]
    return max((each for each in found if each is not None), default=None)


def _worst(outcome: Outcome) -> float | None:
    """In milliseconds; a lost query counts with its timeout."""
    found = [
        each.pressed.worst_us if each.pressed.answered == each.pressed.sent else TIMEOUT_US
        for each in outcome.honest
    ]
    return max(found) / 1e3 if found else None


_FIGURES: Any = {
    "answered": lambda it: it.pressing.share,
    "honest answered": lambda it: min((each.pressed.share for each in it.honest), default=None),
    "event p99, ms": lambda it: it.events and it.events.p99 * 1e3,
    "event worst, ms": lambda it: it.events and it.events.worst * 1e3,
    "stale or wrong answers": lambda it: (
        it.judged.get("stale", 0) + it.judged.get("wrong", 0) if it.judged else None
    ),
    "honest p99 / quiet p99": _slowdown,
    "honest worst, ms": _worst,
    **{f"{each} answered": _share(each) for each in ("health", "TCP", "DoT", "DoH")},
    "peak RSS, MB": lambda it: it.memory_peak / MB,
    "RSS growth, MB": lambda it: (it.memory_after - it.memory_before) / MB,
    "CPU µs an answer": lambda it: (
        it.cpu / it.pressing.answered * 1e6 if it.pressing.answered else None
    ),
    "lines of log": lambda it: float(it.log_lines),
    "CPU, s": lambda it: it.cpu,
    "pressing p99, ms": lambda it: it.pressing.p99_us / 1e3 if it.pressing.answered else None,
}
FIGURES = tuple(_FIGURES)
