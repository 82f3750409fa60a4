from __future__ import annotations

import dns.flags
import dns.message
import dns.rrset
import pytest

from tests.support.scenarios.dig import DigError, Question, parse_questions

ONE = """\
dig a.example.org. A
;; NOERROR qr aa rd
;; ANSWER
a.example.org. 30 IN A 192.0.2.1
a.example.org. 30 IN A 192.0.2.2
;; AUTHORITY
example.org. 5 IN SOA ns.example.org. root.example.org. * 1 2 3 4
"""
ANSWER = [
    ("ANSWER", "a.example.org. 30 IN A 192.0.2.2"),
    ("ANSWER", "a.example.org. 30 IN A 192.0.2.1"),
    ("AUTHORITY", "example.org. 5 IN SOA ns.example.org. root.example.org. 77 1 2 3 4"),
]


def question(text: str) -> Question:
    (found,) = parse_questions(text)
    return found


def reply_to(asked: Question, records: list[tuple[str, str]]) -> dns.message.Message:
    query = dns.message.from_wire(asked.wire())
    reply = dns.message.make_response(query)
    reply.flags |= dns.flags.AA
    for section, text in records:
        owner, ttl, rrclass, rrtype, rdata = text.split(None, 4)
        rrset = dns.rrset.from_text(owner, int(ttl), rrclass, rrtype, rdata)
        {"ANSWER": reply.answer, "AUTHORITY": reply.authority}[section].append(rrset)
    return reply


def test_a_reply_as_expected_has_no_differences() -> None:
    asked = question(ONE)
    assert asked.expected.differences(asked, reply_to(asked, ANSWER).to_wire()) == []


@pytest.mark.parametrize(
    ("changed", "section"),
    [
        pytest.param([ANSWER[0], *ANSWER], "ANSWER", id="a record twice"),
        pytest.param(ANSWER[1:], "ANSWER", id="a record missing"),
        pytest.param(ANSWER[:2], "AUTHORITY", id="a section missing"),
        pytest.param([(s, t.replace(" 30 ", " 29 ")) for s, t in ANSWER], "ANSWER", id="TTL"),
        pytest.param([(s, t.replace("a.ex", "A.ex")) for s, t in ANSWER], "ANSWER", id="case"),
        pytest.param(
            [(s, t.replace("ns.ex", "NS.ex")) for s, t in ANSWER], "AUTHORITY", id="case in RDATA"
        ),
        pytest.param([(s, t.replace(" 3 4", " 3 5")) for s, t in ANSWER], "AUTHORITY", id="RDATA"),
    ],
)
def test_records_that_differ_are_named(changed: list[tuple[str, str]], section: str) -> None:
    asked = question(ONE)
    wire = reply_to(asked, []).to_wire()
    assert asked.expected.differences(asked, wire), "an empty reply differs as well"
    differences = asked.expected.differences(asked, _one_rr_each(asked, changed))
    assert [line.partition(":")[0] for line in differences] == [section]


def _one_rr_each(asked: Question, records: list[tuple[str, str]]) -> bytes:
    """Encode without joining records to sets, so that one can stand there twice; owners keep their case."""
    reply = reply_to(asked, [])
    wire = bytearray(reply.to_wire())
    counts = {"ANSWER": 0, "AUTHORITY": 0}
    for section, text in records:
        counts[section] += 1
        owner, ttl, rrclass, rrtype, rdata = text.split(None, 4)
        rrset = dns.rrset.from_text(owner, int(ttl), rrclass, rrtype, rdata)
        name = rrset.name.to_wire()
        body = rrset[0].to_wire()
        assert name is not None
        assert body is not None
        wire += name + rrset.rdtype.to_bytes(2, "big") + rrset.rdclass.to_bytes(2, "big")
        wire += rrset.ttl.to_bytes(4, "big") + len(body).to_bytes(2, "big") + body
    wire[6:10] = counts["ANSWER"].to_bytes(2, "big") + counts["AUTHORITY"].to_bytes(2, "big")
    return bytes(wire)


