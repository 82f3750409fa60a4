"""Whether the kernel may send a datagram in fragments: not at first, but where it is too long for the path.

Path: server/sockets.py forbids it for UDP sockets; batch.py and portable_batch.py, and native/src/system.rs, allow it
for the one reply that the kernel refuses with EMSGSIZE.
Rule 1: the kernel draws a fragment ID for each IPv4 datagram that might be cut, even where it says DF: a hash and an
        atomic addition, one part in fifty of what a known answer costs.  IP_PMTUDISC_DO says that none will be.
Rule 2: what clients see is what they see without this: replies up to the path's MTU with DF, longer ones in fragments.
Source: ip(7), IP_MTU_DISCOVER; RFC 6864 section 4.1.
"""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Iterator
from typing import Final

IP_MTU_DISCOVER: Final = 10  # Linux; the socket module has none of these names
IP_PMTUDISC_WANT: Final = 1
IP_PMTUDISC_DO: Final = 2


def forbid_fragments(sock: socket.socket) -> None:
    """Let EMSGSIZE tell what is too long; IPv6 sockets are set for their IPv4-mapped clients."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # a kernel without it sends as it always did
            sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)


@contextlib.contextmanager
def fragments_allowed(sock: socket.socket) -> Iterator[None]:
    """Allow fragments for a moment; replies of other threads meanwhile are allowed them too, and need none."""
    sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_WANT)
    try:
        yield
    finally:
        sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
