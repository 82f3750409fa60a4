"""The process that only sends and receives, so that counting, judging and drawing do not delay it.

Path: run.py starts it -> main() in the other process -> CompiledSender or loop.py; their messages come back over
a pipe.
Rule 1: it ends when it has sent everything, or when its standard input is closed; it ignores Ctrl-C, which the parent
        handles.
Rule 2: it never waits for the pipe; messages that do not fit stay in memory.

Runs the compiled sender over UDP: makes its sockets, and its schedule ahead of time:
Rule 1: the first FIRST seconds of the schedule, at most MOST queries, are made before the run begins, the others during
        the run by a thread that yields to everything else, so that it delays no query.
Rule 2: schedule, order and questions are those of the Python twin (loop.py), and so are the outcomes.
"""

from __future__ import annotations

import ctypes
import gc
import os
import select
import signal
import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from secrets import randbelow
from selectors import EVENT_READ, DefaultSelector
from typing import TYPE_CHECKING, Final, Self, TypeVar

import msgspec

from hsdns.fastpath import LoadSender
from hsdns.limits import raise_limit
from hsdns.load.errors import LoadError
from hsdns.load.outcome import END, READY, UNMATCHED, Frames, frame
from hsdns.load.plan import Plan
from hsdns.load.pods import PodPlan, Pods
from hsdns.load.schedule import SECOND, Portion
from hsdns.load.send.clients import ClientPool, ClientSockets
from hsdns.load.send.connection import Pool
from hsdns.load.send.loop import Ready, Reporter, Sender
from hsdns.load.send.pods import PodSender
from hsdns.load.send.processors import NONE, OwnProcessor
from hsdns.load.send.sockets import SMALL_BUFFER, Links, UdpSocket, open_pool, open_socket
from hsdns.load.send.udp import IDS, UdpTransport
from hsdns.resolver.forwarders.forwarder import Registry

if TYPE_CHECKING:
    from hsdns.fastpath._native import LoadSender as Compiled

FIRST: Final = 20  # seconds
MOST: Final = 1_000_000  # queries
# Due times, and numbers of questions.
Piece = tuple["array[int]", "array[int]"]
PIECE: Final = 4096  # queries
LEAST_NICE: Final = 19
SPIN: Final = 60_000  # nanoseconds by which a wait in Python ends early, as sleeps take too long


class CompiledSender:
    """Carries out a plan; `first_ids` are the first IDs of the sockets."""

    def __init__(self, plan: Plan, first_ids: Sequence[int]) -> None:
        assert LoadSender is not None, "main() has checked it"
        self._sockets = [open_socket(plan.family, plan.address) for _ in first_ids]
        self._sender = LoadSender(
            plan.queries,
            kinds=plan.kinds,
            first_ids=list(first_ids),
            timeout=plan.timeout,
            replies=plan.replies,
            window=plan.window,
            most=plan.most,
            late_after=plan.late_after,
        )
        pieces = pieces_of(plan)
        feed(self._sender, _first(pieces))
        self._rest = pieces

    def run(self, begin: int, stop: int, pipe: int) -> None:
        """Send everything until file descriptor `stop` is readable; write to the non-blocking `pipe`.  Call it once."""
        numbers = [each.fileno() for each in self._sockets]
        feeding = threading.Thread(target=self._feed_rest)
        feeding.start()
        try:
            with suppress(BrokenPipeError):
                self._sender.run(numbers, stop, pipe, begin)
        finally:
            feeding.join()
            for sock in self._sockets:
                sock.close()

    def _feed_rest(self) -> None:
        with suppress(OSError, AttributeError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LEAST_NICE)
        feed(self._sender, self._rest)
        self._sender.end_feed()


def pieces_of(plan: Plan) -> Iterator[Piece]:
    """The due times and numbers of questions of the plan, PIECE at a time."""
    times, numbers = plan.times(), plan.order()
    while due := array("q", islice(times, PIECE)):
        yield due, array("I", islice(numbers, len(due)))


def feed(sender: Compiled, pieces: Iterator[Piece]) -> None:
    """Pass pieces to a sender until it takes no more."""
    for times, numbers in pieces:
        if not sender.feed(times.tobytes(), numbers.tobytes()):
            return


