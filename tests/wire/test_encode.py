from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import dns.flags
import dns.message
import dns.name
import dns.rdata
import dns.rdatatype
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from hsdns.wire import rdata
from hsdns.wire.edns import DO, ECHOED, Edns, read_options, with_options
from hsdns.wire.encode import (
    MANY_RECORDS,
    MAX_TCP_LEN,
    encode,
    encode_badvers,
    encode_in_turns,
    encode_query,
    is_big,
    is_truncated,
    reply_size,
    udp_limit,
)
from hsdns.wire.iana import Opcode, RRType
from hsdns.wire.message import AA, RD, RR, TC, Query, Reply
from hsdns.wire.name import Name
from tests import strategies
from tests.support.coroutines.eager import turns
from tests.support.effort import tries
from tests.support.plugins.requests import make_request, reply
from tests.support.tables import columns

# Making three sections of records smaller takes minutes, more than a test may.
REPLIES = settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
LIMITS = st.sampled_from([512, 513, 600, 1232, 4096, MAX_TCP_LEN])
# Octets before the names in RDATA, and the number of names.
NAMES_IN_RDATA = {
    RRType.NS: (0, 1), RRType.CNAME: (0, 1), RRType.PTR: (0, 1), RRType.SOA: (0, 2), RRType.MX: (2, 1),
    RRType.SRV: (6, 1),
}  # fmt: skip


def name(text: str) -> Name:
    return Name.from_text(text)


class Seen(NamedTuple):
    """A record as an independent reader sees it; the owner without its case."""

    owner: bytes
    rrtype: int
    ttl: int
    rdata: bytes


def read(wire: bytes) -> dns.message.Message:
    return dns.message.from_wire(wire, one_rr_per_rrset=True)


def seen(message: dns.message.Message) -> list[list[Seen]]:
    return [
        [
            Seen(octets(rrset.name).lower(), int(rrset.rdtype), rrset.ttl, octets(rrset[0]))
            for rrset in section
        ]
        for section in (message.answer, message.authority, message.additional)
    ]


def octets(found: dns.name.Name | dns.rdata.Rdata) -> bytes:
    wire = found.to_wire()
    assert wire is not None
    return wire


def given_records(reply: Reply) -> list[list[Seen]]:
    return [
        [Seen(rr.owner.lower, rr.rrtype, rr.ttl, rr.rdata) for rr in section]
        for section in (reply.answer, reply.authority, reply.additional)
    ]


@st.composite
def replies(draw: st.DrawFn) -> Reply:
    return Reply(
        rcode=draw(st.sampled_from([0, 2, 3, 5, 16, 23])),
        answer=draw(strategies.sections),
        authority=draw(strategies.sections),
        additional=draw(strategies.sections),
        aa=draw(st.booleans()),
        ra=draw(st.booleans()),
        ad=draw(st.booleans()),
        edns_options=draw(st.sampled_from([None, ()])),
    )


@settings(REPLIES, max_examples=tries(75))
@given(query=strategies.queries(), reply=replies(), limit=LIMITS)
def test_dnspython_reads_what_was_given(query: Query, reply: Reply, limit: int) -> None:
    wire = encode(query, reply, limit)
    message = read(wire)
    sections, wanted = seen(message), given_records(reply)
    assert len(wire) <= limit
    assert wire[12 : 12 + len(query.question_wire)] == query.question_wire
    assert message.id == query.id
    # What is there is the beginning of what was given, section by section.
    flat, whole = list(chain(*sections)), list(chain(*wanted))
    assert flat == whole[: len(flat)]
    assert [len(section) for section in sections] == fill(
        [len(section) for section in wanted], len(flat)
    )
    flags = {flag: bool(message.flags & flag) for flag in dns.flags.Flag}
    assert flags == {
        dns.flags.QR: True,
        dns.flags.AA: reply.aa,
        dns.flags.TC: len(flat) < len(whole),
        dns.flags.RD: query.rd,
        dns.flags.RA: reply.ra,
        dns.flags.AD: reply.ad,
        dns.flags.CD: query.cd,
    }
    if query.edns is None:
        assert (message.edns, message.rcode()) == (-1, reply.rcode & 15)
    else:
        assert message.rcode() == reply.rcode
        assert (message.edns, message.payload) == (0, query.edns.payload_size)
        assert bool(message.ednsflags & dns.flags.DO) == query.edns.do
        assert [(int(option.otype), option.to_wire()) for option in message.options] == [
            (code, data)
            for code, data in query.edns.options
            if code in ECHOED and reply.edns_options is None
        ]
    names_in_rdata_are_ours(wire, len(query.question_wire))


