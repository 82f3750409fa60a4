"""Loads servers in turns with `hsdns load`, compiled and not, and with dnsperf, at the same rates.

Path: __main__.py -> over_udp(), over_connections() -> answering/servers.py, hsdns, and the generators -> table();
      find_knees() -> paced.c and `hsdns load -find-knee` -> knees_told().
Rule 1: everything is on loopback and bounded in time: SECONDS for each generator, rate, server and turn.
Rule 2: the server has the first CPU; `hsdns load` may use all, as it would for a user.  dnsperf gets the second.
Rule 3: the CPU time is that of the generator with all its processes, from its start to its end, so it includes making
        the schedule and counting.
Rule 4: for comparison, a loop that only reads the clock shows the lateness that other work of the machine causes.
Rule 5: dnsperf prints no percentiles; they are those of a second run, in which it prints each query.
Rule 6: over connections, dnsperf also sends as fast as replies arrive (FASTEST).
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import product
from math import ceil
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from hsdns.load.send.sockets import BUFFER
from loadtest.answering.cluster import Cluster, Question
from loadtest.answering.servers import RunSettings, Server
from loadtest.bench import markdown
from loadtest.dns import ask_all, query_of
from loadtest.figures import Checked, percentile
from loadtest.generators import (
    CLIENTS,
    HSDNS,
    counted,
    dnsperf_words,
    latencies,
    load_words,
    run,
    write_questions,
)
from loadtest.ports import free_port
from loadtest.process import BenchmarkError, Process, on_core, two_cores
from loadtest.programs import ECHO, ROOT, compile_c, configuration, find_programs, which
from loadtest.server import start, wait_answering
from tests.support.upstreams.certificate import make_certificate

RATES: Final = (50_000, 100_000)  # queries a second over UDP
PYTHON_RATES: Final = (30_000,)
SECONDS: Final = 6.0
TURNS: Final = 3
SERVICES: Final = 1000
NAMES: Final = 1000
DNSPERF: Final = "dnsperf"
COMPILED: Final = "hsdns load, compiled"
PYTHON: Final = "hsdns load, Python"
CLOCK: Final = "the clock alone"
_BUFFER: Final = str(BUFFER >> 10)  # KiB for the sockets of dnsperf, as for those of `hsdns load`
# Outstanding queries of dnsperf, so that it does not wait for replies at these rates.
_UNLIMITED: Final = 10_000
TRANSPORTS: Final = {
    "tcp": ("TCP", (3_000, 20_000, 40_000)),
    "dot": ("DNS over TLS", (3_000, 10_000, 20_000)),
}
FASTEST: Final = 0  # stands for a rate
OURS: Final = "hsdns load"
# Queries of dnsperf in flight, as many as 20 connections with 100 each have.
_UNDER_WAY: Final = "2000"
_COLUMNS: Final = [
    "server", "generator", "queries/s", "CPU, us a query", "ratio to dnsperf", "lost", "p50", "p99", "late by p50",
    "p99", "p99.9",
]  # fmt: skip


class Row(NamedTuple):
    """One generator against one server at one rate, in one turn; times in microseconds, None if unknown."""

    server: str
    generator: str
    rate: int
    reached: float  # queries a second
    cpu: float  # microseconds a query
    lost: int
    p50: float | None
    p99: float | None
    late_p50: float | None = None
    late_p99: float | None = None
    late_p999: float | None = None


def combined(turns: Sequence[Row]) -> Row:
    """The median of each figure over some turns; a figure that is unknown in a turn is unknown."""
    figures = []
    for values in zip(*(each[3:] for each in turns), strict=True):
        told = [value for value in values if value is not None]
        figures.append(median(told) if len(told) == len(values) else None)
    reached, cpu, lost, *times = figures
    assert reached is not None
    assert cpu is not None
    return Row(*turns[0][:3], reached, cpu, round(lost or 0), *times)


def clock_alone(server: str, rate: int, seconds: float, core: int | None) -> Row:
    """The lateness of a loop that only checks whether the next time is due."""
    gap, late = round(1e9 / rate), []
    with on_core(core):
        begin = due = time.monotonic_ns()
        spent, end = time.process_time(), begin + round(seconds * 1e9)
        while due < end:
            now = time.monotonic_ns()
            while due <= now and due < end:
                late.append((now - due) / 1000)
                due += gap
        cpu = (time.process_time() - spent) * 1e6 / len(late)
    late.sort()
    told = [percentile(late, share) for share in (0.5, 0.99, 0.999)]
    return Row(server, CLOCK, rate, len(late) / seconds, cpu, 0, None, None, *told)


def load(
    server: str, generator: str, port: int, names: Path, rate: int, seconds: float, *more: str
) -> Row:
    """One run of `hsdns load`."""
    environ = {"HSDNS_NO_EXTENSIONS": "1" if generator == PYTHON else ""}
    found = run(load_words(port, names, rate, seconds, *more), seconds, environ=environ)
    report = json.loads(found.printed)["servers"][0]
    return load_row(report, server, generator, rate, seconds, found.cpu)


def load_row(
    report: Mapping[str, Any], server: str, generator: str, rate: int, seconds: float, cpu: float
) -> Row:
    """The figures of a report of `hsdns load`."""
    counts = report["counts"]
    latency, late = (
        {each["name"]: each["us"] for each in report[name]} for name in ("latency", "lateness")
    )
    reached, cost = counts["sent"] / seconds, cpu * 1e6 / counts["due"]
    times = latency["p50"], latency["p99"], late["p50"], late["p99"], late["p99.9"]
    return Row(server, generator, rate, reached, cost, counts["lost"] + counts["not_sent"], *times)


def dnsperf(
    server: str, words: Sequence[str], core: int | None, rate: int, seconds: float, *, again: bool
) -> Row:
    """One run of dnsperf, and with `again` one more for its percentiles."""
    found = run(words, seconds, core=core)
    counts = counted(found.printed)
    told = latencies(run((*words, "-v"), seconds, core=core).printed) if again else []
    p50, p99 = (percentile(told, share) * 1e6 if told else None for share in (0.5, 0.99))
    done, cost = counts.completed, found.cpu * 1e6 / max(1, counts.sent)
    return Row(server, DNSPERF, rate, done / counts.seconds, cost, counts.sent - done, p50, p99)


def _in_turns(turns: int, runs: Sequence[tuple[str, Callable[[], Row]]]) -> list[Row]:
    """Run all, in reverse order in every other turn; the median of the turns of each."""
    rows: dict[str, list[Row]] = {}
    for turn in range(turns):
        for what, go in runs if turn % 2 else runs[::-1]:
            print(f"turn {turn + 1}: {what}", file=sys.stderr)
            rows.setdefault(what, []).append(go())
    return [combined(rows[what]) for what, _ in runs]


def _dnsperf() -> str:
    program = which("dnsperf")
    if program is None:
        raise BenchmarkError("dnsperf is not installed, so there is nothing to compare with")
    return program


def over_udp(folder: Path, names: Sequence[str], turns: int, seconds: float) -> list[Row]:
    """Load servers by their names; raise BenchmarkError."""
    program, cores = _dnsperf(), two_cores() or (None, None)
    found = find_programs(names, HSDNS)
    for sentence in found.missing:
        print(sentence, file=sys.stderr)
    settings = RunSettings(folder, Cluster(SERVICES, 5), folder / "zone", cores[0])
    settings.write_zone()
    questions = questions_of(settings.cluster)
    path = write_questions(folder / "names", questions)
    known: list[tuple[bytes, bytes]] = []
    runs: list[tuple[str, Callable[[], Row]]] = []
    with ExitStack() as stack:
        # The echo server sends replies of the same size as the first of the others.
        for each in sorted(found.programs, key=lambda each: each.key == ECHO):
            server = stack.enter_context(Server(settings, each, each.key, known=known))
            title, port = each.title, server.port
            if not known:
                queries = [query_of(*question) for question in questions]
                replies = ask_all(port, queries)
                known = [pair for pair in zip(queries, replies, strict=True) if pair[1]]  # type: ignore[misc] # with a reply
            for generator, rate in (
                *product((COMPILED,), RATES),
                *product((PYTHON,), PYTHON_RATES),
            ):
                go = partial(load, title, generator, port, path, rate, seconds)
                runs.append((f"{title}, {generator}, {rate}/s", go))
            rate = RATES[-1]
            clock = partial(clock_alone, title, rate, seconds, cores[1])
            runs.append((f"{title}, {CLOCK}, {rate}/s", clock))
            for rate in sorted({*RATES, *PYTHON_RATES}):
                limits = ("-q", str(_UNLIMITED), "-b", _BUFFER, "-Q", str(rate))
                words = dnsperf_words(program, port, path, ceil(seconds), *limits)
                go = partial(dnsperf, title, words, cores[1], rate, seconds, again=True)
                runs.append((f"{title}, {DNSPERF}, {rate}/s", go))
        return _in_turns(turns, runs)


def questions_of(cluster: Cluster) -> list[Question]:
    """The questions that servers of a cluster are asked."""
    return [Question(cluster.service(number), "A") for number in range(NAMES)]


def over_connections(folder: Path, turns: int, seconds: float) -> list[Row]:
    """Load hsdns over TCP and TLS; the server and dnsperf have a core each; raise BenchmarkError."""
    program, cores = _dnsperf(), two_cores() or (None, None)
    cluster, files, ready = Cluster(SERVICES, 5), make_certificate(folder, "127.0.0.1"), free_port()
    names = write_questions(folder / "names", questions_of(cluster))
    text = f".:{ready} {{\n    bind 127.0.0.1\n    whoami\n}}\n"
    runs: list[tuple[str, Callable[[], Row]]] = []
    for transport, (title, rates) in TRANSPORTS.items():
        port, is_tls = free_port(), transport == "dot"
        tls = f"tls {files.cert} {files.key}" if is_tls else ""
        scheme = "tls://" if is_tls else ""
        text += configuration(
            "connections.Corefile", scheme=scheme, port=port, tls=tls, source=cluster.source
        )
        insecure = ("-tls-insecure",) if is_tls else ()
        over = ("-transport", transport, "-connections", str(CLIENTS), *insecure)
        for rate in (*rates, FASTEST):
            what = f"{rate}/s" if rate else "as fast as it gets replies"
            pace = ("-Q", str(rate)) if rate else ()
            limits = ("-q", _UNDER_WAY, "-m", transport, *pace)
            words = dnsperf_words(program, port, names, ceil(seconds), *limits)
            if rate:
                go = partial(load, title, OURS, port, names, rate, seconds, *over)
                runs.append((f"{transport}, {OURS}, {what}", go))
            go = partial(dnsperf, title, words, cores[1], rate, seconds, again=False)
            runs.append((f"{transport}, {DNSPERF}, {what}", go))
    with start(folder, "hsdns", text, core=cores[0]) as server:
        wait_answering(server, ready, query_of("whoami.", "A"))
        return _in_turns(turns, runs)


def table(rows: Sequence[Row], reference: str) -> str:
    """The rows as a table of Markdown, with the ratio of CPU time to the row of `reference` at the same rate."""
    peers = {(each.server, each.rate): each.cpu for each in rows if each.generator == reference}
    lines = [_COLUMNS]
    for each in rows:
        peer = peers.get((each.server, each.rate))
        ratio = f"{each.cpu / peer:.2f}" if peer and each.rate else "-"
        times = ["-" if us is None else _time(us) for us in each[6:]]
        cost = f"{each.reached:,.0f}", f"{each.cpu:.1f}", ratio, str(each.lost)
        lines.append([each.server, each.generator, *cost, *times])
    return markdown(lines, (0, 1)).rstrip()


def costs(rows: Sequence[Row], limits: Mapping[tuple[str, int], float]) -> list[Checked]:
    """The limits of the CPU time relative to dnsperf, by generator and rate; the median of the servers counts."""
    peers = {(each.server, each.rate): each.cpu for each in rows if each.generator == DNSPERF}
    checked = []
    for (generator, rate), limit in limits.items():
        found = [
            each.cpu / peers[each.server, rate]
            for each in rows
            if (each.generator, each.rate) == (generator, rate) and (each.server, rate) in peers
        ]
        ratio = median(found) if found else None
        by = (
            ""
            if ratio is None
            else f" takes {ratio:.2f} times the CPU time of dnsperf (limit {limit:g})"
        )
        checked.append(
            Checked(f"{generator} at {rate:,}/s{by}", None if ratio is None else ratio <= limit)
        )
    return checked


def lateness(rows: Sequence[Row], limits: Mapping[tuple[str, int], float]) -> list[Checked]:
    """The limits of the p99.9 of the lateness, by generator and rate.

    Other work of the machine makes a generator late, whichever server answers; so the server with the least lateness
    counts.
    """
    checked = []
    for (generator, rate), limit in limits.items():
        found = [
            (each.late_p999, each.server)
            for each in rows
            if (each.generator, each.rate) == (generator, rate) and each.late_p999 is not None
        ]
        late, server = min(found, default=(None, ""))
        by = (
            ""
            if late is None
            else f" late by {_time(late)} at p99.9 (limit {_time(limit)}; with {server})"
        )
        checked.append(
            Checked(f"{generator} at {rate:,}/s{by}", None if late is None else late <= limit)
        )
    return checked


def _time(us: float) -> str:
    return f"{us:.0f} µs" if us < 1000 else f"{us / 1000:.1f} ms"


# --- the search for a knee ---
#
# Rule 1: the server, paced.c, answers exactly CAPACITY queries a second, so the knee is there: at lower rates no query
#         waits, and at higher ones the queue grows by the difference.
# Rule 2: each of RUNS searches must be within WITHIN of the capacity; a search without a result is a failure, too.

CAPACITY: Final = 20_000  # queries a second
RUNS: Final = 3
WITHIN: Final = 0.02
KNEE_LIMITS: Final = "p99<5ms,loss<=0.01%"
_SEARCH_TIMEOUT: Final = 540.0


class Search(NamedTuple):
    """The output of a search, and the knee in queries a second; None if it found none."""

    said: str
    knee: float | None

    def is_within(self, rate: float) -> bool:
        """Whether the result is right."""
        return self.knee is not None and abs(self.knee - rate) <= WITHIN * rate


def find_knees(folder: Path) -> list[Search]:
    """Search several times; raise BenchmarkError."""
    program = compile_c(Path(__file__).with_name("paced.c"), folder)
    names, port = folder / "names", free_port()
    names.write_text("www.example.com A\n")
    words = (str(program), str(port), str(CAPACITY))
    with Process("paced", words, folder, core=(two_cores() or (None,))[0]):
        return [_search(port, names, number) for number in range(1, RUNS + 1)]


def _search(port: int, names: Path, number: int) -> Search:
    print(f"search {number}: a server with {CAPACITY} queries a second", file=sys.stderr)
    words = (
        *HSDNS, "load", "-p", str(port), "-queries", str(names), "-find-knee",
        "-rate", str(CAPACITY // 4), "-knee-limits", KNEE_LIMITS, "-live", "none", "-o", "json",
    )  # fmt: skip
    try:
        done = subprocess.run(
            words, stdout=subprocess.PIPE, cwd=ROOT, timeout=_SEARCH_TIMEOUT, check=False
        )
        found = json.loads(done.stdout)["knee"]
    except subprocess.TimeoutExpired:
        raise BenchmarkError(f"a search did not end in {_SEARCH_TIMEOUT:.0f} s") from None
    except (ValueError, KeyError, TypeError):
        raise BenchmarkError(
            "`hsdns load -find-knee` wrote no report; what it says is above"
        ) from None
    return Search(found["said"], found["holds"] if found["found"] else None)


def knees_told(searches: list[Search], rate: int = CAPACITY) -> tuple[list[str], Checked]:
    """Lines about the searches, and whether all results are right."""
    good = sum(each.is_within(rate) for each in searches)
    lines = [
        f"{'found' if each.is_within(rate) else 'NOT FOUND'}: {each.said}" for each in searches
    ]
    said = f"the knee of a server with {rate} queries a second, within {WITHIN:.0%}: {good} of {len(searches)} searches"
    return lines, Checked(said, good == len(searches))
