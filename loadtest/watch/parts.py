"""The parts of the benchmark that watch an API server: starts, single writes, an outage, and streams of changes.

Path: __main__.py -> here -> api_servers.py, server.py, and `hsdns load` for steady queries -> figures.
Starts: the time from the start of the process until it is ready, and its memory when idle.  The servers alternate, in
    reverse order every second round, so that neither always starts on a warmer machine.  In the last round both run
    until the long idle period is over: idle servers do not disturb each other.
Single writes: the delay from the API server's response to a write until the first DNS answer that shows it.  One query
    is outstanding at a time, and the next is sent as soon as its reply arrives.  The API server has responded when the
    first octets of its response arrive.  The watch event may arrive before that, so a delay may be negative.
Outage: the API server is killed and comes back.  It is back when it takes a write again, which is tried every 20 ms
    from its start on: so is its answer.  The state is current when an answer shows that write.
Streams: many changes per second from the in-test API server, judged as under pressure (../pressure/judge.py), if there
    are queries.  At the end every Service is queried over TCP and must have the addresses that the API server has.
"""

from __future__ import annotations

import http.client
import math
import select
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple, Self

from loadtest.apiserver.objects import changed_address, namespace_of
from loadtest.bench import Progress
from loadtest.dns import Prober, a_record_of, addresses, ask_all, question, service_name
from loadtest.figures import Spread
from loadtest.generators import load_words, write_names
from loadtest.pressure.judge import Judge
from loadtest.process import BenchmarkError, Process
from loadtest.programs import ROOT, Program
from loadtest.server import ServerUnderTest
from loadtest.watch.api_servers import (
    Access,
    Api,
    FakeApiProcess,
    RealApi,
    WatchedSlice,
    slices,
)
from loadtest.watch.report import MB, MS, Figure, figures

# --- starts ---

SHORT_IDLE = 10.0  # seconds after ready
LONG_IDLE = 180.0
_LATE, _PEAK = "resident 180 s after ready, MB", "most resident so far, MB"


def measure_starts(
    programs: Sequence[Program],
    api: Api,
    services: int,
    rounds: int,
    progress: Progress,
    *,
    long_idle: bool,
) -> list[Figure]:
    """Start every server `rounds` times; with `long_idle` they stay after the last one."""
    part = f"{services:,} Services" if services else "empty cluster"
    measured: list[Figure] = []
    for number in range(rounds):
        stays = long_idle and number == rounds - 1
        with ExitStack() as running:
            idle: list[tuple[ServerUnderTest, float]] = []
            for program in programs if number % 2 == 0 else programs[::-1]:
                server = running.enter_context(ServerUnderTest(program, api.access))
                before = api.cpu()
                ready = server.wait_ready()
                cpu, api_cpu = server.process.cpu(), api.cpu() - before
                since = time.monotonic() - server.started
                progress.pause(ready + SHORT_IDLE - since, f"{server.name} at rest")
                memory = server.process.memory()
                progress.log(
                    f"{server.name}, {part}, round {number + 1}: ready after {ready:.2f} s, "
                    f"CPU {cpu:.2f} s, resident {memory.now * MB:.0f} MB"
                )
                measured += figures(
                    part,
                    server.name,
                    ("start to ready, s", ready, 2),
                    ("CPU to ready, s", cpu, 2),
                    ("API server's CPU meanwhile, s", api_cpu, 2),
                    ("resident 10 s after ready, MB", memory.now * MB, 0),
                    (_LATE, None, 0),
                    (_PEAK, None if stays else memory.peak * MB, 0),
                )
                if stays:
                    idle.append((server, server.started + ready))
                else:
                    running.close()
            for server, since in idle:
                progress.pause(since + LONG_IDLE - time.monotonic(), f"{server.name} at rest")
                late = server.process.memory()
                late_figures = (_LATE, late.now * MB, 0), (_PEAK, late.peak * MB, 0)
                measured += figures(part, server.name, *late_figures)
    return measured


# --- single writes ---

SHOWN_TIMEOUT = 20.0  # seconds until a change that no answer shows is a failure
_REPLY_TIMEOUT = 1.0  # seconds until a question is asked again
_TARGETS = 50  # slices that are changed in turn


