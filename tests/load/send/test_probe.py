"""One query before the load, over UDP and over connections."""

from __future__ import annotations

import socket
import ssl
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path

import pytest

from hsdns.load.errors import LoadError
from hsdns.load.plan import DOT, TCP, StreamPlan
from hsdns.load.send import probe as module
from hsdns.load.send.probe import find_target
from hsdns.load.send.probe import probe as probe_server
from hsdns.load.send.sockets import Links
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import Query
from hsdns.wire.name import Name
from loadtest.ports import free_port
from tests.load.servers import server
from tests.load.stream_servers import stream_server
from tests.support.upstreams.certificate import make_certificate

QUERY = Query.ask(Name.from_text("www.a.test."), RRType.A)
REMEDY = "; check -server and -p, or give it more time with -wait"

pytestmark = pytest.mark.sockets


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EACH", 0.05)
    monkeypatch.setattr(module, "PAUSE", 0.0)


def ask(streams: StreamPlan | None, port: int, *, ready: bool = True) -> tuple[int, int, bytes]:
    target = find_target("127.0.0.1", port)
    reply = probe_server(*target, QUERY, 0.0, lambda reply: ready, streams)
    assert not reply.authority
    assert not reply.additional
    (record,) = reply.answer
    return reply.rcode, record.ttl, record.rdata


def said(streams: StreamPlan | None, port: int, *, ready: bool = True) -> str:
    with pytest.raises(LoadError) as error:
        ask(streams, port, ready=ready)
    return str(error.value)


FOUND = (Rcode.NOERROR, 5, bytes((10, 0, 0, 1)))


@pytest.mark.parametrize("streams", [None, StreamPlan(for_truncated=True)])
@pytest.mark.parametrize("ignored", [0, 2])
def test_a_server_over_udp(streams: StreamPlan | None, ignored: int) -> None:
    """What UDP truncates is asked for over UDP; a server may be slow at first."""
    with server(ignored=ignored) as port:
        assert ask(streams, port) == FOUND


def test_a_server_over_tcp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EACH", 5.0)
    with stream_server() as port:
        assert ask(StreamPlan(), port) == FOUND


@pytest.mark.parametrize(
    ("streams", "over"),
    [(None, "UDP"), (StreamPlan(), "TCP"), (StreamPlan(DOT, tls_insecure=True), "TCP")],
)
def test_nothing_listens(streams: StreamPlan | None, over: str) -> None:
    port = free_port()
    assert said(streams, port) == f"nothing listens on {over} at 127.0.0.1 port {port}{REMEDY}"


def test_no_server_over_udp() -> None:
    with server(ignored=9) as port:
        assert (
            said(None, port) == f"no reply came from 127.0.0.1 port {port} to www.a.test.{REMEDY}"
        )
    with server(b"220 mail.example.com ESMTP") as port:
        assert said(None, port) == (
            f"what answers at 127.0.0.1 port {port} is no DNS server: reply is itself a query"
        )


def test_targets() -> None:
    assert find_target("127.0.0.1", 53) == (socket.AF_INET, ("127.0.0.1", 53))
    assert find_target("::1", 53) == (socket.AF_INET6, ("::1", 53, 0, 0))
    with pytest.raises(
        LoadError, match=r'^"nowhere" is no address that this machine can send to: '
    ):
        find_target("nowhere", 53)


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
    connection.recv(100)


@cache
def context() -> ssl.SSLContext:
    with tempfile.TemporaryDirectory() as folder:
        return make_certificate(Path(folder), "dns.test").server_context()


def ends_tls(connection: socket.socket) -> None:
    """End with the alert close_notify."""
    with context().wrap_socket(connection, server_side=True) as tls:
        tls.recv(100)
        tls.unwrap()


TARGET = "127.0.0.1 port {}"
NOTHING = f"no reply came from {TARGET} over "
ENDS = f"{TARGET} ends connections over "
CERTIFICATE = "; check -tls-ca and -tls-name, or trust any certificate with -tls-insecure"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("transport", "handle", "sentence"),
    [
        (TCP, quiet, f"{NOTHING}TCP to www.a.test.{REMEDY}"),
        (TCP, saying(b"220 mail.example.com ESMTP\r\n"), f"{NOTHING}TCP to www.a.test.{REMEDY}"),
        (TCP, ends, f"{ENDS}TCP without a reply to www.a.test.{REMEDY}"),
        (TCP, saying(b"\0\2no"), f"{TARGET} over TCP: sends what is no DNS message{REMEDY}"),
        (TCP, echo, f"what answers at {TARGET} is no DNS server: reply is itself a query"),
        (DOT, saying(b"220 mail.example.com ESMTP\r\n"), f"{TARGET} over DNS over TLS: what answers does not speak TLS{REMEDY}"),
        (DOT, saying(b"\x15\3\3\0\2\2\x28"), f"{TARGET} over DNS over TLS: sslv3 alert handshake failure{CERTIFICATE}"),
        (DOT, quiet, f"{NOTHING}DNS over TLS to www.a.test.{REMEDY}"),
        (DOT, ends_tls, f"{ENDS}DNS over TLS without a reply to www.a.test.{REMEDY}"),
    ],
)  # fmt: skip
def test_no_server(
    transport: str, handle: Handle, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not sentence.startswith(NOTHING):
        monkeypatch.setattr(module, "EACH", 5.0)
    if handle is ends_tls:
        context()  # it takes a while
    with stream_server(handle) as port:
        assert said(StreamPlan(transport, tls_insecure=True), port) == sentence.format(port)


@pytest.mark.parametrize(
    ("streams", "serve"), [(None, server), (StreamPlan(), stream_server)], ids=["udp", "tcp"]
)
def test_a_server_without_the_cluster(
    streams: StreamPlan | None,
    serve: Callable[[], AbstractContextManager[int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "EACH", 5.0)
    with serve() as port:
        assert said(streams, port, ready=False) == (
            f"127.0.0.1 port {port} answers, but not with the names of this cluster (www.a.test.){REMEDY}"
        )


def test_this_machine_has_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacks(*_: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(Links, "open", lacks)
    assert said(StreamPlan(), 1) == f"127.0.0.1 port 1 over TCP: this machine cannot open a connection{REMEDY}"  # fmt: skip
