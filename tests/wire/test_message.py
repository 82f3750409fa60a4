from __future__ import annotations

from itertools import repeat
from pathlib import Path

import dns.edns
import dns.flags
import dns.message
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.plugins.cache.store import pack, unpack, with_ttl
from hsdns.turns import AT_ONCE
from hsdns.wire.edns import Edns, read_options
from hsdns.wire.encode import encode, is_truncated
from hsdns.wire.framing import FrameBuffer, frame
from hsdns.wire.iana import OptCode, RRClass, RRType, type_from_text
from hsdns.wire.message import (
    AA,
    CD,
    RD,
    RR,
    InfoCode,
    Outcome,
    Query,
    Reply,
    follow,
    is_answered,
    make_records,
    outcome,
    pieces,
    reply_flags,
    to_option,
    with_extended_error,
)
from hsdns.wire.name import Name
from tests import strategies
from tests.support.plugins.dialogue import make_reply
from tests.support.plugins.requests import make_request, reply, rr
from tests.support.tables import columns

ANSWERS = Path(__file__).with_name("answers.txt")
QNAME = Name.from_text("WWW.example.org.")
SOA = RR(Name.from_text("example.org."), RRType.SOA, 5, bytes(22))


def test_ask() -> None:
    query = Query.ask(QNAME, RRType.AAAA)
    assert query.question_wire == b"\3WWW\7example\3org\0\0\x1c\0\1"
    assert (query.qname, query.qtype, query.qclass, query.size) == (QNAME, 28, RRClass.IN, 12 + 21)
    assert (query.rd, query.cd, query.do, query.opcode) == (True, False, False, 0)


@pytest.mark.parametrize(
    ("flags", "rd", "copied"),
    [
        (RD | CD | AA, None, RD | CD),
        (CD, None, CD),
        (CD, True, RD | CD),
        (RD | CD, False, CD),
        (4 << 11 | RD | CD, None, 0),
        (4 << 11, True, RD),
    ],
)
def test_copied_flags(flags: int, rd: bool | None, copied: int) -> None:
    query = Query.ask(QNAME, RRType.A, flags=flags)
    assert reply_flags(query, Reply(rd=rd), is_cut=False) == copied


@pytest.mark.parametrize("count", [0, 1, AT_ONCE - 1, AT_ONCE, AT_ONCE + 1, 3 * AT_ONCE, 1000])
def test_many_records_are_made_and_taken_some_at_a_time(count: int) -> None:
    rdata = [number.to_bytes(4, "big") for number in range(count)]
    made = make_records(repeat(QNAME), repeat(1), repeat(30), rdata, repeat(1))
    assert made == [RR(QNAME, 1, 30, each) for each in rdata]
    assert all(type(each) is RR for each in made)
    taken = [*pieces(made)]
    assert [record for piece in taken for record in piece] == made
    assert all(0 < len(piece) <= AT_ONCE for piece in taken)


TEXTS = st.text(max_size=40).filter(lambda text: not text.endswith("\0"))  # which dnspython removes
ERRORS = st.lists(st.tuples(st.integers(0, 65535), TEXTS), max_size=3)


def test_the_codes_are_those_of_iana() -> None:
    for name, code in vars(InfoCode).items():
        assert not name.isupper() or dns.edns.EDECode(code).name.startswith(name)


def test_a_client_without_edns_gets_an_opt_record() -> None:
    query = make_request("a.").query
    sent = dns.message.from_wire(encode(query, with_extended_error(query, Reply(), 21, "why"), 512))
    assert (sent.edns, sent.payload, sent.ednsflags) == (0, 4096, 0x8000)
    (option,) = sent.options
    assert isinstance(option, dns.edns.EDEOption)
    assert (option.code, option.text) == (21, "why")


def test_a_client_with_edns_keeps_its_size() -> None:
    query = make_request("a.", edns=Edns(900)).query
    sent = dns.message.from_wire(encode(query, with_extended_error(query, Reply(), 0), 900))
    assert (sent.payload, sent.ednsflags) == (900, 0x8000)
    assert [option.to_wire() for option in sent.options] == [b"\0\0"]


