from __future__ import annotations

import pytest

from hsdns.rewriting.rule import (
    AliasRule,
    Exact,
    InvalidName,
    OwnerRule,
    Prefix,
    RcodeRule,
    RewriteAlias,
    RewriteClass,
    RewriteName,
    RewriteReply,
    RewriteType,
    Rule,
    Suffix,
    TtlRule,
    ValueRule,
)
from hsdns.wire.name import Name
from tests.support.plugins.requests import make_request

REGION = Name.from_text("example.org.")
TTL = TtlRule(1, 2)


def test_name_with_automatic_restoration() -> None:
    request = make_request("WWW.old.example.org.", "MX", qclass="CH")
    rule = RewriteName(
        Suffix(".old.example.org."), ".new.example.org.", automatic=True, undo=(TTL,)
    )
    step = rule.apply(request.query, request)
    expected = make_request("www.new.example.org.", "MX", qclass="CH").query
    assert step.query == expected
    assert step.query.qname.wire == b"\3www\3new\7example\3org\0"
    assert step.is_done
    assert [type(each) for each in step.undo] == [OwnerRule, ValueRule, TtlRule]


def test_name_without() -> None:
    request = make_request("a.b.")
    rule = RewriteName(Exact("a.b."), "c.d.", automatic=False, undo=(TTL,))
    assert rule.apply(request.query, request).undo == (TTL,)
    other = make_request("x.a.b.")
    step = rule.apply(other.query, other)
    assert (step.query, step.undo, step.is_done) == (other.query, (), False)


def test_name_that_is_invalid() -> None:
    request = make_request("a.b.")
    with pytest.raises(InvalidName, match=r"^\.\.b\.$"):
        RewriteName(Prefix("a."), "..", automatic=True).apply(request.query, request)


def test_type_and_class() -> None:
    request = make_request("a.b.", "TXT", qclass="CH")
    by_type = RewriteType(16, 1).apply(request.query, request)
    assert by_type.query == make_request("a.b.", "A", qclass="CH").query
    by_class = RewriteClass(3, 1).apply(request.query, request)
    assert by_class.query == make_request("a.b.", "TXT").query
    others: list[Rule] = [RewriteType(1, 16), RewriteClass(1, 3)]
    for rule in others:
        assert rule.apply(request.query, request) == (request.query, (), False)


def test_replies_of_names() -> None:
    request = make_request("A.b.")
    assert RewriteReply(Exact("a.b."), TTL).apply(request.query, request) == (
        request.query,
        (TTL,),
        True,
    )
    rcodes = RcodeRule(2, 3)
    step = RewriteReply(Exact("b."), rcodes).apply(request.query, request)
    assert step == (request.query, (), False)


def test_aliases_of_any_name() -> None:
    request = make_request("a.b.")
    step = RewriteAlias(Exact("x."), "y.").apply(request.query, request)
    assert step.query is request.query
    assert [type(each) for each in step.undo] == [AliasRule]
    assert step.is_done


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        (RewriteName(Exact("a.example.org."), "b.", automatic=True), ("a.example.org.",)),
        (RewriteName(Exact("a.example.net."), "b.example.org.", automatic=True), ()),
        (RewriteName(Suffix(".org."), "b.", automatic=True), None),
        (RewriteReply(Exact("a.example.org."), TTL), ("a.example.org.",)),
        (RewriteReply(Prefix("a."), TTL), None),
        (RewriteType(28, 1), None),
        (RewriteType(255, 13), ()),
        (RewriteClass(1, 3), None),
        (RewriteClass(3, 1), ()),
        (RewriteAlias(Exact("x."), "y."), ()),
    ],
)
def test_affected_names(rule: Rule, names: tuple[str, ...] | None) -> None:
    expected = None if names is None else tuple(Name.from_text(each) for each in names)
    assert rule.affected_names(REGION) == expected
    assert rule.is_pure
    assert rule.stops
