"""The result of one server under one kind of pressure, the limits for hsdns, and the tables.

Path: run.py -> Outcome -> judge(), section() -> __main__.py; "Under pressure" of docs/contributing/benchmarks.md.
Rule 1: a p99 under pressure is compared with the quiet one, or with that of an otherwise idle process under the same
        pressure (machine.py): quiet, a query takes 0.1 ms, which is less than a core is waited for when others run.
Rule 2: a limit is a number, or a multiple of CoreDNS's figure in the same run.  A figure that could not be measured
        fails, because a server ended, or because there was no CoreDNS to compare with.  Rows that were not selected are
        not judged.
Rule 3: the limits for events, memory and wrong answers apply to every row with a server under attack.
Rule 4: each figure has a line and each server a column, so that a phone shows them without scrolling; figures that no
        server has are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

from loadtest.bench import Rows, listed, markdown
from loadtest.figures import Spread, Verdict, ratio, read_goals
from loadtest.pressure.clients import Counts
from loadtest.pressure.rows import ROWS, Row
from loadtest.programs import COREDNS, NATIVE, PURE, TITLES

NAME: Final = "bench-pressure"  # in the marks of the page
MB: Final = 1_000_000
TIMEOUT_US: Final = 1e6  # the timeout of an honest client (asker.c)
BUSY_US: Final = 5_000  # a p99 without pressure above this is not caused by the server


class Probed(NamedTuple):
    """The number of probes, and of those that were answered in time."""

    sent: int
    answered: int

    @property
    def share(self) -> float | None:
        """The share that was answered; None without probes."""
        return self.answered / self.sent if self.sent else None


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
    seconds: float = 0.0  # of the pressing clients
    memory_before: int = 0
    memory_after: int = 0
    memory_peak: int = 0
    log_lines: int = 0  # under pressure
    late: float = 0.0  # seconds that an otherwise idle process was late under pressure (p99)
    ended: str = ""

    def figure(self, name: str) -> float | None:
        """A figure by its name; None if it was not measured."""
        found: float | None = None if self.ended else _FIGURES[name](self)
        return found

    def probes(self, kind: str) -> float | None:
        """The share of the probes of a kind that were answered; None without any."""
        return self.probed[kind].share if kind in self.probed else None


def _slowdown(outcome: Outcome) -> float | None:
    found = [each.slowdown(outcome.late * 1e6) for each in outcome.clients.values()]
    return max((each for each in found if each is not None), default=None)


def _worst(outcome: Outcome) -> float | None:
    """In milliseconds; a lost query counts with its timeout."""
    found = [
        each.pressed.worst_us if each.pressed.answered == each.pressed.sent else TIMEOUT_US
        for each in outcome.clients.values()
    ]
    return max(found) / 1e3 if found else None


_FIGURES: Any = {
    "answered": lambda it: it.pressing.share,
    "answers/s": lambda it: (
        (it.pressing.answered - it.pressing.failed) / it.seconds if it.seconds else None
    ),
    "honest answered": lambda it: min(
        (each.pressed.share for each in it.clients.values()), default=None
    ),
    "event p99, ms": lambda it: it.events and it.events.p99 * 1e3,
    "event worst, ms": lambda it: it.events and it.events.worst * 1e3,
    "stale or wrong answers": lambda it: (
        it.judged.get("stale", 0) + it.judged.get("wrong", 0) if it.judged else None
    ),
    "honest p99 / quiet p99": _slowdown,
    "honest p99, ms": lambda it: max(
        (each.pressed.all_p99_us / 1e3 for each in it.clients.values()), default=None
    ),
    "honest worst, ms": _worst,
    "health answered": lambda it: it.probes("health"),
    "TCP answered": lambda it: it.probes("TCP"),
    "DoT answered": lambda it: it.probes("DoT"),
    "DoH answered": lambda it: it.probes("DoH"),
    "peak RSS, MB": lambda it: it.memory_peak / MB,
    "RSS growth, MB": lambda it: (it.memory_after - it.memory_before) / MB,
    "CPU µs an answer": lambda it: (
        it.cpu / it.pressing.answered * 1e6 if it.pressing.answered else None
    ),
    "lines of log": lambda it: float(it.log_lines),
    "CPU, s": lambda it: it.cpu,
    "pressing p50, ms": lambda it: it.pressing.p50_us / 1e3 if it.pressing.answered else None,
    "pressing p99, ms": lambda it: it.pressing.p99_us / 1e3 if it.pressing.answered else None,
}
FIGURES = tuple(_FIGURES)

# --- limits ---

HIGHEST, LOWEST = "at most", "at least"
KUBEADM_MB: Final = 178  # 170 MiB, the memory limit in kubeadm's manifest
_OURS = (NATIVE, PURE)
_UNALIKE = ("corefile", "yaml")  # not the stock Corefile


class Goal(NamedTuple):
    """A figure of a row on some servers; `peers`: the limit is a multiple of CoreDNS's figure.

    `instead`: another figure, and the share of it that is enough, whatever this figure is.
    """

    row: str
    figure: str
    sense: str
    limit: float
    servers: tuple[str, ...] = _OURS
    peers: bool = False
    instead: tuple[str, float] | None = None


EVENT_P99_MS, EVENT_WORST_MS, PROBES_ANSWERED = 20.0, 100.0, 0.99
EVERYWHERE: Final = (
    ("event p99, ms", HIGHEST, EVENT_P99_MS),
    ("event worst, ms", HIGHEST, EVENT_WORST_MS),
    ("stale or wrong answers", HIGHEST, 0.0),
)


def _goals(
    rows: str, figure: str, sense: str, limit: str, servers: str, instead: str
) -> list[Goal]:
    number, _, peers = limit.partition(" ")
    other, _, share = instead.rpartition(" ")
    enough = (other, float(share)) if instead else None
    ours, bound = tuple(servers.split()) or _OURS, float(number)
    return [
        Goal(row.key, figure, sense, bound, ours, bool(peers), enough)
        for row in ROWS
        if fnmatchcase(row.key, rows)
    ]


GOALS: Final = (
    *(Goal(row.key, *each) for row in ROWS if not row.files for each in EVERYWHERE),
    *(
        Goal(row.key, "peak RSS, MB", HIGHEST, KUBEADM_MB)
        for row in ROWS
        if row.key not in _UNALIKE
    ),
    *chain(*(_goals(*cells) for cells in read_goals(Path(__file__).with_name("goals.txt"), 6))),
)


def judge(
    outcomes: Sequence[Outcome], rows: Collection[str], servers: Collection[str]
) -> list[Verdict]:
    """Judge every goal whose row and server were selected; a verdict's goal is a Goal and the server."""
    found = {(each.row, each.server): each for each in outcomes}

    def figure(row: str, server: str, name: str) -> float | None:
        outcome = found.get((row, server))
        return None if outcome is None else outcome.figure(name)

    verdicts = []
    for goal in GOALS:
        if goal.row not in rows or (goal.peers and COREDNS not in servers):
            continue
        peer = figure(goal.row, COREDNS, goal.figure) if goal.peers else 1.0
        for server in (each for each in goal.servers if each in servers):
            instead = ""
            if goal.instead is not None:
                share = figure(goal.row, server, goal.instead[0])
                if share is not None and share >= goal.instead[1]:
                    instead = f"{goal.instead[0]} {share:.0%}"
            value = None if peer is None else figure(goal.row, server, goal.figure)
            limit = goal.limit * (1.0 if peer is None else peer)
            is_least = goal.sense == LOWEST
            verdicts.append(
                Verdict((goal, server), value, limit, at_least=is_least, instead=instead)
            )
    return verdicts


