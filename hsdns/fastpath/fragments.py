"""IP fragmentation of UDP replies: forbidden, except for a reply that is longer than the path MTU.

Path: server/sockets.py forbids it for UDP sockets; mmsg.py, portable_batch.py and native/src/system/sender.rs allow
it for a reply that the kernel refused with EMSGSIZE.
Rule 1: the kernel generates a fragment ID for each IPv4 datagram that may be fragmented, even with DF, by a hash and an
        atomic addition, which cost a fiftieth of a hit.  With IP_PMTUDISC_DO it generates none.
Rule 2: clients see no difference: replies up to the path MTU have DF set, longer ones are sent in fragments.
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
    """Make sending fail with EMSGSIZE if a datagram is too long; for IPv6 sockets this affects IPv4-mapped clients."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # a kernel without the option sends as by default
            sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)


@contextlib.contextmanager
def fragments_allowed(sock: socket.socket) -> Iterator[None]:
    """A context manager that allows fragments; replies of other threads meanwhile are short enough to need none."""
    sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_WANT)
    try:
        yield
    finally:
        sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
