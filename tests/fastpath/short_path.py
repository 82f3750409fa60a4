"""Send a reply that is longer than the loopback interface's MTU, in a network namespace of its own.

    unshare --user --map-root-user --net python -m tests.fastpath.short_path MODULE BATCH
    unshare --user --map-root-user --net python -m tests.fastpath.short_path MODULE

Path: test_fragments.py starts it, for every kind of batch, and without one for a worker.
Rule 1: a line for each client: whether all came, what was counted, and whether fragments are forbidden again; of a
        worker what was not sent.
"""

from __future__ import annotations

import fcntl
import importlib
import select
import socket
import struct
import sys
import threading

from hsdns.fastpath.control import IP_MTU_DISCOVER, IP_PMTUDISC_DO, forbid_fragments
from hsdns.wire.edns import Edns
from tests.fastpath.servers import DEADLINE, Server
from tests.fastpath.twins import addresses, ask

MTU = 600
LONG = bytes(range(250)) * 16
# What would go together is refused together: first for its length, then no more.
TWINS = [bytes([letter]) * length for length in (1000, 500) for letter in b"ab"]
REPLIES = [b"before", LONG, *TWINS, *(b"after" for _ in range(10))]
SIOCSIFMTU, SIOCSIFFLAGS, IFF_UP = 0x8922, 0x8914, 1  # netdevice(7)


def shorten() -> None:
    """Give the loopback interface its MTU."""
    with socket.socket(type=socket.SOCK_DGRAM) as sock:
        for request, value in ((SIOCSIFMTU, MTU), (SIOCSIFFLAGS, IFF_UP)):
            fcntl.ioctl(sock, request, struct.pack("16si12x", b"lo", value))


def serve_from_two_threads(module: str) -> None:
    """Send long replies from a worker and beside it, through one socket."""
    twin = importlib.import_module(module)
    server, queue = Server(twin, lambda *_: None), twin.MissQueue()
    server.bind()
    forbid_fragments(server.sock)
    question = ask(edns=Edns(4096))
    server.under_test.store(question, addresses(question, 60))
    worker = twin.Worker(server.sock.fileno(), False, queue, 0)
    worker.exchange(server.under_test.table)
    thread = threading.Thread(target=worker.run)
    thread.start()
    client = server.client()
    client.send(b"not a query")
    select.select([queue.fileno()], [], [], DEADLINE)
    [(_, _, address, control)] = queue.take(1)
    for _ in range(400):
        for _ in range(32):
            client.send(question)
        worker.send([(LONG, address, control)] * 32)
    worker.stop()
    thread.join()
    statistics = worker.statistics()
    sys.stdout.write(f"{statistics.sent > 12_800} {statistics.send_errors}\n")
    server.close()


def main(module: str, batch: str) -> None:
    """Serve IPv4 and IPv4-mapped clients."""
    for host in ("127.0.0.1", "::"):
        server = Server(importlib.import_module(module), None)
        place, _, name = batch.rpartition(".")
        server.kind = getattr(importlib.import_module(place), name)
        server.bind(host)
        forbid_fragments(server.sock)
        client = server.client("127.0.0.1")
        client.send(b"not a query")
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
    shorten()
    if len(sys.argv) > 2:
        main(*sys.argv[1:])
    else:
        serve_from_two_threads(sys.argv[1])