# --- tables ---

_HEAD = [
    "server", "answered", "answers/s", "p50 ms", "CPU µs an answer", "cluster p99 ms", "cached p99 ms", "other p99 ms",
    "waking p99 ms", "event p50 ms", "event p99 ms", "worst", "/health", "TCP", "DoT", "DoH", "CPU s", "peak MB",
    "remarks",
]  # fmt: skip


def outcome_rows(outcomes: Sequence[Outcome]) -> Rows:
    """The table of one kind of pressure, with its header."""
    return [_HEAD, *map(_row, outcomes)]


def turned(rows: Rows) -> Rows:
    """A table with its lines as columns, without lines that have no figure."""
    lines = [list(line) for line in zip(*rows, strict=True)]
    return [lines[0], *(line for line in lines[1:] if any(line[1:]))]


def _row(it: Outcome) -> list[str]:
    if it.ended:
        return [TITLES[it.server], *[""] * (len(_HEAD) - 2), " ".join(it.ended.split())[:160]]
    events = it.events
    return [
        TITLES[it.server],
        f"{it.pressing.share:.0%}" if it.pressing.sent and not it.pressing.sent_away else "",
        *_pressing(it),
        *(_compared(it.clients.get(each)) for each in ("cluster", "external", "chained")),
        _ms(it.late or None),
        _ms(events and events.median),
        _ms(events and events.p99),
        _ms(events and events.worst),
        *(
            "" if share is None else f"{share:.0%}"
            for share in map(it.probes, ("health", "TCP", "DoT", "DoH"))
        ),
        f"{it.cpu:.1f}",
        f"{it.memory_peak / MB:.0f}",
        _remarks(it),
    ]


