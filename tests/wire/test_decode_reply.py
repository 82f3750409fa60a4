from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any
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
    BadReply,
    WrongQuestion,
    _Reader,
    decode_header,
    decode_in_turns,
    decode_reply,
)
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import Query, Reply
from hsdns.wire.name import Name
from tests.support.coroutines.eager import turns
from tests.support.plugins.requests import section

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


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(f"www.example.org. 30 IN {text}", id=text.partition(" ")[0])
        for text in (
            "A 192.0.2.1",
            "AAAA 2001:db8::1",
            "NS ns.example.org.",
            "CNAME target.example.org.",
            "SOA ns.example.org. host.example.org. 1 7200 1800 86400 30",
            "PTR host.www.example.org.",
            "MX 10 mail.example.org.",
            'TXT "one" "two"',
            "RP box.example.org. txt.example.org.",
            "AFSDB 1 afs.example.org.",
            "RT 2 relay.example.org.",
            "PX 10 a.example.org. b.example.org.",
            "SRV 0 10 443 host.example.org.",
            'NAPTR 10 20 "u" "E2U+sip" "!^.*$!sip:x@y!" next.example.org.',
            "KX 1 kx.example.org.",
            "DNAME other.example.org.",
            "RRSIG A 8 3 30 20300101000000 20200101000000 1 example.org. AAAA",
            "NSEC next.example.org. A RRSIG",
            "SVCB 1 svc.example.org. port=53",
            "HTTPS 0 svc.example.org.",
            "LP 10 lp.example.org.",
            'HINFO "a" "b"',
            "DS 1 8 2 " + "00" * 32,
            r"TYPE65300 \# 3 c00c01",
        )
    ],
)
def test_rdata_comes_out_as_dnspython_wrote_it(record: str) -> None:
    message = oracle([record])
    expected = [
        f"{message.answer[0].name} 30 IN {record.split()[3]} {message.answer[0][0].to_text()}"
    ]
    assert section(decode_reply(message.to_wire(), QUERY).answer) == expected


def test_compressed_names_in_types_that_no_longer_may_have_them() -> None:
    srv = b"\xc0\x0c\0\x21\0\1\0\0\0\x1e\0\x08\0\0\0\x0a\1\xbb\xc0\x10"
    wire = b"\x12\x34\x81\x80\0\1\0\1\0\0\0\0" + QUESTION + srv
    assert section(decode_reply(wire, QUERY).answer) == [
        "www.example.org. 30 IN SRV 0 10 443 example.org."
    ]


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


def test_bare_reply() -> None:
    wire = b"\x12\x34\x80\x03\0\1\0\0\0\0\0\0" + QUESTION
    assert decode_reply(wire, QUERY) == Reply(rcode=Rcode.NXDOMAIN)


def test_question_in_another_case() -> None:
    wire = b"\x12\x34\x80\0\0\1\0\0\0\0\0\0" + QUESTION.replace(b"www", b"wWw")
    assert decode_reply(wire, QUERY) == Reply()


def test_counts_above_the_number_of_records() -> None:
    wire = b"\x12\x34\x80\0\0\1\0\7\0\0\0\0" + QUESTION
    assert decode_reply(wire, QUERY) == Reply()


def record(
    rrtype: int, rdata: bytes, owner: bytes = b"\xc0\x0c", rrclass: bytes = b"\0\1"
) -> bytes:
    fixed = rrtype.to_bytes(2, "big") + rrclass + b"\0\0\0\x1e" + len(rdata).to_bytes(2, "big")
    return b"\x12\x34\x81\x80\0\1\0\1\0\0\0\0" + QUESTION + owner + fixed + rdata


