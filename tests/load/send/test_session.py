"""Messages with their length in front, in any pieces and any order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hsdns.load.send.connection import IDS, Asked, FramedSession
from hsdns.wire.framing import frame

OCTETS = b"\1\0\0\1\0\0\0\0\0\0\1a\4test\0\0\1\0\1"


def asked(number: int = 0) -> Asked:
    return Asked(OCTETS, number, 0, 0)


def message(key: int) -> bytes:
    return key.to_bytes(2, "big") + b"\x84\0" + bytes(8)


def test_queries_have_ids_that_go_up() -> None:
    session = FramedSession()
    assert [session.ask(asked()) for _ in range(3)] == [0, 1, 2]
    assert bytes(session.out) == b"".join(
        frame(key.to_bytes(2, "big") + OCTETS) for key in range(3)
    )


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
    assert [each.asked for each in found] == [queries[key] for key in order]
    assert [each.message for each in found] == [message(key) for key in order]
    assert not session.in_flight
    assert session.broken == ""


def test_another_id() -> None:
    session = FramedSession()
    session.ask(asked())
    ((found, _, why),) = session.feed(frame(message(7)))
    assert (found, why, len(session.in_flight)) == (None, "", 1)


def test_forgotten() -> None:
    session = FramedSession()
    session.forget(session.ask(asked()))
    assert session.feed(frame(message(0)))[0].asked is None


def test_garbage() -> None:
    session = FramedSession()
    query = asked()
    session.ask(query)
    found = session.feed(frame(message(0)) + b"\0\3abc" + frame(message(1)))
    assert [each.asked for each in found] == [query]
    assert session.broken == "sends what is no DNS message"
