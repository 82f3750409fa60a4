"""Connections and their sessions: messages with their length in front, in any pieces and any order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.load.send.connection import IDS, Connection, FramedSession
from hsdns.load.send.loop import Query
from hsdns.load.send.tls import TlsLayer, client_context
from hsdns.wire.framing import frame
from tests.load.send.test_tls import Server
from tests.load.stream_peers import OCTETS, answer
from tests.support.upstreams.certificate import Certificate, make_certificate


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("tls"), "dns.test")


def asked(number: int = 0) -> Query:
    return Query(OCTETS, number, 0, 0)


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
    assert [each.query for each in found] == [second]
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
    assert [each.query for each in connection.receive(server.take())] == [query]
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


def message(key: int) -> bytes:
    return key.to_bytes(2, "big") + b"\x84\0" + bytes(8)


def test_an_id_that_waits_is_not_used_again() -> None:
    session = FramedSession()
    keys = [session.ask(asked()) for _ in range(3)]
    assert session.feed(frame(message(0)) + frame(message(2)))
    session._next = IDS - 1
    assert [session.ask(asked()) for _ in range(3)] == [IDS - 1, 0, 2]
    assert keys[1] in session.in_flight


@given(data=st.data(), count=st.integers(1, 8))
def test_replies_in_any_order_and_any_pieces(data: st.DataObject, count: int) -> None:
    session = FramedSession()
    queries = {session.ask(each): each for each in map(asked, range(count))}
    order = data.draw(st.permutations(list(queries)))
    octets, found, at = b"".join(frame(message(key)) for key in order), [], 0
    while at < len(octets):
        length = data.draw(st.integers(1, len(octets) - at))
        found += session.feed(octets[at : at + length])
        at += length
    assert [each.query for each in found] == [queries[key] for key in order]
    assert [each.message for each in found] == [message(key) for key in order]
    assert not session.in_flight
    assert session.broken == ""
