"""Readers of properties, and patterns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hsdns.corefile.parser import parse
from hsdns.corefile.properties import (
    MAX_PATTERN_LEN,
    Property,
    choice,
    compile_pattern,
    duration,
    flag,
    integer,
    many,
    no_arguments,
    no_body,
    number,
    one,
    optional,
    read_properties,
    text,
)
from hsdns.corefile.tree import CorefileError, Directive


def directives(body: str) -> tuple[Directive, ...]:
    """Read `body` as that of a server block, its first directive on line 2."""
    return (
        parse("Corefile", text=f". {{\n{body}\n}}\n", environ={}, known_directives=("plug",))
        .blocks[0]
        .directives
    )


TABLE: dict[str, Property[Any]] = {
    "ttl": Property(one(integer(0, 3600)), default=5),
    "once": Property(one(text), repeat="once"),
    "zone": Property(many(text, 1, 2), repeat="collect"),
    "on": Property(flag, default=False),
    "wait": Property(optional(duration(), 1.0)),
}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("plug", {}, id="defaults"),
        pytest.param("plug {\n ttl 7\n on\n}", {"ttl": 7, "on": True}, id="values"),
        pytest.param("plug {\n ttl 7\n ttl 8\n}", {"ttl": 8}, id="the last one wins"),
        pytest.param(
            "plug {\n zone a b\n zone c\n}", {"zone": [("a", "b"), ("c",)]}, id="collected"
        ),
        pytest.param(
            "plug {\n ttl 7\n}\nplug {\n once x\n}", {"ttl": 7, "once": "x"}, id="two directives"
        ),
        pytest.param("plug {\n wait\n}", {"wait": 1.0}, id="optional argument left out"),
        pytest.param("plug {\n wait 2m\n}", {"wait": 120.0}, id="optional argument"),
    ],
)
def test_read_properties(body: str, expected: dict[str, Any]) -> None:
    defaults: dict[str, Any] = {"ttl": 5, "once": None, "zone": [], "on": False, "wait": None}
    assert read_properties(directives(body), TABLE) == defaults | expected


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(
            "plug {\n ttll 5\n}",
            '3:2: unknown property "ttll" of plug; did you mean "ttl"?',
            id="unknown",
        ),
        pytest.param(
            "plug {\n later\n}",
            '3:2: property "later" of plug exists in CoreDNS but not in hsdns yet; remove the line',
            id="not yet",
        ),
        pytest.param(
            "plug {\n once a\n}\nplug {\n once b\n}",
            '6:2: property "once" of plug may be given only once',
            id="twice",
        ),
        pytest.param(
            "plug {\n ttl\n}", '3:2: property "ttl" takes 1 argument, found 0', id="too few"
        ),
        pytest.param(
            "plug {\n ttl 5 6 7\n}", '3:8: property "ttl" takes 1 argument, found 3', id="too many"
        ),
        pytest.param(
            "plug {\n on x\n}", '3:5: property "on" takes no argument, found 1', id="flag"
        ),
        pytest.param(
            "plug {\n zone\n}", '3:2: property "zone" takes 1 to 2 arguments, found 0', id="range"
        ),
    ],
)
def test_wrong_properties(body: str, message: str) -> None:
    with pytest.raises(CorefileError) as caught:
        read_properties(directives(body), TABLE, not_yet=("later",))
    assert str(caught.value) == f"Corefile:{message}"


@pytest.mark.parametrize(
    ("read", "word", "expected"),
    [
        pytest.param(integer(0), "007", 7, id="zeros"),
        pytest.param(integer(-1, 5), "-1", -1, id="negative"),
        pytest.param(integer(0, 5), "6", "6 is out of range, allowed is 0 to 5", id="too big"),
        pytest.param(integer(1), "0", "0 is out of range, allowed is 1 or more", id="too small"),
        pytest.param(integer(0), "1_0", '"1_0" is not a whole number', id="underscore"),
        pytest.param(integer(0), "5s", '"5s" is not a whole number', id="unit"),
        pytest.param(number(0), ".5", 0.5, id="decimal"),
        pytest.param(number(0), "1e2", 100.0, id="exponent"),
        pytest.param(number(0), "1_0", '"1_0" is not a number', id="decimal with underscore"),
        pytest.param(number(0), "nan", '"nan" is not a number', id="no number"),
        pytest.param(
            number(1), "0.5", "0.5 is out of range, allowed is 1 or more", id="decimal too small"
        ),
        pytest.param(
            number(0, 1), "1.5", "1.5 is out of range, allowed is 0 to 1", id="decimal too large"
        ),
        pytest.param(choice("all", "error"), "all", "all", id="choice"),
        pytest.param(
            choice("all", "error"),
            "eror",
            '"eror" is not one of: all, error; did you mean "error"?',
            id="no choice",
        ),
        pytest.param(duration(), "1h2m3.5s", 3723.5, id="duration"),
        pytest.param(
            duration(),
            "5",
            '"5" is not a duration; write a number and a unit such as "5s"',
            id="no unit",
        ),
        pytest.param(
            duration(1, 60), "2m", "2m is out of range, allowed is 1s to 60s", id="too long"
        ),
        pytest.param(
            duration(), "-1s", "-1s is out of range, allowed is 0s or more", id="negative duration"
        ),
        pytest.param(text, "any", "any", id="text"),
    ],
)
def test_readers(read: Callable[[Any], object], word: str, expected: object) -> None:
    (directive,) = directives(f'plug "{word}"')
    try:
        found = read(directive.args[0])
    except CorefileError as error:
        found = error.message
    assert found == expected


@pytest.mark.parametrize(
    ("check", "body", "message"),
    [
        pytest.param(
            no_arguments,
            "plug a",
            'Corefile:2:6: "plug" takes no argument, found "a"',
            id="argument",
        ),
        pytest.param(
            no_body,
            "plug {\n ttl 5\n}",
            'Corefile:3:2: "plug" has no properties, found "ttl"',
            id="body",
        ),
    ],
)
def test_refused_parts(check: Callable[[Directive], None], body: str, message: str) -> None:
    check(*directives("plug"))
    with pytest.raises(CorefileError) as caught:
        check(*directives(body))
    assert str(caught.value) == message


def test_time_grows_with_the_text_alone() -> None:
    assert compile_pattern("(a*)*b").search("a" * 50_000) is None


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(", '"(" is not a regular expression: missing ): ('),
        ("a(?=b)", '"a(?=b)" is not a regular expression: invalid perl operator: (?='),
        (r"(a)\1", r'"(a)\1" is not a regular expression: invalid escape sequence: \1'),
        (
            "a" * (MAX_PATTERN_LEN + 1),
            "the pattern has 10001 characters, at most 10000 are allowed",
        ),
    ],
)
def test_refused(pattern: str, reason: str) -> None:
    with pytest.raises(ValueError, match=r"pattern|expression") as caught:
        compile_pattern(pattern)
    assert str(caught.value) == reason
