"""IP fragmentation of UDP replies: forbidden, but for a reply that is too long for the path.

Path: server/sockets.py forbids it for UDP sockets; sender.py, portable_batch.py and native/src/system/sender.rs allow
it for a reply that the kernel refused with EMSGSIZE.
Rule 1: the kernel makes a fragment ID for each IPv4 datagram that may be fragmented, even with DF: a hash and an atomic
        addition, a fiftieth of the cost of a hit.  With IP_PMTUDISC_DO it makes none.
Rule 2: clients see no difference: replies up to the path's MTU have DF, longer ones come in fragments.
Source: ip(7), IP_MTU_DISCOVER; RFC 6864 section 4.1.
"""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Iterator
from typing import Final

IP_MTU_DISCOVER: Final = 10  # of Linux; the socket module lacks these names
IP_PMTUDISC_WANT: Final = 1
IP_PMTUDISC_DO: Final = 2


def forbid_fragments(sock: socket.socket) -> None:
    """Let sending fail with EMSGSIZE if a datagram is too long; on IPv6 sockets this is for IPv4-mapped clients."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # a kernel without the option sends as by default
            sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)


@contextlib.contextmanager
def fragments_allowed(sock: socket.socket) -> Iterator[None]:
    """Allow fragments for the length of the block; replies that other threads send meanwhile are short enough."""
    sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_WANT)
    try:
        yield
    finally:
        sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
