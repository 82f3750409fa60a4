"""Stream of a Corefile's words with one word of lookahead; imports are replaced by the words they stand for.

Path: lexer -> [stream] -> parser.
Rule 1: an import is replaced word by word; the parser decides which word `import` is one.
Rule 2: the first word of an import and the first word after it count as the start of a line.
Rule 3: imports are unconditional, so a recursive import never ends and is an error.
Source: doImport in caddyfile/parse.go of the fork that CoreDNS 1.14.7 uses.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from hsdns.corefile.environment import substitute
from hsdns.corefile.lexer import Lexeme, tokenize
from hsdns.corefile.tree import Position, Token, did_you_mean

MAX_SNIPPET_IMPORTS: Final = 10_000  # both as in caddyfile/parse.go
MAX_FILE_IMPORTS: Final = 100_000
# Nested imports multiply: within the two limits above, a small file could still expand to gigabytes.
MAX_WORDS: Final = 1_000_000

OpenFile = Callable[[str], str]
ListFiles = Callable[[str], Sequence[str]]


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
        path: str,
        text: str,
        environ: Mapping[str, str],
        open_file: OpenFile,
        list_files: ListFiles,
        warn: Callable[[Position, str], None],
    ) -> None:
        lexemes = tokenize(text, path)
        self.last: Lexeme | None = None
        self.unclosed_quote: Lexeme | None = None
        self.environ = environ
        self._frame: _Frame = _Frame(path, os.path.normpath(path), lexemes, None)
        self._suspended: list[_Frame] = []
        self._snippets: dict[str, list[Lexeme]] = {}
        self._files: dict[str, list[Lexeme]] = {}
        self._root = lexemes
        self._open_file, self._list_files, self._warn = open_file, list_files, warn
        self._words, self._snippet_imports, self._file_imports = len(lexemes), 0, 0
        self._check_words(Position(path, 1, 1))
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
        pattern = os.path.join(os.path.dirname(target.position.file), target.text)
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
            found = self._list_files(pattern)
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
            text = self._open_file(path)
        except FileNotFoundError:
            raise target.error(self._not_found(target.text, path)) from None
        except IsADirectoryError:
            folder = path.rstrip("/")
            raise target.error(
                f'cannot import "{folder}": it is a folder; import its files, such as "{folder}/*.conf"'
            ) from None
        except (OSError, ValueError) as error:
            raise target.error(f'cannot import "{path}": {_reason(error)}') from error
        lexemes = tokenize(text, path)
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
