from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.wire.decode import decode, decode_reply, outline
from hsdns.wire.encode import MAX_TCP_LEN, encode
from hsdns.wire.message import RR, Query, Reply, outcome
from tests.strategies import damaged, queries, sections
from tests.support.clients.messages import query


@given(
    queries(), sections, sections, sections, st.sampled_from([0, 2, 3, 5]), st.integers(0, 2**32)
)
def test_as_decoded(
    asked: Query,
    answer: tuple[RR, ...],
    authority: tuple[RR, ...],
    additional: tuple[RR, ...],
    rcode: int,
    now: int,
) -> None:
    """Outcome and smallest TTL are those of the decoded reply."""
    wire = encode(asked, Reply(rcode, answer, authority, additional), MAX_TCP_LEN)
    decoded, found = decode_reply(wire, asked), outline(wire)
    assert found is not None
    ttls = [rr.ttl for rr in (*decoded.answer, *decoded.authority, *decoded.additional)]
    assert found.ttl == min(ttls, default=None)
    assert found.reply.rcode == decoded.rcode
    assert outcome(asked, found.reply, lambda: now) == outcome(asked, decoded, lambda: now)


@given(queries(), sections, st.data())
def test_damage_is_survived(asked: Query, answer: tuple[RR, ...], data: st.DataObject) -> None:
    outline(data.draw(damaged(encode(asked, Reply(0, answer), MAX_TCP_LEN))))


def test_one_record_of_a_type_is_kept() -> None:
    """What is made for a long reply does not grow with it."""
    asked = decode(query("example.org", number=0).to_wire())
    answer = tuple(RR(asked.qname, 1, 600 - n, bytes((192, 0, 2, n))) for n in range(250))
    found = outline(encode(asked, Reply(0, answer), MAX_TCP_LEN))
    assert found is not None
    assert (len(found.reply.answer), found.ttl) == (1, 351)


@pytest.mark.parametrize("wire", [b"", bytes(12), bytes(4) + b"\0\2" + bytes(30)])
def test_what_is_no_reply(wire: bytes) -> None:
    assert outline(wire) is None
