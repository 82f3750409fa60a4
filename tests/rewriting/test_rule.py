from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.corefile.properties import compile_pattern
from hsdns.rewriting.rule import (
    AliasRule,
    Below,
    Draft,
    Exact,
    InvalidName,
    Lookup,
    Matcher,
    OwnerRule,
    Prefix,
    RcodeRule,
    Record,
    Regex,
    ReplyRule,
    RewriteAlias,
    RewriteClass,
    RewriteName,
    RewriteReply,
    RewriteType,
    Rule,
    Substring,
    Suffix,
    TtlRule,
    ValueRule,
    name_of,
    rewrite,
    to_name,
)
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Reply
from hsdns.wire.name import Name
from tests.support.plugins.requests import make_request, reply, rr, section


def regex(text: str) -> Regex:
    return Regex(compile_pattern(text))


@pytest.mark.parametrize(
    ("matcher", "text", "to", "expected"),
    [
        (Exact("a.b."), "a.b.", "x.", "x."),
        (Exact("a.b."), "x.a.b.", "x.", None),
        (Exact(r"a\.b."), r"a\.b.", "x.", "x."),
        (Exact(r"\097."), "a.", "x.", "x."),
        (Exact("a..b."), "a..b.", "x.", "x."),
        (Prefix("a."), "a.b.", "x.", "x.b."),
        (Prefix("a."), "aa.b.", "x.", None),
        (Prefix("a."), "a.", "x.", "x."),
        (Suffix(".b."), "a.b.", ".y.", "a.y."),
        (Suffix("b."), "ab.", "y.", "ay."),
        (Suffix(".b."), "b.", ".y.", None),
        (Substring(".b."), "a.b.c.b.d.", ".y.", "a.y.c.y.d."),
        (Substring("b."), "a.", "y.", None),
        (regex("b"), "a.b.c.", "x.", "x."),
        (regex("^b"), "a.b.c.", "x.", None),
        (regex(r"^(.*)\.(b)\.$"), "a.a.b.", "{2}.{1}.{0}", "b.a.a.a.a.b."),
        (regex("(x)?a"), "a.", "{1}-{0}.", "-a."),
        (regex("(.*)"), "{2}.", "{1}x", "{2}.x"),
        (regex("(.*)-(.*)"), "{2}-y.", "{1}", "y."),
        (regex("a"), "a.", "{1}.", "{1}."),
        (Below("b.c."), "a.b.c.", "y.", "a.y."),
        (Below("b.c."), "b.c.", "y.", "y."),
        (Below("b.c."), "ab.c.", "y.", None),
    ],
)
def test_replace(matcher: Matcher, text: str, to: str, expected: str | None) -> None:
    assert matcher.replace(text, to) == expected
    assert matcher.matches(text) is (expected is not None)


@pytest.mark.parametrize(
    ("matcher", "names"),
    [
        (Exact("www.example.org."), ("www.example.org.",)),
        (Exact("example.org."), ("example.org.",)),
        (Exact("org."), ()),
        (Exact("a..b."), ()),
        (Suffix(".www.example.org."), ("www.example.org.",)),
        (Suffix("x.www.example.org."), ("www.example.org.",)),
        (Suffix(".example.org."), None),
        (Suffix("www.example.org."), None),
        (Suffix("org."), None),
        (Suffix("."), None),
        (Suffix(".example.net."), ()),
        (Suffix(r"\..www.example.org."), None),
        (Prefix("a."), None),
        (Substring("a."), None),
        (regex("a"), None),
        (Below("a."), None),
    ],
)
def test_affected_names_of_matcher(matcher: Matcher, names: tuple[str, ...] | None) -> None:
    expected = None if names is None else tuple(Name.from_text(each) for each in names)
    assert matcher.affected_names(Name.from_text("example.org.")) == expected


LABELS = st.text("ab-", min_size=1, max_size=3)
NAMES = st.lists(LABELS, max_size=4).map(lambda labels: ".".join([*labels, ""]) or ".")


@given(NAMES, NAMES, st.text("ab-.", max_size=6))
def test_what_matches_is_claimed(qname: str, zone: str, start: str) -> None:
    """A name that is not covered by affected_names() must not match."""
    name, region = Name.from_text(qname), Name.from_text(zone)
    if not name.is_at_or_below(region):
        return
    for matcher in (Exact(start + "."), Suffix(start + "."), Exact(qname), Suffix(qname)):
        names = matcher.affected_names(region)
        if names is not None and not any(name.is_at_or_below(each) for each in names):
            assert not matcher.matches(qname)


@pytest.mark.parametrize("text", ["a..b.", "a" * 64 + ".", "\\", "é" * 40 + "."])
def test_no_name(text: str) -> None:
    assert name_of(text) is None


FULL = reply(
    ["a. 1 IN A 192.0.2.1", "a. 2 IN A 192.0.2.2"],
    ["n. 3 IN NS a."],
    ["a. 4 IN A 192.0.2.4"],
    aa=True,
    fresh=True,
    edns_options=((10, b"x"),),
)


class Walk:
    """A rule that records the records it is applied to."""

    def __init__(self, seen: list[str], name: str, *, is_about_message: bool = False) -> None:
        self.is_about_message = is_about_message
        self._seen, self._name = seen, name

    def apply(self, draft: Draft, record: Record | None) -> Lookup | None:
        """Record it."""
        self._seen.append(f"{self._name}{record.ttl if record else '-'}")
        return None


def run_rules(below: Reply, rules: list[ReplyRule]) -> Reply:
    draft = Draft(below)
    assert list(rewrite(draft, rules)) == []
    return draft.to_reply()


def test_without_rules_nothing_changes() -> None:
    assert run_rules(FULL, []) == FULL


def test_order_of_records_and_rules() -> None:
    seen: list[str] = []
    assert run_rules(FULL, [Walk(seen, "x"), Walk(seen, "y", is_about_message=True)]) == FULL
    assert seen == ["y3", "x3", "y1", "x1", "y2", "x2", "y4", "x4", "y-"]


def test_without_records_only_what_is_about_the_message() -> None:
    seen: list[str] = []
    run_rules(Reply(), [Walk(seen, "x"), Walk(seen, "y", is_about_message=True)])
    assert seen == ["y-"]


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


def test_lookups_are_yielded() -> None:
    class Ask:
        is_about_message = True

        def apply(self, draft: Draft, record: Record | None) -> Lookup | None:
            return self._ask(draft)

        @staticmethod
        def _ask(draft: Draft) -> Lookup:
            found = yield Name.from_text("elsewhere.")
            assert found is not None
            draft.answer = [Record(each) for each in found.answer]

    draft = Draft(Reply())
    steps = rewrite(draft, [Ask()])
    assert steps.send(None) == Name.from_text("elsewhere.")
    with pytest.raises(StopIteration):
        steps.send(reply(["e. 1 IN A 192.0.2.1"]))
    assert draft.to_reply() == reply(["e. 1 IN A 192.0.2.1"])


def test_the_record_is_returned_unchanged() -> None:
    record = rr("a. 1 CH TXT x")
    assert Record(record).to_rr() == record


@pytest.mark.parametrize("text", ["a..", ".a.", "a" * 64 + ".", ("a" * 60 + ".") * 5])
def test_bad_names(text: str) -> None:
    with pytest.raises(InvalidName) as caught:
        to_name(text)
    assert caught.value.text == text


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