def _pressing(it: Outcome) -> list[str]:
    """Answers a second, the median delay of one, and its CPU time; empty where the clients ask for no answers."""
    if not it.pressing.p50_us:
        return [""] * 3
    digits = {"answers/s": 0, "pressing p50, ms": 2, "CPU µs an answer": 0}
    return [f"{it.figure(name):,.{count}f}" for name, count in digits.items()]


def _compared(honest: Honest | None) -> str:
    """The p99 without pressure and under it, and the share of answered queries unless all were."""
    if honest is None:
        return ""
    lost = "" if honest.pressed.share >= 0.9995 else f" ({honest.pressed.share:.0%})"
    return f"{_ms(honest.quiet.all_p99_us / 1e6)} → {_ms(honest.pressed.all_p99_us / 1e6)}{lost}"


def _ms(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e3:,.{0 if seconds >= 0.1 else 1}f}"


def _remarks(it: Outcome) -> str:
    said = []
    if it.pressing.sent < 0.95 * it.pressing.offered:
        said.append(f"{it.pressing.sent / it.pressing.offered:.0%} of the rate was reached")
    if any(each.quiet.all_p99_us > BUSY_US for each in it.clients.values()):
        said.append("the machine was busy before")
    if it.pressing.sent_away:
        said.append(f"clients sent away {it.pressing.sent_away:,} times")
    said += [
        f"{it.judged[word]:,} of {sum(it.judged.values()):,} answers {word}"
        for word in ("stale", "wrong", "late")
        if it.judged.get(word)
    ]
    if it.memory_after - it.memory_before > 10 * MB:
        said.append(f"memory +{(it.memory_after - it.memory_before) / MB:.0f} MB")
    return "; ".join(said)


def goal_rows(verdicts: Sequence[Verdict]) -> Rows:
    """The table of the goals that are not reached, with its header."""
    rows = [["row", "figure", "server", "measured", "", "limit", "verdict"]]
    for each in verdicts:
        if not each.holds:
            goal, server = each.goal
            cells = goal.row, goal.figure, TITLES[server], _number(each.value), goal.sense
            rows.append([*cells, _number(each.limit), each.word])
    return rows


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.2f}"


def section(
    context: Mapping[str, str],
    rows: Sequence[Row],
    outcomes: Sequence[Outcome],
    verdicts: Sequence[Verdict],
) -> str:
    """The section between the marks of the page: all tables, and the goals that are not reached."""
    held = sum(each.holds for each in verdicts)
    parts = [listed(context)]
    parts.append(f"### Limits\n\n{held} of {len(verdicts)} limits hold.")
    if held < len(verdicts):
        parts.append("Those that do not:\n\n" + markdown(goal_rows(verdicts)).rstrip())
    for row in rows:
        found = [each for each in outcomes if each.row == row.key]
        if found:
            title = row.title[0].upper() + row.title[1:]
            table = turned(outcome_rows(found))
            shown = markdown(table, range(len(table[0]))).rstrip()
            parts.append(f"### {row.key}\n\n{title}.\n\n{shown}")
    return "\n\n".join(parts)
