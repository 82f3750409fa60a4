from __future__ import annotations

import pytest

from hsdns.rewriting.rule import (
    AliasRule,
    Draft,
    Exact,
    InvalidName,
    OwnerRule,
    RcodeRule,
    ReplyRule,
    Suffix,
    TtlRule,
    ValueRule,
    rewrite,
)
from hsdns.wire.message import Reply
from hsdns.wire.name import Name
from tests.support.plugins.requests import reply, section

OLD, NEW = Suffix(".old."), ".new."


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


@pytest.mark.parametrize(("ttl", "expected"), [(0, 5), (5, 5), (7, 7), (10, 10), (99, 10)])
def test_ttl(ttl: int, expected: int) -> None:
    assert run(TtlRule(5, 10), f"a. {ttl} IN A 192.0.2.1") == [f"a. {expected} IN A 192.0.2.1"]


@pytest.mark.parametrize(("rcode", "expected"), [(0, 0), (2, 16), (3, 3)])
def test_rcode(rcode: int, expected: int) -> None:
    draft = Draft(Reply(rcode=rcode))
    assert list(rewrite(draft, [RcodeRule(2, 16)])) == []
    assert draft.to_reply() == Reply(rcode=expected)


CHAIN = (
    "q. 9 IN CNAME a.old.",
    "a.old. 9 IN CNAME b.old.",
    "b.old. 9 IN CNAME c.net.",
    "c.net. 9 IN A 192.0.2.9",
)
FOUND = reply(["b.new. 3 IN A 192.0.2.1"], tc=True)


def test_the_target_is_replaced() -> None:
    draft = Draft(reply(CHAIN, aa=True))
    steps = rewrite(draft, [AliasRule(Exact("b.old."), "b.new.")])
    assert steps.send(None) == Name.from_text("b.new.")
    with pytest.raises(StopIteration):
        steps.send(FOUND)
    expected = [CHAIN[0], "a.old. 9 IN CNAME b.new.", "b.new. 3 IN A 192.0.2.1"]
    assert draft.to_reply() == reply(expected, aa=True, tc=True)


def test_the_target_is_kept_if_the_lookup_fails() -> None:
    draft = Draft(reply(CHAIN))
    steps = rewrite(draft, [AliasRule(Exact("b.old."), "b.new.")])
    assert steps.send(None) == Name.from_text("b.new.")
    with pytest.raises(StopIteration):
        steps.send(None)
    assert draft.to_reply() == reply(CHAIN)


def test_each_alias_of_a_chain_that_matches() -> None:
    draft = Draft(reply(CHAIN))
    steps = rewrite(draft, [AliasRule(Suffix("old."), "new.")])
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
    assert run(AliasRule(Exact("b.old."), "b.new."), "a. 1 IN NS b.old.") == ["a. 1 IN NS b.old."]


def test_a_target_that_is_not_a_name() -> None:
    with pytest.raises(InvalidName):
        list(rewrite(Draft(reply(CHAIN)), [AliasRule(Exact("b.old."), "..")]))