def fill(sizes: list[int], total: int) -> list[int]:
    """Return the number of records in each section when `total` are taken from the start."""
    found = []
    for size in sizes:
        found.append(min(size, total))
        total -= found[-1]
    return found


def names_in_rdata_are_ours(wire: bytes, question_len: int) -> None:
    """Follow every name in RDATA: none points into the header or the question, and SRV targets have no pointers."""
    at = 12 + question_len
    for _ in range(sum(int.from_bytes(wire[start : start + 2], "big") for start in (6, 8, 10))):
        while wire[at] and wire[at] < 0xC0:
            at += 1 + wire[at]
        at += 2 if wire[at] else 1
        rrtype, size = (
            int.from_bytes(wire[at : at + 2], "big"),
            int.from_bytes(wire[at + 8 : at + 10], "big"),
        )
        at += 10
        before, count = NAMES_IN_RDATA.get(rrtype, (0, 0))
        name_at = at + before
        for _ in range(count):
            pointers, name_at = pointers_from(wire, name_at)
            assert all(12 + question_len <= target < 0x4000 for target in pointers)
            assert rrtype != RRType.SRV or not pointers
        at += size
    assert at == len(wire)


def pointers_from(wire: bytes, at: int) -> tuple[list[int], int]:
    """Return the offsets that a name's pointers refer to, and the offset after the name."""
    found: list[int] = []
    end = None
    while wire[at]:
        if wire[at] >= 0xC0:
            end = at + 2 if end is None else end
            at = (wire[at] & 0x3F) << 8 | wire[at + 1]
            found.append(at)
        else:
            at += 1 + wire[at]
    return found, at + 1 if end is None else end


@settings(REPLIES, max_examples=tries(25))
@given(query=strategies.queries(), reply=replies())
def test_exactly_what_does_not_fit_is_left_out(query: Query, reply: Reply) -> None:
    whole = encode(query, reply, MAX_TCP_LEN)
    assert encode(query, reply, len(whole)) == whole
    if reply.answer or reply.authority or reply.additional:
        cut = read(encode(query, reply, len(whole) - 1))
        assert cut.flags & dns.flags.TC
        assert len([*chain(*seen(cut))]) == len([*chain(*given_records(reply))]) - 1


QUERY = Query.ask(name("DB.default.svc.Cluster.local."), RRType.SRV, query_id=7)
ZONE = "default.svc.cluster.local."


def srv_reply(targets: int) -> Reply:
    """SRV records and their addresses, as for a headless Service with this number of pods."""
    names = [name(f"pod-{number}.db.{ZONE}") for number in range(targets)]
    owner = name(f"db.{ZONE}")
    return Reply(
        answer=tuple(RR(owner, RRType.SRV, 30, rdata.srv(0, 1, 8500, target)) for target in names),
        additional=tuple(
            RR(target, rrtype, 30, address)
            for target in names
            for rrtype, address in ((RRType.A, bytes(4)), (RRType.AAAA, bytes(16)))
        ),
        aa=True,
    )


@pytest.mark.parametrize("targets", [1, 160, 250, 400, 550])
def test_srv_beyond_the_reach_of_pointers(targets: int) -> None:
    """No pointer can refer beyond offset 0x3FFF; dnslib writes one all the same, and the reply is garbage."""
    reply = srv_reply(targets)
    wire = encode(QUERY, reply, MAX_TCP_LEN)
    assert seen(read(wire)) == given_records(reply)
    assert (len(wire) > 0x4000) == (targets > 200)
    names_in_rdata_are_ours(wire, len(QUERY.question_wire))


def test_names_first_seen_beyond_the_reach_of_pointers() -> None:
    filler = tuple(RR(name("x."), 65280, 0, bytes(1000)) for _ in range(17))
    late = tuple(
        RR(
            name(f"{number % 3}.late.example.org."),
            RRType.CNAME,
            0,
            name(f"{number}.target.example.net.").wire,
        )
        for number in range(50)
    )
    reply = Reply(answer=filler + late)
    assert seen(read(encode(QUERY, reply, MAX_TCP_LEN))) == given_records(reply)


