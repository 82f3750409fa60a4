"""What dialogues of rewrite cannot say of its rules: the order of records, names that are none, what matches, absent options."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.plugins.rewrite import absolute
from hsdns.rewriting.option import APPEND, SET, RewriteOption, constant, metadata
from hsdns.rewriting.rule import (
    AliasRule,
    Draft,
    InvalidName,
    Lookup,
    OwnerRule,
    Record,
    ReplyRule,
    RewriteName,
    exact,
    rewrite,
    suffix,
)
from hsdns.wire.edns import Edns
from hsdns.wire.message import Reply
from hsdns.wire.name import Name
from tests.support.plugins.requests import make_request, reply

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
    for rules in ([], [Walk(found, "x"), Walk(found, "y")]):
        draft = Draft(below)
        assert list(rewrite(draft, rules)) == []
        assert draft.to_reply() == below
    assert " ".join(found) == seen


@pytest.mark.parametrize("text", ["..", ".a.", "a" * 64 + ".", ("a" * 60 + ".") * 5])
def test_what_rules_make_is_a_name(text: str) -> None:
    request, below = make_request("a.b."), reply(["a.b. 1 IN CNAME b.old."])
    for rule in (AliasRule(exact("b.old."), text), OwnerRule(exact("a.b."), text)):
        with pytest.raises(InvalidName):
            list(rewrite(Draft(below), [rule]))
    with pytest.raises(InvalidName) as caught:
        RewriteName(exact("a.b."), text, automatic=True).apply(request.query, request)
    assert caught.value.text == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [("A.b", "a.b."), ("a.", "a."), (".", "."), ("", "."), (r"a\.", r"a\.."), (r"a\\.", r"a\\.")],
)
def test_absolute(text: str, expected: str) -> None:
    assert absolute(text) == expected


LABELS = st.text("ab-", min_size=1, max_size=3)
NAMES = st.lists(LABELS, max_size=4).map(lambda labels: ".".join([*labels, ""]) or ".")


@given(NAMES, NAMES, st.text("ab-.", max_size=6))
def test_what_matches_is_affected(qname: str, zone: str, start: str) -> None:
    """For a name that affected_names() does not cover, negative answers are given without the rule."""
    name, region = Name.from_text(qname), Name.from_text(zone)
    if not name.is_at_or_below(region):
        return
    for make, text in product((exact, suffix), (start + ".", qname)):
        matcher = make(text)
        names = matcher.affected_names(region)
        if names is not None and not any(name.is_at_or_below(each) for each in names):
            assert not matcher.matches(qname)


# --- options ---

Options = tuple[tuple[int, bytes], ...]
ONE: Options = ((10, b"cookie"), (9, b"old"))


def test_a_variable_is_appended_only_where_the_option_is_absent() -> None:
    rule = RewriteOption(APPEND, 9, constant(b"new"), is_single=True)
    request = make_request("a.b.", edns=Edns(1400, options=ONE))
    step = rule.apply(request.query, request)
    assert (step.query.edns, step.is_done) == (Edns(1400, options=ONE), False)


@pytest.mark.parametrize(
    ("known", "data"),
    [(None, None), ({}, None), ({"a/b": str}, None), ({"a/b": lambda: "é"}, "é".encode())],
)
def test_metadata(known: Any, data: bytes | None) -> None:
    request = make_request("a.").replace(metadata=known)
    step = RewriteOption(SET, 9, metadata("a/b")).apply(request.query, request)
    assert step.is_done is (data is not None)
    assert step.query.edns == (Edns(4096, options=((9, data),)) if data is not None else None), (
        "else it is not touched"
    )
