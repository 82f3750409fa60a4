"""Part 3: many changes per second from the in-test API server: the delay of answers, and memory and errors at the end.

Path: plan.py -> here -> fake_api_process.py, server.py, and `hsdns load` for the queries.
Rule 1: changes go from Service to Service in order, so the next one is known: the prober observes one Service until
        it changes, then the next one that is due.  It sends one query per millisecond, so as not to load the server.
Rule 2: a delay is measured from the time when the API server could send the event to the first reply that shows it;
        both processes read CLOCK_MONOTONIC.  A change that no reply showed counts as the time that the prober waited.
Rule 3: at the end every Service is queried over TCP and must have the addresses that the API server has.
"""

from __future__ import annotations

import math
import socket
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Self

from loadtest.apiserver.objects import namespace_of
from loadtest.bench import Progress
from loadtest.dns import TcpClient, a_record_of, addresses, question, service_name
from loadtest.figures import Spread
from loadtest.generators import load_words, write_names
from loadtest.process import Process
from loadtest.programs import ROOT, Program
from loadtest.server import ServerUnderTest
from loadtest.watch.access import slices
from loadtest.watch.fake_api_process import Change, FakeApiProcess
from loadtest.watch.report import MB, MS, Figure, figures

ASK_EVERY = 0.001  # seconds
SAMPLES = 200
MEMORY_EVERY = 10.0  # seconds
_LEAD = 0.03  # seconds before a change is due in which its Service is asked for already
_TAIL = 0.2  # seconds before the end in which no more change is watched for
_SETTLE_TIMEOUT = 60.0  # seconds until the last change must be answered
_TIMEOUT = 2.0  # seconds for which one change is watched for
_LONGER = 600.0  # seconds that the load would go on, were it not ended
_STEP = 7919  # a prime


class Load(NamedTuple):
    """The load on a server: number of Services, changes per second, seconds, and queries per second."""

    services: int
    rate: float
    seconds: float
    queries: float = 0.0


class Sample(NamedTuple):
    """One observed Service: start and end of the observation, and the first reply that differed, if any."""

    service: str
    began: float
    ended: float
    reply: bytes | None


def measure(
    programs: list[Program], api: FakeApiProcess, load: Load, progress: Progress
) -> list[Figure]:
    """Change the cluster for each server in turn."""
    measured: list[Figure] = []
    for program in programs:
        with ServerUnderTest(program, api.access) as server:
            server.wait_answering()
            with _queries(server.port, load):
                measured += _measure_one(server, api, load, progress)
    return measured


@contextmanager
def _queries(port: int, load: Load) -> Iterator[None]:
    if not load.queries:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        # No Service is asked for twice before all others were.
        indexes = (number * _STEP % load.services for number in range(load.services))
        names = write_names(
            Path(folder, "names"),
            (service_name(namespace_of(index), f"web-{index}") for index in indexes),
        )
        words = load_words(port, names, load.queries, load.seconds + _LONGER)
        with Process("queries", words, Path(folder), cwd=ROOT) as process:
            yield
            process.check()


