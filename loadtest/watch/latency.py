"""Part 2: the delay from the API server's response to a write until the first DNS answer that shows it.

Path: plan.py -> here -> writer (HTTP) and prober (UDP) in one thread, by one clock.
Rule 1: one query is outstanding at a time, and the next is sent as soon as its reply arrives, from the write until the
        reply that shows it.
Rule 2: the API server has responded when the first octets of its response arrive.  The watch event may arrive before
        that, so a delay may be negative, and is recorded as it is.
"""

from __future__ import annotations

import http.client
import select
import socket
import time
from collections.abc import Callable
from typing import Self

from loadtest.apiserver.objects import changed_address
from loadtest.bench import Progress
from loadtest.dns import a_record_of, question
from loadtest.figures import Spread
from loadtest.process import BenchmarkError
from loadtest.programs import Program
from loadtest.server import ServerUnderTest
from loadtest.watch.access import Access, WatchedSlice, slices
from loadtest.watch.fake_api_process import FakeApiProcess
from loadtest.watch.report import MS, Figure, figures
from loadtest.watch.startup import Api

TIMEOUT = 20.0  # seconds until a change that no answer shows is a failure
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


def measure(
    programs: list[Program],
    api: Api,
    services: int,
    changes: int,
    rate: float,
    progress: Progress,
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
            delay, missing = prober.follow(writer, target, position, changed_address(number))
            delays.append(delay)
            lost += missing
    return delays, lost


class Prober:
    """Sends UDP queries; a context manager."""

    def __init__(self, port: int) -> None:
        self._sock = socket.socket(type=socket.SOCK_DGRAM)
        self._sock.connect(("127.0.0.1", port))
        self._sock.setblocking(False)
        self._id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._sock.close()

    def follow(
        self, writer: Patcher, target: WatchedSlice, position: int, address: str
    ) -> tuple[float, int]:
        """Write, and query until the change appears; return the delay and the lost replies; raise BenchmarkError."""
        query, wanted = question(target.dns_name), a_record_of(address)
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        answered: float | None = None
        seen: float | None = None
        lost = 0
        writer.send(target, position, address)
        poll.register(writer.fileno(), select.POLLIN)
        deadline = time.monotonic() + TIMEOUT
        asked = self._ask(query)
        while answered is None or seen is None:
            ready = poll.poll(1000 * _REPLY_TIMEOUT)
            now = time.monotonic()
            if now > deadline:
                raise BenchmarkError(
                    f"{target.dns_name} does not show {address} after {TIMEOUT:.0f} s"
                )
            for descriptor, _ in ready:
                if descriptor != self._sock.fileno():
                    answered = now
                    poll.unregister(writer.fileno())
                    continue
                reply = self._sock.recv(65535)
                if reply[:2] != self._id.to_bytes(2, "big"):
                    continue
                if wanted in reply:
                    seen = now
                    poll.unregister(self._sock)
                else:
                    asked = self._ask(query)
            if seen is None and now - asked > _REPLY_TIMEOUT:
                lost += 1
                asked = self._ask(query)
        writer.finish()
        return seen - answered, lost

    def _ask(self, query: bytes) -> float:
        self._id = (self._id + 1) & 0xFFFF
        self._sock.send(self._id.to_bytes(2, "big") + query)
        return time.monotonic()