def _first(pieces: Iterator[Piece]) -> Iterator[Piece]:
    for piece in islice(pieces, MOST // PIECE):
        yield piece
        if piece[0][-1] > FIRST * SECOND:
            return


_PIPE: Final = 1 << 20  # octets
STUCK: Final = 10.0  # seconds that a process may take to end
_SET_PIPE_SIZE: Final = 1031  # F_SETPIPE_SZ
_SET_TIMER_SLACK: Final = 29  # PR_SET_TIMERSLACK
_SLACK: Final = 1_000  # nanoseconds


class ChildProcess:
    """Another process, which runs main() of a module with a plan; a context manager."""

    what = "sends"

    def __init__(self, module: str, plan: bytes) -> None:
        words = [sys.executable, "-c", f"from {module} import main; main()"]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin is not None, "a pipe"
        assert process.stdout is not None, "a pipe"
        self.process, self._stdin, self._stdout = process, process.stdin, process.stdout
        self._frames = Frames()
        self._plan = plan
        self._stopped = float("inf")  # when it was first told to end

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
        self._stdout.close()
        if self.process.poll() is None:
            self.process.kill()  # it ignores SIGTERM
        self.process.wait()

    def prepare(self) -> None:
        """Send the plan and wait until the process is ready; raise LoadError."""
        self._write(framed(self._plan))
        if next(self.messages(None), (b"", b""))[0] != READY:
            raise self._not_begun()

    def _write(self, octets: bytes) -> None:
        try:
            self._stdin.write(octets)
            self._stdin.flush()
        except BrokenPipeError:
            raise self._not_begun() from None

    def _not_begun(self) -> LoadError:
        return LoadError(
            f"the process that {self.what} has ended before it began; standard error says why"
        )

    def messages(self, timeout: float | None) -> Iterator[tuple[bytes, bytes]]:
        """Kinds and contents of the messages within `timeout` seconds, after at least one read; END at the end."""
        if not select.select([self._stdout], [], [], timeout)[0]:
            return
        octets = os.read(self._stdout.fileno(), _PIPE)
        yield from self._frames.feed(octets)
        if not octets:
            yield END, b""

    def stop(self) -> None:
        """End it; its remaining messages can be read.  Called again after STUCK seconds, kill it."""
        with suppress(OSError):
            self._stdin.close()
        self._stopped = min(self._stopped, now := time.monotonic())
        if now - self._stopped > STUCK:
            self.process.kill()


class SenderProcess(ChildProcess):
    """The process that sends; `cpu`: the processor that it has to itself until the end (processors.py)."""

    def __init__(self, plan: Plan, cpu: str = NONE) -> None:
        super().__init__("hsdns.load.send.process", msgspec.msgpack.encode(plan))
        self._cpu = cpu
        self._own: OwnProcessor | None = None

    def __exit__(self, *error: object) -> None:
        if self._own is not None:
            self._own.close()
        super().__exit__(*error)

    def prepare(self) -> None:
        """Send the plan, wait until the process is ready, and choose its processor; raise LoadError."""
        super().prepare()
        self._own = OwnProcessor(self.process.pid, self._cpu)
        self._own.choose()

    def messages(self, timeout: float | None) -> Iterator[tuple[bytes, bytes]]:
        """The messages of ChildProcess; the processor is looked at now and then."""
        if self._own is not None:
            self._own.watch()
        return super().messages(timeout)

    def start(self, begin: int) -> None:
        """Start the schedule at a time of the monotonic clock, in nanoseconds; raise LoadError."""
        self._write(begin.to_bytes(8, "big"))

    def tell(self, registry: Registry) -> None:
        """Tell the agents of pods what has changed of Services, unless it has ended."""
        with suppress(BrokenPipeError, ValueError):
            self._stdin.write(framed(msgspec.msgpack.encode(registry)))
            self._stdin.flush()


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


class Inputs:
    """What a separate process waits for: its sockets, and its standard input.

    `obey` is called when there is something on standard input; it returns False if the process is to end.
    """

    def __init__(self, stdin: int, obey: Callable[[], bool] = lambda: False) -> None:
        self.selector = DefaultSelector()
        self._stdin = stdin
        self._obey = obey

    def wait(self, nanoseconds: int) -> Ready:
        """Wait until a socket or standard input is ready, or nearly so long.

        select() waits, because its timeout has microseconds; it takes no descriptor above 1023, so it watches that of
        the selector.
        """
        files = [self._stdin, self.selector.fileno()]
        ready = select.select(files, [], [], max(0, nanoseconds - SPIN) / 1e9)[0]
        if self._stdin in ready and not self._obey():
            return None
        return (
            [partial(key.data, events) for key, events in self.selector.select(0)] if ready else ()
        )

    def watch_udp(self, transport: UdpTransport, sockets: Sequence[UdpSocket]) -> UdpTransport:
        """Let a transport receive what arrives at its sockets; return it."""
        for number, each in enumerate(sockets):
            self.selector.register(each, EVENT_READ, partial(_receive, transport, number))
        return transport


def _receive(transport: UdpTransport, number: int, events: int) -> None:
    del events  # only reading is watched
    transport.receive(number)


P = TypeVar("P")


def begin(kind: type[P]) -> tuple[int, Pipe, P]:
    """Start a separate process: ignore signals, reserve standard output for frames, and read the plan.

    Return its standard input, its pipe and its plan.
    """
    for each in (signal.SIGINT, signal.SIGTERM):  # all processes of a group get them
        signal.signal(each, signal.SIG_IGN)
    stdin, pipe = sys.stdin.fileno(), Pipe(os.dup(sys.stdout.fileno()))
    os.dup2(2, 1)  # nothing else may write to the pipe
    return stdin, pipe, read_framed(stdin, kind)


def framed(octets: bytes) -> bytes:
    """A message for standard input, after its length."""
    return len(octets).to_bytes(8, "big") + octets


def read_framed(stdin: int, kind: type[P]) -> P:
    """Read a message."""
    length = int.from_bytes(read_whole(stdin, 8), "big")
    return msgspec.msgpack.decode(read_whole(stdin, length), type=kind)


def main() -> None:
    """Read a plan and the time to begin from standard input, and carry it out."""
    stdin, pipe, plan = begin(Plan)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_TIMER_SLACK, _SLACK, 0, 0, 0)
    first_ids = [randbelow(IDS) for _ in range(plan.sockets)]
    run: Callable[[int], None]
    if plan.pods is not None:
        run = _pod_sender(plan, plan.pods, stdin, pipe.emit).run
    elif LoadSender is not None and plan.is_plain:
        run = partial(CompiledSender(plan, first_ids).run, stop=stdin, pipe=pipe.number)
    else:
        run = _sender(plan, first_ids, Inputs(stdin), pipe.emit).run
    pipe.emit(frame(READY))
    gc.collect()
    gc.freeze()
    gc.disable()  # nothing here has cycles, and a collection would cause lateness
    with suppress(BrokenPipeError):
        run(int.from_bytes(read_whole(stdin, 8), "big"))
        pipe.finish()


