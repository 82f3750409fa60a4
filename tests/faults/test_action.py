"""What becomes of a reply: the reply that the plugins make, and the one that is sent."""

from __future__ import annotations

from random import Random

import pytest

from hsdns.faults.action import MAX_DELAY, Course
from hsdns.faults.words import read_rule
from hsdns.wire.iana import rcode_to_text, type_to_text
from hsdns.wire.message import Query, Reply
from hsdns.wire.name import Name
from tests.faults.queries import asked, table
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


@pytest.mark.parametrize(("row", "expected"), table("replies"))
def test_replies(row: str, expected: str) -> None:
    """What is sent, and what the plugins were asked."""
    rule, question = row.split(" ; ")
    course, found = act(rule, question)
    assert " ; ".join([text_of(course.reply), *found]) == expected
    assert course.delay == 0


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
    action, random = read_rule(["shuffle"]).action, Random(1)
    assert action.draw(random) != action.draw(random), "each reply has an order of its own"


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


@pytest.mark.parametrize(
    ("rule", "least", "most"),
    [
        ("delay 200ms", 0.2, 0.2),
        ("delay normal 200ms 50ms", 0.05, 0.4),
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
    assert "normal" not in rule or 0.19 < sorted(found)[100] < 0.21
