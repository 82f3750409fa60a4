"""Send a reply that is longer than the loopback interface's MTU, in a network namespace of its own.

    unshare --user --map-root-user --net python -m tests.fastpath.short_path MODULE BATCH

Path: test_fragments.py starts it, for every kind of batch.
Rule 1: a line for each client: whether all came, what was counted, and whether fragments are forbidden again.
"""

from __future__ import annotations

import fcntl
import importlib
import socket
import struct
import sys

from hsdns.fastpath.fragments import IP_MTU_DISCOVER, IP_PMTUDISC_DO, forbid_fragments
from tests.fastpath.servers import Server

MTU = 600
LONG = bytes(range(250)) * 16
# What would go together is refused together: first for its length, then no more.
TWINS = [bytes([letter]) * length for length in (1000, 500) for letter in b"ab"]
REPLIES = [b"before", LONG, *TWINS, *(b"after" for _ in range(10))]
SIOCSIFMTU, SIOCSIFFLAGS, IFF_UP = 0x8922, 0x8914, 1  # netdevice(7)


def main(module: str, batch: str) -> None:
    """Serve IPv4 and IPv4-mapped clients."""
    with socket.socket(type=socket.SOCK_DGRAM) as sock:
        for request, value in ((SIOCSIFMTU, MTU), (SIOCSIFFLAGS, IFF_UP)):
            fcntl.ioctl(sock, request, struct.pack("16si12x", b"lo", value))
    for host in ("127.0.0.1", "::"):
        server = Server(importlib.import_module(module), None)
        place, _, name = batch.rpartition(".")
        server.kind = getattr(importlib.import_module(place), name)
        server.bind(host)
        forbid_fragments(server.sock)
        client = server.client("127.0.0.1")
        client.send(b"unusual")
        [(_, address, control)] = server.serve()
        server.batch.send([(reply, address, control) for reply in (*REPLIES, bytes(70_000))])
        came = [client.recv(65535) for _ in REPLIES]
        statistics = server.batch.statistics()
        is_forbidden = server.sock.getsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER) == IP_PMTUDISC_DO
        came_whole = came == REPLIES
        sys.stdout.write(
            f"{host} {came_whole} {statistics.sent} {statistics.send_errors} {is_forbidden}\n"
        )
        server.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