@pytest.mark.parametrize("start", [0x3FFE, 0x3FFF, 0x4000])
def test_names_at_the_edge_of_the_reach_of_pointers(start: int) -> None:
    at = 12 + len(QUERY.question_wire)
    fillers = tuple(
        RR(name("x."), 65280, 0, bytes(size)) for size in (8000, start - at - 25 - 8000)
    )
    late = tuple(RR(name("late.org."), RRType.A, 0, bytes((10, 0, 0, n))) for n in range(2))
    wire = encode(QUERY, Reply(answer=fillers + late), MAX_TCP_LEN)
    assert wire[start : start + 5] == b"\4late"
    assert seen(read(wire)) == given_records(Reply(answer=fillers + late))


def test_replies_are_compressed() -> None:
    owner = name(f"db.{ZONE}")
    reply = Reply(answer=tuple(RR(owner, RRType.A, 5, bytes((10, 0, 0, n))) for n in range(3)))
    assert len(encode(QUERY, reply, 512)) == 12 + len(QUERY.question_wire) + 3 * 16
    short = Reply(answer=(RR(name("x."), RRType.A, 5, bytes(4)),) * 2)
    assert len(encode(QUERY, short, 512)) == 12 + len(QUERY.question_wire) + 17 + 16


def test_the_root_as_question_and_as_owner() -> None:
    query = Query.ask(name("."), RRType.NS)
    reply = Reply(answer=(RR(name("."), RRType.NS, 5, name("a.example.org.").wire),))
    wire = encode(query, reply, 512)
    assert seen(read(wire)) == given_records(reply)
    assert len(wire) == 12 + 5 + 1 + 10 + 15, "the root is shorter than a pointer"
    many = Reply(answer=(RR(name("."), RRType.TXT, 5, b"\1a"),) * 200)
    assert len(encode(query, many, MAX_TCP_LEN)) == 12 + 5 + 200 * (1 + 10 + 2)


def test_no_name_points_behind_a_pointer() -> None:
    answer = (RR(QUERY.qname, RRType.NS, 5, name("ns.a.b.").wire),)
    owners = map(name, ("x.a.b.", "y.b.", "z.x.a.b."))
    reply = Reply(
        answer=answer, additional=tuple(RR(each, RRType.A, 5, bytes(4)) for each in owners)
    )
    assert seen(read(encode(QUERY, reply, 512))) == given_records(reply)


@pytest.mark.parametrize(
    ("edns", "limit"),
    [(None, 512), (Edns(0), 512), (Edns(100), 512), (Edns(512), 512), (Edns(1232), 1232), (Edns(65535), 65507)],
    ids=["no-edns", "0", "100", "512", "1232", "65535"],
)  # fmt: skip
def test_udp_limit(edns: Edns | None, limit: int) -> None:
    assert udp_limit(Query.ask(name("."), RRType.A, edns=edns)) == limit


def test_badvers() -> None:
    edns = Edns(1232, version=1, do=True, options=((3, b""),))
    flags = Opcode.NOTIFY << 11 | RD | AA | TC
    query = Query.ask(name("example.org."), RRType.SOA, query_id=9, edns=edns, flags=flags)
    wire = encode_badvers(query, edns)
    message = read(wire)
    assert (message.id, int(message.rcode()), message.edns, message.payload) == (9, 16, 0, 0)
    assert (wire[3] & 15, message.options, len(message.question)) == (0, (), 1)
    assert int(message.flags) & ~15 == dns.flags.QR | Opcode.NOTIFY << 11 | dns.flags.RD


def test_options_of_an_upstream_replace_the_echoed_ones() -> None:
    query = Query.ask(name("example.org."), RRType.A, edns=Edns(1232, options=((10, b"12345678"),)))
    reply = Reply(edns_options=((15, b"\0\x16lame"), (3, b"ns1")))
    message = read(encode(query, reply, 512))
    assert [(int(option.otype), option.to_wire()) for option in message.options] == list(
        reply.edns_options or ()
    )