@pytest.mark.parametrize(
    ("at", "value", "what"),
    [
        pytest.param(0, b"\0\0", "id", id="ID"),
        pytest.param(2, b"\x85\x03", "status", id="rcode"),
        pytest.param(2, b"\x81\x00", "flags", id="AA missing"),
        pytest.param(2, b"\x87\x00", "flags", id="TC set"),
        pytest.param(2, b"\x85\x80", "flags", id="RA set"),
        pytest.param(2, b"\xa5\x00", "opcode", id="opcode"),
        pytest.param(13, b"A", "question", id="case of the question"),
    ],
)
def test_a_header_that_differs_is_named(at: int, value: bytes, what: str) -> None:
    asked = question("dig a.example.org. A\n;; NOERROR qr aa rd\n")
    wire = bytearray(reply_to(asked, []).to_wire())
    assert asked.expected.differences(asked, bytes(wire)) == []
    wire[at : at + len(value)] = value
    differences = asked.expected.differences(asked, bytes(wire))
    assert [line.partition(":")[0] for line in differences] == [what]


@pytest.mark.parametrize(
    ("order", "records", "fits"),
    [
        pytest.param("", "2 1", True, id="any order"),
        pytest.param("ordered", "1 2", True, id="ordered"),
        pytest.param("ordered", "2 1", False, id="ordered, but not so"),
        pytest.param("part", "2", True, id="part"),
        pytest.param("part", "1 2", False, id="part, but all"),
        pytest.param("part", "1 3", False, id="part, with a stranger"),
        pytest.param("*", "3", True, id="whatever"),
    ],
)
def test_a_section_says_what_order_means(order: str, records: str, fits: bool) -> None:
    asked = question(
        f"dig a.example.org. A\n;; NOERROR qr aa rd\n;; ANSWER {order}\n"
        "a.example.org. 30 IN A 192.0.2.1\na.example.org. 30 IN A 192.0.2.2\n"
    )
    reply = reply_to(
        asked, [("ANSWER", f"a.example.org. 30 IN A 192.0.2.{n}") for n in records.split()]
    )
    assert (asked.expected.differences(asked, reply.to_wire()) == []) is fits


def test_an_opt_record_must_be_named() -> None:
    with_opt = question("dig a.example.org. A +dnssec\n;; NOERROR qr aa rd\n;; OPT size=1400 do\n")
    without = question("dig a.example.org. A +dnssec\n;; NOERROR qr aa rd\n")
    reply = reply_to(with_opt, [])
    reply.use_edns(0, dns.flags.DO, 1400)
    assert with_opt.expected.differences(with_opt, reply.to_wire()) == []
    assert without.expected.differences(without, reply.to_wire()) == [
        "OPT: expected None, got size=1400 do"
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param("www.example.org. A", "a dig fence begins with", id="no dig"),
        pytest.param("dig www.example.org.", "expected `dig NAME", id="no type"),
        pytest.param("dig a. A +shrot", r"option \+shrot is not known", id="option"),
        pytest.param("dig a. A", "no reply is expected", id="no reply"),
        pytest.param("dig a. A\nNOERROR", "expected `;; RCODE", id="no header"),
        pytest.param("dig a. A\n;; NOERROR qr xx", "expected `;; RCODE", id="flag"),
        pytest.param(
            "dig a. A\n;; NOERROR qr\na. 5 IN A 1.2.3.4", "before a section", id="section"
        ),
        pytest.param("dig a. A\n;; NOERROR qr\n;; ANSER", "expected one of", id="section's name"),
        pytest.param("dig a. A\n;; NOERROR qr\n;; ANSWER", "has no records", id="empty section"),
        pytest.param(
            "dig a. A\n;; NOERROR qr\n;; ANSWER\na. IN A 1.2.3.4", "not a record", id="TTL"
        ),
        pytest.param("dig a. A\n;; NOERROR qr\ndiffers:", "one `differs: REASON`", id="reason"),
    ],
)
def test_what_cannot_be_read_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(DigError, match=sentence):
        parse_questions(text)
