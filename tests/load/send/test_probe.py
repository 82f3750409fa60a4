"""One query before the load, over UDP and over connections."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from hsdns.load.errors import LoadError
from hsdns.load.plan import DOT, TCP, StreamPlan
from hsdns.load.send import probe as module
from hsdns.load.send.probe import find_target, probe, probe_over
from hsdns.load.send.sockets import Links
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import Query
from hsdns.wire.name import Name
from loadtest.ports import free_port
from tests.load.servers import server
from tests.load.stream_servers import stream_server, well

QUERY = Query.ask(Name.from_text("www.a.test."), RRType.A)
REMEDY = "; check -server and -p, or give it more time with -wait"

pytestmark = pytest.mark.sockets


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EACH", 0.05)
    monkeypatch.setattr(module, "PAUSE", 0.0)


def ask(port: int) -> tuple[int, int, bytes]:
    reply = probe(*find_target("127.0.0.1", port), QUERY, 0.0)
    assert not reply.authority
    assert not reply.additional
    (record,) = reply.answer
    return reply.rcode, record.ttl, record.rdata


def test_a_server() -> None:
    with server() as port:
        assert ask(port) == (Rcode.NOERROR, 5, bytes((10, 0, 0, 1)))


def test_a_server_that_is_slow_at_first() -> None:
    with server(ignored=2) as port:
        assert ask(port) == (Rcode.NOERROR, 5, bytes((10, 0, 0, 1)))


def said(port: int, *, ready: bool = True) -> str:
    target = find_target("127.0.0.1", port)
    with pytest.raises(LoadError) as error:
        probe(*target, QUERY, 0.0, lambda reply: ready)
    return str(error.value)


def test_nothing_listens() -> None:
    port = free_port()
    assert said(port) == f"nothing listens on UDP at 127.0.0.1 port {port}{REMEDY}"


def test_no_reply() -> None:
    with server(ignored=9) as port:
        assert said(port) == f"no reply came from 127.0.0.1 port {port} to www.a.test.{REMEDY}"


def test_no_dns() -> None:
    with server(b"220 mail.example.com ESMTP") as port:
        sentence = (
            f"what answers at 127.0.0.1 port {port} is no DNS server: reply is itself a query"
        )
        assert said(port) == sentence


def test_a_server_without_the_cluster() -> None:
    with server() as port:
        assert said(port, ready=False) == (
            f"127.0.0.1 port {port} answers, but not with the names of this cluster (www.a.test.){REMEDY}"
        )


def test_targets() -> None:
    assert find_target("127.0.0.1", 53) == (socket.AF_INET, ("127.0.0.1", 53))
    assert find_target("::1", 53) == (socket.AF_INET6, ("::1", 53, 0, 0))
    with pytest.raises(
        LoadError, match=r'^"nowhere" is no address that this machine can send to: '
    ):
        find_target("nowhere", 53)


def ask_over(
    streams: StreamPlan | None, port: int, *, ready: bool = True
) -> tuple[int, int, bytes]:
    reply = probe_over(
        streams, socket.AF_INET, ("127.0.0.1", port), QUERY, 0.0, lambda reply: ready
    )
    assert not reply.authority
    assert not reply.additional
    (record,) = reply.answer
    return reply.rcode, record.ttl, record.rdata


def said_over(streams: StreamPlan, port: int, *, ready: bool = True) -> str:
    with pytest.raises(LoadError) as error:
        ask_over(streams, port, ready=ready)
    return str(error.value)


def test_a_server_over_tcp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EACH", 5.0)
    with stream_server() as port:
        assert ask_over(StreamPlan(), port) == (Rcode.NOERROR, 5, bytes((10, 0, 0, 1)))


def test_what_udp_truncates_is_probed_over_udp() -> None:
    with server() as port:
        for streams in (None, StreamPlan(for_truncated=True)):
            assert ask_over(streams, port) == (Rcode.NOERROR, 5, bytes((10, 0, 0, 1)))


@pytest.mark.parametrize("transport", [TCP, DOT])
def test_nothing_listens_on_tcp(transport: str) -> None:
    port = free_port()
    assert said_over(StreamPlan(transport, tls_insecure=True), port) == f"nothing listens on TCP at 127.0.0.1 port {port}{REMEDY}"  # fmt: skip


def quiet(connection: socket.socket) -> None:
    while connection.recv(100):
        pass


def greeting(connection: socket.socket) -> None:
    connection.sendall(b"220 mail.example.com ESMTP\r\n")
    quiet(connection)


def short(connection: socket.socket) -> None:
    connection.recv(100)
    connection.sendall(b"\0\2no")


def echo(connection: socket.socket) -> None:
    connection.sendall(connection.recv(100))
    quiet(connection)


def ends(connection: socket.socket) -> None:
    connection.recv(100)


TARGET = "127.0.0.1 port {}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("transport", "handle", "sentence"),
    [
        (TCP, quiet, "no reply came from " + TARGET + " over TCP to www.a.test." + REMEDY),
        (TCP, greeting, "no reply came from " + TARGET + " over TCP to www.a.test." + REMEDY),
        (TCP, ends, TARGET + " ends connections over TCP without a reply to www.a.test." + REMEDY),
        (TCP, short, TARGET + " over TCP: sends what is no DNS message" + REMEDY),
        (TCP, echo, "what answers at " + TARGET + " is no DNS server: reply is itself a query"),
        (DOT, greeting, TARGET + " over DNS over TLS: what answers does not speak TLS" + REMEDY),
        (DOT, quiet, "no reply came from " + TARGET + " over DNS over TLS to www.a.test." + REMEDY),
    ],
)  # fmt: skip
def test_no_server(transport: str, handle: Callable[[socket.socket], None], sentence: str) -> None:
    with stream_server(handle) as port:
        assert said_over(StreamPlan(transport, tls_insecure=True), port) == sentence.format(port)


@pytest.mark.slow
def test_a_server_over_tcp_without_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EACH", 5.0)
    with stream_server(well) as port:
        assert said_over(StreamPlan(), port, ready=False) == (
            f"127.0.0.1 port {port} answers, but not with the names of this cluster (www.a.test.){REMEDY}"
        )


def test_this_machine_has_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacks(*_: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(Links, "open", lacks)
    assert said_over(StreamPlan(), 1) == f"127.0.0.1 port 1 over TCP: this machine cannot open a connection{REMEDY}"  # fmt: skip
