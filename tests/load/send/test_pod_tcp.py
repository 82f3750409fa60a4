import socket
from selectors import EVENT_READ, EVENT_WRITE

import pytest

from hsdns.load.send.pod_process import PodTcp

pytestmark = pytest.mark.sockets


class Watched:
    def __init__(self) -> None:
        self.events: list[int] = []
        self.socket: socket.socket

    def __call__(self, sock: socket.socket, connection: PodTcp | None, events: int) -> None:
        self.socket = sock
        self.events.append(events if connection is not None else -1)


def test_a_connection() -> None:
    watched = Watched()
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = PodTcp(socket.AF_INET, server.getsockname(), watched)
        connection.send(b"one")
        connection.send(b"two")
        peer, _ = server.accept()
        with peer:
            messages: list[bytes] = []
            connection.receive()
            assert peer.recv(100) == b"\0\3one\0\3two"
            peer.sendall(b"\0\1a\0\2b")
            peer.sendall(b"c")
            while len(messages) < 2:
                found, is_closed = connection.receive()
                messages += found
                assert not is_closed
        assert messages == [b"a", b"bc"]
        while not connection.receive()[1]:
            pass
    connection.close()
    connection.close()
    assert watched.events[0] == EVENT_READ | EVENT_WRITE
    assert watched.events[-1] == -1
    assert EVENT_READ in watched.events
    assert watched.events.count(-1) == 1


def test_nothing_listens() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        target = closed.getsockname()
    connection = PodTcp(socket.AF_INET, target, Watched())
    connection.send(b"one")
    while not connection.receive()[1]:
        pass
    assert connection.receive() == ([], True)
    connection.close()
