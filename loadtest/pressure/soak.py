"""All kinds of pressure at once for a long time, while 200 endpoints a second change and every answer is judged.

Path: __main__.py -> here -> server.py, clients.py, judge.py, machine.py -> soak_result.py.
Rule 1: the pressure is a share of that of the rows, all of them at the same time.  The server may open 1,024 files, its
        Corefile changes every 20 s, and nobody reads its standard output.  CoreDNS's is read: else a goroutine waits
        for each logged query, 100 MB a second, and nothing else is seen.
Rule 2: stale is what had ended a second before the query, or what an answer to an earlier one had replaced (judge.py).
Rule 3: what presses is started once, one program after the other, before anything is judged: programs that start take
        the server's cores from it for seconds, which no client on another machine could do.  For the same reason it
        leaves the cores to the server, which must not keep it from sending what it should.  Each Service that changes
        has been asked for: else the time until an event is shown would be that of a first answer.
Rule 4: a soak with some rows alone has the same server, changes and judge, so that two soaks tell what a row does.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final

from hsdns.load.verify.judge import STALE, WRONG
from loadtest.apiserver.objects import namespace_of
from loadtest.dns import service_name
from loadtest.pressure.attackers import ATTACKS
from loadtest.pressure.clients import HONEST, Attack, Counts, Flood, OverTcp, Presser, doh_attack
from loadtest.pressure.judge import Judge
from loadtest.pressure.machine import Control
from loadtest.pressure.rows import BARE, BELOW_SERVICE, LOGGED, PODS, UNANSWERED, ZONAL
from loadtest.pressure.run import Bench, Probes, Rewriter, health_probe, honest_flood, start
from loadtest.pressure.server import Limits, ServerUnderPressure, Variation, server_cores
from loadtest.pressure.soak_result import QUIET_AFTER, Soak, between, scrape
from loadtest.process import BenchmarkError
from loadtest.programs import COREDNS, Program

CHANGES: Final = 200.0  # a second
CHANGED: Final = 400  # Services
SETTLE: Final = 2.0  # seconds from the start of one pressing client to the next
MOST_MEMORY: Final = 2_000_000_000  # octets, at which a server is ended
_SAMPLE_EVERY = 2.0
_SAY_EVERY = 10.0
_QUIET_SECONDS = 5.0
_SHARE = 0.1  # of the rates of the rows
VARIATION: Final = Variation(
    log=True, doh=True, debug=True, unlimited=True, interval="2s", bulk=100_000
)
LIMITS: Final = Limits(unread=True, descriptors="1024:20000")
REWRITTEN: Final = "corefile"  # the row in which the Corefile changes
_REWRITE_EVERY = 20.0  # seconds
_CHANGED_SERVICES: Final = Flood(
    "changed",
    tuple(service_name(namespace_of(index), f"web-{index}") for index in range(CHANGED)),
    CHANGED,
    HONEST,
)
PRESSERS: Final[Mapping[str, Presser]] = {
    "existing": BELOW_SERVICE.scaled(_SHARE),
    "fair": PODS.scaled(_SHARE),
    "new-4k": Flood("new", ("*.new.example",), 1_000),
    "unread": LOGGED.scaled(_SHARE),
    "descriptors": UNANSWERED.scaled(_SHARE),
    "zonal": ZONAL.scaled(_SHARE),
    "bare": BARE.scaled(_SHARE),
    **{f"doh-{kind}": doh_attack(kind).scaled(_SHARE / 2) for kind in ATTACKS},
    "large": OverTcp("large.example", 2),
    "silent": Attack("silent", 400),
    "http-head": Attack("head"),
    "http-bad": Attack("bad", 40, 8),
}


def run(bench: Bench, program: Program, seconds: float, only: Collection[str]) -> Soak:
    """Soak one server with the rows in `only`; a server that ends is a result."""
    variation = VARIATION._replace(zonal=program.key != COREDNS)
    limits = LIMITS._replace(unread=program.key != COREDNS)
    try:
        with ServerUnderPressure(
            program, bench.api.access, bench.tools, bench.files, variation, limits
        ) as server:
            return _soak(bench, program, server, seconds, only)
    except BenchmarkError as error:
        return Soak(program.key, seconds, ended=str(error))


def _soak(
    bench: Bench,
    program: Program,
    server: ServerUnderPressure,
    seconds: float,
    only: Collection[str],
) -> Soak:
    say = bench.progress.log
    pressers = [presser for row, presser in PRESSERS.items() if row in only]
    quiet = _honest(bench, server)
    memory: list[tuple[float, int]] = []
    with ExitStack() as stack:
        stack.enter_context(Rewriter(server, _REWRITE_EVERY if REWRITTEN in only else 0.0))
        clients = []
        for number, presser in enumerate(pressers):
            left = seconds + SETTLE * (len(pressers) - number)
            clients.append(start(stack, bench.tools, server, presser, left, yields=True))
            time.sleep(SETTLE)
        start(stack, bench.tools, server, _CHANGED_SERVICES, SETTLE, is_honest=True).counts()
        before = scrape(server.ports.metrics)
        health = stack.enter_context(Probes(health_probe(server.ports.health)))
        control = stack.enter_context(Control(server_cores()[0]))
        judge = Judge(server.ports.dns, bench.api, CHANGES, seconds, among=CHANGED)
        judge.start()
        began = said = time.monotonic()
        told = 0  # delays that were said
        while (now := time.monotonic()) < began + seconds and judge.failure is None:
            memory.append((now - began, server.process.memory().now))
            if memory[-1][1] > MOST_MEMORY:
                line = _line(program, judge, told, memory)
                raise BenchmarkError(f"ended for its memory: {line}")
            if now >= said + _SAY_EVERY:
                said = now
                say(_line(program, judge, told, memory))
                told = len(judge.delays)
            time.sleep(max(0.0, min(_SAMPLE_EVERY, began + seconds - time.monotonic())))
        pressed = [client.counts() for client in clients]
        judge.join()
        spread = judge.spread()
        probed, machine = health.result, control.result()
    time.sleep(QUIET_AFTER)
    after = _honest(bench, server)
    history, p99, worst = judge.history, spread and spread.p99, spread and spread.worst
    applied, sent = (
        between(before, scrape(server.ports.metrics)),
        min(map(_sent, pressers, pressed), default=1.0),
    )
    return Soak(
        program.key, seconds, judge.taken, dict(history.counts), history.worst_age, p99, worst, applied,
        probed.share or 0.0, memory, quiet.all_p99_us, after.all_p99_us, after.share, machine, judge.slow, sent,
    )  # fmt: skip


def _sent(presser: Presser, counts: Counts) -> float:
    """The share of its rate that a client has sent; of DoH the server decides how much a client may send."""
    is_doh = isinstance(presser, Attack) and presser.is_doh
    return 1.0 if is_doh else counts.sent / max(1, counts.offered)


def _honest(bench: Bench, server: ServerUnderPressure) -> Any:
    with ExitStack() as stack:
        flood = honest_flood("cluster")
        return start(stack, bench.tools, server, flood, _QUIET_SECONDS, is_honest=True).counts()


def _line(program: Program, judge: Judge, judged: int, memory: Sequence[tuple[float, int]]) -> str:
    """The progress; of the delays, those since the last line."""
    counts, spread = judge.history.counts, judge.spread(judged)
    late = (
        f"event p99 {spread.p99 * 1e3:,.0f} ms, worst {spread.worst * 1e3:,.0f} ms"
        if spread
        else "no event since the last line"
    )
    return (
        f"{program.title}: {judge.taken:,} changes, {sum(counts.values()):,} answers judged, "
        f"{counts[STALE]:,} stale, {counts[WRONG]:,} wrong; {late}; {memory[-1][1] / 1e6:.0f} MB"
    )
