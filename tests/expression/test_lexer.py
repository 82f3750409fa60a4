from __future__ import annotations

import pytest

from hsdns.expression.parser import MAX_LEN, tokenize
from hsdns.expression.tree import ExpressionError


def words(text: str) -> str:
    """The tokens of an expression, each as its kind's first letter and its text."""
    return " ".join(f"{lexeme.kind[0]}:{lexeme.text}" for lexeme in tokenize(text)[:-1])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("name() == 'a'", "n:name b:( b:) o:== s:a"),
        ("a not in [1,2]", "n:a o:not o:in b:[ n:1 o:, n:2 b:]"),
        ("1..3", "n:1 o:.. n:3"),
        ("1.5.a", "n:1.5 o:. n:a"),
        (".5", "n:.5"),
        ("0x1F 0b1 0o7 1_0 1e-3", "n:0x1F n:0b1 n:0o7 n:1_0 n:1e-3"),
        ("a?.b ?? c ? d : e", "n:a o:?. n:b o:?? n:c o:? n:d o:: n:e"),
        ("#acc", "o:# n:acc"),
        ("$env", "n:$env"),
        ("größe", "n:größe"),
        ("a // b", "n:a"),
        ("a /* b\n */ c", "n:a n:c"),
        (r"'\x41\u0042\u{43}\101\n\\'", "s:ABCA\n\\"),
        (r'"it\"s"', 's:it"s'),
        ("`a\\n``b`", "s:a\\n`b"),
        ("**&&||!=<=>=", "o:** o:&& o:|| o:!= o:<= o:>="),
    ],
)
def test_tokens(text: str, expected: str) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(
    ("text", "at", "reason"),
    [
        ("'abc", 0, "the string is not closed"),
        ("a 'b\n'", 2, "the string is not closed"),
        ("`abc", 0, "the string is not closed"),
        (r"'\d'", 1, r'"\d" is not an escape sequence; write a backslash as "\\"'),
        (r"'\uD800'", 1, r'"\u" is not an escape sequence; write a backslash as "\\"'),
        ("""'\\"'""", 1, '"\\"" is not an escape sequence; write a backslash as "\\\\"'),
        ("1a", 0, '"1a" is not a number'),
        ("a @ b", 2, '"@" has no meaning in an expression'),
        ("a /* b", 2, "the comment is not closed"),
        ("b'x'", 0, "byte literals are not supported; write a string"),
        ("1" * (MAX_LEN + 1), MAX_LEN, "the expression has more than 10000 characters"),
    ],
)
def test_refused(text: str, at: int, reason: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        tokenize(text)
    assert (caught.value.at, caught.value.message) == (at, reason)


def test_every_token_has_its_position() -> None:
    assert [lexeme.at for lexeme in tokenize("a  == 'b'")] == [0, 3, 6, 9]
