"""The question of somebody who wants an explanation."""

from __future__ import annotations

import re

import pytest

from hsdns.explanation.question import (
    TYPES,
    LookupQuestion,
    from_parameters,
    overridden,
    read_question,
)
from hsdns.resolver import USUAL
from hsdns.wire.iana import RRType


@pytest.mark.parametrize(
    ("name", "rrtype", "sentence"),
    [
        ("a..b", "", '"a..b" is not a domain name'),
        ("a", "qq", '"QQ" is not a record type; try A, AAAA, SRV, PTR or CNAME'),
    ],
)
def test_what_is_no_question(name: str, rrtype: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        read_question(name, rrtype)


# Who asks, from words and back.


WHOLE = LookupQuestion(
    "db", (RRType.AAAA,), ("musl",), "shop/web-0", "nameserver 10.0.0.1\n", "a,b", "2", "10.0.0.2"
)


@pytest.mark.parametrize("asking", [WHOLE, LookupQuestion("db.", TYPES, USUAL), LookupQuestion("db", TYPES, USUAL, ndots="0")])  # fmt: skip
def test_there_and_back(asking: LookupQuestion) -> None:
    assert from_parameters(asking.parameters()) == asking


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"name": "db", "ndots": "16"}, 'ndots is a number from 0 to 15, found "16"'),
        ({"name": "db", "ndots": "-1"}, 'ndots is a number from 0 to 15, found "-1"'),
        ({"name": "db", "ndots": "\u0661"}, 'ndots is a number from 0 to 15, found "\u0661"'),
        ({"name": "db", "program": "muls"}, 'there is no model of a program "muls"; did you mean "musl"?'),
        ({"name": "."}, '"." is not a name that can be looked up: it is the root'),
    ],
)  # fmt: skip
def test_what_is_no_lookup(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        from_parameters(given)


def test_lines_that_stand_in_place_of_others() -> None:
    assert overridden("", "a,b", "2") == "search a b\noptions ndots:2\n"
    assert overridden("x", "", "") == "x\n"
    assert WHOLE.added == "search a b\noptions ndots:2\n"