def _pod_sender(plan: Plan, asked: PodPlan, stdin: int, emit: Callable[[bytes], None]) -> PodSender:
    def obey() -> bool:
        with suppress(SystemExit):
            asked.registry.update(read_framed(stdin, dict))
            return True
        return False

    pods, clock, inputs = Pods(asked), time.monotonic_ns, Inputs(stdin, obey)
    raise_limit()
    links = Links(inputs.selector, plan.family, plan.address)
    sender = PodSender(
        pods=pods,
        times=plan.times(),
        wanted=Portion(*plan.portion).of(pods.lookups()),
        reporter=Reporter(emit, replies=plan.replies, late_after=plan.late_after),
        open_link=links.open,
        timeout=plan.timeout,
        clock=clock,
        wait=inputs.wait,
    )
    sockets = [UdpSocket(plan.family, plan.address, SMALL_BUFFER) for _ in range(plan.sockets)]
    reporter = sender.reporter
    transport = UdpTransport(sockets, plan.timeout, sender.ended, clock, run=1, note=reporter.note)
    reporter.dropped = lambda: sum(each.dropped() for each in sockets)
    sender.transport = inputs.watch_udp(transport, sockets)
    links.connections = sender.streams
    return sender


def _sender(
    plan: Plan, first_ids: Sequence[int], inputs: Inputs, emit: Callable[[bytes], None]
) -> Sender:
    """A sender over UDP, or over connections."""
    clock, streams, pool = time.monotonic_ns, plan.streams, None
    place = inputs.selector, plan.family, plan.address
    reporter = Reporter(emit, plan.replies, plan.kinds, plan.late_after)
    kind: Callable[..., Pool] = Pool
    make: Callable[..., UdpTransport] = UdpTransport
    asking = plan.asking()
    if plan.clients:
        kind = partial(ClientPool, asking=asking, sources=plan.clients)
        make = partial(ClientSockets, asking=asking)
    if streams is not None:
        pool = open_pool(streams, *place, plan.timeout, reporter.ended, clock, kind)
        reporter.connections = pool.counts
        pool.unmatched = partial(reporter.note, UNMATCHED)
    sender = Sender(
        reporter=reporter,
        queries=plan.labelled(),
        times=plan.times(),
        order=plan.order(),
        clock=clock,
        wait=inputs.wait,
        most=plan.most,
    )
    if pool is not None and streams is not None and not streams.for_truncated:
        sender.transport = pool
        return sender
    sources = plan.clients or [""] * plan.sockets
    sockets = [UdpSocket(plan.family, plan.address, source=each) for each in sources]
    udp = make(
        sockets,
        plan.timeout,
        reporter.ended,
        clock,
        first_ids=first_ids,
        window=plan.window,
        fallback=pool,
        note=reporter.note,
    )
    sender.transport = inputs.watch_udp(udp, sockets)
    reporter.dropped = lambda: sum(each.dropped() for each in sockets)
    return sender


def read_whole(number: int, length: int) -> bytes:
    """Read `length` octets of a file; end the process if there are fewer."""
    found = b""
    while len(found) < length:
        octets = os.read(number, length - len(found))
        if not octets:
            raise SystemExit(0)  # the parent has given up
        found += octets
    return found
