from __future__ import annotations

import pytest

from hsdns.wire.iana import type_from_text
from hsdns.wire.message import Query, follow, is_answered
from hsdns.wire.name import Name
from tests.support.plugins.requests import rr

CHAIN = ["a.example.org. 5 IN CNAME b.example.org.", "B.example.org. 5 IN CNAME c.example.org."]


@pytest.mark.parametrize(
    ("answer", "end"),
    [
        pytest.param([], "a.example.org.", id="no-chain"),
        pytest.param(CHAIN, "c.example.org.", id="two-links"),
        pytest.param(CHAIN[::-1], "c.example.org.", id="in-any-order"),
        pytest.param([*CHAIN, CHAIN[0]], "c.example.org.", id="said-twice"),
        pytest.param([*CHAIN, "a.example.org. 5 IN CNAME x.example.org."], None, id="fork"),
        pytest.param([*CHAIN, "c.example.org. 5 IN CNAME a.example.org."], None, id="circle"),
        pytest.param(["a.example.org. 5 IN CNAME a.example.org."], None, id="to-itself"),
        pytest.param(["a.example.org. 5 CH CNAME b.example.org."], "a.example.org.", id="class"),
    ],
)
def test_follow(answer: list[str], end: str | None) -> None:
    found = follow([rr(text) for text in answer], Name.from_text("a.example.org.").lower)
    assert found == (None if end is None else Name.from_text(end).wire)


@pytest.mark.parametrize(
    ("qtype", "answer", "expected"),
    [
        pytest.param("A", [], False, id="nothing"),
        pytest.param("A", ["A.example.org. 5 IN A 192.0.2.1"], True, id="own-record"),
        pytest.param("A", ["b.example.org. 5 IN A 192.0.2.1"], False, id="foreign-record"),
        pytest.param("A", [*CHAIN, "c.example.org. 5 IN A 192.0.2.1"], True, id="chain"),
        pytest.param("A", [*CHAIN, "b.example.org. 5 IN A 192.0.2.1"], False, id="half-way"),
        pytest.param("AAAA", [*CHAIN, "c.example.org. 5 IN A 192.0.2.1"], False, id="other-type"),
        pytest.param("A", CHAIN, False, id="chain-without-end"),
        pytest.param("CNAME", CHAIN, True, id="cname"),
        pytest.param("CNAME", [CHAIN[1]], False, id="cname-of-another"),
        pytest.param(
            "CNAME", [CHAIN[0], "a.example.org. 5 IN CNAME x.example.org."], False, id="two-cnames"
        ),
        pytest.param(
            "CNAME", ["a.example.org. 5 CH CNAME b.example.org."], False, id="cname-class"
        ),
        pytest.param("ANY", CHAIN, True, id="any"),
        pytest.param("ANY", [CHAIN[1]], False, id="any-of-another"),
        pytest.param("A", ["a.example.org. 5 CH A a. 1"], False, id="class"),
    ],
)
def test_is_answered(qtype: str, answer: list[str], expected: bool) -> None:
    query = Query.ask(Name.from_text("a.example.org."), type_from_text(qtype))
    assert is_answered(query, [rr(text) for text in answer]) == expected
