"""The IDs of messages with their length in front, which come in any pieces and any order; pool.txt has the rest."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hsdns.load.send.connection import IDS, FramedSession
from hsdns.load.send.loop import Query
from hsdns.wire.framing import frame
from tests.load.stream_peers import OCTETS


def asked(number: int = 0) -> Query:
    return Query(OCTETS, number, 0, 0)


def message(key: int) -> bytes:
    return key.to_bytes(2, "big") + b"\x84\0" + bytes(8)


def test_an_id_that_waits_is_not_used_again() -> None:
    """One that is free again is used last: its reply may come twice."""
    session = FramedSession()
    keys = [session.ask(asked()) for _ in range(3)]
    assert session.feed(frame(message(0)) + frame(message(2)))
    assert session.ask(asked()) == 3
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
    assert (session.in_flight, session.broken) == ({}, "")
