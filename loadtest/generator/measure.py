"""Loads servers in turns with `hsdns load`, compiled and not, and with dnsperf, at the same rates.

Path: cli.py -> here -> answering/servers.py, and the generators; report.py has the table.
Rule 1: everything is on loopback and bounded in time: SECONDS for each generator, rate, server and turn.
Rule 2: the server has the first CPU; `hsdns load` may use all, as it would for a user.  dnsperf gets the second.
Rule 3: the CPU time is that of the generator with all its processes, from its start to its end, so it includes making
        the schedule and counting.
Rule 4: for comparison, a loop that only reads the clock shows the lateness that other work of the machine causes.
Rule 5: dnsperf prints no percentiles; they are those of a second run, in which it prints each query.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from math import ceil
from pathlib import Path
from typing import Any, Final, NamedTuple

from hsdns.load.send.sockets import BUFFER
from loadtest.answering.client import ask_all
from loadtest.answering.cluster import Cluster, Question
from loadtest.answering.dnsperf import CLIENTS, counted, latencies, write_questions
from loadtest.answering.packets import query_of
from loadtest.answering.programs import ECHO, ROOT, Program, find_programs
from loadtest.answering.servers import RunSettings, Server
from loadtest.answering.usage import on_core
from loadtest.figures import percentile
from loadtest.generator.report import Row, combined
from loadtest.process import BenchmarkError

RATES: Final = (50_000, 100_000)  # queries a second
PYTHON_RATES: Final = (30_000,)
SECONDS: Final = 6.0
TURNS: Final = 3
SERVICES: Final = 1000
NAMES: Final = 1000
DNSPERF: Final = "dnsperf"
COMPILED: Final = "hsdns load, compiled"
PYTHON: Final = "hsdns load, Python"
CLOCK: Final = "the clock alone"
_GRACE: Final = 60.0
_BUFFER: Final = str(BUFFER >> 10)  # KiB for the sockets of dnsperf, as for those of `hsdns load`
_UNLIMITED: Final = (
    10_000  # outstanding queries of dnsperf, so that it does not wait for replies at these rates
)


class Measured(NamedTuple):
    """The output of a generator, and its CPU time in seconds."""

    printed: str
    cpu: float


def run_generator(
    words: Sequence[str], core: int | None, environ: Mapping[str, str], seconds: float
) -> Measured:
    """Run a generator to its end; raise BenchmarkError."""
    with on_core(core), tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=ROOT, env={**os.environ, **environ}
        )  # fmt: skip
        deadline = time.monotonic() + seconds + _GRACE
        try:
            while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
                if time.monotonic() > deadline:
                    raise BenchmarkError(f"{words[0]} did not end")
                time.sleep(0.05)
        except BaseException:
            process.kill()
            process.wait()
            raise
        _, status, usage = ended
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        printed, errors = out.read().decode(), err.read().decode()
    if process.returncode != 0:
        raise BenchmarkError(f"{words[0]} ended with status {process.returncode}: {errors[-500:]}")
    return Measured(printed, usage.ru_utime + usage.ru_stime)


def clock_alone(server: Server, rate: int, seconds: float) -> Row:
    """The lateness of a loop that only checks whether the next time is due."""
    gap, late = round(1e9 / rate), []
    begin = due = time.monotonic_ns()
    spent = time.process_time()
    end = begin + round(seconds * 1e9)
    while due < end:
        now = time.monotonic_ns()
        while due <= now and due < end:
            late.append((now - due) / 1000)
            due += gap
    cpu = (time.process_time() - spent) * 1e6 / len(late)
    late.sort()
    told = [percentile(late, share) for share in (0.5, 0.99, 0.999)]
    return Row(server.program.title, CLOCK, rate, len(late) / seconds, cpu, 0, None, None, *told)


def load(server: Server, names: Path, rate: int, seconds: float, *, compiled: bool) -> Row:
    """One run of `hsdns load`."""
    words = (
        sys.executable, "-m", "hsdns", "load", "-p", str(server.port), "-queries", str(names),
        "-rate", str(rate), "-time", f"{seconds}s", "-o", "json",
    )  # fmt: skip
    environ = {"HSDNS_NO_EXTENSIONS": "" if compiled else "1"}
    found = run_generator(words, None, environ, seconds)
    report = json.loads(found.printed)["servers"][0]
    generator = COMPILED if compiled else PYTHON
    return load_row(report, server.program.title, generator, rate, seconds, found.cpu)


def load_row(
    report: Mapping[str, Any], server: str, generator: str, rate: int, seconds: float, cpu: float
) -> Row:
    """The figures of a report of `hsdns load`."""
    counts = report["counts"]
    latency = {each["name"]: each["us"] for each in report["latency"]}
    late = {each["name"]: each["us"] for each in report["lateness"]}
    return Row(
        server,
        generator,
        rate,
        counts["sent"] / seconds,
        cpu * 1e6 / counts["due"],
        counts["lost"] + counts["not_sent"],
        latency["p50"],
        latency["p99"],
        late["p50"],
        late["p99"],
        late["p99.9"],
    )


def dnsperf(
    program: str, core: int | None, server: Server, names: Path, rate: int, seconds: float
) -> Row:
    """One run of dnsperf, and one more for its percentiles; it takes whole seconds."""
    whole = ceil(seconds)
    words = (
        program, "-s", "127.0.0.1", "-p", str(server.port), "-d", str(names), "-l", str(whole), "-c", str(CLIENTS),
        "-q", str(_UNLIMITED), "-T", "1", "-t", "2", "-b", _BUFFER, "-Q", str(rate),
    )  # fmt: skip
    found = run_generator(words, core, {}, whole)
    counts = counted(found.printed)
    told = latencies(run_generator((*words, "-v"), core, {}, whole).printed)
    return Row(
        server.program.title,
        DNSPERF,
        rate,
        counts.sent / counts.seconds,
        found.cpu * 1e6 / counts.sent,
        counts.sent - counts.completed,
        percentile(told, 0.5) * 1e6 if told else None,
        percentile(told, 0.99) * 1e6 if told else None,
    )


def cores_apart() -> list[int | None]:
    """The first two CPUs, for the server and dnsperf; with a single CPU, both share it."""
    cores: list[int | None] = [*sorted(os.sched_getaffinity(0))[:2]]
    return cores if len(cores) == 2 else [None, None]


def measure(folder: Path, names: Sequence[str], turns: int, seconds: float) -> list[Row]:
    """Run the benchmark; raise BenchmarkError."""
    program = shutil.which("dnsperf")
    if program is None:
        raise BenchmarkError("dnsperf is not installed, so there is nothing to compare with")
    found = find_programs(names, (sys.executable, "-m", "hsdns"))
    for each in found.missing:
        print(each, file=sys.stderr)
    cores = cores_apart()
    cluster = Cluster(SERVICES, 5)
    settings = RunSettings(folder, cluster, folder / "zone", cores[0])
    with settings.zone_file.open("w") as file:
        file.writelines(f"{line}\n" for line in cluster.zone_lines())
    questions = [Question(cluster.service(number), "A") for number in range(NAMES)]
    write_questions(folder / "names", questions)
    rows: dict[tuple[str, int, str], list[Row]] = {}
    with ExitStack() as stack:
        servers = _start(stack, settings, found.programs, questions)
        for turn in range(turns):
            for server in servers:
                for row in _turn(turn, server, folder / "names", program, cores[1], seconds):
                    rows.setdefault((row.server, row.rate, row.generator), []).append(row)
    return [combined(each) for each in rows.values()]


def _start(
    stack: ExitStack, settings: RunSettings, programs: Sequence[Program], questions: list[Question]
) -> list[Server]:
    """Start the servers; the echo server sends replies of the same size as the first of the others."""
    queries = [query_of(each, edns=False) for each in questions]
    servers: list[Server] = []
    known: list[tuple[bytes, bytes]] = []
    for program in sorted(programs, key=lambda each: each.key == ECHO):
        server = stack.enter_context(Server(settings, program, program.key, known=known))
        if not known:
            replies = ask_all(server.port, queries)
            known = [(query, reply) for query, reply in zip(queries, replies, strict=True) if reply]
        servers.append(server)
    return servers


def _turn(
    turn: int, server: Server, names: Path, program: str, core: int | None, seconds: float
) -> list[Row]:
    """All generators against a server, in reverse order in every other turn."""
    runs = [
        *((COMPILED, rate) for rate in RATES),
        *((PYTHON, rate) for rate in PYTHON_RATES),
        *((CLOCK, rate) for rate in RATES[-1:]),
        *((DNSPERF, rate) for rate in sorted({*RATES, *PYTHON_RATES})),
    ]
    found = {}
    for generator, rate in runs if turn % 2 else runs[::-1]:
        print(f"turn {turn + 1}: {server.program.title}, {generator}, {rate}/s", file=sys.stderr)
        if generator == DNSPERF:
            row = dnsperf(program, core, server, names, rate, seconds)
        elif generator == CLOCK:
            with on_core(core):
                row = clock_alone(server, rate, seconds)
        else:
            row = load(server, names, rate, seconds, compiled=generator == COMPILED)
        found[generator, rate] = row
    return [found[each] for each in runs]
