"""Packed records."""

from hypothesis import given
from hypothesis import strategies as st

from hsdns.plugins.cache.store import pack, unpack, with_ttl
from hsdns.wire.message import RR, Reply
from hsdns.wire.name import Name

NAMES = st.sampled_from(["a.example.org", "A.example.ORG", "b.example.org", "."]).map(
    Name.from_text
)
RECORDS = st.builds(
    RR,
    NAMES,
    st.integers(0, 65535),
    st.integers(0, 2**31 - 1),
    st.binary(max_size=300),
    st.sampled_from([1, 3, 255]),
)
SECTIONS = st.lists(RECORDS, max_size=6).map(tuple)
REPLIES = st.builds(
    Reply, st.integers(0, 4095), SECTIONS, SECTIONS, SECTIONS, aa=st.booleans(), ad=st.booleans()
)


def described(reply: Reply) -> list[object]:
    """All of it, with the case of names."""
    return [
        reply.rcode, reply.aa, reply.ad,
        *(
            [(rr.owner.wire, type(rr), *rr[1:]) for rr in section]
            for section in (reply.answer, reply.authority, reply.additional)
        ),
    ]  # fmt: skip


@given(REPLIES, st.integers(0, 2**31 - 1))
def test_what_is_packed_is_unpacked_with_another_ttl(reply: Reply, ttl: int) -> None:
    expected = reply.replace(
        answer=tuple(rr._replace(ttl=ttl) for rr in reply.answer),
        authority=tuple(rr._replace(ttl=ttl) for rr in reply.authority),
        additional=tuple(rr._replace(ttl=ttl) for rr in reply.additional),
    )
    frame = reply.replace(answer=(), authority=(), additional=())
    assert described(unpack(pack(reply), ttl, frame)) == described(expected)
    assert described(with_ttl(reply, ttl)) == described(expected)


def test_owners_are_packed_once() -> None:
    owner = Name.from_text("a-long-name.of-some-service.example.org")
    one = RR(owner, 1, 30, bytes(4))
    once = len(pack(Reply(answer=(one,))))
    assert len(pack(Reply(answer=(one,) * 10))) <= once + 9 * 9
