"""The generators of a run meet before it begins: part 0 is the coordinator, and all talk to it over TCP.

Path: cli/load.py -> here -> barrier.py, which decides.  A line of JSON is a question, another one its answer.
Rule 1: a generator joins before it prepares anything, in a thread; so it hears of another's failure at any time.
Rule 2: the failure of another interrupts what this one does, and is raised in place of that interruption.
Rule 3: once the begin is known all connections end: a run depends on no other generator.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any, Final, Self

import msgspec

from hsdns.load.errors import LoadError
from hsdns.load.generators.barrier import PATIENCE, Asked, Barrier, Clock, Told
from hsdns.load.report import ClockReport
from hsdns.load.schedule import SECOND, Portion

PAUSE: Final = 0.25  # seconds between two questions
AGAIN: Final = 1.0  # seconds between two attempts to reach the coordinator
BETWEEN: Final = 5.0  # seconds between two sentences
SILENT: Final = 60.0  # seconds after which a peer is gone
LINGER: Final = 2.0  # seconds to tell the coordinator of a failure
BURST: Final = 16  # exchanges that measure the clock once the begin is known
_LONGEST: Final = 1 << 20  # octets of a question
Place = tuple[str, int]


class _Connection(StreamRequestHandler):
    """A generator, at the coordinator."""

    server: Coordinator
    timeout = SILENT
    disable_nagle_algorithm = True

    def handle(self) -> None:
        """Answer until it ends, or says something else."""
        with suppress(OSError, msgspec.MsgspecError):
            while line := self.rfile.readline(_LONGEST):
                asked = msgspec.json.decode(line, type=Asked)
                with self.server.changing:
                    told = self.server.barrier.answer(asked, self, time.time_ns())
                self.wfile.write(msgspec.json.encode(told) + b"\n")
        with self.server.changing:
            self.server.barrier.left(self)


class Coordinator(ThreadingTCPServer):
    """The coordinator of `parts` generators, at an address of this machine; a context manager; raise LoadError.

    At its end it waits until all have heard of a failure, and have hung up.
    """

    allow_reuse_address = True
    request_queue_size = 1024

    def __init__(self, place: Place, parts: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in place[0] else socket.AF_INET
        self.barrier, self.changing = Barrier(parts, time.time_ns()), threading.Lock()
        try:
            super().__init__(place, _Connection)
        except OSError as error:
            where = f"{place[0]} port {place[1]}"
            raise LoadError(f"--coordinate: part 0 cannot listen on {where}: {error.strerror}") from None  # fmt: skip
        self.place = place[0], int(self.server_address[1])
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def __exit__(self, *error: object) -> None:
        self.shutdown()
        self.server_close()


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
        interrupt: Callable[[], object],
    ) -> None:
        self._portion, self._find, self._say, self._interrupt = portion, find, say, interrupt
        self._plan: dict[str, Any] | None = None
        self._own = self._failure = self._sentence = ""
        self._clock, self.start = Clock(), 0  # by the coordinator's, nanoseconds since 1970
        self._is_over, self._wake = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._live, name="meeting", daemon=True)
        self._began = self._said = time.monotonic()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._failure and isinstance(error, KeyboardInterrupt):
            raise LoadError(self._failure) from None
        if not self._is_over.is_set():
            self._own = str(error) or "interrupted"
            self._wake.set()
            self._thread.join(LINGER)

    def begin(self, plan: dict[str, Any]) -> int:
        """Say that this generator is ready, and wait for the others; raise LoadError.

        Return the begin in nanoseconds of this machine's monotonic clock.
        """
        self._plan = plan
        self._wake.set()
        self._is_over.wait()
        if self._failure:
            raise LoadError(self._failure)
        # This thread may be stopped between two clocks: the largest difference is the best one.
        between = max(time.monotonic_ns() - time.time_ns() for _ in range(BURST))
        return self.start + self._clock.ahead + between

    def clock(self) -> ClockReport:
        """The clock of this machine, once the begin is known."""
        return self._clock.report("{}/{}".format(*self._portion))

    def _live(self) -> None:
        try:
            self._talk()
        except Exception as error:  # whatever it is, the main thread must not wait for ever
            if not self._own:
                gone = f"the coordinator, part 0, has ended before the load began ({error})"
                self._failure = str(error) if isinstance(error, LoadError) else f"{gone}; its log says why"  # fmt: skip
                self._interrupt()
        self._is_over.set()

    def _talk(self) -> None:
        with self._connect() as connection, connection.makefile("rb") as lines:
            while not (told := self._ask(connection, lines)).begin:
                if told.failed:
                    raise LoadError(told.failed)
                state = "being prepared" if self._plan is None else "ready"
                name = "part {}/{}".format(*self._portion)
                self._tell(f"{name} is {state}; waiting for {told.awaited}")
                self._wake.wait(PAUSE)
                self._wake.clear()
            for _ in range(BURST):
                self._ask(connection, lines)
        self.start = told.begin

    def _connect(self) -> socket.socket:
        while not self._own:
            place = self._find()
            at = "" if place is None else " ({} port {})".format(*place)
            with suppress(OSError):
                if place is not None:
                    found = socket.create_connection(place, SILENT)
                    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    return found
            if time.monotonic() - self._began > PATIENCE / SECOND:
                raise LoadError(f"the coordinator, part 0, is not there{at}")
            self._tell(f"waiting for the coordinator, part 0, which is not there{at}")
            self._wake.wait(AGAIN)
        raise LoadError(self._own)

    def _ask(self, connection: socket.socket, lines: Any) -> Told:
        asked = msgspec.json.encode(Asked(*self._portion, self._plan, self._own)) + b"\n"
        sent = time.time_ns()
        connection.sendall(asked)
        line = lines.readline()
        received = time.time_ns()
        if not line:
            raise ConnectionError("it has closed the connection")
        told = msgspec.json.decode(line, type=Told)
        self._clock.add(sent, told, received)
        return told

    def _tell(self, sentence: str) -> None:
        now = time.monotonic()
        if now - self._said >= (BETWEEN if sentence != self._sentence else SILENT / 2):
            self._said, self._sentence = now, sentence
            self._say(f"{sentence} ({now - self._began:.0f} s)")
