"""Real sockets on loopback."""

from __future__ import annotations

import errno
import os
import select
import socket

import pytest

from hsdns.load.send import stream_process as stream_links
from hsdns.load.send.connection import Connection, FramedSession
from hsdns.load.send.stream_process import Links, StreamLink
from loadtest.ports import free_port

pytestmark = pytest.mark.sockets


class Ready:
    """What the selector has told."""

    def __init__(self, links: Links) -> None:
        self.links = links
        self.reads: list[Connection] = []
        self.writes: list[Connection] = []

    def turn(self) -> None:
        """Wait until something is ready."""
        self.reads.clear()
        self.writes.clear()
        assert select.select([self.links.fileno()], [], [], 5.0)[0]
        self.links.serve(self.reads.append, self.writes.append)


def opened(links: Links) -> tuple[Connection, StreamLink]:
    connection = Connection(FramedSession(), None, 1, 0, 0)
    return connection, links.open(connection)


def test_there_and_back() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        links = Links(socket.AF_INET, server.getsockname())
        connection, link = opened(links)
        ready = Ready(links)
        ready.turn()
        assert (ready.writes, ready.reads, link.fault()) == ([connection], [], "")
        assert link.send(b"query") == 5
        other, _ = server.accept()
        assert (other.recv(9), link.receive()) == (b"query", None)
        other.sendall(b"reply")
        ready.turn()
        assert (ready.writes, ready.reads, link.receive()) == ([], [connection], b"reply")
        link.watch_writing(is_on=True)
        ready.turn()
        assert ready.writes == [connection]
        link.watch_writing(is_on=False)
        other.close()
        ready.turn()
        assert link.receive() == b""
        link.close()
        links.close()


def test_no_room() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        links = Links(socket.AF_INET, server.getsockname())
        _, link = opened(links)
        Ready(links).turn()
        assert link.fault() == ""
        while link.send(bytes(1 << 20)):
            pass
        assert link.send(b"more") == 0
        link.close()
        links.close()


def test_refused() -> None:
    links = Links(socket.AF_INET, ("127.0.0.1", free_port()))
    _, link = opened(links)
    Ready(links).turn()
    assert link.fault() == "connection refused"
    link.close()
    links.close()


def test_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket.socket, "connect_ex", lambda *_: errno.ENETUNREACH)
    links = Links(socket.AF_INET, ("127.0.0.1", 1))
    _, link = opened(links)
    assert link.fault() == "network is unreachable"
    link.close()
    links.close()


@pytest.mark.parametrize("lack", stream_links._LACKS)
def test_what_this_machine_lacks(lack: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket.socket, "connect_ex", lambda *_: lack)
    links = Links(socket.AF_INET, ("127.0.0.1", 1))
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    with pytest.raises(OSError, match=os.strerror(lack)):
        opened(links)
    assert before == (len(os.listdir("/proc/self/fd")) if before else 0)
    links.close()
