from __future__ import annotations

import contextlib
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import dns.edns
import dns.message
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hsdns.wire.decode import MAX_QUERY_LEN, BadQuery, decode
from hsdns.wire.edns import ECHOED
from hsdns.wire.encode import encode, encode_query
from hsdns.wire.iana import class_to_text, type_to_text
from hsdns.wire.message import Query, Reply
from tests import strategies

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


def outcome(wire: bytes) -> str:
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
    assert outcome(packet.wire) == packet.expect


@pytest.mark.parametrize("path", PACKETS, ids=lambda path: path.stem)
def test_packets_cost_little(path: Path) -> None:
    packet = Packet.load(path)
    assert lines_run(lambda: outcome_alone(packet.wire)) <= packet.work


def outcome_alone(wire: bytes) -> None:
    with contextlib.suppress(BadQuery):
        decode(wire)


@pytest.mark.parametrize(
    "path", [path for path in PACKETS if path.stem.startswith("query-")], ids=lambda path: path.stem
)
def test_good_packets_are_dnspythons(path: Path) -> None:
    """The same question, and where dnspython is as lenient as the peer, the same EDNS."""
    packet = Packet.load(path)
    if not packet.expect.startswith("query"):
        return
    query = decode(packet.wire)
    theirs = dns.message.from_wire(
        packet.wire, ignore_trailing=True, continue_on_error=True, question_only=True
    )
    assert theirs.question[0].name.to_wire() == query.qname.wire
    assert (int(theirs.question[0].rdtype), int(theirs.question[0].rdclass)) == (
        query.qtype,
        query.qclass,
    )
    assert query.question_wire == packet.wire[12 : 12 + len(query.question_wire)]
    assert query.size == len(packet.wire)


@given(st.binary(max_size=600))
@example(bytes(12))
@example(b"\0\0\1\0\0\1\0\0\0\0\0\0" + b"\xc0\x0c" * 5)
def test_any_octets_give_a_query_or_a_refusal(wire: bytes) -> None:
    assert outcome(wire).split()[0] in ("query", "formerr", "notimp", "silence")


@given(query=strategies.queries(), data=st.data())
def test_damaged_queries_too(query: Query, data: st.DataObject) -> None:
    wire = data.draw(strategies.damaged(encode_query(query, query.id)))
    assert outcome(wire).split()[0] in ("query", "formerr", "notimp", "silence")
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


@given(strategies.queries())
def test_queries_of_dnspython(query: Query) -> None:
    options: list[dns.edns.Option] = []
    if query.edns is not None:
        options = [
            dns.edns.GenericOption(dns.edns.OptionType.make(code), data)
            for code, data in query.edns.options
        ]
    asked = dns.message.from_wire(encode_query(query, query.id))
    asked.use_edns(
        False if query.edns is None else 0,
        ednsflags=0x8000 if query.do else 0,
        payload=query.edns.payload_size if query.edns is not None else 0,
        options=options,
    )
    assert decode(asked.to_wire(max_size=65535)) == query.replace(
        size=len(asked.to_wire(max_size=65535))
    )


@pytest.mark.parametrize("size", [MAX_QUERY_LEN + 1, 65535])
def test_long_queries_are_refused_cheaply(size: int) -> None:
    wire = bytes.fromhex("123401000001000000000000") + b"\1a" * size
    assert lines_run(lambda: outcome_alone(wire[:size])) < 60


def test_a_refused_query_says_why() -> None:
    with pytest.raises(BadQuery, match="silence"):
        decode(b"")
    with pytest.raises(BadQuery, match="rcode 1"):
        decode(bytes(12))
    assert 3 in ECHOED


# --- what a Query's own fields do not show ---


@pytest.mark.parametrize(
    ("counts", "records", "kept"),
    [
        pytest.param("0001 0000 0000 0000", "", False, id="nothing-more"),
        pytest.param("0001 0000 0000 0001", "00 0029 04d0 00000000 0000", False, id="opt"),
        pytest.param("0001 0000 0001 0000", "c00c 0006 0001 00000000 0000", True, id="authority"),
        pytest.param("0001 0000 0000 0001", "00 00fa 00ff 00000000 0000", True, id="tsig"),
        pytest.param("0001 0000 0000 0002", "00 0029 04d0 00000000 0000 00 00fa 00ff 00000000 0000", True, id="tsig-after-opt"),
        pytest.param("0001 0000 0000 0002", "00 00fa 00ff 00000000 0000 00 0029 04d0 00000000 0000", False, id="tsig-before-opt"),
    ],
)  # fmt: skip
def test_whole_message_is_kept(counts: str, records: str, kept: bool) -> None:
    wire = bytes.fromhex(f"0001 0100 {counts} 00 0001 0001 {records}")
    assert decode(wire).whole == (wire if kept else b"")
