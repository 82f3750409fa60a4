"""The handler: what the plugins are asked, what is sent, and when."""

from __future__ import annotations

from random import Random

import pytest

from hsdns.chain import Earlier, Request
from hsdns.faults.handler import FaultHandler
from hsdns.faults.rules import Rules, hits_metric
from hsdns.faults.words import read_rule
from hsdns.metrics import Registry
from hsdns.wire.iana import rcode_to_text
from hsdns.wire.message import Reply
from tests.faults.queries import table
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, next_with, reply

WEB = reply(["web.test. 5 IN A 10.0.0.1"], aa=True, fresh=True)
SOA = reply((), ["test. 30 IN SOA ns.test. mail.test. 1 7200 1800 86400 30"], aa=True)


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
        return SOA

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
    assert made.handler.foresee(make_request("web.test", protocol="tcp")) == (
        'the rule "a" may do this: drop transport udp type A; the rule "b" does this: delay 1s type A'
    )
    assert made.handler.foresee(make_request("web.test", "TXT")) == ""
    assert sum(each.seen for each in made.rules.standing.values()) == 0


@pytest.mark.parametrize(("before", "answered"), [(None, 9.0), (20.0, 9.0), (5.0, 5.0)])
def test_the_older_state_of_two_handlers_answers(before: float | None, answered: float) -> None:
    """Rules of the Corefile and those of the control door are two handlers of one chain."""
    made = Made("lag 1s")
    earlier = None if before is None else Earlier(before)
    made.ask(make_request("web.test").replace(now=10.0, earlier=earlier))
    (asked,) = made.next.requests
    assert asked.earlier is not None
    assert asked.earlier.time == answered
