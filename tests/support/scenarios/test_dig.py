"""The comparison that all scenarios rest on: it finds every kind of difference."""

from __future__ import annotations

import dns.message
import dns.rrset
import pytest

from tests.support.scenarios.dig import parse_questions

ONE = """\
dig a.example.org. A
;; NOERROR qr aa rd
;; OPT size=1400 do
;; ANSWER {order}
a.example.org. 30 IN A 192.0.2.1
a.example.org. 30 IN A 192.0.2.2
;; AUTHORITY
example.org. 5 IN SOA ns.example.org. root.example.org. * 1 2 3 4
"""
REPLY = """\
id 41
opcode QUERY
rcode NOERROR
flags QR AA RD
edns 0
eflags DO
payload 1400
;QUESTION
a.example.org. IN A
;ANSWER
a.example.org. 30 IN A 192.0.2.2
a.example.org. 30 IN A 192.0.2.1
;AUTHORITY
example.org. 5 IN SOA ns.example.org. root.example.org. 77 1 2 3 4
;ADDITIONAL
"""


def differences(text: str, order: str = "") -> list[str]:
    """What differs in a reply, by the word that begins each sentence."""
    (asked,) = parse_questions(ONE.format(order=order))
    message = dns.message.from_text(text, one_rr_per_rrset=True)
    message.id += asked.query_id - 41
    found = asked.expected.differences(asked, message.to_wire())
    return [line.partition(":")[0] for line in found]


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("", "", []),
        ("id 41", "id 42", ["id"]),
        ("opcode QUERY", "opcode STATUS", ["opcode"]),
        ("rcode NOERROR", "rcode NXDOMAIN", ["status"]),
        ("QR AA RD", "QR RD", ["flags"]),
        ("QR AA RD", "QR AA RD TC", ["flags"]),
        ("QR AA RD", "QR AA RD RA", ["flags"]),
        ("eflags DO\n", "", ["OPT"]),
        ("payload 1400", "payload 1232", ["OPT"]),
        ("org. IN A\n", "org. IN AAAA\n", ["question"]),
        ("A 192.0.2.1\n", "A 192.0.2.1\na.example.org. 30 IN A 192.0.2.1\n", ["ANSWER"]),
        ("a.example.org. 30 IN A 192.0.2.1\n", "", ["ANSWER"]),
        ("30 IN A 192.0.2.1", "29 IN A 192.0.2.1", ["ANSWER"]),
        ("SOA ns.ex", "SOA NS.ex", ["AUTHORITY"]),
        (" 3 4\n", " 3 5\n", ["AUTHORITY"]),
        (";ADDITIONAL\n", ";ADDITIONAL\na. 5 IN A 192.0.2.9\n", ["ADDITIONAL"]),
    ],
)
def test_what_differs_is_named(old: str, new: str, what: list[str]) -> None:
    assert differences(REPLY.replace(old, new, 1)) == what


@pytest.mark.parametrize(
    ("order", "last", "fits"),
    [("ordered", "12", False), ("part", "12", False), ("part", "2", True), ("part", "3", False), ("*", "3", True)],
)  # fmt: skip
def test_a_section_says_what_order_means(order: str, last: str, fits: bool) -> None:
    head, _, rest = REPLY.partition(";ANSWER\n")
    tail = rest[rest.index(";AUTHORITY") :]
    records = "".join(f"a.example.org. 30 IN A 192.0.2.{each}\n" for each in last[::-1])
    assert (differences(f"{head};ANSWER\n{records}{tail}", order) == []) is fits
