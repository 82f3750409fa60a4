from __future__ import annotations

import pytest

from hsdns.rewriting.rule import (
    AliasRule,
    Draft,
    InvalidName,
    Lookup,
    OwnerRule,
    RcodeRule,
    Record,
    ReplyRule,
    RewriteName,
    TtlRule,
    ValueRule,
    exact,
    prefix,
    rewrite,
    suffix,
)
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Reply
from hsdns.wire.name import Name
from tests.support.plugins.requests import make_request, reply, section

FULL = reply(
    ["a. 1 IN A 192.0.2.1", "a. 2 IN A 192.0.2.2"],
    ["n. 3 IN NS a."],
    ["a. 4 IN A 192.0.2.4"],
    aa=True,
    fresh=True,
    edns_options=((10, b"x"),),
)


class Walk(ReplyRule):
    """A rule that records what it is applied to."""

    def __init__(self, seen: list[str], name: str) -> None:
        self._seen, self._name = seen, name

    def change(self, draft: Draft, record: Record) -> Lookup | None:
        """Record it."""
        self._seen.append(f"{self._name}{record.ttl}")
        return None

    def change_message(self, draft: Draft) -> None:
        """Record it."""
        self._seen.append(self._name)


def run_rules(below: Reply, rules: list[ReplyRule]) -> Reply:
    draft = Draft(below)
    assert list(rewrite(draft, rules)) == []
    return draft.to_reply()


@pytest.mark.parametrize(
    ("below", "seen"),
    [
        (FULL, "y y3 x x3 y y1 x x1 y y2 x x2 y y4 x x4 y x"),
        (FULL.replace(edns_options=None, answer=(), authority=()), "y y4 x x4"),
        (Reply(), "y x"),
        (Reply(edns_options=()), "y x"),
    ],
)
def test_order_of_records_and_rules(below: Reply, seen: str) -> None:
    found: list[str] = []
    assert run_rules(below, []) == below
    assert run_rules(below, [Walk(found, "x"), Walk(found, "y")]) == below
    assert " ".join(found) == seen


def test_rules_are_applied_in_reverse_order() -> None:
    rules: list[ReplyRule] = [TtlRule(5, 10), TtlRule(0, 3)]
    assert [record.ttl for record in run_rules(FULL, rules).answer] == [5, 5]
    rules.reverse()
    assert [record.ttl for record in run_rules(FULL, rules).answer] == [3, 3]


@pytest.mark.parametrize(("records", "rcode"), [(0, 3), (1, 3), (2, 5), (3, 5)])
def test_rcodes_in_a_row(records: int, rcode: int) -> None:
    """All rules are applied again for each record, as in CoreDNS: the number of records determines their effect."""
    below = reply(
        [f"a. 1 IN A 192.0.2.{number}" for number in range(records)], rcode=Rcode.SERVFAIL
    )
    rules: list[ReplyRule] = [
        RcodeRule(Rcode.SERVFAIL, Rcode.NXDOMAIN),
        RcodeRule(Rcode.NXDOMAIN, Rcode.REFUSED),
    ]
    assert run_rules(below, rules).rcode == rcode  # fmt: skip


OLD, NEW = suffix(".old."), ".new."


def run(rule: ReplyRule, *records: str) -> list[str]:
    draft = Draft(reply(records))
    assert list(rewrite(draft, [rule])) == []
    return section(draft.to_reply().answer)


@pytest.mark.parametrize(
    ("record", "owner", "value"),
    [
        ("a.old. 1 IN A 192.0.2.1", "a.new. 1 IN A 192.0.2.1", None),
        ("a.OLD. 1 IN A 192.0.2.1", None, None),
        ("a.b. 1 IN CNAME x.old.", None, "a.b. 1 IN CNAME x.new."),
        ("a.b. 1 IN NS x.old.", None, "a.b. 1 IN NS x.new."),
        ("a.b. 1 IN PTR x.old.", None, "a.b. 1 IN PTR x.new."),
        ("a.b. 1 IN DNAME x.old.", None, "a.b. 1 IN DNAME x.new."),
        ("a.b. 1 IN MX 10 x.old.", None, "a.b. 1 IN MX 10 x.new."),
        ("a.b. 1 IN SRV 1 2 3 x.old.", None, "a.b. 1 IN SRV 1 2 3 x.new."),
        ("a.b. 1 IN SOA x.old. y.old. 1 2 3 4 5", None, "a.b. 1 IN SOA x.new. y.old. 1 2 3 4 5"),
        ('a.b. 1 IN NAPTR 1 2 "S" "" "" x.old.', None, 'a.b. 1 IN NAPTR 1 2 "S" "" "" x.new.'),
        ('a.b. 1 IN TXT "x.old."', None, None),
        ("a.b. 1 IN HTTPS 1 x.old.", None, None),
        ("old. 1 IN CNAME old.", None, None),
        # Text is compared, as in CoreDNS, so a dot within a label counts as one.
        (r"a\.old. 1 IN A 192.0.2.1", r"a\.new. 1 IN A 192.0.2.1", None),
    ],
)
def test_names(record: str, owner: str | None, value: str | None) -> None:
    assert run(OwnerRule(OLD, NEW), record) == [owner or record]
    assert run(ValueRule(OLD, NEW), record) == [value or record]


