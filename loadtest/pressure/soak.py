"""All kinds of pressure at once for a long time, while 200 endpoints a second change and every answer is judged.

Path: cli.py -> here -> server.py, clients.py, judge.py.
Rule 1: the pressure is a share of that of the rows, all of them in the same time, and begins anew every minute.  The
        server may open 1,024 files, its Corefile changes every 20 s, and nobody reads its standard output.  CoreDNS's
        is read: else a goroutine waits for each logged query, 100 MB a second, and nothing else is seen.
Rule 2: stale is an answer with what was true more than 100 ms before its query (history.py).
Rule 3: memory is flat if the line through the second half of its samples rises by at most FLAT octets an hour, or by
        at most NOISE octets over the half: a short soak has too few samples for an hour's slope.
Rule 4: events and /health have the limits of the rows (goals.py), and at least JUDGED answers a second must have been
        judged: a server that is silent is not right.  An event is applied when the answers with it may be given
        (applied.py), and shown by the first answer that a client gets.
Rule 5: it is quiet again if QUIET_AFTER seconds after the end an honest client's p99 is at most 3 times the one before.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, Final, NamedTuple

from hsdns.load.judge import STALE, WRONG
from loadtest.answering.programs import COREDNS, Program
from loadtest.pressure.applied import NONE, Applied, between, scrape
from loadtest.pressure.clients import Client, DohAttack, Flood, OverTcp, Presser, Silent
from loadtest.pressure.corefile import Variation
from loadtest.pressure.goals import EVENT_P99_MS, EVENT_WORST_MS, PROBES_ANSWERED
from loadtest.pressure.history import FAILED
from loadtest.pressure.http2 import ATTACKS
from loadtest.pressure.judge import Judge
from loadtest.pressure.probes import Probes, health_probe
from loadtest.pressure.rows import BARE, BELOW_SERVICE, LOGGED, PODS, UNANSWERED, ZONAL
from loadtest.pressure.run import Bench, Rewriter, honest_flood, start
from loadtest.pressure.server import Limits, ServerUnderPressure
from loadtest.process import BenchmarkError

CHANGES: Final = 200.0  # a second
CHANGED: Final = 400  # Services
PERIOD: Final = 60.0  # seconds after which the pressing clients are started again
QUIET_AFTER: Final = 2.0  # seconds
JUDGED: Final = 100  # answers a second
FLAT: Final = 10_000_000  # octets an hour
NOISE: Final = 5_000_000
MOST_MEMORY: Final = 2_000_000_000  # octets, at which a server is ended
_SAMPLE_EVERY = 2.0
_SAY_EVERY = 10.0
_QUIET_SECONDS = 5.0
_SHARE = 0.1  # of the rates of the rows
VARIATION: Final = Variation(
    log=True, doh=True, debug=True, unlimited=True, interval="2s", bulk=100_000
)
LIMITS: Final = Limits(unread=True, descriptors="1024:20000")
PRESSERS: Final[tuple[Presser, ...]] = (
    BELOW_SERVICE.scaled(_SHARE),
    PODS.scaled(_SHARE),
    Flood("new", ("*.new.example",), 1_000),
    LOGGED.scaled(_SHARE),
    UNANSWERED.scaled(_SHARE),
    ZONAL.scaled(_SHARE),
    BARE.scaled(_SHARE),
    *(DohAttack(kind).scaled(_SHARE / 2) for kind in ATTACKS),
    OverTcp("large.example", 2),
    Silent(400),
)


class Soak(NamedTuple):
    """The result.  Octets, microseconds; `memory`: time since the start and resident octets."""

    server: str
    seconds: float
    changes: int
    judged: dict[str, int]
    worst_age: float  # of a stale answer, in seconds
    event_p99: float
    event_worst: float
    applied: Applied
    health: float  # share
    memory: list[tuple[float, int]]
    quiet_p99_us: float
    after_p99_us: float
    after_share: float
    ended: str = ""

    @property
    def slope(self) -> float:
        """The rise of the second half of the samples, in octets an hour."""
        return slope(self._half()) * 3600

    def _half(self) -> list[tuple[float, int]]:
        return self.memory[len(self.memory) // 2 :]

    @property
    def is_flat(self) -> bool:
        """Whether memory does not grow."""
        half = self._half()
        rise = slope(half) * (half[-1][0] - half[0][0]) if half else 0.0
        return self.slope <= FLAT or rise <= NOISE

    @property
    def faults(self) -> list[str]:
        """What does not hold, as sentences."""
        if self.ended:
            return [self.ended]
        wrong = self.judged.get(STALE, 0) + self.judged.get(WRONG, 0)
        found = []
        judged = sum(self.judged.values()) - self.judged.get(FAILED, 0)
        if judged < JUDGED * self.seconds:
            found.append(f"only {judged / self.seconds:.0f} answers a second were judged")
        applied = self.applied
        if applied.p99 * 1e3 > EVENT_P99_MS or applied.worst * 1e3 > EVENT_WORST_MS:
            found.append(
                f"99 % of {applied.changes:,} events were applied within {applied.p99 * 1e3:,.0f} ms, "
                f"and all within {applied.worst * 1e3:,.0f} ms"
            )
        if self.event_p99 * 1e3 > EVENT_P99_MS or self.event_worst * 1e3 > EVENT_WORST_MS:
            found.append(
                f"events were shown after {self.event_p99 * 1e3:,.0f} ms (p99) and "
                f"{self.event_worst * 1e3:,.0f} ms (worst)"
            )
        if self.health < PROBES_ANSWERED:
            found.append(f"/health answered {self.health:.1%} of the probes")
        if wrong:
            found.append(
                f"{wrong:,} answers were stale or wrong, by {self.worst_age:.2f} s at most"
            )
        if not self.is_flat:
            found.append(f"memory rises by {self.slope / 1e6:.0f} MB an hour")
        if self.after_share < 1 or self.after_p99_us > 3 * self.quiet_p99_us:
            found.append(
                f"{QUIET_AFTER:.0f} s after the end p99 is {self.after_p99_us / 1e3:.1f} ms, before it was "
                f"{self.quiet_p99_us / 1e3:.1f} ms, and {self.after_share:.1%} is answered"
            )
        return found

    def to_json(self) -> dict[str, Any]:
        """The result with what follows from it."""
        applied = self.applied._asdict()
        return self._asdict() | {"applied": applied, "slope": self.slope, "faults": self.faults}


def slope(samples: Sequence[tuple[float, float]]) -> float:
    """The slope of the line of least squares through pairs of x and y; 0 for fewer than two."""
    if len(samples) < 2:
        return 0.0
    x = sum(each[0] for each in samples) / len(samples)
    y = sum(each[1] for each in samples) / len(samples)
    spread = sum((each[0] - x) ** 2 for each in samples)
    return sum((each[0] - x) * (each[1] - y) for each in samples) / spread if spread else 0.0


def run(bench: Bench, program: Program, seconds: float) -> Soak:
    """Soak one server; a server that ends is a result."""
    variation = VARIATION._replace(zonal=program.key != COREDNS)
    limits = LIMITS._replace(unread=program.key != COREDNS)
    try:
        with ServerUnderPressure(
            program, bench.api.access, bench.tools, bench.files, variation, limits
        ) as server:
            return _soak(bench, program, server, seconds)
    except BenchmarkError as error:
        return Soak(program.key, seconds, 0, {}, 0, 0, 0, NONE, 0, [], 0, 0, 0, ended=str(error))


def _soak(bench: Bench, program: Program, server: ServerUnderPressure, seconds: float) -> Soak:
    say = bench.progress.log
    quiet = _honest(bench, server)
    before = scrape(server.ports.metrics)
    began = time.monotonic()
    judge = Judge(server.ports.dns, bench.api, CHANGES, seconds, among=CHANGED)
    memory: list[tuple[float, int]] = []
    with ExitStack() as stack:
        health = stack.enter_context(Probes(health_probe(server.ports.health)))
        stack.enter_context(Rewriter(server, 20.0))
        judge.start()
        said = began
        while (now := time.monotonic()) < began + seconds:
            with ExitStack() as turn:
                end = min(now + PERIOD, began + seconds)
                clients = [start(turn, bench.tools, server, each, end - now) for each in PRESSERS]
                while (now := time.monotonic()) < end:
                    memory.append((now - began, server.memory().now))
                    if memory[-1][1] > MOST_MEMORY:
                        raise BenchmarkError(
                            f"ended for its memory: {_line(program, judge, memory)}"
                        )
                    if now >= said + _SAY_EVERY:
                        said = now
                        say(_line(program, judge, memory))
                    if judge.failure is not None:
                        break
                    time.sleep(max(0.0, min(_SAMPLE_EVERY, end - time.monotonic())))
                _end(clients)
        judge.join()
        spread = judge.spread()
        probed = health.result
    time.sleep(QUIET_AFTER)
    after = _honest(bench, server)
    return Soak(
        program.key,
        seconds,
        judge.taken,
        dict(judge.history.counts),
        judge.history.worst_age,
        spread.p99 if spread else 0.0,
        spread.worst if spread else 0.0,
        between(before, scrape(server.ports.metrics)),
        probed.answered / max(1, probed.sent),
        memory,
        quiet.all_p99_us,
        after.all_p99_us,
        after.share,
    )


def _end(clients: Sequence[Client]) -> None:
    for client in clients:
        client.counts()


def _honest(bench: Bench, server: ServerUnderPressure) -> Any:
    with ExitStack() as stack:
        flood = honest_flood("cluster")
        return start(stack, bench.tools, server, flood, _QUIET_SECONDS, is_honest=True).counts()


def _line(program: Program, judge: Judge, memory: Sequence[tuple[float, int]]) -> str:
    counts, spread = judge.history.counts, judge.spread()
    late = (
        f"event p99 {spread.p99 * 1e3:,.0f} ms, worst {spread.worst * 1e3:,.0f} ms"
        if spread
        else "no event yet"
    )
    return (
        f"{program.title}: {judge.taken:,} changes, {sum(counts.values()):,} answers judged, "
        f"{counts[STALE]:,} stale, {counts[WRONG]:,} wrong; {late}; {memory[-1][1] / 1e6:.0f} MB"
    )
