"""Real sockets on loopback."""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from selectors import DefaultSelector

import pytest

from hsdns.load.plan import DOT, StreamPlan
from hsdns.load.send import sockets
from hsdns.load.send.connection import Connection, FramedSession
from hsdns.load.send.sockets import Links, UdpSocket, client_tls
from loadtest.ports import free_port
from tests.load.servers import answer, server
from tests.support.upstreams.certificate import make_certificate

QUERIES = [bytes((0, number)) + b"\1\0\0\1\0\0\0\0\0\0\1a\4test\0\0\1\0\1" for number in range(70)]


pytestmark = pytest.mark.sockets


def test_datagrams() -> None:
    """Those of another one are dropped, and what cannot be sent is told."""
    with server() as port, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        udp = UdpSocket(socket.AF_INET, ("127.0.0.1", port))
        other.sendto(answer(QUERIES[1]), ("127.0.0.1", udp.socket.getsockname()[1]))
        assert udp.send([QUERIES[0], bytes(70_000)]) == [1]
        assert select.select([udp], [], [], 5.0)[0]
        assert udp.receive()[0] == [(answer(QUERIES[0]), 0)]
        udp.close()


def test_a_closed_port_keeps_nothing_from_being_sent() -> None:
    udp = UdpSocket(socket.AF_INET, ("127.0.0.1", free_port()))
    assert (udp.send(QUERIES), udp.receive()) == ([], ([], False))
    udp.close()


def test_a_reply_has_the_time_at_which_it_came() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        wire = UdpSocket(socket.AF_INET, server.getsockname(), is_stamped=True)
        assert not wire.send([b"ask"])
        query, client = server.recvfrom(100)
        before = time.monotonic_ns()
        server.sendto(b"one", client)
        server.sendto(b"two", client)
        found, _ = wire.receive()
        assert (query, [octets for octets, _ in found]) == (b"ask", [b"one", b"two"])
        # The two clocks are read one after the other, so they agree but for that.
        assert all(before - 10_000_000 <= at <= time.monotonic_ns() for _, at in found)
        assert (found[0][1] <= found[1][1], wire.receive()) == (True, ([], False))
        wire.close()


@pytest.fixture
def selector() -> Iterator[DefaultSelector]:
    with DefaultSelector() as found:
        yield found


def test_no_room(selector: DefaultSelector) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        link = Links(selector, socket.AF_INET, server.getsockname()).open(
            Connection(FramedSession())
        )
        assert selector.select(5.0)
        assert link.set_up()
        while link.send(bytes(1 << 20)):
            pass
        link.close()


@pytest.mark.parametrize("lack", [errno.ENETUNREACH, *sockets._LACKS])
def test_what_this_machine_lacks(
    lack: int, selector: DefaultSelector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket.socket, "connect_ex", lambda *_: lack)
    links = Links(selector, socket.AF_INET, ("127.0.0.1", 1))
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    told = pytest.raises(OSError, match=f"(?i){os.strerror(lack)}")
    with told, closing(links.open(Connection(FramedSession()))) as link:
        link.set_up()
    assert before == (len(os.listdir("/proc/self/fd")) if before else 0)


def test_replies_before_a_reset(tmp_path: Path, selector: DefaultSelector) -> None:
    """A server may reset a connection after its last replies: they have arrived, and count."""
    made = make_certificate(tmp_path, "dns.test")
    tls = client_tls(StreamPlan(DOT, tls_insecure=True), "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as server:
        links = Links(selector, socket.AF_INET, server.getsockname(), tls)
        link, peer = links.open(Connection(FramedSession())), server.accept()[0]
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer.settimeout(5.0)
        assert selector.select(5.0)
        assert not link.set_up()
        with ThreadPoolExecutor(1) as pool:
            shaking = pool.submit(made.server_context().wrap_socket, peer, server_side=True)
            while not link.set_up():
                assert selector.select(5.0)
            with shaking.result() as tls_peer:
                tls_peer.sendall(b"one")
                tls_peer.sendall(b"two")
        assert selector.select(5.0)
        assert link.receive() == (b"onetwo", False)
        for _ in range(2):
            with pytest.raises(OSError, match=r"reset by the server|reset by peer"):
                link.receive()
        link.close()
