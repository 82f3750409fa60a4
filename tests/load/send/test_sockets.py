"""Real sockets on loopback, and one query before the load, over UDP and over connections."""

from __future__ import annotations

import errno
import os
import select
import socket
import ssl
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, nullcontext
from functools import cache, partial
from pathlib import Path
from selectors import DefaultSelector

import pytest

from hsdns.load.errors import LoadError
from hsdns.load.plan import DOT, TCP, StreamPlan
from hsdns.load.send import probe as module
from hsdns.load.send import sockets
from hsdns.load.send.connection import Connection, FramedSession
from hsdns.load.send.probe import find_target
from hsdns.load.send.probe import probe as probe_server
from hsdns.load.send.sockets import Links, UdpSocket, client_tls
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import Query
from hsdns.wire.name import Name
from loadtest.ports import free_port
from tests.load.servers import answer, server, stream_server, well
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
        assert [octets for octets, _ in udp.receive()[0]] == [answer(QUERIES[0])]
        udp.close()


def test_a_closed_port_keeps_nothing_from_being_sent() -> None:
    udp = UdpSocket(socket.AF_INET, ("127.0.0.1", free_port()))
    assert (udp.send(QUERIES), udp.receive()) == ([], ([], False))
    udp.close()


def test_a_reply_has_the_time_at_which_it_came() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        wire = UdpSocket(socket.AF_INET, server.getsockname())
        begin = time.monotonic_ns()
        assert not wire.send([b"ask"])
        left = wire.left()
        assert left is None or (left[0] == 0 and begin <= left[1] <= time.monotonic_ns())
        query, client = server.recvfrom(100)
        before = time.monotonic_ns()
        server.sendto(b"one", client)
        server.sendto(b"two", client)
        found, _ = wire.receive()
        assert (query, [octets for octets, _ in found]) == (b"ask", [b"one", b"two"])
        # The two clocks are read one after the other, so they agree but for that.  The kernel begins to stamp a moment
        # after the first socket has asked for it.
        known = [at for _, at in found if at]
        assert all(before - 10_000_000 <= at <= time.monotonic_ns() for at in known)
        assert (sorted(known), wire.receive()) == (known, ([], False))
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


# --- one query before the load ---

QUERY = Query.ask(Name.from_text("www.a.test."), RRType.A)
REMEDY = "; check --server and -p, or raise --wait"


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EACH", 0.05)
    monkeypatch.setattr(module, "PAUSE", 0.0)


def ask(streams: StreamPlan | None, port: int, *, ready: bool = True) -> str:
    """The reply, or the sentence that there is none."""
    target = find_target("127.0.0.1", port)
    try:
        reply = probe_server(*target, QUERY, 0.0, lambda reply: ready, streams)
    except LoadError as error:
        return str(error)
    assert (reply.rcode, reply.authority, reply.additional) == (Rcode.NOERROR, (), ())
    (record,) = reply.answer
    return f"{record.ttl} {socket.inet_ntoa(record.rdata)}"


Handle = Callable[[socket.socket], None]


def quiet(connection: socket.socket) -> None:
    while connection.recv(100):
        pass


def saying(octets: bytes) -> Handle:
    """Say something at once."""

    def handle(connection: socket.socket) -> None:
        connection.sendall(octets)
        quiet(connection)

    return handle


def echo(connection: socket.socket) -> None:
    connection.sendall(connection.recv(100))
    quiet(connection)


def ends(connection: socket.socket) -> None:
    connection.recv(4096)


@cache
def context() -> ssl.SSLContext:
    with tempfile.TemporaryDirectory() as folder:
        return make_certificate(Path(folder), "dns.test").server_context()


def ends_tls(connection: socket.socket) -> None:
    """End with the alert close_notify."""
    with context().wrap_socket(connection, server_side=True) as tls:
        tls.recv(100)
        tls.unwrap()


Serve = Callable[[], AbstractContextManager[int]]
TARGET = "127.0.0.1 port {}"
NOTHING = f"no reply came from {TARGET} over "
ENDS = f"{TARGET} ends connections over "
ECHOES = f"what answers at {TARGET} is not a DNS server: reply is itself a query"
OVER_TCP, OVER_TLS = StreamPlan(TCP), StreamPlan(DOT, tls_insecure=True)
GREETING = b"220 mail.example.com ESMTP\r\n"


def nowhere() -> AbstractContextManager[int]:
    return nullcontext(free_port())


