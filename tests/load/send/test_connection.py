from __future__ import annotations

import pytest

from hsdns.load.send.connection import Asked, Client, Connection, FramedSession
from hsdns.load.send.tls import TlsLayer, client_context
from hsdns.wire.framing import frame
from tests.load.send.test_tls_layer import Server
from tests.load.stream_peers import OCTETS, answer
from tests.support.upstreams.certificate import Certificate, make_certificate


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("tls"), "dns.test")


def asked() -> Asked:
    return Asked(OCTETS, 0, 0, 0)


def sent(key: int) -> bytes:
    return frame(key.to_bytes(2, "big") + OCTETS)


def test_queries_wait_for_the_set_up() -> None:
    connection = Connection(FramedSession(), None, 10, 0, 5)
    first, second = asked(), asked()
    connection.ask(first)
    assert (connection.take(), connection.is_up, connection.is_quiet) == (b"", False, False)
    connection.connect()
    connection.ask(second)
    assert connection.take() == sent(0) + sent(1)
    assert (first.connection, first.key, second.key) == (connection, 0, 1)
    found = connection.receive(frame(answer(b"\0\1" + OCTETS)))
    assert [each.asked for each in found] == [second]
    assert connection.rest() == [first]
    assert connection.is_quiet


def test_room() -> None:
    connection = Connection(FramedSession(), None, 2, 3, 5)
    for has_room in (True, True, False):
        assert (connection.has_room, connection.is_spent) == (has_room, False)
        if has_room:
            connection.ask(asked())
    connection.connect()
    connection.receive(frame(answer(b"\0\0" + OCTETS)))
    connection.ask(asked())
    assert (connection.has_room, connection.is_spent) == (False, True)


def test_forgotten() -> None:
    connection = Connection(FramedSession(), None, 10, 0, 5)
    first, second = asked(), asked()
    connection.ask(first)
    connection.forget(first)
    assert connection.is_quiet
    connection.connect()
    connection.ask(second)
    connection.forget(second)
    assert connection.is_quiet


def test_a_session_that_leaves_takes_nothing() -> None:
    session = FramedSession()
    connection = Connection(session, None, 10, 0, 5)
    session.takes = False
    assert (connection.is_spent, connection.has_room) == (True, False)


def test_over_tls(certificate: Certificate) -> None:
    server = Server(certificate)
    layer = TlsLayer(client_context(str(certificate.cert), insecure=False), "dns.test")
    connection = Connection(FramedSession(), layer, 10, 0, 5)
    query = asked()
    connection.ask(query)
    connection.connect()
    got = b""
    for _ in range(3):
        got += server.feed(connection.take())
        connection.receive(server.take())
    assert (connection.is_up, got) == (True, sent(0))
    server.ssl.write(frame(answer(b"\0\0" + OCTETS)))
    assert [each.asked for each in connection.receive(server.take())] == [query]
    assert not connection.is_ended
    assert connection.end()
    assert (connection.broken, connection.is_quiet) == ("", True)


def test_a_handshake_that_fails(certificate: Certificate) -> None:
    server = Server(certificate)
    layer = TlsLayer(client_context(str(certificate.cert), insecure=False), "other.test")
    connection = Connection(FramedSession(), layer, 10, 0, 5)
    connection.connect()
    server.feed(connection.take())
    assert connection.receive(server.take()) == []
    assert connection.broken.startswith("TLS: Hostname mismatch")
    assert (connection.is_up, connection.end()) == (False, b"")


def test_a_client() -> None:
    client = Client()
    assert client.has_room
    client.connection = Connection(FramedSession(), None, 1, 0, 5)
    client.connection.ask(asked())
    assert not client.has_room
