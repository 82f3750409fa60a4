"""What becomes of replies that the kernel does not take, where many leave together; every kind of batch counts alike."""

import errno
import socket

import pytest

from hsdns.fastpath.control import write_address
from tests.fastpath.servers import Server

pytestmark = pytest.mark.sockets

UDP_GRO = 104  # udp(7): the receiver takes a train uncut
COUNT = 20


def test_each_reply_of_a_train_that_cannot_go_is_counted(server: Server) -> None:
    server.bind()
    client = server.client()
    client.send(b"x")
    [(_, address, control)] = server.serve()
    nowhere = write_address(socket.AF_INET, ("127.0.0.1", 0))
    replies = [
        (b"%2d" % number, way, control) for number in range(COUNT) for way in (nowhere, address)
    ]
    server.batch.send(replies)
    assert [client.recv(10) for _ in range(COUNT)] == [b"%2d" % number for number in range(COUNT)]
    statistics = server.batch.statistics()
    assert (statistics.sent, statistics.send_errors) == (COUNT, {errno.EINVAL: COUNT})


def test_that_one_went_wrong_keeps_no_other_from_leaving_together(server: Server) -> None:
    server.bind()
    client = server.client()
    client.send(b"x")
    [(_, address, control)] = server.serve()
    nowhere = write_address(socket.AF_INET, ("127.0.0.1", 0))
    server.batch.send([(b"lost", nowhere, control)] * COUNT)
    client.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
    server.batch.send([(b"sent", address, control)] * COUNT)
    took = client.recv(65535)
    if len(took) == len(b"sent"):  # a kind of batch that sends each alone
        took += b"".join(client.recv(65535) for _ in range(COUNT - 1))
    assert took == b"sent" * COUNT
    assert server.batch.statistics().send_errors == {errno.EINVAL: COUNT}


def test_more_ways_than_are_remembered(server: Server) -> None:
    """Each length makes another control message; old ones are forgotten, never while they are in use."""
    server.bind("0.0.0.0", wildcard=True)
    client = server.client()
    client.send(b"x")
    [(_, address, control)] = server.serve()
    for start in range(1, 601, 24):
        wires = [
            bytes([length % 250]) * length for length in range(start, start + 24) for _ in "ab"
        ]
        server.batch.send([(wire, address, control) for wire in wires])
        assert [client.recv(65535) for _ in wires] == wires
    assert server.batch.statistics().send_errors == {}
