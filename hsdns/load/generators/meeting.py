"""The generators of a run meet before it begins: part 0 is the coordinator, and all talk to it over TCP.

Path: cli/load.py -> here -> barrier.py, which decides.  A line of JSON is a question, another one its answer.
Rule 1: a generator joins before it prepares anything, in a thread; so it hears of another's failure at any time.
Rule 2: the failure of another interrupts what this one does, and is raised in place of that interruption.
Rule 3: once the begin is known all connections end: a run depends on no other generator.
"""

from __future__ import annotations

import socket
import socketserver
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple, Self

import msgspec

from hsdns.load.errors import LoadError
from hsdns.load.generators.barrier import PATIENCE, Asked, Barrier, Clock, Told, named
from hsdns.load.report import ClockReport
from hsdns.load.schedule import SECOND, Portion

PAUSE: Final = 0.25  # seconds between two questions
BETWEEN: Final = 5.0  # seconds between two sentences
AGAIN: Final = 1.0  # seconds between two attempts to reach the coordinator
SILENT: Final = 60.0  # seconds after which a peer is gone
LINGER: Final = 2.0  # seconds for the others to hear of a failure
BURST: Final = 16  # exchanges that measure the clock once the begin is known
_LONGEST: Final = 1 << 16  # octets of a question
Place = tuple[str, int]


class _Connection(socketserver.StreamRequestHandler):
    """A generator, at the coordinator."""

    server: Coordinator
    timeout = SILENT
    disable_nagle_algorithm = True

    def handle(self) -> None:
        """Answer until it ends, or says something else."""
        with suppress(OSError, msgspec.MsgspecError):
            while line := self.rfile.readline(_LONGEST):
                asked = msgspec.json.decode(line, type=Asked)
                self.wfile.write(msgspec.json.encode(self.server.answer(asked, self)) + b"\n")

    def finish(self) -> None:
        """Tell the coordinator."""
        with suppress(OSError):
            super().finish()
        self.server.left(self)


class Coordinator(socketserver.ThreadingTCPServer):
    """The coordinator of `parts` generators, at an address of this machine; raise LoadError."""

    daemon_threads = allow_reuse_address = True
    request_queue_size = 1024

    def __init__(self, place: Place, parts: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in place[0] else socket.AF_INET
        self._barrier = Barrier(parts, time.monotonic_ns())
        self._changed = threading.Condition()
        self._open = 0
        try:
            super().__init__(place, _Connection)
        except OSError as error:
            raise LoadError(
                f"-coordinate: part 0 cannot listen on {place[0]} port {place[1]}: {error.strerror}"
            ) from None
        self.port = int(self.server_address[1])
        threading.Thread(
            target=self.serve_forever, args=(0.05,), name="coordinator", daemon=True
        ).start()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Count connections."""
        self._open += 1
        super().process_request(request, client_address)

    def answer(self, asked: Asked, connection: object) -> Told:
        """Answer a generator."""
        with self._changed:
            return self._barrier.answer(asked, connection, time.monotonic_ns(), time.time_ns())

    def left(self, connection: object) -> None:
        """A connection has ended."""
        with self._changed:
            self._open -= 1
            self._barrier.left(connection)
            self._changed.notify_all()

    def __exit__(self, *error: object) -> None:
        """Stop, after the others have heard of a failure."""
        with self._changed:
            self._changed.wait_for(lambda: self._open <= 0, LINGER)
        self.shutdown()
        self.server_close()


class Start(NamedTuple):
    """The begin, in nanoseconds of this machine's monotonic clock, and since 1970 by the coordinator's."""

    begin: int = 0
    at: int = 0


class Meeting:
    """A generator in a meeting; a context manager that raises the failure of another as LoadError.

    `find` returns the coordinator's address, None while it is unknown, and `say` takes sentences about the progress;
    `interrupt` raises KeyboardInterrupt in the thread that has the context.  All three are called in another thread.
    """

    def __init__(
        self,
        portion: Portion,
        find: Callable[[], Place | None],
        say: Callable[[str], None],
        interrupt: Callable[[], None],
    ) -> None:
        self._portion, self._find, self._say, self._interrupt = portion, find, say, interrupt
        self._plan: dict[str, Any] | None = None
        self._own = self._failure = ""
        self._clock = Clock()
        self.start = Start()
        self._is_over = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._live, name="meeting", daemon=True)
        self._began = self._said = time.monotonic()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._failure and isinstance(error, KeyboardInterrupt):
            raise LoadError(self._failure) from None
        if self._failure or self._is_over.is_set():
            return
        self._own = str(error) or "interrupted"
        self._wake.set()
        self._thread.join(LINGER)

    def begin(self, plan: dict[str, Any]) -> Start:
        """Say that this generator is ready, and wait for the others; raise LoadError."""
        self._plan = plan
        self._wake.set()
        self._is_over.wait()
        if self._failure:
            raise LoadError(self._failure)
        return self.start

    def clock(self) -> ClockReport:
        """The clock of this machine, once the begin is known."""
        return self._clock.report("{}/{}".format(*self._portion))

    def _live(self) -> None:
        try:
            self.start = self._talk()
        except (LoadError, OSError, msgspec.MsgspecError) as error:
            if not self._own:
                gone = f"the coordinator, part 0, has ended before the load began ({error})"
                is_told = isinstance(error, LoadError)
                self._failure = str(error) if is_told else f"{gone}; its standard error says why"
                self._interrupt()
        self._is_over.set()

    def _talk(self) -> Start:
        with self._connect() as connection, connection.makefile("rb") as lines:
            told = self._ask(connection, lines)
            while not told.begin:
                if told.failed:
                    raise LoadError(told.failed)
                state = "being prepared" if self._plan is None else "ready"
                self._tell(f"{named(*self._portion)} is {state}; waiting for {told.awaited}")
                self._wake.wait(PAUSE)
                self._wake.clear()
                told = self._ask(connection, lines)
            for _ in range(BURST):
                told = self._ask(connection, lines)
        return Start(told.begin + self._clock.ahead, told.at)

    def _connect(self) -> socket.socket:
        while True:
            place = self._find()
            if place is not None:
                with suppress(OSError):
                    found = socket.create_connection(place, SILENT)
                    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    return found
            if self._own:
                raise LoadError(self._own)
            at = "" if place is None else f" ({place[0]} port {place[1]})"
            if time.monotonic() - self._began > PATIENCE / SECOND:
                raise LoadError(f"the coordinator, part 0, is not there{at}")
            self._tell(f"waiting for the coordinator, part 0, which is not there{at}")
            self._wake.wait(AGAIN)

    def _ask(self, connection: socket.socket, lines: Any) -> Told:
        asked = Asked(*self._portion, self._plan, self._own)
        sent = time.monotonic_ns()
        connection.sendall(msgspec.json.encode(asked) + b"\n")
        line = lines.readline()
        received, wall = time.monotonic_ns(), time.time_ns()
        if not line:
            raise ConnectionError("it has closed the connection")
        told = msgspec.json.decode(line, type=Told)
        self._clock.add(sent, told, received, wall)
        return told

    def _tell(self, sentence: str) -> None:
        now = time.monotonic()
        if now - self._said >= BETWEEN:
            self._said = now
            self._say(f"{sentence} ({now - self._began:.0f} s)")
