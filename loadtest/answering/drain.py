"""The steady method: a stopped server's socket is filled, then it goes on, and its CPU time is read.

Path: run.py -> here -> usage.py.
Rule 1: the server never waits meanwhile: its batches are full and no wake-up is paid, which is where rounds differ most
        otherwise.
Rule 2: nobody waits for a reply either: they are collected every few milliseconds, so that the server is not charged
        for waking the client.
Rule 3: the CPU time is that at the last look that found new replies; the cost is shared by what was answered.
Rule 4: buffers.py gives every server the same room, so that all find the same number of queries; where it cannot,
        most are lost, and the tables say so.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from loadtest.answering.usage import Measured
from loadtest.process import Failed

QUERIES: Final = 2000
_LOOK_EVERY = 0.002  # seconds
_PATIENCE = 0.05  # seconds without a new reply until the rest counts as lost
_START_PATIENCE = 1.0
_RECEIVE_BUFFER = 1 << 20


class Drained(NamedTuple):
    """One round."""

    cpu_ns: int
    sent: int
    answered: int


class Filler:
    """So many sockets that ask in turn; a context.  Raises Failed where the process may not open as many."""

    def __init__(self, ports: int) -> None:
        self._socks: list[socket.socket] = []
        try:
            for _ in range(ports):
                sock = socket.socket(type=socket.SOCK_DGRAM)
                self._socks.append(sock)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
                sock.bind(("127.0.0.1", 0))
                sock.setblocking(False)
        except OSError as error:
            self.__exit__()
            raise Failed(
                f"no more than {len(self._socks)} of {ports} ports can be asked from: {error};"
                " a higher limit of open files (ulimit -n) may help"
            ) from None

    def __enter__(self) -> Filler:
        return self

    def __exit__(self, *error: object) -> None:
        for sock in self._socks:
            sock.close()

    def drain(self, process: Measured, port: int, queries: Sequence[bytes]) -> Drained:
        """Let the server answer these queries in one go."""
        self._collect()  # what came too late last time
        messages = [index.to_bytes(2, "big") + query[2:] for index, query in enumerate(queries)]
        process.stop()
        try:
            before = process.cpu_ns()
            for index, message in enumerate(messages):
                self._socks[index % len(self._socks)].sendto(message, ("127.0.0.1", port))
        finally:
            process.go_on()
        after, answered = before, 0
        deadline = time.monotonic() + _START_PATIENCE
        while answered < len(messages) and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY)
            came = self._collect()
            if came:
                after, answered = process.cpu_ns(), answered + came
                deadline = time.monotonic() + _PATIENCE
        return Drained(after - before, len(messages), answered)

    def _collect(self) -> int:
        count = 0
        for sock in self._socks:
            try:
                while sock.recv(65_535):
                    count += 1
            except OSError:  # nothing more, or refused
                continue
        return count
