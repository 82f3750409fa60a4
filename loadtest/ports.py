"""Free loopback ports for servers of tests and benchmarks: each port is returned once, to one process.

Path: a test or a benchmark -> open_both() for a server of its own process, free_port() for one that binds later.
Rule 1: none is an ephemeral port of the kernel, which a client might take before the server does.
Rule 2: a process reserves a range of ports, so that two processes that look for a port at once get different ones.  It
listens on the first port of the range as the mark; the kernel releases it however the process ends.
Rule 3: the ports of a range are returned in order.  With random ports, two of the five in a Corefile collide too often.
"""

from __future__ import annotations

import atexit
import errno
import functools
import random
import socket

SERVER_PORTS = range(20000, 32000)  # below Linux's default ip_local_port_range, 32768 to 60999
ATTEMPTS = 20
_RANGE_LEN = 200
_HOST = "127.0.0.1"


class PortRange:
    """The ports after one that this process listens on; `mark` is that socket."""

    def __init__(self, mark: socket.socket) -> None:
        self._mark = mark
        self._first = mark.getsockname()[1]
        self._given = 0

    def close(self) -> None:
        """Release the range."""
        self._mark.close()

    def next(self) -> int:
        """Return the next port that is free for UDP and TCP now; raise RuntimeError if no port of the range is."""
        for _ in range(1, _RANGE_LEN):
            port: int = self._first + 1 + self._given % (_RANGE_LEN - 1)
            self._given += 1
            if _is_free(port):
                return port
        raise RuntimeError(
            f"no port from {self._first + 1} to {self._first + _RANGE_LEN - 1} of {_HOST} is free"
        )


def free_port() -> int:
    """Return a port of 127.0.0.1 that is free for UDP and TCP and that this process did not get recently.

    Raises RuntimeError if none is left.
    """
    return _own_range().next()


def open_both(host: str = _HOST, port: int = 0) -> tuple[socket.socket, socket.socket]:
    """Bind a UDP and a listening TCP socket to one port; port 0 stands for a free one, retried with another if taken.

    Raises OSError if the port is taken, for port 0 after ATTEMPTS ports; nothing stays open then.
    """
    for attempt in range(ATTEMPTS):
        try:
            return _open_both(host, port or free_port())
        except OSError as error:
            if port or error.errno != errno.EADDRINUSE or attempt == ATTEMPTS - 1:
                raise
    raise AssertionError("the last attempt returns or raises")


def reserve() -> PortRange:
    """Reserve a range of ports that no process has; raise RuntimeError if none is left."""
    starts = list(SERVER_PORTS[::_RANGE_LEN])
    random.shuffle(starts)
    for start in starts:
        mark = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            mark.bind((_HOST, start))
            mark.listen()  # a merely bound socket may share its port with one that sets SO_REUSEADDR
        except OSError:
            mark.close()
            continue
        return PortRange(mark)
    raise RuntimeError(
        f"other processes have reserved all ports from {SERVER_PORTS.start} to {SERVER_PORTS.stop}"
    )


@functools.cache
def _own_range() -> PortRange:
    found = reserve()
    atexit.register(found.close)
    return found


def _open_both(host: str, port: int) -> tuple[socket.socket, socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    udp = socket.socket(family, socket.SOCK_DGRAM)
    try:
        udp.bind((host, port))
        tcp = socket.create_server((host, port), family=family)
    except BaseException:
        udp.close()
        raise
    return udp, tcp


def _is_free(port: int) -> bool:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
    ):
        try:
            tcp.bind((_HOST, port))
            udp.bind((_HOST, port))
        except OSError:
            return False
        return True
