"""Lexer of expressions.

Path: the first step; parser.py gets all tokens at once.
Source: expr-lang/expr 1.17 parser/lexer.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

from hsdns.expression.fault import ExpressionError

MAX_LEN: Final = 10_000  # characters; an expression in a Corefile is a line
Kind = Literal["name", "number", "string", "operator", "bracket", "end"]
WORDS: Final = frozenset("in or and not matches contains startsWith endsWith let if else".split())
_NUMBER: Final = re.compile(
    r"0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|(?:[0-9][0-9_]*(?:\.(?!\.)[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9_]+)?"
)
_NAME: Final = re.compile(r"[^\W\d]\w*|\$\w*")
_OPERATOR: Final = re.compile(r"\*\*|&&|\|\||==|!=|<=|>=|\.\.|\?\.|\?\?|::|[-+*/%^<>=!|?:.,;#&]")
_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ESCAPE: Final = re.compile(
    r"""\\(?:([abfnrtv\\'"])|([0-7]{3})|x([0-9a-fA-F]{2})|u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8}))"""
)
_CONTROL: Final = dict(zip("abfnrtv\\'\"", "\a\b\f\n\r\t\v\\'\"", strict=True))


class Lexeme(NamedTuple):
    """A token at offset `at`; the `text` of a string is its value."""

    kind: Kind
    text: str
    at: int


def tokenize(text: str) -> list[Lexeme]:
    """Split an expression into tokens, the last one of kind "end"; raise ExpressionError."""
    if len(text) > MAX_LEN:
        raise ExpressionError(f"the expression has more than {MAX_LEN} characters", MAX_LEN)
    found: list[Lexeme] = []
    at, size = 0, len(text)
    while at < size:
        char = text[at]
        if char.isspace():
            at += 1
            continue
        comment = _COMMENT.match(text, at)
        if comment is not None:
            at = comment.end()
            continue
        lexeme, at = _one(text, at)
        found.append(lexeme)
    found.append(Lexeme("end", "", size))
    return found


def _one(text: str, at: int) -> tuple[Lexeme, int]:
    char = text[at]
    if char in "'\"":
        return _string(text, at)
    if char == "`":
        return _raw_string(text, at)
    if char in "bB" and text[at + 1 : at + 2] in ("'", '"'):
        raise ExpressionError("byte literals are not supported; write a string", at)
    if char in "()[]{}":
        return Lexeme("bracket", char, at), at + 1
    number = _NUMBER.match(text, at) if char.isdigit() or char == "." else None
    if number is not None:
        end = number.end()
        if _NAME.match(text, end) or text[end : end + 1].isdigit():
            raise ExpressionError(f'"{text[at : end + 1]}" is not a number', at)
        return Lexeme("number", number[0], at), end
    name = _NAME.match(text, at)
    if name is not None:
        kind: Kind = "operator" if name[0] in WORDS else "name"
        return Lexeme(kind, name[0], at), name.end()
    operator = _OPERATOR.match(text, at)
    if operator is None:
        raise ExpressionError(f'"{char}" has no meaning in an expression', at)
    if operator[0] == "/" and text.startswith("/*", at):
        raise ExpressionError("the comment is not closed", at)
    return Lexeme("operator", operator[0], at), operator.end()


def _string(text: str, at: int) -> tuple[Lexeme, int]:
    parts: list[str] = []
    quote, here = text[at], at + 1
    while True:
        char = text[here : here + 1]
        if char == quote:
            return Lexeme("string", "".join(parts), at), here + 1
        if char in ("", "\n"):
            raise ExpressionError("the string is not closed", at)
        if char != "\\":
            parts.append(char)
            here += 1
            continue
        escape = _ESCAPE.match(text, here)
        made = _unescape(escape) if escape is not None else None
        if escape is None or made is None or (escape[1] in ("'", '"') and escape[1] != quote):
            raise ExpressionError(
                f'"{text[here : here + 2]}" is not an escape sequence; write a backslash as "\\\\"',
                here,
            )
        parts.append(made)
        here = escape.end()


def _unescape(escape: re.Match[str]) -> str | None:
    """Return the character of an escape sequence; None if there is no such character."""
    if escape[1]:
        return _CONTROL[escape[1]]
    if escape[2]:
        number = int(escape[2], 8)
        return chr(number) if number < 256 else None
    number = int(escape[3] or escape[4] or escape[5] or escape[6], 16)
    return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else None


def _raw_string(text: str, at: int) -> tuple[Lexeme, int]:
    """Read a string in backticks, in which a double backtick is a backtick."""
    found = re.compile(r"`((?:[^`]|``)*)`(?!`)").match(text, at)
    if found is None:
        raise ExpressionError("the string is not closed", at)
    return Lexeme("string", found[1].replace("``", "`"), at), found.end()
