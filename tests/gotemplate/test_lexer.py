from __future__ import annotations

import pytest

from hsdns.gotemplate.parser import MAX_LEN, tokenize
from hsdns.gotemplate.tree import TemplateError


def words(text: str) -> str:
    """The tokens of a template, each as the first two letters of its kind and its text."""
    return "|".join(f"{lexeme.kind[:2]}:{lexeme.text}" for lexeme in tokenize(text)[:-1])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("a{{.B}}c", "te:a|op:{{|fi:.B|cl:}}|te:c"),
        ("{{ .A .B }}", "op:{{|sp: |fi:.A|sp: |fi:.B|sp: |cl:}}"),
        ("{{.A.B}}", "op:{{|fi:.A|fi:.B|cl:}}"),
        ("a {{- 1 -}} b", "te:a|op:{{|nu:1|cl:}}|te:b"),
        ("a {{-1}} b", "te:a |op:{{|nu:-1|cl:}}|te: b"),
        ("a{{/* x }} */}}b{{- /* y */ -}} c", "te:a|te:b|te:c"),
        ("{{$a:=(f 1)|g}}", "op:{{|va:$a|si::=|si:(|na:f|sp: |nu:1|si:)|si:||na:g|cl:}}"),
        ('{{"a}}b"}}', 'op:{{|st:"a}}b"|cl:}}'),
        ("{{`a}}\nb`}}", "op:{{|st:`a}}\nb`|cl:}}"),
        ("{{ . }}", "op:{{|sp: |si:.|sp: |cl:}}"),
    ],
)
def test_tokens(text: str, expected: str) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"a\n\x41\u00e9\101\\"', "a\nA\u00e9A\\"),
        (r"`\n`", r"\n"),
        ("'a'", 97),
        (r"'\n'", 10),
        ("0x1F", 31),
        ("0b101", 5),
        ("0o17", 15),
        ("017", 15),
        ("1_000", 1000),
        ("-5", -5),
        ("1.5e3", 1500.0),
        (".5", 0.5),
    ],
)
def test_values(text: str, value: object) -> None:
    assert tokenize(f"{{{{{text}}}}}")[1].value == value


@pytest.mark.parametrize(
    ("text", "at", "reason"),
    [
        ("a{{", 1, "the action is not closed"),
        ("a{{ .B", 1, "the action is not closed"),
        ('{{ "a }}', 3, "the string is not closed"),
        ("{{ `a }}", 3, "the string is not closed"),
        ("{{ 'ab' }}", 3, "'ab' is not one character"),
        ("{{/* a }}", 0, "the comment is not closed, or is not alone in its action"),
        ("{{ 1a }}", 3, '"1a" is not a number'),
        ("{{ 99999999999999999999 }}", 3, '"99999999999999999999" is too large'),
        ("{{ 1__e }}", 3, '"1__e" is not a number'),
        ("{{ .A? }}", 5, '"?" cannot follow a word'),
        ("{{ # }}", 3, '"#" has no meaning in an action'),
        (r'{{ "\d" }}', 3, r'"\d" is not an escape sequence; write a backslash as "\\"'),
        (r'{{ "\ud800" }}', 3, r'"\ud800" is not an escape sequence; write a backslash as "\\"'),
        ("x" * (MAX_LEN + 1), MAX_LEN, "the template has more than 10000 characters"),
    ],
)
def test_refused(text: str, at: int, reason: str) -> None:
    with pytest.raises(TemplateError) as caught:
        tokenize(text)
    assert (caught.value.at, caught.value.message) == (at, reason)
