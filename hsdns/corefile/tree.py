"""What a Corefile consists of; every node knows where it stands.

Path: made by parser.py, read by assemble.py and every plugin's setup.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NamedTuple


class Position(NamedTuple):
    """A place in a file; line and column count from 1, columns in characters."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class CorefileError(Exception):
    """A sentence for the operator, with the place it is about: `Corefile:12:5: unknown property "ttll" ...`."""

    def __init__(self, position: Position, message: str) -> None:
        super().__init__(f"{position}: {message}")
        self.position = position
        self.message = message


class Token(NamedTuple):
    """A word after substitution of the environment; `quoted` if it began with a double quote."""

    text: str
    position: Position
    quoted: bool = False


class Line(NamedTuple):
    """One line of a directive's body: a property and its arguments."""

    name: Token
    args: tuple[Token, ...]


class Directive(NamedTuple):
    """A plugin's name, the rest of its line and its body (None where no `{` opened one)."""

    name: Token
    args: tuple[Token, ...]
    body: tuple[Line, ...] | None

    @property
    def lines(self) -> tuple[Line, ...]:
        """The body's lines, none where there is no body."""
        return self.body or ()


class ServerBlock(NamedTuple):
    """Keys and what stands between their braces, in file order."""

    keys: tuple[Token, ...]
    directives: tuple[Directive, ...]


@dataclass(frozen=True, slots=True)
class Corefile:
    """A whole configuration.  `digest` (SHA-512, hex) changes with its tokens, not with white space or comments."""

    path: str
    blocks: tuple[ServerBlock, ...]
    warnings: tuple[str, ...]
    digest: str


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of an error sentence: `; did you mean "ttl"?`, or nothing where no known word is near."""
    near = get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return f'; did you mean "{near[0]}"?' if near else ""
