"""The process that only sends and receives, so that counting, judging and drawing do not delay it.

Path: run.py starts it -> main() in the other process -> compiled_sender.py or sender.py; their messages come back over
a pipe.
Rule 1: it ends when it has sent everything, or when its standard input is closed; it ignores Ctrl-C, which the parent
        handles.
Rule 2: it never waits for the pipe; messages that do not fit stay in memory.
"""

from __future__ import annotations

import ctypes
import gc
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from secrets import randbelow
from selectors import EVENT_READ, DefaultSelector
from typing import Final, NamedTuple

from hsdns.load.compiled_sender import CompiledSender, available
from hsdns.load.errors import LoadError
from hsdns.load.in_flight import IDS, InFlight
from hsdns.load.outcome import END, READY, Frames, frame
from hsdns.load.plan import Plan, read_plan, write_plan
from hsdns.load.pod_process import pod_sender
from hsdns.load.pods import PodPlan, Pods
from hsdns.load.sender import Sender, Wire
from hsdns.load.stream_process import FallsOverTcp, stream_sender
from hsdns.load.udp import UdpWire

_NOT_BEGUN: Final = "the process that sends has ended before it began; standard error says why"
_PIPE: Final = 1 << 20  # octets
_SET_PIPE_SIZE: Final = 1031  # F_SETPIPE_SZ
_SET_TIMER_SLACK: Final = 29  # PR_SET_TIMERSLACK
_SLACK: Final = 1_000  # nanoseconds


class SenderProcess:
    """The other process; a context manager.

    `is_alone`: it has a processor to itself if there are several, and this process runs on the others until the end.
    """

    def __init__(self, plan: Plan, *, is_alone: bool = False) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from hsdns.load.sender_process import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._frames = Frames()
        self._plan = plan
        self._processors = _part(self._process.pid) if is_alone else None

    def __enter__(self) -> SenderProcess:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
        if self._processors is not None:
            os.sched_setaffinity(0, self._processors)
        assert self._process.stdout is not None, "a pipe"
        self._process.stdout.close()
        if self._process.poll() is None:
            self._process.kill()  # it ignores SIGTERM
        self._process.wait()

    @property
    def pid(self) -> int:
        """The process ID."""
        return self._process.pid

    def prepare(self) -> None:
        """Send the plan and wait until the process is ready; raise LoadError."""
        plan = write_plan(self._plan)
        self._tell(len(plan).to_bytes(8, "big") + plan)
        if next(self.messages(None), (b"", b""))[0] != READY:
            raise LoadError(_NOT_BEGUN)

    def start(self, begin: int) -> None:
        """Start the schedule at a time of the monotonic clock, in nanoseconds; raise LoadError."""
        self._tell(begin.to_bytes(8, "big"))

    def _tell(self, octets: bytes) -> None:
        stdin = self._process.stdin
        assert stdin is not None, "a pipe"
        try:
            stdin.write(octets)
            stdin.flush()
        except BrokenPipeError:
            raise LoadError(_NOT_BEGUN) from None

    def messages(self, timeout: float | None) -> Iterator[tuple[bytes, bytes]]:
        """Kinds and contents of the messages within `timeout` seconds, after at least one read; END at the end."""
        stdout = self._process.stdout
        assert stdout is not None, "a pipe"
        if not select.select([stdout], [], [], timeout)[0]:
            return
        octets = os.read(stdout.fileno(), _PIPE)
        yield from self._frames.feed(octets)
        if not octets:
            yield END, b""

    def stop(self) -> None:
        """Stop sending; its remaining messages can be read."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            with suppress(OSError):
                self._process.stdin.close()


def _part(sender: int) -> set[int] | None:
    """Give the last processor to another process and the rest to this one; return those that it had.

    A process that counts would otherwise take the sender's processor for up to a tick of the kernel, 4 ms.
    """
    if sys.platform != "linux":
        return None
    processors = os.sched_getaffinity(0)
    last = max(processors)
    if len(processors) > 1:
        os.sched_setaffinity(sender, {last})
        os.sched_setaffinity(0, processors - {last})
    return processors


class Pipe:
    """Non-blocking standard output."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._waiting = bytearray()
        os.set_blocking(number, False)
        if sys.platform == "linux":
            import fcntl  # noqa: PLC0415 - not on every platform

            with suppress(OSError):
                fcntl.fcntl(number, _SET_PIPE_SIZE, _PIPE)

    def emit(self, octets: bytes) -> None:
        """Write as much as there is room for."""
        self._waiting += octets
        with suppress(BlockingIOError):
            while self._waiting:
                written = os.write(self.number, self._waiting)
                del self._waiting[:written]

    def finish(self) -> None:
        """Wait until all is written."""
        os.set_blocking(self.number, True)
        self.emit(b"")