def _measure_one(
    server: ServerUnderTest, api: FakeApiProcess, load: Load, progress: Progress
) -> list[Figure]:
    memory, cpu = [server.process.memory().now], server.process.cpu()
    samples: list[Sample] = []
    with Watcher(server.port) as watcher:
        began = time.monotonic()
        api.start_changes(load.rate, load.seconds)
        next_memory = began + MEMORY_EVERY
        while (now := time.monotonic()) < began + load.seconds:
            is_due = now - began > len(samples) * load.seconds / SAMPLES
            if load.queries and is_due and now < began + load.seconds - _TAIL:
                samples.append(watcher.watch(_due_next(api, load), _LEAD + _TIMEOUT))
            else:
                time.sleep(min(0.01, began + load.seconds - now))
            if now >= next_memory:
                memory.append(server.process.memory().now)
                next_memory += MEMORY_EVERY
                progress.log(f"{server.name}: {memory[-1] / 1e6:.0f} MB after {now - began:.0f} s")
        while api.is_changing():
            time.sleep(0.02)
        last = api.last_change()
        shown = watcher.wait_for(last, _SETTLE_TIMEOUT)
    changes = api.changes()
    cpu = server.process.cpu() - cpu
    memory.append(server.process.memory().now)
    delays = match(changes, samples)
    made, wrong = len(changes) - 1, wrong_names(server.port, api)
    reached = made / (changes[-1].time - changes[0].time) if made else 0.0
    delay = Spread.of(delays) if delays else None
    said = f"p99 {delay.p99 * MS:.1f} ms, " if delay else ""
    progress.log(
        f"{server.name}, {reached:,.0f} changes a second: {said}{memory[0] * MB:.0f} to {memory[-1] * MB:.0f} MB, "
        f"{wrong} names wrong at the end"
    )
    beside = f", {load.queries:,.0f} queries/s" if load.queries else ""
    return figures(
        f"{load.rate:,.0f} changes/s for {load.seconds:.0f} s{beside}, {load.services:,} Services",
        server.name,
        ("changes a second reached", reached, 0),
        ("event to answer, median, ms", delay and delay.median * MS, 2),
        ("event to answer, p99, ms", delay and delay.p99 * MS, 2),
        ("changes watched for", delay and delay.samples, 0),
        ("resident before, MB", memory[0] * MB, 0),
        ("resident after 10 s, MB", memory[1] * MB if load.seconds > MEMORY_EVERY else None, 0),
        ("resident at the end, MB", memory[-1] * MB, 0),
        ("most resident, every 10 s, MB", max(memory) * MB, 0),
        ("CPU, s", cpu, 1),
        ("last change shown at most after, ms", shown and max(0.0, shown - last.time) * MS, 0),
        ("names wrong at the end", wrong, 0),
    )


def _due_next(api: FakeApiProcess, load: Load) -> str:
    """The Service that is due soon."""
    last = api.last_change()
    ahead = math.ceil((time.monotonic() + _LEAD - last.time) * load.rate)
    index = int(last.service.removeprefix("web-")) + max(1, ahead)
    return f"web-{index % load.services}"


def match(changes: Iterable[Change], samples: Iterable[Sample]) -> list[float]:
    """Delays of the changes that happened while their Service was observed."""
    by_service: dict[str, list[Change]] = {}
    for change in changes:
        by_service.setdefault(change.service, []).append(change)
    delays = []
    for sample in samples:
        for change in by_service.get(sample.service, ()):
            if not sample.began <= change.time <= sample.ended:
                continue
            # Without a reply that shows it the delay is at least what was waited.
            delays.append(sample.ended - change.time)
            break
    return delays


class Watcher:
    """Sends a UDP query every millisecond; a context manager."""

    def __init__(self, port: int) -> None:
        self._sock = socket.socket(type=socket.SOCK_DGRAM)
        self._sock.connect(("127.0.0.1", port))
        self._sock.settimeout(1.0)
        self._id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._sock.close()

    def watch(self, service: str, timeout: float) -> Sample:
        """Query a Service until its addresses change."""
        name = service_name(namespace_of(int(service.removeprefix("web-"))), service)
        query = question(name)
        began = time.monotonic()
        first: frozenset[str] | None = None
        for reply in self._replies(query, timeout):
            found = addresses(name, reply)
            if first is not None and found != first:
                return Sample(service, began, time.monotonic(), reply)
            if first is None:
                first, began = found, time.monotonic()
        return Sample(service, began, time.monotonic(), None)

    def wait_for(self, change: Change, timeout: float) -> float | None:
        """Query until a change appears; return the time, or None."""
        wanted = a_record_of(change.new)
        for reply in self._replies(
            question(service_name(change.namespace, change.service)), timeout
        ):
            if wanted in reply:
                return time.monotonic()
        return None

    def _replies(self, query: bytes, timeout: float) -> Iterator[bytes]:
        begin = time.monotonic()
        while (now := time.monotonic()) < begin + timeout:
            self._id = (self._id + 1) & 0xFFFF
            number = self._id.to_bytes(2, "big")
            self._sock.send(number + query)
            try:
                while (reply := self._sock.recv(65535))[:2] != number:
                    pass  # one that came too late
            except TimeoutError:
                continue
            yield reply
            time.sleep(max(0.0, now + ASK_EVERY - time.monotonic()))


def wrong_names(port: int, api: FakeApiProcess) -> int:
    """Query every Service; count those whose addresses differ from the API server's."""
    wrong = 0
    with TcpClient(port) as client:
        for found in slices(api.access):
            wrong += client.ask(found.dns_name) != frozenset(found.addresses)
    return wrong
