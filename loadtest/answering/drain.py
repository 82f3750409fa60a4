"""The drain method: fills the socket of a stopped server, continues the server, and reads its CPU time.

Path: servers.py -> enlarge_buffers() -> pidfd_getfd; run.py -> QuerySender -> process.py.
Rule 1: the server never waits: its batches are full and there are no wake-ups, which otherwise cause most of the
        difference between rounds.
Rule 2: the client does not block on replies: it collects them every few milliseconds, so that the server does not pay
        for waking the client.
Rule 3: the CPU time is read at the last check that found new replies, and divided by the number of replies.
Rule 4: by default a socket's buffer holds 256 small queries.  A server that does not request more would be measured
        with an eighth of the queries that others get.  So all get the same size, which holds a whole round; nothing
        else is changed.  If the kernel refuses, most queries are lost, and the tables say so.
Source: pidfd_getfd(2), which a parent may use on its children; socket(7), SO_RCVBUFFORCE.
"""

from __future__ import annotations

import ctypes
import os
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from loadtest.process import BenchmarkError, Process

BUFFER_SIZE: Final = 4 << 20  # octets
_SYS_PIDFD_GETFD = 438  # the same on every architecture
_SO_RCVBUFFORCE = 33


def enlarge_buffers(pid: int, port: int) -> int:
    """Enlarge the buffers of a process's UDP sockets on a port; return how many sockets now have the size."""
    count = 0
    for sock in _sockets(pid):
        with sock:
            if sock.type == socket.SOCK_DGRAM and _port(sock) == port and _enlarge(sock):
                count += 1
    return count


def _sockets(pid: int) -> Iterator[socket.socket]:
    """The sockets of a process, as file descriptors of this process."""
    if not hasattr(os, "pidfd_open"):
        return
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            if not os.readlink(entry).startswith("socket:"):
                continue
            fd = syscall(_SYS_PIDFD_GETFD, pidfd, int(entry.name), 0)
            if fd >= 0:
                yield socket.socket(fileno=fd)
    except OSError:  # the process has closed it or has ended
        return
    finally:
        os.close(pidfd)


def _port(sock: socket.socket) -> int | None:
    name = sock.getsockname()
    return name[1] if isinstance(name, tuple) else None


def _enlarge(sock: socket.socket) -> bool:
    for option in (socket.SO_RCVBUF, _SO_RCVBUFFORCE):
        # The kernel doubles the requested size, and reports the doubled one.
        if sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) >= BUFFER_SIZE:
            break
        try:
            sock.setsockopt(socket.SOL_SOCKET, option, BUFFER_SIZE)
        except OSError:
            continue
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) >= BUFFER_SIZE


QUERIES: Final = 2000
_POLL_INTERVAL = 0.002  # seconds
_TIMEOUT = 0.05  # seconds without a new reply until the rest counts as lost
_FIRST_REPLY_TIMEOUT = 1.0
_RECEIVE_BUFFER = 1 << 20


class DrainedBatch(NamedTuple):
    """One round."""

    cpu_ns: int
    busiest_ns: int  # of the thread that needed most
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
            before = process.threads_ns()
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
                after, answered = process.threads_ns(), answered + received
                deadline = time.monotonic() + _TIMEOUT
        spent = [now - before.get(thread, 0) for thread, now in after.items()]
        return DrainedBatch(sum(spent), max(spent), len(messages), answered)

    def _collect(self) -> int:
        count = 0
        for sock in self._socks:
            try:
                while sock.recv(65_535):
                    count += 1
            except OSError:  # no more replies, or an ICMP error
                continue
        return count