@pytest.mark.parametrize(
    ("padding", "kept"), [(468, True), (469, False)], ids=["fit", "do-not-fit"]
)
def test_options_that_leave_no_room_are_left_out(padding: int, kept: bool) -> None:
    edns = Edns(512, do=True, options=((12, bytes(padding)),))
    wire = encode(Query.ask(name("example.org."), RRType.A, edns=edns), Reply(rcode=23), 512)
    message = read(wire)
    assert len(wire) <= 512
    assert (message.rcode(), message.payload, bool(message.options)) == (23, 512, kept)
    assert message.ednsflags & dns.flags.DO
    assert not message.flags & dns.flags.TC


@given(strategies.queries())
def test_encode_query(query: Query) -> None:
    message = dns.message.from_wire(encode_query(query, 4711))
    assert (message.id, int(message.flags)) == (4711, query.flags)
    assert message.question[0].name.to_wire() == query.qname.wire
    assert int(message.question[0].rdtype) == query.qtype
    assert message.edns == (-1 if query.edns is None else 0)
    options = () if query.edns is None else query.edns.options
    assert [(int(option.otype), option.to_wire()) for option in message.options] == list(options)


ADDRESSES = tuple(RR(QUERY.qname, RRType.A, 30, n.to_bytes(4, "big")) for n in range(4096))


@given(
    st.sampled_from([RRType.A, RRType.TXT, RRType.SRV, RRType.NS, 65281]),
    st.integers(0, 300),
    st.sampled_from([None, (0, "ttl", 9), (70, "rrclass", 3), (70, "rrtype", 65280), (70, "rdata", bytes(6) + b"\2lo\0"), (65, "owner", name("x."))]),
    st.sampled_from([12 + len(QUERY.question_wire), 512, 1232, 1233, 1234, MAX_TCP_LEN]),
    st.sampled_from([QUERY.qname, name("db.default.svc.cluster.local"), name("other.org"), name(".")]),
)  # fmt: skip
@example(RRType.SRV, 200, None, MAX_TCP_LEN, QUERY.qname)
@example(RRType.A, 200, None, MAX_TCP_LEN, name("other.org"))
@example(RRType.A, 200, (70, "ttl", 9), MAX_TCP_LEN, QUERY.qname)
@example(RRType.A, 200, (70, "rrclass", 3), MAX_TCP_LEN, QUERY.qname)
@example(RRType.A, 200, (70, "rrtype", 65280), MAX_TCP_LEN, QUERY.qname)
@example(RRType.A, 200, (70, "rdata", b"abc"), MAX_TCP_LEN, QUERY.qname)
@example(RRType.A, 200, (70, "owner", name("x.")), MAX_TCP_LEN, QUERY.qname)
def test_records_that_differ_in_rdata_only_are_written_as_all_others(
    rrtype: int, count: int, change: tuple[int, str, Any] | None, limit: int, owner: Name
) -> None:
    rdata = {RRType.SRV: bytes(6) + b"\1a\0", RRType.NS: b"\1a\0", 65281: b""}.get(rrtype, b"abcd")
    records = [RR(owner, rrtype, 30, rdata) for _ in range(count)]
    if change is not None and change[0] < count:
        records[change[0]] = records[change[0]]._replace(**{change[1]: change[2]})
    target = RR(name("a."), RRType.A, 30, bytes(4))
    reply = Reply(answer=tuple(records), additional=(*ADDRESSES[:3], target))
    with mock.patch("hsdns.wire.encode._MANY", 100_000):
        one_by_one = encode(QUERY, reply, limit)
    assert encode(QUERY, reply, limit) == one_by_one


@pytest.mark.parametrize(("limit", "most"), [(1232, 110), (MAX_TCP_LEN, 4096)])
def test_no_more_records_are_looked_at_than_may_fit(limit: int, most: int) -> None:
    looked: list[int] = []

    class Counted(tuple):  # type: ignore[type-arg]  # of RR
        __slots__ = ()

        def __getitem__(self, index: Any) -> Any:
            found = super().__getitem__(index)
            if isinstance(index, slice):
                looked.append(len(found))
            return found

    assert len(encode(QUERY, Reply(answer=Counted(ADDRESSES)), limit)) <= limit
    assert [each <= most for each in looked] == [True]


def names_below(owner: Name, rrtype: int, count: int) -> tuple[RR, ...]:
    return tuple(RR(owner, rrtype, 30, b"\4%04d" % n + owner.wire) for n in range(count))


