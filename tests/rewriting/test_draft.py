from __future__ import annotations

import pytest

from hsdns.rewriting.rule import (
    Draft,
    InvalidName,
    Lookup,
    RcodeRule,
    Record,
    ReplyRule,
    TtlRule,
    rewrite,
    to_name,
)
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Reply
from hsdns.wire.name import Name
from tests.support.plugins.requests import reply, rr

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


def run(below: Reply, rules: list[ReplyRule]) -> Reply:
    draft = Draft(below)
    assert list(rewrite(draft, rules)) == []
    return draft.to_reply()


def test_without_rules_nothing_changes() -> None:
    assert run(FULL, []) == FULL


def test_order_of_records_and_rules() -> None:
    seen: list[str] = []
    assert run(FULL, [Walk(seen, "x"), Walk(seen, "y", is_about_message=True)]) == FULL
    assert seen == ["y3", "x3", "y1", "x1", "y2", "x2", "y4", "x4", "y-"]


def test_without_records_only_what_is_about_the_message() -> None:
    seen: list[str] = []
    run(Reply(), [Walk(seen, "x"), Walk(seen, "y", is_about_message=True)])
    assert seen == ["y-"]


def test_rules_are_applied_in_reverse_order() -> None:
    rules: list[ReplyRule] = [TtlRule(5, 10), TtlRule(0, 3)]
    assert [record.ttl for record in run(FULL, rules).answer] == [5, 5]
    rules.reverse()
    assert [record.ttl for record in run(FULL, rules).answer] == [3, 3]


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
    assert run(below, rules).rcode == rcode  # fmt: skip


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
