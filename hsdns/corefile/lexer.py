r"""Lexer of the Corefile: text to words with their positions, and the stream of them with its imports.

Path: text -> tokenize() -> Stream, which substitutes environment variables -> parser.
Rule 1: white space ends a word; only a double quote at a word's start quotes, and `\"` is the only escape within it.
Rule 2: the lexer accepts any text; the parser reports an unclosed quote.
Rule 3: a `#` within a word starts a comment up to the next white space; at the start of a word, up to the line's end.
Source: caddyfile/lexer.go of the fork that CoreDNS 1.14.7 uses.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple, Protocol

from hsdns.corefile.tree import Position, Token, did_you_mean

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


class Source(NamedTuple):
    """A text, and where it stands in a file: from which line on, and how far to the right of the margin.

    If the file does not have it verbatim, as in a string of JSON, `words` has the line and column of each word in the
    file by those in the text, so far as they are known; others are where the text begins.  `owner` is the object that
    has it, if any.
    """

    text: str
    file: str
    line: int = 1
    indent: int = 0
    owner: str = ""
    words: Mapping[tuple[int, int], tuple[int, int]] | None = None

    def at(self, line: int, column: int) -> Position:
        """The position in the file of a place in the text."""
        if self.words is not None:
            place = self.words.get((line, column), (self.line, self.indent + 1))
            return Position(self.file, *place)
        return Position(self.file, line + self.line - 1, column + self.indent)

    def has(self, position: Position) -> bool:
        """Whether a position in the file is in this text."""
        if self.words is None:
            last = self.line + self.text.count("\n")
            return position.file == self.file and self.line <= position.line <= last
        first = self.line, self.indent + 1
        last_word = max(self.words.values(), default=first)
        return position.file == self.file and first <= position[1:] <= last_word


def tokenize(source: Source) -> list[Lexeme]:
    """Split a text into words; a quoted word's position is that of its opening quote."""
    text = source.text.removeprefix(_BYTE_ORDER_MARK)
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
        lexeme, end = _read_word(text, at, source.at(line, at - line_start + 1), line > last_line)
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


# Substitution of environment variables in the words of a Corefile: `{$NAME}` and `{%NAME%}`.
#
# Rule 1: a value never splits its word and never starts a comment or a block.
# Rule 2: an unset variable is empty; references within a value are substituted too.
# Source: replaceEnvVars in caddyfile/parse.go of the fork that CoreDNS 1.14.7 uses.


# CoreDNS loops forever if a value refers to itself; these limits are far above any real use.
_MAX_ROUNDS: Final = 1000
_MAX_LENGTH: Final = 1 << 20


def substitute(lexeme: Lexeme, environ: Mapping[str, str]) -> Token:
    """Substitute a word's variables; raise CorefileError if a value refers to itself."""
    text = lexeme.text
    if "{" not in text:
        return Token(text, lexeme.position, lexeme.quoted)
    lacking: dict[str, str] = {}
    text = _substitute(lexeme, text, "{%", "%}", environ, lacking)
    text = _substitute(lexeme, text, "{$", "}", environ, lacking)
    return Token(text, lexeme.position, lexeme.quoted, ", ".join(lacking.values()))


def _substitute(
    lexeme: Lexeme,
    text: str,
    start: str,
    end: str,
    environ: Mapping[str, str],
    lacking: dict[str, str],
) -> str:
    """Substitute the variables between `start` and `end`; note in `lacking` those that have no value."""
    for _ in range(_MAX_ROUNDS):
        opening = text.find(start)
        closing = text.find(end, opening) if opening >= 0 else -1
        # As in CoreDNS, an empty name (`{$}`) also ends the search for later references.
        if closing <= opening + len(start):
            return text
        reference = text[opening : closing + len(end)]
        name = reference[len(start) : -len(end)]
        value = environ.get(name, "")
        if not value:
            what = "empty" if name in environ else "not set"
            lacking[name] = f"the environment variable {name} is {what}"
        if len(text) + text.count(reference) * (len(value) - len(reference)) > _MAX_LENGTH:
            break
        text = text.replace(reference, value)
    raise lexeme.position.error(
        f'cannot expand "{lexeme.text}": the value of an environment variable refers to itself'
    )