@pytest.mark.parametrize(
    ("wire", "kind", "is_cut"),
    [
        pytest.param(b"\x12\x34\x81", BadReply, True, id="no-header"),
        pytest.param(
            b"\x12\x34\1\0\0\1\0\0\0\0\0\0" + QUESTION, WrongQuestion, False, id="a-query"
        ),
        pytest.param(b"\x12\x34\x80\0\0\0\0\0\0\0\0\0", WrongQuestion, False, id="no-question"),
        pytest.param(
            b"\x12\x34\x80\0\0\2\0\0\0\0\0\0" + QUESTION * 2,
            WrongQuestion,
            False,
            id="two-questions",
        ),
        pytest.param(
            b"\x12\x34\x80\0\0\1\0\0\0\0\0\0" + QUESTION.replace(b"www", b"ftp"),
            WrongQuestion,
            False,
            id="other-name",
        ),
        pytest.param(
            b"\x12\x34\x80\0\0\1\0\0\0\0\0\0" + QUESTION[:-4] + b"\0\x1c\0\1",
            WrongQuestion,
            False,
            id="other-type",
        ),
        pytest.param(
            b"\x12\x34\x80\0\0\1\0\0\0\0\0\0" + QUESTION[:-2] + b"\0\3",
            WrongQuestion,
            False,
            id="other-class",
        ),
        pytest.param(
            b"\x12\x34\x80\0\0\1\0\0\0\0\0\0" + QUESTION[:-2], BadReply, True, id="cut-question"
        ),
        pytest.param(record(1, b"\1\2\3\4")[:-1], BadReply, True, id="cut-record"),
        pytest.param(record(1, b"\1\2\3\4")[:-6], BadReply, True, id="cut-fixed-part"),
        pytest.param(record(1, b"\1\2\3"), BadReply, False, id="address-of-3-octets"),
        pytest.param(record(1, b""), BadReply, False, id="address-of-no-octets"),
        pytest.param(record(1, b"", rrclass=b"\0\xff"), BadReply, False, id="class-any-address"),
        pytest.param(record(2, b"", rrclass=b"\0\xff"), BadReply, False, id="class-any-name"),
        pytest.param(record(2, b"\1a\0\0"), BadReply, False, id="octet-after-name"),
        pytest.param(record(15, b"\0\1"), BadReply, False, id="mx-without-name"),
        pytest.param(record(6, b"\0\0" + bytes(19)), BadReply, False, id="soa-too-short"),
        pytest.param(record(2, b"\xc0\x2d"), BadReply, False, id="pointer-to-itself"),
        pytest.param(record(2, b"\xc0\xff"), BadReply, False, id="pointer-forward"),
        pytest.param(record(2, b"\x40a\0"), BadReply, False, id="unknown-label"),
        pytest.param(
            record(2, (b"\x3f" + b"a" * 63) * 4 + b"\0"), BadReply, False, id="name-of-257-octets"
        ),
        pytest.param(record(41, b"\0\x0a\0\x09x", b"\0"), BadReply, False, id="broken-option"),
    ],
)
def test_bad_replies(wire: bytes, kind: type[BadReply], is_cut: bool) -> None:
    with pytest.raises(BadReply) as caught:
        decode_reply(wire, QUERY)
    assert type(caught.value) is kind
    assert caught.value.is_truncated == is_cut


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


@pytest.mark.parametrize(
    ("runs", "single", "looks"),
    [
        pytest.param([("A", 4000)], 0, 1, id="one RRset"),
        pytest.param([("CNAME", 1), ("A", 4000)], MANY, 2, id="after a CNAME"),
        pytest.param([("A", 1), ("TXT", 1)] * 2000, 4000 - 15, 15, id="no runs"),
    ],
)
def test_thousands_of_records_take_few_steps(
    runs: list[tuple[str, int]], single: int, looks: int
) -> None:
    """A look for a run may cost as much as reading MANY records; those that are read singly bound the looks."""
    counts = Counter[str]()

    def counted(name: str) -> Callable[..., Any]:
        method = getattr(_Reader, name)

        def call(self: _Reader, *args: int) -> Any:
            counts[name] += 1
            return method(self, *args)

        return call

    with mock.patch.multiple(_Reader, _record=counted("_record"), _run=counted("_run")):
        reply = decode_reply(message(runs), QUERY)
    assert len(reply.answer) == sum(count for _, count in runs)
    assert (counts["_record"], counts["_run"]) == (single, looks)
