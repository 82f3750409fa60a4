import select
import socket

import pytest

from hsdns.load.send.udp import UdpWire
from tests.load.servers import answer, server

QUERIES = [bytes((0, number)) + b"\1\0\0\1\0\0\0\0\0\0\1a\4test\0\0\1\0\1" for number in range(70)]


@pytest.mark.sockets
def test_queries_and_replies() -> None:
    with server() as port:
        wire = UdpWire(socket.AF_INET, ("127.0.0.1", port))
        assert wire.receive() == ([], False)
        assert wire.send(QUERIES) == []
        found: list[bytes] = []
        while len(found) < len(QUERIES):
            assert select.select([wire.socket], [], [], 5.0)[0]
            found += wire.receive()[0]
        assert sorted(found) == sorted(map(answer, QUERIES))
        wire.close()


@pytest.mark.sockets
def test_what_another_one_sends_is_dropped() -> None:
    with server() as port, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        wire = UdpWire(socket.AF_INET, ("127.0.0.1", port))
        other.sendto(answer(QUERIES[1]), ("127.0.0.1", wire.socket.getsockname()[1]))
        wire.send(QUERIES[:1])
        assert select.select([wire.socket], [], [], 5.0)[0]
        assert wire.receive()[0] == [answer(QUERIES[0])]
        wire.close()


@pytest.mark.sockets
def test_what_cannot_be_sent_is_told() -> None:
    with server() as port:
        wire = UdpWire(socket.AF_INET, ("127.0.0.1", port))
        too_long = bytes(70_000)
        assert wire.send([QUERIES[0], too_long, QUERIES[1]]) == [1]
        wire.close()


@pytest.mark.sockets
def test_a_closed_port_keeps_nothing_from_being_sent() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    wire = UdpWire(socket.AF_INET, ("127.0.0.1", port))
    assert wire.send(QUERIES) == []
    assert wire.receive() == ([], False)
    wire.close()
