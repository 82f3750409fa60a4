from __future__ import annotations

import pytest
from hypothesis import given, strategies

from hsdns.corefile.properties import MAX_PATTERN_LEN, compile_pattern, read_pattern
from hsdns.corefile.tree import CorefileError, Position, Token


@pytest.mark.parametrize(
    ("pattern", "text", "groups"),
    [
        (r"^(a|b)[.]example[.]$", "a.example.", ("a",)),
        (r"(?P<label>[a-z]+)(-[0-9]+)?", "web", ("web", None)),
        (r"(?i)WEB", "a web", ()),
        (r"^\d+$", "x", None),
        ("", "anything", ()),
    ],
)
def test_search(pattern: str, text: str, groups: tuple[str | None, ...] | None) -> None:
    found = compile_pattern(pattern).search(text)
    assert (found.groups() if found is not None else None) == groups


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


def test_a_word_is_refused_with_its_position() -> None:
    with pytest.raises(CorefileError) as caught:
        read_pattern(Token("[", Position("Corefile", 3, 7)))
    assert str(caught.value) == ('Corefile:3:7: "[" is not a regular expression: missing ]: [')


@given(strategies.text(max_size=30), strategies.text(max_size=30))
def test_any_text_compiles_or_is_refused(pattern: str, text: str) -> None:
    try:
        compiled = compile_pattern(pattern)
    except ValueError:
        return
    found = compiled.search(text)
    assert found is None or (found.group(0) or "") in text
