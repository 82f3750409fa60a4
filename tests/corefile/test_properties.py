"""Readers of properties, and patterns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hsdns.corefile.parser import parse
from hsdns.corefile.properties import (
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
from tests.support.tables import Row, columns, rows

HERE = Path(__file__).parent


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
    "head": Property(one(integer(0)), reads=1),
}


DEFAULTS: dict[str, Any] = {
    "ttl": 5,
    "once": None,
    "zone": [],
    "on": False,
    "wait": None,
    "head": None,
}


@pytest.mark.parametrize("row", rows(HERE / "properties.txt"))
def test_read_properties(row: Row) -> None:
    """The values that are not the defaults, or an error."""
    try:
        values = read_properties(directives(row.given), TABLE, not_yet=("later",))
        found = repr({name: each for name, each in values.items() if each != DEFAULTS[name]})
        assert values.keys() == DEFAULTS.keys()
    except CorefileError as error:
        found = f"! {error}".replace("Corefile:", "")
    assert [found] == row.expected


@pytest.mark.parametrize(("given", "expected"), columns(HERE / "readers.txt", "readers"))
def test_readers(given: str, expected: str) -> None:
    name, *args = given.partition(" | ")[0].split()
    word = given.partition(" | ")[2]
    make: dict[str, Callable[..., Any]] = {
        "integer": integer, "number": number, "duration": duration, "choice": choice, "text": lambda: text,
    }  # fmt: skip
    read = make[name](*(args if name == "choice" else map(int, args)))
    (directive,) = directives(f'plug "{word}"')
    try:
        found = read(directive.args[0])
    except CorefileError as error:
        found = error.message
    assert repr(found) == expected


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


@pytest.mark.parametrize(("pattern", "reason"), columns(HERE / "readers.txt", "patterns"))
def test_refused(pattern: str, reason: str) -> None:
    with pytest.raises(ValueError, match=r"pattern|expression") as caught:
        compile_pattern(pattern)
    assert str(caught.value) == reason