def streams(handle: Handle) -> Serve:
    return partial(stream_server, handle)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plan", "serve", "said"),
    [
        # What UDP truncates is asked for over UDP; a server may be slow at first.
        (None, server, "5 10.0.0.1"),
        (StreamPlan(for_truncated=True), partial(server, ignored=2), "5 10.0.0.1"),
        (OVER_TCP, streams(well), "5 10.0.0.1"),
        (None, nowhere, f"nothing listens on UDP at {TARGET}{REMEDY}"),
        (OVER_TCP, nowhere, f"nothing listens on TCP at {TARGET}{REMEDY}"),
        (OVER_TLS, nowhere, f"nothing listens on TCP at {TARGET}{REMEDY}"),
        (None, partial(server, ignored=9), f"no reply came from {TARGET} to www.a.test.{REMEDY}"),
        (None, partial(server, b"220 mail.example.com ESMTP"), ECHOES),
        (OVER_TCP, streams(quiet), f"{NOTHING}TCP to www.a.test.{REMEDY}"),
        (OVER_TCP, streams(saying(GREETING)), f"{NOTHING}TCP to www.a.test.{REMEDY}"),
        (OVER_TCP, streams(ends), f"{ENDS}TCP without a reply to www.a.test.{REMEDY}"),
        (OVER_TCP, streams(saying(b"\0\2no")), f"{TARGET} over TCP: sends what is not a DNS message{REMEDY}"),
        (OVER_TCP, streams(echo), f"what answers at {TARGET} is not a DNS server: QR is 0"),
        (OVER_TLS, streams(saying(GREETING)), f"{TARGET} over DNS over TLS: what answers does not speak TLS{REMEDY}"),
        (OVER_TLS, streams(saying(b"\x15\3\3\0\2\2\x28")), f"{TARGET} over DNS over TLS: sslv3 alert handshake failure; check --tls-ca and --tls-name, or use --tls-insecure"),
        (OVER_TLS, streams(quiet), f"{NOTHING}DNS over TLS to www.a.test.{REMEDY}"),
        (OVER_TLS, streams(ends), f"{ENDS}DNS over TLS without a reply to www.a.test.{REMEDY}"),
        (OVER_TLS, streams(ends_tls), f"{ENDS}DNS over TLS without a reply to www.a.test.{REMEDY}"),
    ],
)  # fmt: skip
def test_what_is_said(
    plan: StreamPlan | None, serve: Serve, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not said.startswith("no reply") and "ignored" not in getattr(serve, "keywords", ()):
        monkeypatch.setattr(module, "EACH", 5.0)
    context()  # it takes a while
    with serve() as port:
        assert ask(plan, port) == said.format(port)


@pytest.mark.slow
def test_a_slow_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reply to one try arrives during the next."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as slow:
        slow.bind(("127.0.0.1", 0))

        def pause(_: float) -> None:
            message, client = slow.recvfrom(512)
            slow.sendto(answer(message), client)

        monkeypatch.setattr("hsdns.load.send.probe.time.sleep", pause)
        assert ask(None, slow.getsockname()[1]) == "5 10.0.0.1"


def test_targets() -> None:
    assert find_target("127.0.0.1", 53) == (socket.AF_INET, ("127.0.0.1", 53))
    assert find_target("::1", 53) == (socket.AF_INET6, ("::1", 53, 0, 0))
    with pytest.raises(LoadError, match=r'^"nowhere" is not an address this machine'):
        find_target("nowhere", 53)


def test_no_way_to_an_address() -> None:
    """Then no other try helps."""
    with pytest.raises(LoadError, match=r"^255\.255\.255\.255 port 53 cannot be reached: [^;]*$"):
        probe_server(*find_target("255.255.255.255", 53), QUERY, 0.0)


@pytest.mark.parametrize(("plan", "serve"), [(None, server), (OVER_TCP, stream_server)])
def test_a_server_without_the_cluster(
    plan: StreamPlan | None, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "EACH", 5.0)
    with serve() as port:
        assert ask(plan, port, ready=False) == (
            f"127.0.0.1 port {port} answers, but not with the names of this cluster (www.a.test.){REMEDY}"
        )


def test_this_machine_has_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacks(*_: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(Links, "open", lacks)
    assert ask(OVER_TCP, 1) == f"127.0.0.1 port 1 over TCP: this machine cannot open a connection{REMEDY}"  # fmt: skip