class Patcher:
    """One connection to an API server, which sends changes; a context manager."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._connection: http.client.HTTPConnection = access.connection()

    def __enter__(self) -> Self:
        # TLS may send something of its own before the first response, which would be taken for it.
        self._access.ask("GET", "/version", connection=self._connection)
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    def fileno(self) -> int:
        """The file descriptor of the socket, which is readable when the response to a change begins."""
        return self._connection.sock.fileno()

    def send(self, target: WatchedSlice, position: int, address: str) -> None:
        """Send a JSON patch that replaces an address."""
        path = f"/endpoints/{position}/addresses/0"
        patch = [{"op": "replace", "path": path, "value": address}]
        self._access.send(self._connection, "PATCH", target.path, patch)

    def finish(self) -> None:
        """Read the response; raise BenchmarkError if it is an error."""
        self._access.receive(self._connection, "the change")


class ControlPatcher(Patcher):
    """As Patcher, for the in-test API server, which makes changes on request."""

    def __enter__(self) -> Self:
        self._connection.connect()
        return self

    def send(self, target: WatchedSlice, position: int, address: str) -> None:
        """Request a change of a Service; the server chooses the address, which is the expected one."""
        del position, address
        index = int(target.service.removeprefix("web-"))
        self._access.send(self._connection, "POST", "/_control/change", {"index": index})


def measure_writes(
    programs: list[Program], api: Api, services: int, changes: int, rate: float, progress: Progress
) -> list[Figure]:
    """Make changes for every server in turn."""
    targets = list(slices(api.access, _TARGETS))
    make: Callable[[Access], Patcher] = ControlPatcher if isinstance(api, FakeApiProcess) else Patcher  # fmt: skip
    measured: list[Figure] = []
    first = 0
    for program in programs:
        with ServerUnderTest(program, api.access) as server, make(api.access) as writer:
            server.wait_answering()
            delays, lost = _changes(server, writer, targets, range(first, first + changes), rate)
            first += changes
        spread = Spread.of(delays)
        measured += figures(
            f"write to answer, {services:,} Services",
            program.name,
            ("median, ms", spread.median * MS, 2),
            ("p90, ms", spread.p90 * MS, 2),
            ("p99, ms", spread.p99 * MS, 2),
            ("changes", spread.samples, 0),
            ("shown before the API server answered", sum(delay < 0 for delay in delays), 0),
            ("replies that did not come", lost, 0),
        )
        progress.log(
            f"{program.name}, {changes} changes: median {spread.median * MS:.2f} ms, p99 {spread.p99 * MS:.2f} ms"
        )
    return measured


def _changes(
    server: ServerUnderTest,
    writer: Patcher,
    targets: list[WatchedSlice],
    numbers: range,
    rate: float,
) -> tuple[list[float], int]:
    delays, lost = [], 0
    due = time.monotonic()
    with Prober(server.port) as prober:
        for number in numbers:
            target = targets[number % len(targets)]
            position = number // len(targets) % len(target.addresses)
            time.sleep(max(0.0, due - time.monotonic()))
            due = max(due, time.monotonic() - 1.0) + 1.0 / rate
            delay, missing = _follow(prober, writer, target, position, changed_address(number))
            delays.append(delay)
            lost += missing
    return delays, lost


def _follow(
    prober: Prober, writer: Patcher, target: WatchedSlice, position: int, address: str
) -> tuple[float, int]:
    """Write, and query until the change appears; return the delay and the lost replies; raise BenchmarkError."""
    query, wanted = question(target.dns_name), a_record_of(address)
    poll = select.poll()
    poll.register(prober.sock, select.POLLIN)
    answered: float | None = None
    seen: float | None = None
    lost = 0
    writer.send(target, position, address)
    poll.register(writer.fileno(), select.POLLIN)
    deadline = time.monotonic() + SHOWN_TIMEOUT
    asked = prober.ask(query)
    while answered is None or seen is None:
        ready = poll.poll(1000 * _REPLY_TIMEOUT)
        now = time.monotonic()
        if now > deadline:
            raise BenchmarkError(
                f"{target.dns_name} does not show {address} after {SHOWN_TIMEOUT:.0f} s"
            )
        for descriptor, _ in ready:
            if descriptor != prober.sock.fileno():
                answered = now
                poll.unregister(writer.fileno())
            elif (reply := prober.reply()) is not None:
                if wanted in reply:
                    seen = now
                    poll.unregister(prober.sock)
                else:
                    asked = prober.ask(query)
        if seen is None and now - asked > _REPLY_TIMEOUT:
            lost += 1
            asked = prober.ask(query)
    writer.finish()
    return seen - answered, lost


# --- outage ---

BACK_TIMEOUT: Final = (
    120.0  # seconds for the API server to take a write, and for a server to show it
)
_PAUSE: Final = 0.02  # seconds between two tries of a write
_SETTLE: Final = 3.0  # seconds before the API server is killed
_NUMBER: Final = 1 << 17  # of the first address: one that no other part has written


def measure_outage(
    programs: Sequence[Program],
    api: RealApi,
    services: int,
    away: float,
    rounds: int,
    progress: Progress,
) -> list[Figure]:
    """Kill the API server `rounds` times, for `away` seconds each."""
    times: dict[str, list[float]] = {each.name: [] for each in programs}
    with ExitStack() as stack:
        servers = [stack.enter_context(ServerUnderTest(each, api.access)) for each in programs]
        for server in servers:
            server.wait_answering()
        (target,) = slices(api.access, 1)
        for number in range(rounds):
            time.sleep(_SETTLE)
            progress.log(f"the API server is killed, for {away:.0f} s")
            api.kill()
            time.sleep(away)
            api.restart()
            address = changed_address(_NUMBER + number)
            since = _write(api, target, address)
            shown = _until_shown(servers, target, address, since)
            for server, seconds in zip(servers, shown, strict=True):
                times[server.name].append(math.inf if seconds is None else seconds)
                said = "not at all" if seconds is None else f"after {seconds:.2f} s"
                progress.log(f"{server.name}, round {number + 1}: current {said}")
    part = f"API server away for {away:.0f} s, {services:,} Services"
    what = "from its return until the state is current"
    return [
        figure
        for name, found in times.items()
        for figure in figures(
            part, name, (f"{what}, s", median(found), 2), (f"{what}, longest, s", max(found), 2)
        )
    ]


def _write(api: RealApi, target: WatchedSlice, address: str) -> float:
    """Replace an address as soon as the API server lets it be; return the time of its answer."""
    deadline = time.monotonic() + BACK_TIMEOUT
    while True:
        try:
            with Patcher(api.access) as patcher:
                patcher.send(target, 0, address)
                patcher.finish()
                return time.monotonic()
        except (OSError, BenchmarkError) as error:
            api.check()
            if time.monotonic() > deadline:
                raise BenchmarkError(f"the API server did not come back: {error}") from None
        time.sleep(_PAUSE)


def _until_shown(
    servers: Sequence[ServerUnderTest], target: WatchedSlice, address: str, since: float
) -> list[float | None]:
    """Ask all servers until each shows an address; the seconds that each took."""

    def ask(server: ServerUnderTest) -> float | None:
        with Prober(server.port) as prober:
            shown = prober.wait_for(
                target.dns_name, address, since + BACK_TIMEOUT - time.monotonic()
            )
        return None if shown is None else max(0.0, shown - since)

    with ThreadPoolExecutor(len(servers)) as pool:
        return list(pool.map(ask, servers))


# --- streams of changes ---

MEMORY_EVERY = 10.0  # seconds
_SETTLE_TIMEOUT = 60.0  # seconds until the last change must be answered
_LONGER = 600.0  # seconds that the load would go on, were it not ended
_STEP = 7919  # a prime


class Load(NamedTuple):
    """The load on a server: number of Services, changes per second, seconds, and queries per second."""

    services: int
    rate: float
    seconds: float
    queries: float = 0.0


def measure_changes(
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
    judge = Judge(server.port, api, load.rate, load.seconds, among=load.services)
    began, next_memory = time.monotonic(), MEMORY_EVERY
    if load.queries:
        judge.start()
    else:
        api.start_changes(load.rate, load.seconds)
    with Prober(server.port) as prober:
        while (now := time.monotonic() - began) < load.seconds:
            time.sleep(min(0.1, load.seconds - now))
            if now >= next_memory:
                memory.append(server.process.memory().now)
                next_memory += MEMORY_EVERY
                progress.log(f"{server.name}: {memory[-1] / 1e6:.0f} MB after {now:.0f} s")
        while api.is_changing():
            time.sleep(0.02)
        last = api.last_change()
        name = service_name(last.namespace, last.service)
        shown = prober.wait_for(name, last.new, _SETTLE_TIMEOUT)
        if load.queries:
            judge.join()
    changes = api.changes()
    cpu = server.process.cpu() - cpu
    memory.append(server.process.memory().now)
    made, wrong = len(changes) - 1, wrong_names(server.port, api)
    reached = made / (changes[-1].time - changes[0].time) if made else 0.0
    delay = judge.spread()
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


def wrong_names(port: int, api: FakeApiProcess) -> int:
    """Query every Service; count those whose addresses differ from the API server's."""
    found = list(slices(api.access))
    replies = ask_all(port, [b"\0\0" + question(each.dns_name) for each in found], tcp=True)
    return sum(
        reply is None or addresses(each.dns_name, reply) != frozenset(each.addresses)
        for each, reply in zip(found, replies, strict=True)
    )
