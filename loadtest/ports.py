"""Free loopback ports for servers of tests and benchmarks: each port is returned once, to one process.

Path: a test or a benchmark that starts a server -> free_port -> the server's Corefile.
Rule 1: none is an ephemeral port of the kernel, which a client might take before the server does.
Rule 2: a process claims a run of ports, so that two processes that look for a port at once get different ones.  It
holds the first port of the run open as the mark; the kernel releases it however the process ends.
Rule 3: the ports of a run are returned in order.  With random ports, two of the five in a Corefile collide too often.
"""

from __future__ import annotations

import functools
import random
import socket

SERVER_PORTS = range(20000, 32000)  # below Linux's default ip_local_port_range, 32768 to 60999
_RUN = 200
_HOST = "127.0.0.1"


class Run:
    """The ports after the one that this process holds open; `sign` is that socket."""

    def __init__(self, sign: socket.socket) -> None:
        self._sign = sign
        self._first = sign.getsockname()[1]
        self._given = 0

    def close(self) -> None:
        """Release the run."""
        self._sign.close()

    def next(self) -> int:
        """Return the next port that is free for UDP and TCP now; raise RuntimeError if no port of the run is."""
        for _ in range(1, _RUN):
            port: int = self._first + 1 + self._given % (_RUN - 1)
            self._given += 1
            if _is_free(port):
                return port
        raise RuntimeError(
            f"no port from {self._first + 1} to {self._first + _RUN - 1} of {_HOST} is free"
        )


def free_port() -> int:
    """Return a port of 127.0.0.1 that is free for UDP and TCP and that this process did not get recently.

    Raises RuntimeError if none is left.
    """
    return _own_run().next()


def claim_run() -> Run:
    """Claim a run of ports that no process has; raise RuntimeError if none is left."""
    starts = list(SERVER_PORTS[::_RUN])
    random.shuffle(starts)
    for start in starts:
        sign = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            sign.bind((_HOST, start))
            sign.listen()  # a socket that only is bound may share its port with another that sets SO_REUSEADDR
        except OSError:
            sign.close()
            continue
        return Run(sign)
    raise RuntimeError(
        f"other processes hold all runs of ports from {SERVER_PORTS.start} to {SERVER_PORTS.stop}"
    )


_own_run = functools.cache(claim_run)


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