@pytest.mark.parametrize(
    ("sections", "limit", "others"),
    [
        pytest.param([(RRType.NS, 1000), (RRType.A, 0), (RRType.A, 1000)], MAX_TCP_LEN, 6, id="names"),
        pytest.param([(RRType.PTR, 1000)] * 3, MAX_TCP_LEN, 15, id="everywhere"),
        pytest.param([(RRType.A, 4000)], MAX_TCP_LEN, 1, id="alike"),
        pytest.param([(RRType.NS, 5000), (RRType.A, 9)], MAX_TCP_LEN, 22, id="too many"),
    ],
)  # fmt: skip
def test_what_is_encoded_in_several_turns_is_the_same(
    sections: list[tuple[int, int]], limit: int, others: int
) -> None:
    owner = name("big.example.org.")
    records = [
        tuple(RR(owner, RRType.A, 30, n.to_bytes(4, "big")) for n in range(count))
        if rrtype == RRType.A
        else names_below(owner, rrtype, count)
        for rrtype, count in sections
    ]
    answer, authority, additional = (*records, (), ())[:3]
    reply = Reply(answer=answer, authority=authority, additional=additional)
    query = Query.ask(owner, RRType.ANY)
    assert turns(encode_in_turns(query, reply, limit)) == (encode(query, reply, limit), others)


ONE = "a.example.org. 60 IN A 10.0.0.1"
MIXED = reply(
    ["a.example.org. 60 IN CNAME b.example.org.", "b.example.org. 60 IN A 10.0.0.1"],
    ["example.org. 60 IN NS ns.example.org."],
    ["ns.example.org. 60 IN AAAA ::1", "_x._y.example.org. 0 IN SRV 0 1 80 b.example.org."],
)


@pytest.mark.parametrize(
    ("found", "size"),
    [
        pytest.param(Reply(), 31, id="empty"),
        pytest.param(reply([ONE]), 60, id="one-address"),
        pytest.param(reply([ONE, ONE]), 89, id="two-addresses"),
        pytest.param(reply(edns_options=()), 42, id="opt-of-upstream"),
        pytest.param(reply(edns_options=((10, b"12345678"),)), 54, id="option-of-upstream"),
        pytest.param(
            reply(edns=Edns(1232), edns_options=((15, b"xy"),)), 48, id="option-of-a-handler"
        ),
        pytest.param(reply(edns=Edns(1232)), 31, id="size-of-a-handler"),
        pytest.param(MIXED, 231, id="all-sections"),
    ],
)
def test_reply_size(found: Reply, size: int) -> None:
    assert reply_size(make_request("a.example.org.").query, found) == size


def many(count: int) -> Reply:
    return reply([f"a.example.org. 60 IN A 10.0.{n // 256}.{n % 256}" for n in range(count)])


@pytest.mark.parametrize("protocol", ["udp", "tcp"])
@pytest.mark.parametrize("edns", [None, Edns(1232), Edns(600, options=((10, b"c" * 8),))])
@pytest.mark.parametrize("count", [0, 16, 17, 29, 30, 31, 34, 35, 36, 75, 76, 77, 4094, 4096])
def test_is_truncated_agrees_with_encode(count: int, edns: Edns | None, protocol: str) -> None:
    query, found = make_request("a.example.org.", edns=edns).query, many(count)
    limit = MAX_TCP_LEN if protocol == "tcp" else udp_limit(query)
    assert is_truncated(query, found, protocol) is bool(encode(query, found, limit)[2] & TC >> 8)


@pytest.mark.parametrize("shown", [Edns(512), Edns(700), Edns(4096, options=((10, b"c" * 8),))])
@pytest.mark.parametrize("count", [29, 30, 31, 35, 36, 41, 42, 76, 77])
@pytest.mark.parametrize("edns", [None, Edns(1232)])
def test_is_truncated_where_a_handler_chose_the_size(
    count: int, shown: Edns, edns: Edns | None
) -> None:
    query = make_request("a.example.org.", edns=edns).query
    found = many(count).replace(edns=shown)
    wire = encode(query, found, udp_limit(query, found))
    assert len(wire) <= min(shown.payload_size, edns.payload_size if edns is not None else 512)
    assert is_truncated(query, found, "udp") is bool(wire[2] & TC >> 8)


