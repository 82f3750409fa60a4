import socket
import time

import pytest

from hsdns.load.send.udp import StampedUdp

pytestmark = pytest.mark.sockets


def test_a_reply_has_the_time_at_which_it_came() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        wire = StampedUdp(socket.AF_INET, server.getsockname())
        assert wire.send(b"ask")
        query, client = server.recvfrom(100)
        before = time.monotonic_ns()
        server.sendto(b"one", client)
        server.sendto(b"two", client)
        between = time.monotonic_ns()
        found = wire.receive()
        assert (query, [octets for octets, _ in found]) == (b"ask", [b"one", b"two"])
        # The two clocks are read one after the other, so they agree but for that.
        assert all(before - 10_000_000 <= at <= time.monotonic_ns() for _, at in found)
        assert found[0][1] <= found[1][1]
        assert between
        assert wire.receive() == []
        assert wire.fileno() == wire.socket.fileno()
        wire.close()


def test_others_are_not_heard_and_nothing_listens() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as closed:
        closed.bind(("127.0.0.1", 0))
        target = closed.getsockname()
    wire = StampedUdp(socket.AF_INET, target)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.sendto(b"x", wire.socket.getsockname())
    assert wire.send(b"a")
    assert wire.send(b"b")  # whatever became of the one before
    assert wire.receive() == []
    wire.close()
    assert not wire.send(b"c")
