"""The tree, its errors, and how they are collected."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.assemble import assemble
from hsdns.corefile.parser import parse
from hsdns.corefile.tree import CorefileError, Errors, Position, Token, each_error
from hsdns.plugins import NOT_YET, ORDER
from tests.support.disk import Disk
from tests.support.tables import Row, rows

PLACE = Position("conf/Corefile", 12, 5)


def test_parse() -> None:
    assert Token("12", PLACE).parse(int) == 12
    with pytest.raises(CorefileError, match=r"^conf/Corefile:12:5: invalid literal"):
        Token("x", PLACE).parse(int)


def errors_of(text: str, **files: str) -> list[str]:
    """All errors of a Corefile in order, each `LINE:COLUMN message` or, in an imported file, with its name."""
    errors = Errors(collecting=True)
    corefile = parse(
        "Corefile",
        text=text,
        environ={},
        known_directives=ORDER,
        not_yet=NOT_YET,
        files=Disk(files),
        errors=errors,
    )
    assemble(
        corefile,
        interfaces=lambda: {"lo": ["127.0.0.1"]},
        validating=True,
        warn=lambda sentence: None,
        errors=errors,
    )
    return [str(error).removeprefix("Corefile:") for error in errors.in_order()]


@pytest.mark.parametrize("row", rows(Path(__file__).with_name("all_errors.txt")))
def test_all_errors(row: Row) -> None:
    assert errors_of(row.given) == row.expected


STOCK = sorted((Path(__file__).parents[1] / "stock").glob("*/Corefile"))


@given(data=st.data())
def test_the_error_that_ends_a_start_is_among_them(data: st.DataObject) -> None:
    """Whatever is done to a Corefile: all are found without an exception, and none where it would start."""
    words = re.findall(r"\n|[^\s]+", data.draw(st.sampled_from(STOCK)).read_text())
    others = [*words, "{", "}", "import", "x", "-1", "{$UNSET}", '"', "(s)", "cach", "tls", "a,"]
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(words)))
        new = data.draw(st.lists(st.sampled_from(others), max_size=2))
        words[at : at + data.draw(st.integers(0, 2))] = new
    text = " ".join(words)
    found = errors_of(text)
    try:
        corefile = parse(
            "Corefile",
            text=text,
            environ={},
            known_directives=ORDER,
            not_yet=NOT_YET,
            files=Disk({}),
        )
        assemble(
            corefile,
            interfaces=lambda: {"lo": ["127.0.0.1"]},
            validating=True,
            warn=lambda sentence: None,
        )
    except CorefileError as error:
        assert str(error).removeprefix("Corefile:") in found
    else:
        assert found == []


def test_the_first_one_is_raised_unless_they_are_collected() -> None:
    error = CorefileError(Position("Corefile", 1, 1), "no")
    with pytest.raises(CorefileError), Errors():
        raise error
    with pytest.raises(CorefileError):
        Errors().add(error)
    errors = Errors(collecting=True)
    assert not errors
    for _ in range(2):
        with errors:
            raise error
    assert errors.in_order() == [error]
    with pytest.raises(ValueError, match="other"), errors:
        raise ValueError("other")


def test_an_error_of_no_word_ends_the_search() -> None:
    def set_up(directives: object) -> None:
        raise CorefileError(Position("elsewhere", 1, 1), "no")

    corefile = parse("Corefile", text=". {\nlog\nlog\n}", environ={}, known_directives=ORDER)
    found = each_error(set_up, corefile.blocks[0].directives)
    assert [str(error) for error in found] == ["elsewhere:1:1: no"]