# Stream of a Corefile's words with one word of lookahead; imports are replaced by the words they stand for.
#
# Rule 1: an import is replaced word by word; the parser decides which word `import` is one.
# Rule 2: the first word of an import and the first word after it count as the start of a line.
# Rule 3: imports are unconditional, so a recursive import never ends and is an error.
# Source: doImport in caddyfile/parse.go of the fork that CoreDNS 1.14.7 uses.


MAX_SNIPPET_IMPORTS: Final = 10_000  # both as in caddyfile/parse.go
MAX_FILE_IMPORTS: Final = 100_000
# Nested imports multiply: within the two limits above, a small file could still expand to gigabytes.
MAX_WORDS: Final = 1_000_000


class Files(Protocol):
    """Where a Corefile and what it imports are read."""

    def open_file(self, path: str) -> str | Source:
        """Read a file; raise OSError or ValueError."""

    def list_files(self, pattern: str) -> Sequence[str]:
        """List the files that match a glob, in the order in which they are imported."""


@dataclass(slots=True)
class _Frame:
    """A file or snippet that is being read, and the frame that imported it."""

    name: str
    identity: str
    lexemes: Sequence[Lexeme]
    importer: _Frame | None
    at: int = 0


class Stream:
    """Reads the words of a Corefile and its imports; `last` is the last word that take() returned."""

    def __init__(
        self,
        source: Source,
        environ: Mapping[str, str],
        files: Files,
        warn: Callable[[Position, str], None],
    ) -> None:
        path = source.file
        lexemes = tokenize(source)
        self.last: Lexeme | None = None
        self.unclosed_quote: Lexeme | None = None
        self.environ = environ
        self._frame: _Frame = _Frame(path, os.path.normpath(path), lexemes, None)
        self._suspended: list[_Frame] = []
        self._snippets: dict[str, list[Lexeme]] = {}
        self._files: dict[str, list[Lexeme]] = {}
        self._root = lexemes
        self._disk, self._warn = files, warn
        self._words, self._snippet_imports, self._file_imports = len(lexemes), 0, 0
        self._check_words(source.at(1, 1))
        self._note_unclosed(lexemes)

    def peek(self) -> Lexeme | None:
        """Return the next word without consuming it, None at the end."""
        frame = self._frame
        while frame.at >= len(frame.lexemes):
            if not self._suspended:
                return None
            self._frame = frame = self._suspended.pop()
        lexeme = frame.lexemes[frame.at]
        if frame.at == 0 and not lexeme.starts_line:
            return lexeme._replace(starts_line=True)
        return lexeme

    def take(self) -> Lexeme:
        """Consume and return the next word; peek() must not have returned None."""
        lexeme = self.peek()
        if lexeme is None:
            raise AssertionError("take() after the end")
        self._frame.at += 1
        self.last = lexeme
        return lexeme

    def substitute(self, lexeme: Lexeme) -> Token:
        """Substitute the environment variables of a word; raise CorefileError."""
        return substitute(lexeme, self.environ)

    def define_snippet(self, name: str, key: Token, body: list[Lexeme]) -> None:
        """Store a snippet; raise CorefileError if its name is taken or its body imports itself."""
        if name in self._snippets:
            raise key.error(f'snippet "({name})" is defined twice; rename or remove this one')
        for word, target in pairwise(body):
            starts_line = word.starts_line or word is body[0]
            if word.text == "import" and starts_line and self.substitute(target).text == name:
                raise target.position.error(f'snippet "({name})" imports itself; remove this line')
        self._snippets[name] = body

    def expand_import(self) -> None:
        """Replace the `import` that peek() returns, and its argument, by the imported words; raise CorefileError."""
        before = self.last
        word = self.take()
        argument = self.peek()
        if argument is None or argument.starts_line:
            raise word.position.error(
                "import takes the name of a snippet, file or glob, found none"
            )
        importer = self._frame
        target = self.substitute(self.take())
        if not target.text:
            raise target.error(
                "import takes the name of a snippet, file or glob, found an empty one"
            )
        extra = self.peek()
        if extra is not None and not extra.starts_line:
            raise extra.position.error(
                f'import takes one argument, also found "{extra.text}"; write one import per line'
            )
        self.last = before  # the parser checks the last word before the end of the file
        if target.text in self._snippets:
            self._import_snippet(target, importer)
        else:
            self._import_files(target, importer)

    def _import_snippet(self, target: Token, importer: _Frame) -> None:
        self._snippet_imports += 1
        if self._snippet_imports > MAX_SNIPPET_IMPORTS:
            raise target.error(
                f"more than {MAX_SNIPPET_IMPORTS} imports of snippets; do they import each other?"
            )
        name = f"({target.text})"
        self._push(_Frame(name, name, self._snippets[target.text], importer), target)

    def _import_files(self, target: Token, importer: _Frame) -> None:
        self._file_imports += 1
        if self._file_imports > MAX_FILE_IMPORTS:
            raise target.error(
                f"more than {MAX_FILE_IMPORTS} imports of files; do they import each other?"
            )
        # The position of a word may be in a manifest; the name of an imported file is where it is for the server.
        here = importer.name if importer.name in self._files else target.position.file
        pattern = os.path.join(os.path.dirname(here), target.text)
        frames = [
            _Frame(path, os.path.normpath(path), self._read(path, target), importer)
            for path in self._match(pattern, target)
        ]
        for frame in reversed(frames):
            self._push(frame, target)

    def _match(self, pattern: str, target: Token) -> Sequence[str]:
        if pattern.count("*") > 1 or pattern.count("?") > 1 or "[" in pattern:
            raise target.error(
                f'import pattern "{pattern}" may have one "*" and one "?", and no brackets'
            )
        if "*" not in pattern and "?" not in pattern:
            return [pattern]
        try:
            found = self._disk.list_files(pattern)
        except (OSError, ValueError) as error:
            raise target.error(f'cannot list "{pattern}": {_reason(error)}') from error
        if not found:
            self._warn(
                target.position,
                f'no file matches import pattern "{target.text}" (looked for {pattern})',
            )
        return found

    def _read(self, path: str, target: Token) -> list[Lexeme]:
        if path in self._files:
            return self._files[path]
        try:
            text = self._disk.open_file(path)
        except FileNotFoundError:
            raise target.error(self._not_found(target.text, path)) from None
        except IsADirectoryError:
            folder = path.rstrip("/")
            raise target.error(
                f'cannot import "{folder}": it is a folder; import its files, such as "{folder}/*.conf"'
            ) from None
        except (OSError, ValueError) as error:
            raise target.error(f'cannot import "{path}": {_reason(error)}') from error
        lexemes = tokenize(text if isinstance(text, Source) else Source(text, path))
        self._files[path] = lexemes
        self._note_unclosed(lexemes)
        return lexemes

    def _not_found(self, name: str, path: str) -> str:
        for lexeme in self._root:
            if lexeme.text == f"({name})":
                return f'snippet "({name})" must be defined before it is imported; move it up from {lexeme.position}'
        hint = did_you_mean(name, self._snippets)
        return f'nothing to import: there is no snippet "({name})" and no file {path}{hint}'

    def _push(self, frame: _Frame, target: Token) -> None:
        outer = frame.importer
        while outer is not None:
            if outer.identity == frame.identity:
                raise target.error(
                    f"{frame.name} imports itself{_import_path(frame)}; remove one of the imports"
                )
            outer = outer.importer
        self._words += len(frame.lexemes)
        self._check_words(target.position)
        self._suspended.append(self._frame)
        self._frame = frame

    def _check_words(self, position: Position) -> None:
        if self._words > MAX_WORDS:
            raise position.error(f"the Corefile and its imports have more than {MAX_WORDS} words")

    def _note_unclosed(self, lexemes: Sequence[Lexeme]) -> None:
        if lexemes and not lexemes[-1].closed:
            self.unclosed_quote = lexemes[-1]
            self._warn(
                lexemes[-1].position,
                "this quote is never closed, so its word runs to the end of the file",
            )


def _import_path(frame: _Frame) -> str:
    names, outer = [], frame.importer
    while outer is not None and outer.identity != frame.identity:
        names.append(outer.name)
        outer = outer.importer
    return " through " + ", ".join(reversed(names)) if names else ""


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