@pytest.mark.parametrize("errors", [b"", b"\0\x0f\0\2\0\0"], ids=["plain", "with-errors"])
@pytest.mark.parametrize("protocol", ["udp", "tcp"])
@pytest.mark.parametrize("over", [-1, 0, 1])
def test_one_octet_too_many(protocol: str, over: int, errors: bytes) -> None:
    query = make_request("a.example.org.", edns=Edns(600, options=((10, b"c" * 8),))).query
    room = {"udp": 600, "tcp": 65535}[protocol] - (12 + 19 + 11 + 12) - 11 - len(errors)
    answer = (RR(name("."), 65280, 0, bytes(room + over)),)
    found = Reply(answer=answer, extended_errors=errors)
    assert is_truncated(query, found, protocol) is (over > 0)


@pytest.mark.parametrize("section", ["answer", "authority", "additional"])
def test_is_big(section: str) -> None:
    records = many(MANY_RECORDS).answer
    assert is_big(Reply().replace(**{section: records}))
    assert not is_big(Reply().replace(**{section: records[1:]}))


def test_is_truncated_by_an_upstream() -> None:
    assert is_truncated(make_request("a.example.org.").query, Reply(tc=True), "udp")


COOKIE = (10, b"12345678")


def with_header(opt: bytes) -> dns.message.Message:
    return dns.message.from_wire(bytes(11) + b"\1" + opt)


@pytest.mark.parametrize(
    ("edns", "echoed"),
    [
        (Edns(1232), b""),
        (Edns(1232, options=((3, b""),)), b"\0\3\0\0"),
        (Edns(1232, options=(COOKIE, (8, b"\0\1\0\0"), (100, b"x"))), b"\0\12\0\x0812345678"),
        (Edns(1232, options=((12, b"\0"), (9, b""), (11, b""), (12, b""))), b"\0\x0c\0\1\0\0\x09\0\0\0\x0b\0\0\0\x0c\0\0"),
        (Edns(1232, options=((4, b""), (65001, b"abc"))), b""),
        (Edns(1232, options=((4, b""), (3, b"")), echoed=frozenset({4})), b"\0\4\0\0"),
    ],
    ids=["none", "empty-nsid", "cookie-but-not-subnet", "order-and-repetition", "unknown", "others-echoed"],
)  # fmt: skip
def test_echoed_options(edns: Edns, echoed: bytes) -> None:
    assert edns.echoed_options() == echoed
    assert edns.to_wire().endswith(len(echoed).to_bytes(2, "big") + echoed)


@pytest.mark.parametrize(("size", "lowered"), [(0, 0), (599, 599), (600, 600), (601, 600)])
def test_lowered(size: int, lowered: int) -> None:
    edns = Edns(size, do=True, options=(COOKIE,))
    assert edns.lowered(600) == Edns(lowered, do=True, options=(COOKIE,))


@given(strategies.edns)
def test_to_wire_is_read_by_dnspython(edns: Edns) -> None:
    found = with_header(edns.to_wire())
    assert (found.edns, found.payload, found.ednsflags & 0xFFFF) == (
        0,
        edns.payload_size,
        DO if edns.do else 0,
    )
    kept = [(code, data) for code, data in edns.options if code in (3, 9, 10, 11, 12)]
    assert [(int(option.otype), option.to_wire()) for option in found.options] == kept


def test_extended_rcode_and_size_of_a_refusal() -> None:
    found = with_header(Edns(0).to_wire(extended_rcode=1))
    assert (int(found.rcode()), found.payload) == (16, 0)
    assert with_header(Edns(4096).to_wire(payload_size=1232)).payload == 1232


def test_the_version_of_the_client_is_not_sent_back() -> None:
    assert with_header(Edns(1232, version=7).to_wire()).edns == 0


@pytest.mark.parametrize(
    ("octets", "expected"), columns(Path(__file__).with_name("answers.txt"), "EDNS options")
)
def test_read_options(octets: str, expected: str) -> None:
    """An empty option at the end counts: NSID, EXPIRE and keepalive are asked for that way."""
    wire = bytes.fromhex(octets)
    found = read_options(b"??" + wire + b"!!", 2, 2 + len(wire))
    shown = "refused" if found is None else " ".join(f"{code}:{data.hex()}" for code, data in found)
    assert (shown or "none") == expected


def test_more_options_follow_the_others() -> None:
    opt = Edns(1232, options=(COOKIE,)).to_wire()
    found = with_header(with_options(opt, b"\0\x0f\0\3\0\0x"))
    assert [int(each.otype) for each in found.options] == [10, 15]
