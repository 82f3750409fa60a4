"""Sets the receive buffers of a running server's UDP sockets so that they hold a whole round of the drain method.

Path: servers.py -> here -> pidfd_getfd.
Rule 1: by default a socket's buffer holds 256 small queries.  A server that does not request more would be measured
        with an eighth of the queries that others get.  So all get the same size; nothing else is changed.
Rule 2: if the kernel refuses, the buffer stays as it is, and the tables show the share of queries that it held.
Source: pidfd_getfd(2), which a parent may use on its children; socket(7), SO_RCVBUFFORCE.
"""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

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
