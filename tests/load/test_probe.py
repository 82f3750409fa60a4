import socket

import pytest

from hsdns.load import probe as module
from hsdns.load.errors import LoadError
from hsdns.load.probe import find_target, probe
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import Query
from hsdns.wire.name import Name
from loadtest.ports import free_port
from tests.load.servers import server

QUERY = Query.ask(Name.from_text("www.a.test."), RRType.A)
REMEDY = "; check -server and -p, or give it more time with -wait"

pytestmark = pytest.mark.sockets


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EACH", 30.0)  # of a server that answers
    monkeypatch.setattr(module, "PAUSE", 0.0)


def ask(port: int, wait: float = 0.0) -> tuple[int, int, bytes]:
    reply = probe(*find_target("127.0.0.1", port), QUERY, wait)
    assert not reply.authority
    assert not reply.additional
    (record,) = reply.answer
    return reply.rcode, record.ttl, record.rdata


def test_a_server() -> None:
    with server() as port:
        assert ask(port) == (Rcode.NOERROR, 5, bytes((10, 0, 0, 1)))


def test_a_server_that_is_slow_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EACH", 0.02)
    with server(ignored=2) as port:
        assert ask(port, wait=30.0) == (Rcode.NOERROR, 5, bytes((10, 0, 0, 1)))


def said(port: int, *, ready: bool = True) -> str:
    target = find_target("127.0.0.1", port)
    with pytest.raises(LoadError) as error:
        probe(*target, QUERY, 0.0, lambda reply: ready)
    return str(error.value)


def test_nothing_listens() -> None:
    port = free_port()
    assert said(port) == f"nothing listens on UDP at 127.0.0.1 port {port}{REMEDY}"


def test_no_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EACH", 0.02)
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
