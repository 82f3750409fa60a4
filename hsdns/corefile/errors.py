"""Errors of a Corefile: the first one is raised or, to check a file, all are collected.

Path: parser.py and assemble.py wrap what may fail and can be skipped; cli/validate.py collects.
Rule: what is only a consequence of another error is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType

from hsdns.corefile.tree import CorefileError, Directive, Line, Position


class Errors:
    """Raises each error or, with `collecting`, notes it; `with errors:` takes that of its body and goes on after it."""

    def __init__(self, *, collecting: bool = False) -> None:
        self.collecting = collecting
        self._found: dict[str, CorefileError] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> bool:
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
