from __future__ import annotations

import contextlib
import struct
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple
from unittest import mock

import dns.edns
import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.turns import AT_ONCE
from hsdns.wire import decode as decode_reply_module
from hsdns.wire.decode import (
    MANY,
    MAX_QUERY_LEN,
    BadQuery,
    BadReply,
    answers_question,
    decode,
    decode_header,
    decode_in_turns,
    decode_reply,
    outline,
)
from hsdns.wire.encode import MAX_TCP_LEN, encode, encode_query
from hsdns.wire.iana import Rcode, RRType, class_to_text, type_to_text
from hsdns.wire.message import RR, Query, Reply, outcome
from hsdns.wire.name import Name
from tests import strategies
from tests.strategies import damaged, queries, sections
from tests.support.clients.messages import query
from tests.support.coroutines.eager import turns
from tests.support.plugins.requests import section
from tests.support.tables import columns, values
from tests.support.tables import section as section_of

TABLES = Path(__file__).with_name("tables.txt")

PACKETS = sorted((Path(__file__).parent.parent / "packets").glob("*.hex"))
USUAL_WORK = 700
FLAGS = {
    "aa": 0x0400, "tc": 0x0200, "rd": 0x0100, "ra": 0x0080, "z": 0x0040, "ad": 0x0020, "cd": 0x0010,
}  # fmt: skip


class Packet(NamedTuple):
    """A file of tests/packets."""

    wire: bytes
    expect: str
    work: int

    @classmethod
    def load(cls, path: Path) -> Packet:
        wire, notes = b"", {"work": str(USUAL_WORK)}
        for line in path.read_text().splitlines():
            octets, _, comment = line.partition("#")
            word, colon, value = comment.strip().partition(": ")
            if not octets.strip() and colon and word in ("expect", "work"):
                notes[word] = value
            one, _, times = octets.partition(" x ")
            wire += bytes.fromhex(one) * int(times or 1)
        return cls(wire, notes["expect"], int(notes["work"]))


def decoded_or_refused(wire: bytes) -> str:
    """Describe the result of decoding in the words of the files."""
    try:
        query = decode(wire)
    except BadQuery as bad:
        return "silence" if bad.reply is None else refusal(wire, bad.reply)
    words = [
        f"query qname={query.qname.to_text()}",
        f"qtype={type_to_text(query.qtype)}",
        f"qclass={class_to_text(query.qclass)}",
    ]
    if query.opcode:
        words.append(f"opcode={query.opcode}")
    words += flag_words(query.flags)
    if query.edns is not None:
        words.append(f"edns={query.edns.payload_size}")
        words += [f"version={query.edns.version}"] if query.edns.version else []
        words += ["do"] if query.edns.do else []
        options = ",".join(f"{code}:{data.hex()}" for code, data in query.edns.options)
        words += ["options=many" if len(options) > 200 else f"options={options}"] if options else []
    return " ".join(words)


def refusal(wire: bytes, reply: bytes) -> str:
    """Describe a reply made without a query, and check the properties of all of them."""
    ident, flags, *counts = struct.unpack("!HHHHHH", reply[:12])
    assert ident == int.from_bytes(wire[:2], "big")
    assert flags & 0x8000
    assert flags & 0x7800 == (wire[2] << 8) & 0x7800
    rcode = {1: "formerr", 4: "notimp"}[flags & 15]
    if len(reply) == 12:
        assert counts == [0, 0, 0, 0]
        what = "header"
    else:
        assert counts == [1, 0, 0, 0]
        assert reply[12:] == wire[12 : len(reply)]
        assert len(dns.message.from_wire(reply).question) == 1
        what = "question"
    return " ".join([rcode, what, *flag_words(flags & ~0x8000)])


def flag_words(flags: int) -> list[str]:
    found = ",".join(word for word, bit in FLAGS.items() if flags & bit)
    return [f"flags={found}"] if found else []