@given(ERRORS)
def test_options_are_read_as_they_were_written(errors: list[tuple[int, str]]) -> None:
    wire = b"".join(to_option(*error) for error in errors)
    assert read_options(wire, 0, len(wire)) == tuple(
        (OptCode.EDE, code.to_bytes(2, "big") + text.encode()) for code, text in errors
    )


@given(ERRORS.filter(bool), st.none() | strategies.edns, st.integers(0, 40), st.integers(512, 1400))
def test_errors_are_for_clients_with_edns_and_the_first_to_go(
    errors: list[tuple[int, str]], edns: Edns | None, count: int, limit: int
) -> None:
    """Beside them a reply is as without; where they have no room it has TC, and all records that fit."""
    name = Name.from_text("a.example.org.")
    query = Query.ask(name, RRType.A, edns=edns)
    records = tuple(RR(name, RRType.A, 5, bytes((10, 0, 0, host))) for host in range(count))
    options = b"".join(to_option(*error) for error in errors)
    plain = Reply(answer=records)
    without = encode(query, plain, limit)
    found = encode(query, plain.replace(extended_errors=options), limit)
    if edns is None:
        assert found == without
        return
    if len(without) + len(options) <= limit and not without[2] & 2:
        assert len(found) == len(without) + len(options)
        message = dns.message.from_wire(found)
        told = [each for each in message.options if each.otype == OptCode.EDE]
        echoed = len(message.options) - len(told)
        assert list(message.options)[echoed:] == told
        assert b"".join(each.to_wire() or b"" for each in told[-len(errors) :]) == b"".join(
            code.to_bytes(2, "big") + text.encode() for code, text in errors
        )
        assert not message.flags & dns.flags.TC
    else:
        assert found == without[:2] + bytes((without[2] | 2,)) + without[3:]


def test_a_reply_without_room_for_its_errors_counts_as_truncated() -> None:
    query = make_request("a.", edns=Edns(512)).query
    records = tuple(RR(query.qname, RRType.A, 5, bytes((10, 0, 0, host))) for host in range(29))
    plain = Reply(answer=records)
    assert not is_truncated(query, plain, "udp")
    told = plain.replace(extended_errors=to_option(0, "why" * 20))
    assert is_truncated(query, told, "udp")
    assert not is_truncated(query, told, "tcp")


A = "a.example.org. 5 IN A 10.0.0.1"
SIGNED = "a.example.org. 5 IN RRSIG A 8 3 5 {1} {0} 1 example.org. AAAA"
EARLY, NOW, LATE = "20230101000000", 1_700_000_000, "20240101000000"  # NOW is in November 2023
CURRENT, EXPIRED, FUTURE = (
    SIGNED.format(EARLY, LATE),
    SIGNED.format("20220101000000", EARLY),
    SIGNED.format(LATE, "20250101000000"),
)


@pytest.mark.parametrize(("found", "expected"), columns(ANSWERS, "outcomes"))
def test_outcome(found: str, expected: str) -> None:
    query = make_request("a.example.org.").query
    sent = make_reply(found, "a.example.org.", lambda: True)
    assert outcome(query, sent, lambda: NOW) is Outcome[expected]


def test_silence_is_an_error() -> None:
    assert outcome(make_request("a.").query, None, lambda: NOW) is Outcome.OTHER_ERROR


@pytest.mark.parametrize("qtype", ["AXFR", "IXFR"])
def test_a_transfer_is_meta(qtype: str) -> None:
    assert (
        outcome(make_request("example.org.", qtype).query, reply([A]), lambda: NOW) is Outcome.META
    )


def test_a_notify_is_meta() -> None:
    query = make_request("example.org.", "SOA", flags=4 << 11).query
    assert outcome(query, Reply(), lambda: NOW) is Outcome.META


