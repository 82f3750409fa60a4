"""A run: warms up all servers for all mixes, then measures them in rounds.

Path: __main__.py -> Run -> servers.py, drain.py, generators.py -> results.py.
Rule 1: every server answers every query of a mix before it is measured with it, and a few more before each round.
Rule 2: a round runs all mixes, and each mix all servers, in a different order each round: if the machine becomes
        slower, all servers are affected.
Rule 3: servers whose cluster changes are stopped while they are not measured.
Rule 4: two workers are compared with one by the busiest thread: what two answer where each has a core of its own.  The
        queries come from many ports, as the kernel gives each port to one worker.
Rule 5: the echo and dict servers send the replies of the first server that was warmed up.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random
from shutil import which
from typing import Final, NamedTuple

from loadtest.answering.cluster import Cluster
from loadtest.answering.drain import QUERIES, QuerySender
from loadtest.answering.mixes import (
    BUSIEST,
    DNSPERF,
    DOH,
    DRAIN,
    MANY_PORTS,
    TCP,
    UDP,
    Mix,
    fresh_names,
    queries,
    summarize,
)
from loadtest.answering.results import Results, Sample, WarmUp
from loadtest.answering.servers import RunSettings, Server
from loadtest.bench import Progress
from loadtest.dns import ask_all
from loadtest.figures import percentile
from loadtest.generators import (
    counted,
    counted_streams,
    dnsperf_words,
    h2load_words,
    latencies,
    run,
    write_questions,
)
from loadtest.process import BenchmarkError
from loadtest.programs import COREDNS, DICT, ECHO, NATIVE, PURE, TWO, Program
from tests.support.upstreams.certificate import make_certificate

REPLAYING: Final = (ECHO, DICT)  # they repeat the replies of another server
WORKERS: Final = (NATIVE, TWO)
CHANGEABLE: Final = (NATIVE, PURE, COREDNS)  # their cluster may change, and they have a Corefile
LATENCY_RATE: Final = 5000  # queries a second, for latencies
_WARM_UP_QUERIES = 200  # queries of the warm-up before a round
_FRESH_QUESTIONS = 400_000  # questions of a fresh mix in a file for dnsperf
_CATCH_UP_TIME = 1.0  # seconds for a continued server to process the changes since it was stopped
_SEED = 20_251_121
_US = 1000  # nanoseconds


class Effort(NamedTuple):
    """The amount of measurement; `seconds` is the duration of dnsperf in a round."""

    drain_rounds: int = 40
    dnsperf_rounds: int = 5
    latency_rounds: int = 2
    seconds: float = 2.0


QUICK: Final = Effort(8, 1, 1, 1.0)


def supports(program: Program, mix: Mix) -> bool:
    """Whether a server can be measured with a mix."""
    if program.key == TWO:
        return mix.ports == MANY_PORTS
    if mix.external or mix.has_tls:
        return program.key in CHANGEABLE
    if program.key == DICT:
        return mix.repeats and mix.over == UDP and not mix.changes
    return not mix.changes or program.key == ECHO or program.key in CHANGEABLE


class Run:
    """Starts, warms up and measures servers; a context manager that ends them."""

    def __init__(
        self,
        folder: Path,
        cluster: Cluster,
        programs: Sequence[Program],
        mixes: Sequence[Mix],
        cores: tuple[int, int] | None,
        progress: Progress,
        *,
        dnsperf: str | None,
    ) -> None:
        self.missing: list[str] = []
        server_core, core = cores if cores is not None else (None, None)
        if which("h2load") is None and any(mix.over == DOH for mix in mixes):
            self.missing.append("HTTPS is not measured: h2load (nghttp2-client) is not installed")
            mixes = [mix for mix in mixes if mix.over != DOH]
        has_tls = any(mix.has_tls for mix in mixes)
        files = make_certificate(folder, "127.0.0.1") if has_tls else None
        self._settings = RunSettings(folder, cluster, folder / "zone", server_core, files)
        self._programs = programs
        self._mixes = mixes
        self._progress = progress
        self._dnsperf = dnsperf
        self._core = core
        self._stack = ExitStack()
        self._running: dict[tuple[str, tuple[int, str]], Server] = {}  # by program and Mix.servers
        self._servers: dict[str, list[Server]] = {}  # the servers of each mix
        self._questions = {mix.key: mix.questions(cluster, Random(_SEED)) for mix in mixes}
        self._packets: dict[str, list[bytes]] = {}
        self._chosen: tuple[tuple[str, int], list[bytes]] = ("", 0), []
        self._samples: list[Sample] = []
        self._warm_ups: list[WarmUp] = []

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def measure(self, effort: Effort) -> Results:
        """Run everything; raise BenchmarkError if a server stops answering."""
        self._settings.write_zone()
        self._start()
        for mix in self._mixes:
            self._warm_up(mix)
        if not any(self._servers.values()):
            raise BenchmarkError("; ".join(["no server can be measured", *self.missing]))
        self._pause_changing()
        self._progress.begin(sum(weight for *_, weight in self._plan(effort)))
        with ExitStack() as stack:
            senders = {
                ports: stack.enter_context(QuerySender(ports))
                for ports in {mix.ports for mix in self._mixes if DRAIN in mix.methods}
            }
            for number, mix, server, method, weight in self._plan(effort):
                self._progress.step(
                    f"{mix.key}, {server.program.title}, {method}, round {number + 1}", weight
                )
                if mix.changes:
                    server.resume()
                    time.sleep(_CATCH_UP_TIME)
                if method == DRAIN:
                    self._drain(senders[mix.ports], number, mix, server)
                else:
                    self._run_dnsperf(number, mix, server, effort)
                if mix.changes:
                    server.pause()
        return Results(self._samples, self._warm_ups)

    def _plan(self, effort: Effort) -> Iterator[tuple[int, Mix, Server, str, float]]:
        """All measurements in order, with their approximate duration in seconds."""
        for method, rounds in ((DRAIN, effort.drain_rounds), (DNSPERF, effort.dnsperf_rounds)):
            if method == DNSPERF and self._dnsperf is None:
                continue
            for number in range(rounds):
                long = 0.1 if method == DRAIN else effort.seconds + (number < effort.latency_rounds)
                for mix in self._mixes:
                    line = self._servers.get(mix.key, []) if method in mix.methods else []
                    turn = number % len(line) if line else 0
                    for server in line[turn:] + line[:turn]:
                        yield number, mix, server, method, long

    # Before the rounds.

    def _start(self) -> None:
        programs = [each for each in self._programs if each.key not in REPLAYING]
        for program in programs:
            for of in sorted({mix.servers for mix in self._mixes if supports(program, mix)}):
                self._progress.log(f"starting {program.title}")
                changes, alone = of
                name = f"{program.key}-{alone or changes}"
                server = Server(self._settings, program, name, changes=changes)
                try:
                    self._running[program.key, of] = self._stack.enter_context(server)
                except BenchmarkError as error:
                    self.missing.append(f"{program.title} does not start: {error}")
                    break

    def _warm_up(self, mix: Mix) -> None:
        packets = queries(mix, self._questions[mix.key], Random(_SEED))
        self._packets[mix.key] = packets
        asked = list(dict.fromkeys(packets))
        first: dict[bytes, bytes] = {}
        line = self._servers[mix.key] = []
        programs = [program for program in self._programs if supports(program, mix)]
        for program in programs:
            server = self._running.get((program.key, mix.servers))
            if server is None:  # it replays, or did not start
                continue
            what = f"{mix.key}: warming {program.title} up"
            on_progress = partial(self._progress.count, what, total=len(asked))
            replies = ask_all(server.port, asked, tcp=mix.over != UDP, on_progress=on_progress)
            answered = {query: reply for query, reply in zip(asked, replies, strict=True) if reply}
            if not answered:
                self.missing.append(f"{program.title} answers nothing of {mix.key}")
                continue
            first = first or answered
            different = sum(
                query in first and summarize(first[query]) != summarize(reply)
                for query, reply in answered.items()
            )
            octets = sum(map(len, answered.values())) / len(answered)
            unanswered = len(asked) - len(answered)
            self._warm_ups.append(
                WarmUp(mix.key, program.key, len(asked), unanswered, different, octets)
            )
            line.append(server)
        for program in (each for each in programs if each.key in REPLAYING):
            if not first:
                said = "no other server says what to send"
                self.missing.append(f"{program.title} in {mix.key}: {said}")
                continue
            name, known = f"{program.key}-{mix.key}", [*first.items()]
            server = Server(self._settings, program, name, known=known, tcp=mix.over == TCP)
            line.insert(0, self._stack.enter_context(server))

    def _pause_changing(self) -> None:
        for (_, (changes, _)), server in self._running.items():
            if changes:
                server.pause()

    # A measurement.

    def _drain(self, sender: QuerySender, number: int, mix: Mix, server: Server) -> None:
        few, chosen = self._packets_of_round(mix, number)
        sender.drain(server.process, server.port, few)
        done = sender.drain(server.process, server.port, chosen)
        if not done.answered:
            raise BenchmarkError(f"{server.program.title} answers nothing of {mix.key} any more")
        cost, lost = done.cpu_ns / done.answered / _US, 1 - done.answered / done.sent
        key = server.program.key
        self._samples.append(Sample(mix.key, key, DRAIN, number, cost, lost))
        if mix.ports == MANY_PORTS and key in WORKERS:
            cost = done.busiest_ns / done.answered / _US
            self._samples.append(Sample(mix.key, key, BUSIEST, number, cost, lost))

    def _packets_of_round(self, mix: Mix, number: int) -> tuple[list[bytes], list[bytes]]:
        """The few queries of the warm-up and the measured ones, the same for all servers of the round."""
        if self._chosen[0] != (mix.key, number):
            random = Random(f"{_SEED} {mix.key} {number}")
            if mix.fresh:
                packets = queries(mix, fresh_names(random, _WARM_UP_QUERIES + QUERIES), random)
            elif mix.randomized:
                questions = random.choices(self._questions[mix.key], k=_WARM_UP_QUERIES + QUERIES)
                packets = queries(mix, questions, random)
            else:
                packets = random.choices(self._packets[mix.key], k=_WARM_UP_QUERIES + QUERIES)
            self._chosen = (mix.key, number), packets
        return self._chosen[1][:_WARM_UP_QUERIES], self._chosen[1][_WARM_UP_QUERIES:]

    def _run_dnsperf(self, number: int, mix: Mix, server: Server, effort: Effort) -> None:
        path = self._settings.folder / f"{mix.key}-{number if mix.fresh else 0}.questions"
        if not path.exists():
            random = Random(f"{_SEED} dnsperf {number}")
            fresh = fresh_names(random, _FRESH_QUESTIONS) if mix.fresh else None
            write_questions(path, fresh or self._questions[mix.key])
        if mix.over == UDP and server.program.key != ECHO:
            ask_all(server.port, self._packets[mix.key][:_WARM_UP_QUERIES])
        before = server.process.cpu_ns()
        if mix.over == DOH:
            words = h2load_words(server.port_for(mix), path, effort.seconds, mix.under_way)
            counts = counted_streams(run(words, effort.seconds, core=self._core).printed)
        else:
            counts = counted(self._call_dnsperf(mix, server.port_for(mix), path, effort.seconds))
        cpu = server.process.cpu_ns() - before
        if not counts.completed:
            raise BenchmarkError(f"{server.program.title} answers dnsperf nothing of {mix.key}")
        found: list[float] = []
        if number < effort.latency_rounds and mix.over != DOH:
            found = latencies(
                self._call_dnsperf(
                    mix, server.port_for(mix), path, 1, "-v", "-Q", str(LATENCY_RATE)
                )
            )
        p50, p99 = (percentile(found, share) * 1e6 if found else None for share in (0.5, 0.99))
        lost, rate = 1 - counts.completed / counts.sent, counts.completed / counts.seconds
        cost = cpu / counts.completed / _US
        self._samples.append(
            Sample(mix.key, server.program.key, DNSPERF, number, cost, lost, rate, p50, p99)
        )

    def _call_dnsperf(self, mix: Mix, port: int, path: Path, seconds: float, *more: str) -> str:
        assert self._dnsperf is not None
        over = ("-q", str(mix.under_way), "-m", mix.over, *(["-e"] * mix.edns))
        words = dnsperf_words(self._dnsperf, port, path, seconds, *over, *more)
        return run(words, seconds, core=self._core).printed