@pytest.mark.parametrize("rule", [OwnerRule, ValueRule])
def test_what_is_no_name(rule: type[OwnerRule | ValueRule]) -> None:
    with pytest.raises(InvalidName):
        run(rule(OLD, ".."), "a.old. 1 IN CNAME a.old.")


CHAIN = (
    "q. 9 IN CNAME a.old.",
    "a.old. 9 IN CNAME b.old.",
    "b.old. 9 IN CNAME c.net.",
    "c.net. 9 IN A 192.0.2.9",
)
FOUND = reply(["b.new. 3 IN A 192.0.2.1"], tc=True)


def test_the_target_is_replaced() -> None:
    draft = Draft(reply(CHAIN, aa=True))
    steps = rewrite(draft, [AliasRule(exact("b.old."), "b.new.")])
    assert steps.send(None) == Name.from_text("b.new.")
    with pytest.raises(StopIteration):
        steps.send(FOUND)
    expected = [CHAIN[0], "a.old. 9 IN CNAME b.new.", "b.new. 3 IN A 192.0.2.1"]
    assert draft.to_reply() == reply(expected, aa=True, tc=True)


def test_the_target_is_kept_if_the_lookup_fails() -> None:
    draft = Draft(reply(CHAIN))
    steps = rewrite(draft, [AliasRule(exact("b.old."), "b.new.")])
    assert steps.send(None) == Name.from_text("b.new.")
    with pytest.raises(StopIteration):
        steps.send(None)
    assert draft.to_reply() == reply(CHAIN)


def test_each_alias_of_a_chain_that_matches() -> None:
    draft = Draft(reply(CHAIN))
    steps = rewrite(draft, [AliasRule(suffix("old."), "new.")])
    assert steps.send(None) == Name.from_text("a.new.")
    assert steps.send(reply(["a.new. 1 IN CNAME b.old.", "x. 1 IN TXT x"])) == Name.from_text(
        "b.new."
    )
    with pytest.raises(StopIteration):
        steps.send(reply(["b.new. 2 IN A 192.0.2.2"]))
    assert section(draft.to_reply().answer) == [
        "q. 9 IN CNAME a.new.",
        "a.new. 1 IN CNAME b.new.",
        "b.new. 2 IN A 192.0.2.2",
    ]


def test_other_types_are_no_alias() -> None:
    assert run(AliasRule(exact("b.old."), "b.new."), "a. 1 IN NS b.old.") == ["a. 1 IN NS b.old."]


@pytest.mark.parametrize("text", ["..", ".a.", "a" * 64 + ".", ("a" * 60 + ".") * 5])
def test_what_rules_make_is_a_name(text: str) -> None:
    request = make_request("a.b.")
    with pytest.raises(InvalidName) as caught:
        RewriteName(exact("a.b."), text, automatic=True).apply(request.query, request)
    assert caught.value.text == text
    with pytest.raises(InvalidName):
        list(rewrite(Draft(reply(CHAIN)), [AliasRule(exact("b.old."), text)]))


def test_name_with_automatic_restoration() -> None:
    request = make_request("WWW.old.example.org.", "MX", qclass="CH")
    restored = (TtlRule(1, 2),)
    rule = RewriteName(suffix(".old.example.org."), ".new.example.org.", True, restored)
    step = rule.apply(request.query, request)
    expected = make_request("www.new.example.org.", "MX", qclass="CH").query
    assert step.query == expected
    assert step.query.qname.wire == b"\3www\3new\7example\3org\0"
    assert step.is_done
    assert [type(each) for each in step.undo] == [OwnerRule, ValueRule, TtlRule]


def test_name_that_does_not_match() -> None:
    request = make_request("x.a.b.")
    step = RewriteName(prefix("a."), "c.", automatic=True).apply(request.query, request)
    assert (step.query, step.undo, step.is_done) == (request.query, (), False)
