"""The process that sends probes about changes, separate so that neither the load nor the watch delays it.

Path: cli/load.py starts it; follow.py requests that a change is followed -> main() in the other process ->
follow.py; the answers go back over a pipe to propagation.py.
Rule: it ends when its standard input is closed; it ignores Ctrl-C, which the parent handles.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec

from hsdns.load.errors import LoadError
from hsdns.load.outcome import READY, Frames, frame
from hsdns.load.schedule import SECOND
from hsdns.load.send.process import Pipe, begin
from hsdns.load.send.udp import UdpWire
from hsdns.load.verify.follow import (
    COMMAND_SIZE,
    PORTS,
    Command,
    Event,
    Prober,
    pack_command,
    unpack_commands,
)

Place = tuple[int, tuple[str | int, ...]]  # address family, and address in the socket module's form


class _Plan(msgspec.Struct):
    places: list[Place]
    queries: list[bytes]


class ProberProcess:
    """The other process, for servers at these places; a context manager that raises LoadError."""

    def __init__(self, places: Sequence[Place], queries: Sequence[bytes]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from hsdns.load.verify.prober_process import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._frames = Frames()
        self._plan = msgspec.msgpack.encode(_Plan(list(places), list(queries)))

    def __enter__(self) -> ProberProcess:
        stdin = self._process.stdin
        assert stdin is not None, "a pipe"
        with suppress(BrokenPipeError):
            stdin.write(len(self._plan).to_bytes(8, "big") + self._plan)
            stdin.flush()
        if next(self.messages(None), (b"", b""))[0] != READY:
            self.__exit__()
            raise LoadError(
                "the process that asks about changes has ended before it began; standard error says why"
            )
        os.set_blocking(stdin.fileno(), False)
        return self

    def __exit__(self, *error: object) -> None:
        assert self._process.stdin is not None, "a pipe"
        assert self._process.stdout is not None, "a pipe"
        with suppress(OSError):
            self._process.stdin.close()
        self._process.stdout.close()
        if self._process.poll() is None:
            self._process.kill()  # it ignores SIGTERM
        self._process.wait()

    def follow(self, event: Event) -> bool:
        """Follow a change; return False if that is not possible now.  Callable from any thread."""
        return self._tell(Command(1, event.number, event.question, round(event.seen * SECOND)))

    def done(self, event: int) -> None:
        """Stop following a change.  Callable from any thread."""
        self._tell(Command(0, event))

    def messages(self, timeout: float | None = 0) -> Iterator[tuple[bytes, bytes]]:
        """The kinds and contents of its messages."""
        stdout = self._process.stdout
        assert stdout is not None, "a pipe"
        while select.select([stdout], [], [], timeout)[0]:
            octets = os.read(stdout.fileno(), 1 << 20)
            if not octets:
                return
            yield from self._frames.feed(octets)
            timeout = 0

    def _tell(self, command: Command) -> bool:
        assert self._process.stdin is not None, "a pipe"
        try:
            os.write(self._process.stdin.fileno(), pack_command(command))
        except (BlockingIOError, BrokenPipeError):
            return False
        return True


def main() -> None:
    """Read the queries from standard input, and then which changes to follow."""
    stdin, stdout, octets = begin()
    plan = msgspec.msgpack.decode(octets, type=_Plan)
    wires = [
        UdpWire(family, tuple(address)) for family, address in plan.places for _ in range(PORTS)
    ]
    numbers = {wire.socket.fileno(): number for number, wire in enumerate(wires)}
    watched = [stdin, *numbers]

    def wait(nanoseconds: int) -> tuple[list[int], list[Command] | None]:
        ready = select.select(watched, [], [], nanoseconds / 1e9)[0]
        commands: list[Command] | None = []
        if stdin in ready:
            # A pipe returns whole commands: each was written at once, and this is a multiple of their size.
            octets = os.read(stdin, COMMAND_SIZE * 1024)
            commands = unpack_commands(octets) if octets else None
        return [numbers[each] for each in ready if each != stdin], commands

    pipe = Pipe(stdout)
    prober = Prober(wires, plan.queries, clock=time.monotonic_ns, wait=wait, emit=pipe.emit)
    pipe.emit(frame(READY))
    with suppress(BrokenPipeError):
        prober.run()
        pipe.finish()
