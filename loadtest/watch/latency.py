"""Part 2: the delay from the API server's response to a write until the first DNS answer that shows it.

Path: plan.py -> here -> writer (HTTP) and prober (UDP) in one thread, by one clock.
Rule 1: one query is outstanding at a time, and the next is sent as soon as its reply arrives, from the write until the
        reply that shows it.
Rule 2: the API server has responded when the first octets of its response arrive.  The watch event may arrive before
        that, so a delay may be negative, and is recorded as it is.
"""

from __future__ import annotations

import json
import select
import socket
import time
from typing import NamedTuple, Self

from loadtest.apiserver.objects import changed_address
from loadtest.bench import Progress
from loadtest.dns import a_record_of, question
from loadtest.figures import Spread
from loadtest.process import BenchmarkError
from loadtest.programs import Program
from loadtest.server import ServerUnderTest
from loadtest.watch.access import Access, WatchedSlice, slices
from loadtest.watch.startup import Api

TIMEOUT = 20.0  # seconds until a change that no answer shows is a failure
_REPLY_TIMEOUT = 1.0  # seconds until a question is asked again
_TARGETS = 50  # slices that are changed in turn


class Latency(NamedTuple):
    """All delays of one server, in seconds; `early`: answers before the API server's response."""

    server: str
    services: int
    delay: Spread
    early: int
    lost_replies: int


class Patcher:
    """One connection to an API server, which sends changes and detects the responses; a context manager."""

    def __init__(self, access: Access) -> None:
        self._sock = access.connect()
        self._data = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._sock.close()

    def fileno(self) -> int:
        """The file descriptor of the socket."""
        return self._sock.fileno()

    def send(self, target: WatchedSlice, position: int, address: str) -> None:
        """Send a JSON patch that replaces an address."""
        path = f"/endpoints/{position}/addresses/0"
        self._request(
            f"PATCH {target.path}",
            "application/json-patch+json",
            [{"op": "replace", "path": path, "value": address}],
        )

    def _request(self, line: str, kind: str, body: object) -> None:
        content = json.dumps(body).encode()
        head = (
            f"{line} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n"
            f"Content-Type: {kind}\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        self._data = b""
        self._sock.settimeout(TIMEOUT)
        self._sock.sendall(head.encode() + content)
        self._sock.setblocking(False)

    def answer(self) -> bool:
        """Read available octets; return False if none of the response has arrived."""
        try:
            piece = self._sock.recv(65536)
        except (BlockingIOError, OSError) as error:
            # TLS says in its own words that what came was not yet a piece of the answer.
            if isinstance(error, BlockingIOError) or "SSLWantRead" in type(error).__name__:
                return False
            raise
        if not piece:
            raise BenchmarkError("the API server ended the writer's connection")
        self._data += piece
        return True

    def finish(self) -> None:
        """Read the rest of the response; raise BenchmarkError if it is an error."""
        self._sock.settimeout(TIMEOUT)
        while not is_complete(self._data):
            piece = self._sock.recv(65536)
            if not piece:
                raise BenchmarkError(
                    "the API server ended the writer's connection within an answer"
                )
            self._data += piece
        if self._data[9:10] != b"2":
            raise BenchmarkError(
                f"a change was refused: {self._data[:300].decode(errors='replace')}"
            )


class ControlPatcher(Patcher):
    """As Patcher, for the in-test API server, which makes changes on request."""

    def send(self, target: WatchedSlice, position: int, address: str) -> None:
        """Request a change of a Service; the server chooses the address, which is the expected one."""
        del position, address
        index = int(target.service.removeprefix("web-"))
        self._request("POST /_control/change", "application/json", {"index": index})


def is_complete(data: bytes) -> bool:
    """Whether an HTTP/1.1 response is complete, with Content-Length or chunked."""
    head, separator, body = data.partition(b"\r\n\r\n")
    if not separator:
        return False
    fields = dict(line.lower().split(b":", 1) for line in head.split(b"\r\n")[1:])
    if b"content-length" in fields:
        return len(body) >= int(fields[b"content-length"])
    return body.endswith(b"0\r\n\r\n")


def measure(
    programs: list[Program],
    api: Api,
    services: int,
    changes: int,
    rate: float,
    progress: Progress,
    *,
    controlled: bool,
) -> list[Latency]:
    """Make changes for every server in turn; `controlled`: by the in-test API server."""
    targets = list(slices(api.access, _TARGETS))
    make = ControlPatcher if controlled else Patcher
    measured, first = [], 0
    for program in programs:
        with ServerUnderTest(program, api.access) as server, make(api.access) as writer:
            server.wait_answering()
            found = _changes(server, writer, targets, range(first, first + changes), rate)
            first += changes
        delays, lost = found
        spread = Spread.of(delays)
        early = sum(delay < 0 for delay in delays)
        measured.append(Latency(program.name, services, spread, early, lost))
        progress.log(
            f"{program.name}, {changes} changes: median {spread.median * 1e3:.2f} ms, "
            f"p99 {spread.p99 * 1e3:.2f} ms"
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
        poll.register(writer.fileno(), select.POLLIN)
        answered: float | None = None
        seen: float | None = None
        lost = 0
        writer.send(target, position, address)
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
                    if writer.answer():
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
