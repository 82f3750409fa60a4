"""Syntax tree of a Corefile; every token has its position.

Path: made by parser.py, read by assemble.py and every plugin's setup.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from hsdns.errors import OperatorError

T = TypeVar("T")


class Position(NamedTuple):
    """A place in a file; line and column count from 1, columns in characters.

    Line 0 is for words that are in no file: `file` is then the flag of the command line that has them.
    """

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file

    def error(self, message: str) -> CorefileError:
        """Make the error about what is written here, for `raise`."""
        return CorefileError(self, message)


class CorefileError(OperatorError):
    """An error in the Corefile, with its position: `Corefile:12:5: unknown property "ttll" ...`."""

    def __init__(self, position: Position, message: str) -> None:
        super().__init__(f"{position}: {message}")
        self.position = position
        self.message = message


class NotInHsdns(CorefileError):
    """An error about what CoreDNS has, and hsdns has not."""


class Token(NamedTuple):
    """A word after substitution of environment variables; `quoted` if it began with a double quote.

    `lacking` tells which of its variables had no value: `the environment variable PORT is not set`.
    """

    text: str
    position: Position
    quoted: bool = False
    lacking: str = ""

    def error(self, message: str) -> CorefileError:
        """Make the error about this word, for `raise`."""
        return self.position.error(message + _lacking((self,)))

    def parse(self, read: Callable[[str], T]) -> T:
        """Parse the word; raise CorefileError with the message where `read` raises ValueError."""
        try:
            return read(self.text)
        except ValueError as error:
            raise self.error(str(error)) from None

    def one_of(self, known: Collection[str], *, ignore_case: bool = False) -> str:
        """Return the word, in lower case with `ignore_case`; raise CorefileError where it is not among the known."""
        word = self.text.lower() if ignore_case else self.text
        if word not in known:
            words = ", ".join(known)
            raise self.error(f'"{self.text}" is not one of: {words}{did_you_mean(word, known)}')
        return word


class Line(NamedTuple):
    """One line of a directive's body: a property and its arguments."""

    name: Token
    args: tuple[Token, ...]

    @property
    def brace(self) -> Token | None:
        """The `}` of the body, where it is the last word of this line."""
        return self.args[-1] if self.args and self.args[-1].text == "}" else None

    @property
    def without_brace(self) -> Line:
        """The line as if the body ended on the next one."""
        return self if self.brace is None else Line(self.name, self.args[:-1])

    def error(self, message: str) -> CorefileError:
        """Make the error about this property, for `raise`."""
        return self.name.position.error(message + _lacking((self.name, *self.args)))


class Directive(NamedTuple):
    """A plugin's name, its arguments and its body (None without braces); `is_one_line`: it is empty, in one line."""

    name: Token
    args: tuple[Token, ...]
    body: tuple[Line, ...] | None
    is_one_line: bool = False

    @property
    def lines(self) -> tuple[Line, ...]:
        """The lines of the body, empty without one."""
        return self.body or ()

    def error(self, message: str) -> CorefileError:
        """Make the error about the directive as a whole, for `raise`."""
        return self.name.position.error(message + _lacking((self.name, *self.args)))


class ServerBlock(NamedTuple):
    """The keys and directives of a server block, in file order."""

    keys: tuple[Token, ...]
    directives: tuple[Directive, ...]


@dataclass(frozen=True, slots=True)
class Corefile:
    """A parsed configuration.  `digest` (SHA-512, hex) depends on its tokens, not on white space or comments."""

    path: str
    blocks: tuple[ServerBlock, ...]
    warnings: tuple[str, ...]
    digest: str


def _lacking(words: Iterable[Token]) -> str:
    """Return which environment variables these words lack, in brackets, for the end of a message."""
    found = dict.fromkeys(word.lacking for word in words if word.lacking)
    return f" ({', '.join(found)})" if found else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint for an error message, such as `; did you mean "ttl"?`, empty if no known word is similar."""
    from difflib import get_close_matches  # noqa: PLC0415 - takes 2 ms, for what is misspelt

    found = get_close_matches(word, sorted(known), n=3, cutoff=0.6)
    near = [each for each in found if len(word) > 4 or _is_near(word, each)]
    return f'; did you mean "{near[0]}"?' if near else ""


def _is_near(word: str, other: str) -> bool:
    """Whether short words differ in a letter, in the order of letters or at the end: half of them any word may have."""
    if len(word) == len(other) > 2:
        return sorted(word) == sorted(other) or sum(map(str.__ne__, word, other)) == 1
    return abs(len(word) - len(other)) == 1 or (len(word) > 2 and other.startswith(word))


# Errors of a Corefile: the first one is raised or, to check a file, all are collected.
#
# Rule: what is only a consequence of another error is left out.


class Errors:
    """Raises each error or, with `collecting`, notes it; `with errors:` takes that of its body and goes on after it."""

    def __init__(self, *, collecting: bool = False) -> None:
        self.collecting = collecting
        self._found: dict[str, CorefileError] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, at: object) -> bool:
        if not self.collecting or not isinstance(error, CorefileError):
            return False
        self.add(error)
        return True

    def add(self, error: CorefileError) -> None:
        """Raise an error, or note it; a snippet that is imported twice has its errors once."""
        if not self.collecting:
            raise error
        self._found.setdefault(str(error), error)

    def in_order(self) -> list[CorefileError]:
        """Return those noted, by place; the files in the order in which the first error of each was found."""
        files = {error.position.file: None for error in self._found.values()}
        order = {file: number for number, file in enumerate(files)}
        return sorted(
            self._found.values(), key=lambda error: (order[error.position.file], error.position)
        )


def each_error(
    set_up: Callable[[Sequence[Directive]], object], directives: Sequence[Directive]
) -> Iterator[CorefileError]:
    """Yield all errors of a plugin's directives: after each one, set up what is left without the line that has it.

    An error about a directive as a whole, or about a line that depends on one that was left out, may be a consequence
    of that, so it is not told.
    """
    left = list(directives)
    without: dict[Position, list[str]] = {}  # properties left out, by the place of their directive
    while left:
        try:
            set_up(left)
        except CorefileError as found:
            error = found
        else:
            return
        at = error.position
        number = next((at_ for at_, each in enumerate(left) if _is_in(at, each)), None)
        if number is None:
            yield error
            return
        directive = left[number]
        missing = without.setdefault(directive.name.position, [])
        wrong = [line for line in directive.lines if _is_in_line(at, line)]
        if not wrong:
            if not missing or at != directive.name.position:
                yield error
            del left[number]
            continue
        if not any(
            word != wrong[0].name.text and re.search(rf"\b{re.escape(word)}\b", error.message)
            for word in missing
        ):
            yield error
        missing.append(wrong[0].name.text)
        left[number] = directive._replace(
            body=tuple(line for line in directive.lines if line not in wrong)
        )


def _is_in(at: Position, directive: Directive) -> bool:
    words = (directive.name, *directive.args)
    return any(word.position == at for word in words) or any(
        _is_in_line(at, line) for line in directive.lines
    )


def _is_in_line(at: Position, line: Line) -> bool:
    return any(word.position == at for word in (line.name, *line.args))