class Told(NamedTuple):
    """What a separate process starts with: its standard input, its output, and its plan."""

    stdin: int
    stdout: int
    plan: bytes


def begin() -> Told:
    """Start such a process: ignore signals, reserve standard output for frames, and read the plan."""
    for each in (signal.SIGINT, signal.SIGTERM):  # all processes of a group get them
        signal.signal(each, signal.SIG_IGN)
    stdin, stdout = sys.stdin.fileno(), os.dup(sys.stdout.fileno())
    os.dup2(2, 1)  # nothing else may write to the pipe
    length = int.from_bytes(read_whole(stdin, 8), "big")
    return Told(stdin, stdout, read_whole(stdin, length))


def main() -> None:
    """Read a plan and the time to begin from standard input, and carry it out."""
    stdin, stdout, octets = begin()
    plan = read_plan(octets)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_TIMER_SLACK, _SLACK, 0, 0, 0)
    first_ids = [randbelow(IDS) for _ in range(plan.sockets)]
    pipe = Pipe(stdout)
    if plan.pods is not None:
        run = _pods(plan, plan.pods)
    elif plan.streams is not None and not plan.streams.for_truncated:
        run = _over_connections(plan, stdin, pipe)
    elif available() and plan.streams is None:
        run = _compiled(plan, first_ids)
    else:
        run = _in_python(plan, first_ids)
    pipe.emit(frame(READY))
    gc.collect()
    gc.freeze()
    gc.disable()  # nothing here has cycles, and a collection would cause lateness
    with suppress(BrokenPipeError):
        run(int.from_bytes(read_whole(stdin, 8), "big"), stdin, pipe)


# Takes the begin, a file descriptor whose end stops it, and the pipe for its messages.
_Run = Callable[[int, int, Pipe], None]


def _compiled(plan: Plan, first_ids: Sequence[int]) -> _Run:
    sender = CompiledSender(plan, first_ids)
    return lambda begin, stop, pipe: sender.run(begin, stop, pipe.number)


def _pods(plan: Plan, asked: PodPlan) -> _Run:
    pods = Pods(asked)

    def run(begin: int, stop: int, pipe: Pipe) -> None:
        pod_sender(plan, pods, stop, pipe.emit).run(begin)
        pipe.finish()

    return run


def _over_connections(plan: Plan, stop: int, pipe: Pipe) -> _Run:
    sender = stream_sender(plan, stop, pipe.emit)

    def run(begin: int, stop: int, pipe: Pipe) -> None:
        del stop  # the sender has its own reference
        sender.run(begin)
        pipe.finish()

    return run


def _in_python(plan: Plan, first_ids: Sequence[int]) -> _Run:
    # select() takes no descriptor above 1023, so it watches one that watches the sockets.
    selector = DefaultSelector()
    wires = [UdpWire(plan.family, plan.address) for _ in first_ids]
    for number, wire in enumerate(wires):
        selector.register(wire.socket, EVENT_READ, number)
    times, questions = plan.times(), plan.order()
    in_flight = InFlight(plan.sockets, plan.timeout, first_ids, plan.window)

    def run(begin: int, stop: int, pipe: Pipe) -> None:
        falls = None if plan.streams is None else FallsOverTcp(plan, wires, pipe.emit)
        if falls is not None:
            selector.register(falls, EVENT_READ)
        watched = [stop, selector.fileno()]

        def wait(nanoseconds: int) -> list[int] | None:
            ready = select.select(watched, [], [], nanoseconds / 1e9)[0]
            if stop in ready:
                return None
            found = [key.data for key, _ in selector.select(0)] if ready else []
            if falls is None:
                return found
            return [*(each for each in found if each is not None), *falls.turn()]

        used: Sequence[Wire] = wires if falls is None else falls.wires
        sender = Sender(
            used,
            plan.queries,
            times,
            questions,
            in_flight,
            clock=time.monotonic_ns,
            wait=wait,
            emit=pipe.emit,
            replies=plan.replies,
            most=plan.most,
        )
        sender.run(begin)
        if falls is not None:
            falls.close()
        pipe.finish()

    return run


def read_whole(number: int, length: int) -> bytes:
    """Read `length` octets of a file; end the process if there are fewer."""
    found = b""
    while len(found) < length:
        octets = os.read(number, length - len(found))
        if not octets:
            raise SystemExit(0)  # the parent has given up
        found += octets
    return found