def lines_run(call: Callable[[], object]) -> int:
    """Count the lines of hsdns that run in a call."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        if "hsdns" not in frame.f_code.co_filename:
            return None
        if event == "line":
            count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("path", PACKETS, ids=lambda path: path.stem)
def test_packet(path: Path) -> None:
    packet = Packet.load(path)
    assert decoded_or_refused(packet.wire) == packet.expect


@pytest.mark.parametrize("path", PACKETS, ids=lambda path: path.stem)
def test_packets_cost_little(path: Path) -> None:
    packet = Packet.load(path)
    assert lines_run(lambda: outcome_alone(packet.wire)) <= packet.work


def outcome_alone(wire: bytes) -> None:
    with contextlib.suppress(BadQuery):
        decode(wire)


@given(query=strategies.queries(), data=st.data())
def test_any_octets_give_a_query_or_a_refusal(query: Query, data: st.DataObject) -> None:
    wire = data.draw(st.binary(max_size=600) | strategies.damaged(encode_query(query, query.id)))
    assert decoded_or_refused(wire).split()[0] in ("query", "formerr", "notimp", "silence")
    assert lines_run(lambda: outcome_alone(wire)) <= 5000


@given(query=strategies.queries(), data=st.data())
def test_what_decodes_can_be_answered(query: Query, data: st.DataObject) -> None:
    """A query that dnslib accepts but cannot answer (a name too long, a label of 64 octets) is refused here."""
    wire = data.draw(strategies.damaged(encode_query(query, query.id)))
    try:
        found = decode(wire)
    except BadQuery:
        return
    reply = encode(found, Reply(), 65535)
    assert reply[12 : 12 + len(found.question_wire)] == found.question_wire
    assert len(dns.message.from_wire(reply, continue_on_error=True).question) == 1


@given(strategies.queries())
def test_decode_of_encode(query: Query) -> None:
    found = decode(encode_query(query, query.id))
    assert found == query.replace(size=found.size)


@pytest.mark.parametrize("size", [MAX_QUERY_LEN + 1, 65535])
def test_long_queries_are_refused_cheaply(size: int) -> None:
    wire = bytes.fromhex("123401000001000000000000") + b"\1a" * size
    assert lines_run(lambda: outcome_alone(wire[:size])) < 60


def test_a_refused_query_says_why() -> None:
    with pytest.raises(BadQuery, match="silence"):
        decode(b"")
    with pytest.raises(BadQuery, match="rcode 1"):
        decode(bytes(12))


# --- what a Query's own fields do not show ---


@pytest.mark.parametrize(("counts", "records", "kept"), values(TABLES, "whole message is kept"))
def test_whole_message_is_kept(counts: str, records: str, kept: bool) -> None:
    wire = bytes.fromhex(f"0001 0100 {counts} 00 0001 0001 {records}")
    assert decode(wire).whole == (wire if kept else b"")


QUERY = Query.ask(Name.from_text("www.example.org."), RRType.A)
QUESTION = QUERY.question_wire


def oracle(
    answer: Sequence[str], authority: Sequence[str] = (), additional: Sequence[str] = ()
) -> dns.message.Message:
    """A reply to QUERY by dnspython, which compresses the names it may."""
    message = dns.message.from_wire(b"\x12\x34\x81\x80\0\1\0\0\0\0\0\0" + QUESTION)
    for target, texts in (
        (message.answer, answer),
        (message.authority, authority),
        (message.additional, additional),
    ):
        for text in texts:
            owner, ttl, rrclass, rrtype, rdata = text.split(None, 4)
            target.append(dns.rrset.from_text(owner, int(ttl), rrclass, rrtype, rdata))
    return message


TEXTS = Path(__file__).with_name("texts.txt")


@pytest.mark.parametrize("text", section_of(TEXTS, "types in replies").splitlines())
def test_rdata_comes_out_as_dnspython_wrote_it(text: str) -> None:
    message = oracle([f"www.example.org. 30 IN {text}"])
    owner, rdata = message.answer[0].name, message.answer[0][0].to_text()
    expected = [f"{owner} 30 IN {text.partition(' ')[0]} {rdata}"]
    assert section(decode_reply(message.to_wire(), QUERY).answer) == expected


def test_compressed_names_in_types_that_no_longer_may_have_them() -> None:
    srv = b"\xc0\x0c\0\x21\0\1\0\0\0\x1e\0\x08\0\0\0\x0a\1\xbb\xc0\x10"
    wire = b"\x12\x34\x81\x80\0\1\0\1\0\0\0\0" + QUESTION + srv
    assert section(decode_reply(wire, QUERY).answer) == [
        "www.example.org. 30 IN SRV 0 10 443 example.org."
    ]


@pytest.mark.parametrize(("rrtype", "before", "names", "after"), values(TABLES, "compressed names of all types of old"))  # fmt: skip
def test_compressed_names_of_all_types_of_old(
    rrtype: int, before: int, names: int, after: int
) -> None:
    reply = decode_reply(record(rrtype, bytes(before) + b"\xc0\x0c" * names + bytes(after)), QUERY)
    assert reply.answer[0].rdata == bytes(before) + QUERY.qname.wire * names + bytes(after)


@pytest.mark.parametrize(
    ("header", "question", "answers"),
    [
        pytest.param("8000 0001", QUESTION, True, id="same"),
        pytest.param("8000 0001", QUESTION.upper(), True, id="other-case"),
        pytest.param("8000 0001", QUESTION[:-3] + b"\2\0\1", False, id="other-type"),
        pytest.param("8000 0000", b"", True, id="none"),
        pytest.param("8000 0001", b"", True, id="header alone"),
        pytest.param("8000 0101", QUESTION, False, id="many"),
        pytest.param("0000 0001", QUESTION, False, id="query"),
    ],
)
def test_answers_question(header: str, question: bytes, answers: bool) -> None:
    wire = bytes.fromhex(f"1234 {header} 0000 0000 0000") + question
    assert answers_question(wire, QUESTION) is answers


def test_sections_flags_and_opt() -> None:
    message = oracle(
        ["www.example.org. 30 IN CNAME a.example.net."],
        ["example.org. 60 IN NS ns.example.org."],
        ["ns.example.org. 5 IN A 192.0.2.53"],
    )
    message.flags |= dns.flags.AA | dns.flags.AD | dns.flags.TC
    message.use_edns(
        0, 0, 4096, options=[dns.edns.GenericOption(dns.edns.OptionType.COOKIE, b"12345678")]
    )
    message.set_rcode(dns.rcode.BADVERS)
    reply = decode_reply(message.to_wire(), QUERY)
    assert reply.rcode == Rcode.BADVERS
    assert (reply.aa, reply.ra, reply.ad, reply.tc) == (True, True, True, True)
    assert section(reply.answer) == ["www.example.org. 30 IN CNAME a.example.net."]
    assert section(reply.authority) == ["example.org. 60 IN NS ns.example.org."]
    assert section(reply.additional) == ["ns.example.org. 5 IN A 192.0.2.53"]
    assert reply.edns_options == ((10, b"12345678"),)


@pytest.mark.parametrize(
    ("header", "question", "reply"),
    [
        pytest.param("80030001 00000000", QUESTION, Reply(rcode=Rcode.NXDOMAIN), id="bare"),
        pytest.param("80000001 00000000", QUESTION.replace(b"www", b"wWw"), Reply(), id="other-case"),
        pytest.param("80000001 00070000", QUESTION, Reply(), id="counts-above-the-records"),
    ],
)  # fmt: skip
def test_replies_without_records(header: str, question: bytes, reply: Reply) -> None:
    wire = bytes.fromhex(f"1234 {header} 0000") + question
    assert decode_reply(wire, QUERY) == reply


def record(rrtype: int, rdata: bytes) -> bytes:
    fixed = rrtype.to_bytes(2, "big") + b"\0\1\0\0\0\x1e" + len(rdata).to_bytes(2, "big")
    return b"\x12\x34\x81\x80\0\1\0\1\0\0\0\0" + QUESTION + b"\xc0\x0c" + fixed + rdata


@pytest.mark.parametrize(
    ("octets", "expected"), columns(Path(__file__).with_name("bad_replies.txt"), "replies")
)
def test_bad_replies(octets: str, expected: str) -> None:
    with pytest.raises(BadReply) as caught:
        decode_reply(bytes.fromhex(octets.replace("QUESTION", QUESTION.hex())), QUERY)
    found = type(caught.value).__name__ + (", cut" if caught.value.is_truncated else "")
    assert f"{found}: {caught.value}" == expected


@pytest.mark.parametrize(
    ("pointers", "is_read"), [pytest.param(126, True, id="126"), pytest.param(127, False, id="127")]
)
def test_pointers_to_pointers(pointers: int, is_read: bool) -> None:
    """A root name in opaque data, then pointers each to the one before; the next owner points to the last of them."""
    start = 12 + len(QUESTION) + 2 + 10
    places = [start, *(start + 1 + 2 * k for k in range(pointers - 1))]
    chain = b"\0" + b"".join((0xC000 | place).to_bytes(2, "big") for place in places[:-1])
    last = (0xC000 | places[-1]).to_bytes(2, "big") + b"\0\x10\0\1\0\0\0\x1e\0\2\1x"
    wire = record(65300, chain) + last
    wire = wire[:6] + b"\0\2" + wire[8:]
    if is_read:
        assert section(decode_reply(wire, QUERY).answer[1:]) == ['. 30 IN TXT "x"']
        return
    with pytest.raises(BadReply, match="invalid compression pointer"):
        decode_reply(wire, QUERY)


def test_header_alone() -> None:
    assert decode_header(b"\x12\x34\x85\xa3" + bytes(8)) == Reply(
        rcode=Rcode.NXDOMAIN, aa=True, ra=True, ad=True, tc=True
    )


@given(st.binary(max_size=200))
def test_any_bytes_are_a_reply_or_bad(noise: bytes) -> None:
    for wire in (noise, b"\x12\x34\x81\x80\0\1\0\3\0\2\0\1" + QUESTION + noise):
        try:
            reply = decode_reply(wire, QUERY)
        except BadReply:
            continue
        for rr in (*reply.answer, *reply.authority, *reply.additional):
            assert 1 <= len(rr.owner.wire) <= 255
            assert rr.owner.wire[-1] == 0


# Records by kind: as those before and after it, longer, with a name, and with another owner.
KINDS = {
    "A": b"\xc0\x0c\0\1\0\1\0\0\0\x1e\0\4" + b"abcd",
    "other A": b"\xc0\x0c\0\1\0\1\0\0\0\x1e\0\4" + b"ABCD",
    "other TTL": b"\xc0\x0c\0\1\0\1\0\0\0\x1f\0\4" + b"abcd",
    "TXT": b"\xc0\x0c\0\x10\0\1\0\0\0\x1e\0\4" + b"\3bcd",
    "long TXT": b"\xc0\x0c\0\x10\0\1\0\0\0\x1e\0\6" + b"\5bcdef",
    "CNAME": b"\xc0\x0c\0\5\0\1\0\0\0\x1e\0\2" + b"\xc0\x10",
    "empty": b"\0\xff\0\0\1\0\0\0\x1e\0\0",
    "class ANY": b"\xc0\x0c\0\1\0\xff\0\0\0\x1e\0\0",
    "short A": b"\xc0\x0c\0\1\0\1\0\0\0\x1e\0\3" + b"abc",
    "OPT": b"\0\0\x29\4\xd0\0\0\0\0\0\0",
}


def message(runs: Sequence[tuple[str, int]], missing: int = 0) -> bytes:
    """A reply with so many records of each kind, without its last octets."""
    records = [KINDS[kind] for kind, count in runs for _ in range(count)]
    header = b"\x12\x34\x81\x80\0\1" + len(records).to_bytes(2, "big") + bytes(4)
    whole = header + QUESTION + b"".join(records)
    return whole[: len(whole) - missing]


def decoded(wire: bytes, decode: Callable[[bytes, Query], Reply] = decode_reply) -> object:
    """What is decoded, or how it fails."""
    try:
        reply = decode(wire, QUERY)
    except BadReply as error:
        return str(error), error.is_truncated
    return reply, [rr.owner.wire for rr in reply.answer]


@given(
    st.lists(
        st.tuples(st.sampled_from([*KINDS]), st.sampled_from([1, 2, MANY - 1, MANY, MANY + 3])),
        max_size=6,
    ),
    st.integers(0, 20),
)
def test_runs_are_decoded_as_one_by_one(runs: list[tuple[str, int]], missing: int) -> None:
    wire = message(runs, missing)
    assert decoded(wire, lambda *of: turns(decode_in_turns(*of))[0]) == decoded(wire)
    with mock.patch.object(decode_reply_module, "MANY", 100_000):
        one_by_one = decoded(wire)
    assert decoded(wire) == one_by_one


@pytest.mark.parametrize(
    ("runs", "others"),
    [
        pytest.param([("A", 4000)], 0, id="in columns"),
        pytest.param([("CNAME", 4000)], 4000 // AT_ONCE, id="names"),
        pytest.param([("CNAME", AT_ONCE)], 0, id="few"),
        pytest.param([("TXT", 1), ("long TXT", 1)] * 1000, 2000 // AT_ONCE, id="of any length"),
    ],
)
def test_records_with_names_are_decoded_in_several_turns(
    runs: list[tuple[str, int]], others: int
) -> None:
    reply, count = turns(decode_in_turns(message(runs), QUERY))
    assert (len(reply.answer), count) == (sum(each for _, each in runs), others)


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
    decoded, (found, ttl) = decode_reply(wire, asked), outline(wire)
    ttls = [rr.ttl for rr in (*decoded.answer, *decoded.authority, *decoded.additional)]
    assert ttl == min(ttls, default=None)
    assert found.rcode == decoded.rcode
    assert outcome(asked, found, lambda: now) == outcome(asked, decoded, lambda: now)


@given(queries(), sections, st.data())
def test_damage_is_survived(asked: Query, answer: tuple[RR, ...], data: st.DataObject) -> None:
    with contextlib.suppress(IndexError):
        outline(data.draw(damaged(encode(asked, Reply(0, answer), MAX_TCP_LEN))))


def test_one_record_of_a_type_is_kept() -> None:
    """What is made for a long reply does not grow with it."""
    asked = decode(query("example.org", number=0).to_wire())
    answer = tuple(RR(asked.qname, 1, 600 - n // 2, bytes((192, 0, 2, n))) for n in range(250))
    answer += (RR(asked.qname, 16, 999, b"\xff" + bytes(255) + b"\1x"),)
    found, ttl = outline(encode(asked, Reply(0, answer), MAX_TCP_LEN))
    assert (len(found.answer), ttl) == (2, 476)


@pytest.mark.parametrize("wire", [b"", bytes(12), bytes(4) + b"\0\2" + bytes(30)])
def test_what_is_no_reply(wire: bytes) -> None:
    with pytest.raises(IndexError):
        outline(wire)


@pytest.mark.parametrize(
    ("runs", "most"),
    [
        pytest.param([("A", 4000)], 4500, id="one RRset"),
        pytest.param([("CNAME", 1), ("A", 4000)], 12_000, id="after a CNAME"),
        pytest.param([("A", 1), ("TXT", 1)] * 2000, 118_000, id="no runs"),
    ],
)
def test_thousands_of_records_take_few_steps(runs: list[tuple[str, int]], most: int) -> None:
    """A run is read in columns; to look for one may cost as much as to read MANY records."""
    wire = message(runs)
    assert lines_run(lambda: decode_reply(wire, QUERY)) <= most
