"""What the parsers of expressions and of templates share: errors with their place, tokens, escape sequences, a cursor.

Path: expression/parser.py and gotemplate/parser.py read their texts with it.
Rule: nesting is limited by MAX_DEPTH, so that no text reaches Python's recursion limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import ClassVar, Final, NamedTuple

MAX_LEN: Final = 10_000  # characters; a text in a Corefile is a line
MAX_DEPTH: Final = 40
ESCAPE: Final = re.compile(
    r"""\\(?:([abfnrtv\\'"])|([0-7]{3})|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|u\{([0-9a-fA-F]{1,6})\}|(.?))""",
    re.DOTALL,
)
_CONTROL: Final = dict(zip("abfnrtv\\'\"", "\a\b\f\n\r\t\v\\'\"", strict=True))


class LanguageError(Exception):
    """An error message, and its offset in the text, counted from 0; -1 if unknown."""

    def __init__(self, message: str, at: int = -1) -> None:
        super().__init__(message)
        self.message = message
        self.at = at


class Lexeme(NamedTuple):
    """A token at offset `at`, with the value of a constant."""

    kind: str
    text: str
    at: int
    value: str | int | float | None = None


def why_no_token(text: str, at: int, where: str) -> str:
    """Return the message about an offset at which no token begins, in an expression or an action."""
    if text[at] in "'\"`":
        return "the string is not closed"
    return f'"{text[at]}" has no meaning in an {where}'


def unescape(found: re.Match[str]) -> str | None:
    """Return the character of an escape sequence; None if there is no such character."""
    control, octal, *hexadecimal, other = found.groups()
    if control:
        return _CONTROL[control]
    if other is not None:
        return None
    if octal:
        return chr(int(octal, 8)) if int(octal, 8) < 256 else None
    number = int(next(filter(None, hexadecimal)), 16)
    return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else None


def read_number(text: str, octal_base: int) -> int | float | None:
    """Read a number in Go's spelling, digits after a 0 in this base; None if it is none."""
    digits = text.replace("_", "")
    for read in (partial(int, base=0), partial(int, base=octal_base), float):
        with suppress(ValueError):
            return read(digits)
    return None


class Cursor:
    """The base of a parser: a place among tokens, of which the last one is of kind "end"."""

    error: ClassVar[type[LanguageError]]

    def __init__(self, lexemes: Sequence[Lexeme]) -> None:
        self._lexemes = lexemes
        self._next = 0
        self._depth = 0

    @property
    def _current(self) -> Lexeme:
        return self._lexemes[self._next]

    def _is(self, kind: str, *texts: str) -> bool:
        return self._current.kind == kind and (not texts or self._current.text in texts)

    def _advance(self) -> Lexeme:
        current = self._current
        self._next += current.kind != "end"
        return current

    def _accept(self, kind: str, *texts: str) -> bool:
        found = self._is(kind, *texts)
        if found:
            self._advance()
        return found

    def expect(self, kind: str, *texts: str) -> Lexeme:
        """Consume this token; raise an error if there is another one."""
        if not self._is(kind, *texts):
            wanted = " or ".join(f'"{text}"' for text in texts)
            raise self._unexpected(wanted or ("" if kind == "end" else f"a {kind}"))
        return self._advance()

    def _unexpected(self, wanted: str = "") -> LanguageError:
        current = self._current
        found = f'"{current.text}"' if current.kind != "end" else "the end"
        reason = f", expected {wanted}" if wanted else ", which is not valid here"
        return self.error(f"found {found}{reason}", current.at)

    @contextmanager
    def _nested(self) -> Iterator[None]:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self.error(f"nested more than {MAX_DEPTH} deep", self._current.at)
        yield
        self._depth -= 1
