"""What becomes of a reply, and when it is sent; and the text of rules: what it means, and what is wrong with it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from hsdns.chain import Earlier, Request
from hsdns.corefile.properties import duration_to_text
from hsdns.faults.action import Course, Restart
from hsdns.faults.dns_chaos import rules_of
from hsdns.faults.handler import FaultHandler
from hsdns.faults.rules import RuleError, Rules, Wanted, hits_metric
from hsdns.faults.words import ACTIONS, OPTIONS, SELECTORS, Do, When, read_rule
from hsdns.metrics import Registry
from hsdns.wire.iana import rcode_to_text, type_to_text
from hsdns.wire.message import Query, Reply
from hsdns.wire.name import Name
from tests.faults.queries import SERVERS, asked, make_rule, table
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, next_with, reply, section
from tests.support.tables import columns

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


@pytest.mark.parametrize(("rule", "bounds"), table("delays"))
def test_delays(rule: str, bounds: str) -> None:
    """They are drawn before anything is asked, and the reply is left to others."""
    found, (least, most) = [], map(float, bounds.split())
    for seed in range(200):
        course, lookups = act(rule, "web.test. A", seed)
        assert (course.reply, lookups) == (None, [])
        found.append(course.delay)
    assert least <= min(found) <= max(found) <= most
    assert least == most or len(set(found)) > 10
    assert "normal" not in rule or 0.19 < sorted(found)[100] < 0.21


# --- the handler ---

WEB = reply(["web.test. 5 IN A 10.0.0.1"], aa=True, fresh=True)
NO_DATA = reply((), ["test. 30 IN SOA ns.test. mail.test. 1 7200 1800 86400 30"], aa=True)


class Made:
    """A handler, and what it did."""

    def __init__(self, *texts: str) -> None:
        self.rules = Rules(Random(1), hits_metric(Registry()))
        for text in texts:
            self.rules.add(self.rules.make(read_rule(text.split()), 0.0, None))
        self.slept: list[float] = []
        self.lookups: list[Request] = []
        self.next = next_with(WEB)
        self.handler = FaultHandler(self.rules, self._sleep, self._resolve)

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    async def _resolve(self, request: Request) -> Reply:
        self.lookups.append(request)
        return NO_DATA

    def ask(self, request: Request | None = None) -> Reply:
        return finish(self.handler.handle(request or make_request("web.test"), self.next))

    @property
    def asked(self) -> int:
        return len(self.next.requests)


@pytest.mark.parametrize(("rules", "expected"), table("one after another"))
def test_rules_one_after_another(rules: str, expected: str) -> None:
    """The rcode, the number of records, and how often the plugins were asked."""
    made = Made(*rules.split(" ; "))
    found = made.ask()
    words = [rcode_to_text(found.rcode), *(["tc"] if found.tc else []), str(len(found.answer))]
    words = ["dropped"] if found.dropped else words
    words += [f"asked {made.asked}", *(f"slept {each:g}" for each in made.slept)]
    assert " ".join(words) == expected


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(make_request("web.test", depth=1), id="lookup of the server itself"),
        pytest.param(make_request("version.bind", "TXT", qclass="CH"), id="class"),
        pytest.param(make_request("test", "SOA", flags=4 << 11), id="notify"),
    ],
)
def test_left_alone(request_: Request) -> None:
    made = Made("drop")
    assert made.ask(request_) is WEB
    assert next(iter(made.rules.standing.values())).seen == 0


def test_a_changed_reply_is_not_taken_for_the_current_state() -> None:
    """The reply of a query that no rule is about is the same object, also for the answer table."""
    assert Made("drop type SRV").ask() is WEB
    assert not Made("ttl 9").ask().fresh


def test_lookups_are_nested() -> None:
    """So that no rule is about them, and their names may be those of another block."""
    made = Made("answer other.example")
    made.ask()
    (lookup,) = made.lookups
    assert (lookup.depth, lookup.query.qname.to_text(), made.asked) == (1, "other.example.", 0)


def test_foresee() -> None:
    made = Made(
        "drop transport udp type A named a", "delay 1s type A named b", "drop type SRV named c"
    )
    found = made.handler.foresee(make_request("web.test", protocol="tcp"))
    assert [(rule.name, hits) for rule, hits in found] == [("a", False), ("b", True)]
    assert made.handler.foresee(make_request("web.test", "TXT")) == []
    assert sum(each.seen for each in made.rules.standing.values()) == 0


@pytest.mark.parametrize(("before", "answered"), [(None, 9.0), (20.0, 9.0), (5.0, 5.0)])
def test_the_older_state_of_two_handlers_answers(before: float | None, answered: float) -> None:
    """Rules of the Corefile and those of the control API are two handlers of one chain."""
    made = Made("lag 1s")
    earlier = None if before is None else Earlier(before)
    made.ask(make_request("web.test").replace(now=10.0, earlier=earlier))
    (asked,) = made.next.requests
    assert asked.earlier is not None
    assert asked.earlier.time == answered


# --- the text of rules ---

LISTS = {
    "actions": ", ".join(ACTIONS),
    "selectors": ", ".join(SELECTORS),
    "rcodes": ", ".join(map(rcode_to_text, range(1, 11))),
}


def canonical(text: str) -> str:
    wanted = read_rule(text.split(), SERVERS)
    words = [wanted.action.text, wanted.selector.text]
    options = {
        "seed": wanted.seed,
        "times": wanted.times,
        "for": wanted.lifetime,
        "named": wanted.name,
    }
    words += [f"{name} {value}" for name, value in options.items() if value is not None]
    return " ".join(filter(None, words))


@pytest.mark.parametrize(("text", "expected"), table("meaning"))
def test_meaning(text: str, expected: str) -> None:
    assert canonical(text) == expected
    if " for " not in expected:  # its text is that of a rule, in seconds here
        assert canonical(expected) == expected


def test_every_word_has_a_row() -> None:
    rows = [str(row.values[0]).split() for row in table("meaning")]
    assert {*ACTIONS, *SELECTORS, *OPTIONS} <= {word for row in rows for word in row}


@pytest.mark.parametrize(("text", "expected"), table("errors"))
def test_errors(text: str, expected: str) -> None:
    with pytest.raises(RuleError) as caught:
        read_rule(text.split(), SERVERS)
    assert f"{caught.value.at} {caught.value}" == expected.format(**LISTS)


@pytest.mark.parametrize(("text", "expected"), table("restarts"))
def test_restarts(text: str, expected: str) -> None:
    """Seconds that it is dead, pending queries, the second when it is due, and how often."""
    rule = make_rule(text)
    assert isinstance(rule.action, Restart)
    found = (rule.action.dead, rule.action.pending, rule.selector.seconds, rule.times)
    assert " ".join(f"{each:g}" if each is not None else "None" for each in found) == expected


WORDS = [*ACTIONS, *SELECTORS, *OPTIONS, *"or not ( ) 7 1s A below é 0.5".split()]


@given(st.lists(st.sampled_from(WORDS), max_size=12))
@example(["answer", "(", "below", "a\\)b\\\\."])
def test_any_words(words: list[str]) -> None:
    """Any words are a rule whose text means the same, or a sentence."""
    try:
        wanted = read_rule(words, SERVERS)
    except RuleError as error:
        assert 0 <= error.at < max(len(words), 1)
        return
    again = read_rule(f"{wanted.action.text} {wanted.selector.text}".split(), SERVERS)
    assert (again.action.text, again.selector.text) == (wanted.action.text, wanted.selector.text)


# --- objects of Chaos Mesh ---

CHAOS = Path(__file__).with_name("dns_chaos.txt")


def translated(document: object) -> str:
    try:
        return " / ".join(meaning_of(read_rule(each.split())) for each in rules_of(document))
    except RuleError as error:
        return str(error)


def meaning_of(wanted: Wanted) -> str:
    until = "" if wanted.lifetime is None else f" for {duration_to_text(wanted.lifetime)}"
    return f"{wanted.action.text} {wanted.selector.text}{until} named {wanted.name}"


@pytest.mark.parametrize(("spec", "expected"), columns(CHAOS, "rules"))
def test_dns_chaos(spec: str, expected: str) -> None:
    metadata = {"name": "x", "namespace": "chaos"}
    document = {"kind": "DNSChaos", "metadata": metadata, "spec": yaml.safe_load(f"{{{spec}}}")}
    assert translated(document) == expected


@pytest.mark.parametrize(("document", "expected"), columns(CHAOS, "others"))
def test_other_documents(document: str, expected: str) -> None:
    assert translated(yaml.safe_load(document)) == expected


def test_rules_in_python() -> None:
    found = Do.DELAY(timedelta(seconds=0.2)), When.TYPE("A") & ~When.NAME("web.test") | When.NTH(2)
    assert " ".join(map(str, found)) == "delay 200ms ( type A not ( name web.test ) or nth 2 )"
    assert [str(Do.QUEUE_FULL), str(Do.RCODE("SERVFAIL"))] == ["queue-full", "rcode SERVFAIL"]
    assert {each.word for each in Do} == {*ACTIONS}
