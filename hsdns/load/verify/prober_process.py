"""The process that sends probes about changes, separate so that neither the load nor the watch delays it.

Path: cli/load.py starts it; follow.py requests that a change is followed -> main() in the other process ->
follow.py; the answers go back over a pipe to propagation.py.
Rule: it ends when its standard input is closed; it ignores Ctrl-C, which the parent handles.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Self

import msgspec

from hsdns.load.errors import LoadError
from hsdns.load.outcome import READY, frame
from hsdns.load.schedule import SECOND
from hsdns.load.send.process import ChildProcess, Inputs, begin
from hsdns.load.send.sockets import UdpSocket
from hsdns.load.send.udp import UdpTransport
from hsdns.load.verify.follow import COMMAND, PORTS, TIMEOUT, Command, Event, Prober

Place = tuple[int, tuple[str | int, ...]]  # address family, and address in the socket module's form


class _Plan(msgspec.Struct):
    places: list[Place]
    queries: list[bytes]


class ProberProcess(ChildProcess):
    """The other process, for servers at these places; raises LoadError when it is entered."""

    what = "asks about changes"

    def __init__(self, places: Sequence[Place], queries: Sequence[bytes]) -> None:
        plan = msgspec.msgpack.encode(_Plan(list(places), list(queries)))
        super().__init__("hsdns.load.verify.prober_process", plan)

    def __enter__(self) -> Self:
        try:
            self.prepare()
        except LoadError:
            self.__exit__()
            raise
        os.set_blocking(self._stdin.fileno(), False)
        return self

    def follow(self, event: Event) -> bool:
        """Follow a change; return False if that is not possible now.  Callable from any thread."""
        return self._command(Command(1, event.number, event.question, round(event.seen * SECOND)))

    def done(self, event: int) -> None:
        """Stop following a change.  Callable from any thread."""
        self._command(Command(0, event))

    def _command(self, command: Command) -> bool:
        try:
            os.write(self._stdin.fileno(), COMMAND.pack(*command))
        except (BlockingIOError, BrokenPipeError):
            return False
        return True


def main() -> None:
    """Read the queries from standard input, and then which changes to follow."""
    stdin, pipe, plan = begin(_Plan)
    clock = time.monotonic_ns

    def obey() -> bool:
        # A pipe returns whole commands: each was written at once, and this is a multiple of their size.
        octets = os.read(stdin, COMMAND.size * 1024)
        for fields in COMMAND.iter_unpack(octets):
            prober.obey(Command(*fields))
        return bool(octets)

    inputs = Inputs(stdin, obey)
    prober = Prober(queries=plan.queries, clock=clock, wait=inputs.wait, emit=pipe.emit)
    prober.transports = [
        inputs.watch_udp(UdpTransport(sockets, TIMEOUT, prober.ended, clock, run=1), sockets)
        for sockets in ([UdpSocket(*place) for _ in range(PORTS)] for place in plan.places)
    ]
    pipe.emit(frame(READY))
    with suppress(BrokenPipeError):
        prober.loop()
        pipe.finish()