@pytest.mark.parametrize(
    ("signature", "do", "expected"),
    [
        pytest.param(CURRENT, True, Outcome.POSITIVE, id="current"),
        pytest.param(EXPIRED, True, Outcome.OTHER_ERROR, id="expired"),
        pytest.param(FUTURE, True, Outcome.OTHER_ERROR, id="not-yet"),
        pytest.param(EXPIRED, False, Outcome.POSITIVE, id="expired-not-asked-for"),
    ],
)
def test_signatures(signature: str, do: bool, expected: Outcome) -> None:
    query = make_request("a.example.org.", edns=Edns(1232, do=do)).query
    assert outcome(query, reply([A, signature]), lambda: NOW) is expected


def records(texts: list[str]) -> list[RR]:
    return [rr(text) for text in texts if text]


@pytest.mark.parametrize(("answer", "end"), columns(ANSWERS, "chains"))
def test_follow(answer: str, end: str) -> None:
    """In any order; None for a fork or a circle."""
    found = follow(records(answer.split(" | ")), Name.from_text("a.example.org.").lower)
    assert found == (None if end == "None" else Name.from_text(end).wire)


@pytest.mark.parametrize(("given", "expected"), columns(ANSWERS, "answered"))
def test_is_answered(given: str, expected: str) -> None:
    qtype, *answer = given.split(" | ")
    query = Query.ask(Name.from_text("a.example.org."), type_from_text(qtype))
    assert str(is_answered(query, records(answer))) == expected


MESSAGES = st.lists(st.binary(max_size=40), max_size=6)


@given(
    messages=MESSAGES, rest=st.binary(max_size=1), cuts=st.lists(st.integers(0, 300), max_size=8)
)
def test_messages_come_out_however_the_stream_is_cut(
    messages: list[bytes], rest: bytes, cuts: list[int]
) -> None:
    stream = b"".join(frame(message) for message in messages) + rest
    buffer, found, at = FrameBuffer(), list[bytes](), 0
    for end in [*sorted(min(cut, len(stream)) for cut in cuts), len(stream)]:
        found += buffer.feed(stream[at:end])
        at = end
    assert found == messages
    assert buffer.is_partial == bool(rest)


@given(messages=MESSAGES, rest=st.binary(max_size=1), cut=st.integers(0, 300))
def test_messages_are_taken_one_by_one(messages: list[bytes], rest: bytes, cut: int) -> None:
    stream = b"".join(frame(message) for message in messages) + rest
    buffer, found = FrameBuffer(), list[bytes]()
    for part in (stream[:cut], stream[cut:]):
        buffer.add(part)
        if buffer.has_message:  # one only, so that the next part finds some that wait
            assert not buffer.is_partial
            found.append(buffer.take() or b"")
    while buffer.has_message:
        found.append(buffer.take() or b"")
    assert found == messages
    assert buffer.take() is None
    assert buffer.is_partial == bool(rest)
    buffer.clear()
    assert not buffer.is_partial
    assert buffer.feed(frame(b"abc")) == [b"abc"]


@pytest.mark.parametrize("size", [0, 1, 255, 256, 65535])
def test_any_length_octet_by_octet(size: int) -> None:
    message = bytes(size)
    buffer = FrameBuffer()
    wire = frame(message)
    assert wire[:2] == size.to_bytes(2, "big")
    assert buffer.feed(wire[:1]) == []
    assert buffer.is_partial
    assert buffer.feed(wire[1:] + b"\0") == [message]
    assert buffer.is_partial


def test_a_message_that_is_too_long_has_no_frame() -> None:
    with pytest.raises(OverflowError):
        frame(bytes(65536))


def test_nothing_is_kept_of_what_came_out() -> None:
    buffer = FrameBuffer()
    for _ in range(3):
        assert buffer.feed(frame(b"abc") + frame(b"")) == [b"abc", b""]
        assert not buffer.is_partial


# Packed records.

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
