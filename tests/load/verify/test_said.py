"""What a reply says: the short way says the same as the decoder of all replies, and leaves to it what it does not know."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.load.questions import Question
from hsdns.load.verify.judge import Answer
from hsdns.load.verify.verifier import answer_of, read_answer
from hsdns.wire.decode import BadReply, decode_reply
from hsdns.wire.encode import encode
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import RR, Reply
from hsdns.wire.name import Name
from hsdns.wire.rdata import srv

NAME = Name.from_text("Web.shop.svc.cluster.local.")
TARGETS = [Name.from_text(each) for each in ("a.b.", "A-1.web.shop.svc.cluster.local.", ".")]
RECORDS = st.one_of(
    st.binary(min_size=4, max_size=4).map(lambda rdata: (RRType.A, rdata)),
    st.binary(min_size=16, max_size=16).map(lambda rdata: (RRType.AAAA, rdata)),
    st.sampled_from(TARGETS).map(lambda target: (RRType.PTR, target.wire)),
    st.sampled_from(TARGETS).map(lambda target: (RRType.CNAME, target.wire)),
    st.builds(
        lambda weight, target: (RRType.SRV, srv(0, weight, 80, target)),
        st.integers(0, 100),
        st.sampled_from(TARGETS),
    ),
    st.just((RRType.TXT, b"\1x")),
)


def content_of(reply: Reply, asked: Question) -> bytes:
    return encode(asked.query(), reply, 65_535)[2:]


def slowly(content: bytes, asked: Question) -> Answer | None:
    try:
        reply = decode_reply(b"\0\0" + content, asked.query())
    except BadReply:
        return None
    return answer_of(reply.rcode, reply.answer)


@given(
    found=st.lists(RECORDS, max_size=5),
    owner=st.sampled_from([NAME, NAME, NAME, TARGETS[1]]),
    rcode=st.sampled_from([Rcode.NOERROR, Rcode.NXDOMAIN]),
    cut=st.none() | st.integers(0, 300),
    changed=st.none() | st.tuples(st.integers(0, 300), st.integers(0, 255)),
)
def test_it_says_what_the_decoder_of_all_replies_says(
    found: list[tuple[int, bytes]],
    owner: Name,
    rcode: int,
    cut: int | None,
    changed: tuple[int, int] | None,
) -> None:
    asked = Question(NAME, RRType.A, "service")
    answer = tuple(RR(owner, rrtype, 5, rdata) for rrtype, rdata in found)
    content = content_of(Reply(rcode=rcode, answer=answer), asked)
    assert read_answer(content, asked) == slowly(content, asked) == answer_of(rcode, answer)
    damaged = bytearray(content[:cut])
    if changed is not None and changed[0] < len(damaged):
        damaged[changed[0]] = changed[1]
    said = slowly(bytes(damaged), asked)
    if said is not None:  # else only what follows the answer section may be damaged
        assert read_answer(bytes(damaged), asked) == said


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda octets: octets[:9], id="shorter than a header"),
        pytest.param(lambda octets: b"\0" + octets[1:], id="a query"),
        pytest.param(lambda octets: octets[:-3], id="cut in its last record"),
        pytest.param(lambda octets: octets.replace(b"\3Web", b"\3wob"), id="another question"),
        pytest.param(lambda octets: octets[:-6] + b"\0\5" + octets[-4:], id="an address of 5"),
    ],
)
def test_what_is_no_reply(damage: Callable[[bytes], bytes]) -> None:
    asked = Question(NAME, RRType.A, "service")
    reply = Reply(answer=(RR(NAME, RRType.A, 5, b"\1\2\3\4"),))
    content = content_of(reply, asked)
    assert read_answer(content, asked) == Answer(0, frozenset({(RRType.A, b"\1\2\3\4")}))
    assert read_answer(damage(content), asked) is None


def test_in_any_case_and_with_any_weight() -> None:
    target, same = Name.from_text("A.B."), Name.from_text("a.b.")
    one = RR(same, RRType.SRV, 5, srv(1, 7, 80, target))
    other = RR(target, RRType.SRV, 30, srv(1, 100, 80, same))
    assert answer_of(0, [one]) == answer_of(0, [other])
    assert answer_of(0, [one]) != answer_of(0, [RR(same, RRType.SRV, 5, srv(2, 7, 80, target))])
    assert answer_of(0, [one]) != answer_of(0, [RR(same, RRType.SRV, 5, srv(1, 7, 81, target))])
