"""What becomes of a reply: the reply that the plugins make, and the one that is sent."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from hsdns.faults.action import MAX_DELAY, Course
from hsdns.faults.words import read_rule
from hsdns.wire.iana import rcode_to_text, type_to_text
from hsdns.wire.message import Query, Reply
from hsdns.wire.name import Name
from tests.faults.queries import asked
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import reply, section

SOA = "test. 30 IN SOA ns.test. mail.test. 1 7200 1800 86400 30"
FOUR = [f"web.test. 5 IN A 10.0.0.{number}" for number in range(1, 5)]
SRV = [f"web.test. 5 IN SRV 0 25 80 e{number}.web.test." for number in range(1, 5)]
GLUE = [f"e{number}.web.test. 5 IN A 10.0.0.{number}" for number in range(1, 5)]
REPLIES = {
    "web.test. A": reply(FOUR, aa=True),
    "web.test. SRV": reply(SRV, (), GLUE, aa=True),
    "web.test. SOA": reply((), [SOA], aa=True),
    "web.test. TXT": reply((), [SOA], aa=True),
    "gone.test. A": reply((), [SOA], rcode=3, aa=True),
    "api.test. A": reply(["api.test. 9 IN A 10.0.9.9"], aa=True),
    "alias.test. A": reply(["alias.test. 5 IN CNAME web.test.", *FOUR], aa=True),
    "outside. A": reply(["outside. 5 IN A 10.0.9.9"]),
    "outside. SOA": reply(rcode=5),
}


def act(rule: str, question: str, seed: int = 1) -> tuple[Course, list[str]]:
    """The course of a query, and what the plugins were asked."""
    wanted = read_rule(rule.split())
    lookups: list[str] = []

    async def ask(qname: Name, number: int) -> Reply:
        lookups.append(f"{qname.to_text()} {type_to_text(number)}")
        return REPLIES[lookups[-1]]

    found = asked(question)
    course = Course(Query.ask(found.qname, found.qtype), ask)
    if wanted.action.fits(found):
        drawn = wanted.action.draw(Random(seed))
        finish(wanted.action.act(course, drawn, seed))
    return course, lookups


def text_of(sent: Reply | None) -> str:
    if sent is None:
        return "unchanged"
    if sent.dropped:
        return "no reply"
    flags = [name for name in ("aa", "tc", "ra") if getattr(sent, name)]
    words = [rcode_to_text(sent.rcode), *flags]
    for name in ("answer", "authority", "additional"):
        records = [
            f"{rr.split()[0].split('.')[0]} {rr.split()[1]} {rr.split()[3]} {rr.split()[-1]}"
            for rr in section(getattr(sent, name))
        ]
        words += [f"{name}: {', '.join(records)}"] if records else []
    return " ".join(words)


def web(*numbers: int, ttl: int = 5) -> str:
    return "answer: " + ", ".join(f"web {ttl} A 10.0.0.{number}" for number in numbers)


@pytest.mark.parametrize(
    ("rule", "question", "sent", "lookups"),
    [
        ("drop", "web.test. A", "no reply", []),
        ("drop", "test. AXFR", "no reply", []),
        ("rcode SERVFAIL", "web.test. A", "SERVFAIL", []),
        ("rcode REFUSED", "test. AXFR", "REFUSED", []),
        ("empty", "web.test. A", "NOERROR aa", []),
        ("empty", "test. AXFR", "unchanged", []),
        ("nodata", "gone.test. A", "NOERROR aa authority: test 30 SOA 30", ["gone.test. A"]),
        ("nodata", "web.test. A", "NOERROR aa authority: test 30 SOA 30", ["web.test. A", "web.test. SOA"]),
        ("nxdomain", "web.test. TXT", "NXDOMAIN aa authority: test 30 SOA 30", ["web.test. TXT"]),
        ("nxdomain", "outside. A", "NXDOMAIN aa", ["outside. A", "outside. SOA"]),
        ("truncate", "web.test. A", "NOERROR aa tc", ["web.test. A"]),
        ("truncate 2", "web.test. A", f"NOERROR aa tc {web(1, 2)}", ["web.test. A"]),
        ("ttl 3600", "web.test. A", f"NOERROR aa {web(1, 2, 3, 4, ttl=3600)}", ["web.test. A"]),
        ("ttl 3600", "gone.test. A", "NXDOMAIN aa authority: test 3600 SOA 30", ["gone.test. A"]),
        ("cut 1", "web.test. A", f"NOERROR aa {web(1)}", ["web.test. A"]),
        ("cut 1", "alias.test. A", f"NOERROR aa answer: alias 5 CNAME web.test., {web(1)[8:]}", ["alias.test. A"]),
        ("cut 0", "web.test. A", "NOERROR aa", ["web.test. A"]),
        ("answer 192.0.2.7", "web.test. A", "NOERROR aa answer: web 30 A 192.0.2.7", []),
        ("answer 192.0.2.7", "web.test. AAAA", "unchanged", []),
        ("answer 2001:db8::7", "web.test. AAAA", "NOERROR aa answer: web 30 AAAA 2001:db8::7", []),
        ("answer api.test", "web.test. A", "NOERROR aa answer: web 9 A 10.0.9.9", ["api.test. A"]),
        ("answer gone.test", "web.test. A", "NXDOMAIN aa authority: test 30 SOA 30", ["gone.test. A"]),
    ],
)  # fmt: skip
def test_replies(rule: str, question: str, sent: str, lookups: list[str]) -> None:
    course, found = act(rule, question)
    assert (text_of(course.reply), found) == (sent, lookups)
    assert course.delay == 0


def test_truncate_is_for_udp() -> None:
    """Over TCP a client has nowhere to go."""
    action = read_rule(["truncate"]).action
    found = {each: action.fits(asked(f"a. {each}")) for each in ("udp", "tcp", "dot", "doh")}
    assert found == {"udp": True, "tcp": False, "dot": False, "doh": False}


def test_shuffle_keeps_what_is_sent_and_aliases_first() -> None:
    orders = set()
    for seed in range(20):
        course, _ = act("shuffle", "alias.test. A", seed)
        assert course.reply is not None
        first, *rest = section(course.reply.answer)
        assert first.split()[3] == "CNAME"
        assert sorted(rest) == FOUR
        orders.add(tuple(rest))
        assert course.reply == act("shuffle", "alias.test. A", seed)[0].reply
    assert len(orders) > 5


def test_endpoints_are_the_same_for_each_type() -> None:
    """Those of A and of SRV, in the order of the reply, with the addresses of the targets that are left."""
    chosen = set()
    for seed in range(10):
        addresses, services = (
            act("endpoints 2", f"web.test. {each}", seed)[0].reply for each in ("A", "SRV")
        )
        assert addresses is not None
        assert services is not None
        left = [line.split()[-1].rpartition(".")[2] for line in section(addresses.answer)]
        assert len(left) == 2
        assert left == sorted(left)
        assert [line.split()[-1][1] for line in section(services.answer)] == left
        assert [line.split()[0][1] for line in section(services.additional)] == left
        chosen.add(tuple(left))
    assert len(chosen) > 2


def test_endpoints_leaves_other_types() -> None:
    assert act("endpoints 0", "gone.test. TXT")[1] == []
    course, _ = act("endpoints 0", "alias.test. A")
    assert text_of(course.reply) == "NOERROR aa answer: alias 5 CNAME web.test."


@pytest.mark.parametrize(
    ("rule", "least", "most"),
    [
        ("delay 200ms", 0.2, 0.2),
        ("delay normal 200ms 50ms", 0.0, 0.5),
        ("delay pareto 20ms 1.5", 0.02, MAX_DELAY),
        ("delay pareto 5s 0.5", 5, MAX_DELAY),
    ],
)
def test_delays(rule: str, least: float, most: float) -> None:
    """They are drawn before anything is asked, and the reply is left to others."""
    found = []
    for seed in range(200):
        course, lookups = act(rule, "web.test. A", seed)
        assert (course.reply, lookups) == (None, [])
        found.append(course.delay)
    assert least <= min(found) <= max(found) <= most
    assert least == most or len(set(found)) > 10


def test_normal_delays_are_around_their_mean() -> None:
    action: Any = read_rule("delay normal 200ms 50ms".split()).action
    random = Random(1)
    found = sorted(action.draw(random) for _ in range(1000))
    assert 0.19 < found[500] < 0.21
    assert 0.14 < found[160] < 0.16
