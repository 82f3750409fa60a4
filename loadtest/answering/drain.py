"""The drain method: fills the socket of a stopped server, continues the server, and reads its CPU time.

Path: run.py -> here -> usage.py.
Rule 1: the server never waits: its batches are full and there are no wake-ups, which otherwise cause most of the
        difference between rounds.
Rule 2: the client does not block on replies: it collects them every few milliseconds, so that the server does not pay
        for waking the client.
Rule 3: the CPU time is read at the last check that found new replies, and divided by the number of replies.
Rule 4: buffers.py gives every server the same buffer size, so that all get the same number of queries.  If it cannot,
        most are lost, and the tables say so.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from loadtest.process import BenchmarkError, Process

QUERIES: Final = 2000
_POLL_INTERVAL = 0.002  # seconds
_TIMEOUT = 0.05  # seconds without a new reply until the rest counts as lost
_FIRST_REPLY_TIMEOUT = 1.0
_RECEIVE_BUFFER = 1 << 20


class DrainedBatch(NamedTuple):
    """One round."""

    cpu_ns: int
    sent: int
    answered: int


class QuerySender:
    """Sockets that send queries in turn; a context manager.  Raises BenchmarkError if it cannot open that many."""

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
            raise BenchmarkError(
                f"no more than {len(self._socks)} of {ports} ports can be asked from: {error};"
                " a higher limit of open files (ulimit -n) may help"
            ) from None

    def __enter__(self) -> QuerySender:
        return self

    def __exit__(self, *error: object) -> None:
        for sock in self._socks:
            sock.close()

    def drain(self, process: Process, port: int, queries: Sequence[bytes]) -> DrainedBatch:
        """Make the server answer these queries in one batch."""
        self._collect()  # late replies of the previous round
        messages = [index.to_bytes(2, "big") + query[2:] for index, query in enumerate(queries)]
        process.stop()
        try:
            before = process.cpu_ns()
            for index, message in enumerate(messages):
                self._socks[index % len(self._socks)].sendto(message, ("127.0.0.1", port))
        finally:
            process.resume()
        after, answered = before, 0
        deadline = time.monotonic() + _FIRST_REPLY_TIMEOUT
        while answered < len(messages) and time.monotonic() < deadline:
            time.sleep(_POLL_INTERVAL)
            received = self._collect()
            if received:
                after, answered = process.cpu_ns(), answered + received
                deadline = time.monotonic() + _TIMEOUT
        return DrainedBatch(after - before, len(messages), answered)

    def _collect(self) -> int:
        count = 0
        for sock in self._socks:
            try:
                while sock.recv(65_535):
                    count += 1
            except OSError:  # no more replies, or an ICMP error
                continue
        return count
