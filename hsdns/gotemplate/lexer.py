"""Lexer of templates.

Path: the first step; parser.py gets all tokens at once.
Source: Go's text/template/parse/lex.go.
Rule 1: white space within an action is a token, because it distinguishes `.A .B` from `.A.B`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from hsdns.gotemplate.fault import TemplateError

MAX_LEN: Final = 10_000  # characters
Kind = Literal[
    "text", "open", "close", "space", "string", "number", "field", "variable", "name", "sign", "end"
]
KEYWORDS: Final = frozenset(
    "block break continue define else end if nil range template with".split()
)
_SPACES: Final = " \t\r\n"
_STRING: Final = re.compile(r'"((?:[^"\\\n]|\\[^\n])*)"')
_RAW: Final = re.compile(r"`([^`]*)`")
_CHAR: Final = re.compile(r"'((?:[^'\\\n]|\\[^\n])+)'")
_NUMBER: Final = re.compile(
    r"[+-]?(?:0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+|(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9_]+)?)"
)
_NAME: Final = re.compile(r"[^\W\d]\w*")
_FIELD: Final = re.compile(r"\.[^\W\d]\w*")
_VARIABLE: Final = re.compile(r"\$\w*")
_SIGN: Final = re.compile(r":=|[=|(),.]")
_COMMENT: Final = re.compile(r"\{\{(-[ \t\r\n])?/\*.*?\*/([ \t\r\n]-)?\}\}", re.DOTALL)
_ESCAPE: Final = re.compile(
    r"""\\(?:([abfnrtv\\'"])|([0-7]{3})|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))""",
    re.DOTALL,
)
_CONTROL: Final = dict(zip("abfnrtv\\'\"", "\a\b\f\n\r\t\v\\'\"", strict=True))


class Lexeme(NamedTuple):
    """A token; `value` of a string or character is its value, `text` its source."""

    kind: Kind
    text: str
    at: int
    value: str | int | float | None = None


def tokenize(text: str) -> list[Lexeme]:
    """Split a template into tokens, the last one of kind "end"; raise TemplateError."""
    if len(text) > MAX_LEN:
        raise TemplateError(f"the template has more than {MAX_LEN} characters", MAX_LEN)
    return list(_lex(text))


def _lex(text: str) -> Iterator[Lexeme]:
    at, trim = 0, False
    while True:
        start = text.find("{{", at)
        piece = text[at : start if start >= 0 else len(text)]
        comment = _COMMENT.match(text, start) if start >= 0 else None
        trims_before = (
            start >= 0
            and text[start + 2 : start + 3] == "-"
            and (text[start + 3 : start + 4] in tuple(_SPACES))
        )
        if trim:
            piece = piece.lstrip(_SPACES)
        if trims_before:
            piece = piece.rstrip(_SPACES)
        if piece:
            yield Lexeme("text", piece, at)
        if start < 0:
            yield Lexeme("end", "", len(text))
            return
        if comment is not None:
            at, trim = comment.end(), bool(comment[2])
            continue
        inside = start + (4 if trims_before else 2)
        if text.startswith("/*", inside):
            raise TemplateError("the comment is not closed, or is not alone in its action", start)
        yield Lexeme("open", "{{", start)
        at = inside
        while (end := _end(text, at)) is None:
            if at >= len(text):
                raise TemplateError("the action is not closed", start)
            lexeme, at = _one(text, at)
            yield lexeme
        yield Lexeme("close", "}}", at)
        at, trim = end


def _end(text: str, at: int) -> tuple[int, bool] | None:
    """Return the end of an action's closing delimiter here, and whether it trims the text after it."""
    if text.startswith("}}", at):
        return at + 2, False
    if text[at : at + 1] in tuple(_SPACES) and text.startswith("-}}", at + 1):
        return at + 4, True
    return None


def _one(text: str, at: int) -> tuple[Lexeme, int]:
    char = text[at]
    if char in _SPACES:
        end = at
        # The last space may belong to a trim marker.
        while text[end : end + 1] in tuple(_SPACES) and not (end > at and _end(text, end)):
            end += 1
        return Lexeme("space", text[at:end], at), end
    if char == '"':
        return _quoted(text, at, _STRING)
    if char == "`":
        raw = _RAW.match(text, at)
        if raw is None:
            raise TemplateError("the string is not closed", at)
        return Lexeme("string", raw[0], at, raw[1]), raw.end()
    if char == "'":
        lexeme, end = _quoted(text, at, _CHAR)
        assert isinstance(lexeme.value, str), "a string"
        if len(lexeme.value) != 1:
            raise TemplateError(f"{lexeme.text} is not one character", at)
        return Lexeme("number", lexeme.text, at, ord(lexeme.value)), end
    number = _NUMBER.match(text, at)
    if number is not None:
        return _number(number, text, at)
    for kind, pattern in (("field", _FIELD), ("variable", _VARIABLE), ("name", _NAME)):
        found = pattern.match(text, at)
        if found is not None:
            _check_end(text, found.end())
            return Lexeme(kind, found[0], at), found.end()  # type: ignore[arg-type]  # three of Kind's words
    sign = _SIGN.match(text, at)
    if sign is None:
        raise TemplateError(f'"{char}" has no meaning in an action', at)
    return Lexeme("sign", sign[0], at), sign.end()


def _check_end(text: str, at: int) -> None:
    """Check the character after a word; raise TemplateError."""
    char = text[at : at + 1]
    if char and char not in " \t\r\n.,|:=)(" and not text.startswith("}}", at):
        raise TemplateError(f'"{char}" cannot follow a word', at)


def _number(found: re.Match[str], text: str, at: int) -> tuple[Lexeme, int]:
    end = found.end()
    if _NAME.match(text, end):
        raise TemplateError(f'"{text[at : end + 1]}" is not a number', at)
    digits = found[0].replace("_", "")
    try:
        value: int | float = int(digits, 0)
    except ValueError:
        try:
            value = int(digits, 8) if re.fullmatch(r"[+-]?0[0-7]+", digits) else float(digits)
        except ValueError:
            raise TemplateError(f'"{found[0]}" is not a number', at) from None
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise TemplateError(f'"{found[0]}" is too large', at)
    return Lexeme("number", found[0], at, value), end


def _quoted(text: str, at: int, pattern: re.Pattern[str]) -> tuple[Lexeme, int]:
    found = pattern.match(text, at)
    if found is None:
        raise TemplateError("the string is not closed", at)
    return Lexeme(
        "string", found[0], at, _ESCAPE.sub(lambda each: _character(each, at), found[1])
    ), found.end()


def _character(escape: re.Match[str], at: int) -> str:
    control, octal, hexadecimal, short, long, other = escape.groups()
    if control:
        return _CONTROL[control]
    number = int(octal, 8) if octal else int(hexadecimal or short or long or "110000", 16)
    if other or number >= 0x110000 or 0xD800 <= number < 0xE000 or (octal and number > 255):
        raise TemplateError(
            f'"{escape[0]}" is not an escape sequence; write a backslash as "\\\\"', at
        )
    return chr(number)
