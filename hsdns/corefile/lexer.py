r"""Lexer of the Corefile: text to words with their positions.

Path: text -> [lexer] -> stream -> parser.
Rule 1: white space ends a word; only a double quote at a word's start quotes, and `\"` is the only escape within it.
Rule 2: the lexer accepts any text; the parser reports an unclosed quote.
Rule 3: a `#` within a word starts a comment up to the next white space; at the start of a word, up to the line's end.
Source: caddyfile/lexer.go of the fork that CoreDNS 1.14.7 uses.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from hsdns.corefile.tree import Position

# White space is Go's unicode.IsSpace without the carriage return, which is removed and does not separate words.
_SPACE: Final = r"\t\n\v\f \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_GAP: Final = re.compile(rf"(?:[{_SPACE}\r]+|#[^\n]*)*")
_WORD: Final = re.compile(rf"([^{_SPACE}#]+)(?:#[^{_SPACE}]*)?")
_QUOTED: Final = re.compile(r'"([^"\\]*(?:\\[\s\S][^"\\]*)*)("?)')
_ESCAPE: Final = re.compile(r"\\([\s\S])")
_BYTE_ORDER_MARK: Final = "\ufeff"


class Lexeme(NamedTuple):
    """A word as written in the file, before environment variables are substituted.

    `starts_line`: it is the first word on its line.  `closed` is False for a quote that is never closed.
    """

    text: str
    position: Position
    quoted: bool
    starts_line: bool
    closed: bool = True


def tokenize(text: str, file: str) -> list[Lexeme]:
    """Split a file's text into words; a quoted word's position is that of its opening quote."""
    text = text.removeprefix(_BYTE_ORDER_MARK)
    lexemes: list[Lexeme] = []
    line, line_start = 1, 0  # at offset `counted`, up to which newlines have been counted
    counted, last_line = 0, 0  # last_line: the line on which the previous word ended
    at = _end_of_gap(text, 0)
    while at < len(text):
        newlines = text.count("\n", counted, at)
        if newlines:
            line += newlines
            line_start = text.rindex("\n", counted, at) + 1
        counted = at
        lexeme, end = _read_word(
            text, at, Position(file, line, at - line_start + 1), line > last_line
        )
        if lexeme is not None:
            lexemes.append(lexeme)
            last_line = line + text.count("\n", at, end)
        at = _end_of_gap(text, end)
    return lexemes


def _end_of_gap(text: str, at: int) -> int:
    gap = _GAP.match(text, at)
    return gap.end() if gap else at


def _read_word(
    text: str, at: int, position: Position, starts_line: bool
) -> tuple[Lexeme | None, int]:
    if text[at] != '"':
        word = _WORD.match(text, at)
        if word is None:
            raise AssertionError("a gap ends at a word or at the end of the text")
        return Lexeme(word[1].replace("\r", ""), position, False, starts_line), word.end()
    quoted = _QUOTED.match(text, at)
    if quoted is None:
        raise AssertionError("a quote always matches")
    closed = bool(quoted[2])
    value = _ESCAPE.sub(lambda escape: '"' if escape[1] == '"' else escape[0], quoted[1])
    # In an unclosed quote only a backslash at the end of the file is left over; it is dropped.
    end = quoted.end() if closed else len(text)
    if not closed and not value:
        return None, end
    return Lexeme(value, position, True, starts_line, closed), end
