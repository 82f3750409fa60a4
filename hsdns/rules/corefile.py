"""A Corefile to check: a separate file, or a value of a ConfigMap.

Path: reading.py -> here -> corefile/parser.py -> checks/corefile_*.py.
Rule 1: no other file is read: imported files are unknown, and count as empty.
Rule 2: a plugin with a name unlike those of CoreDNS's plugins is assumed to be in a custom build.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from functools import cached_property
from typing import Final

from hsdns.corefile.errors import Errors
from hsdns.corefile.keys import parse_key
from hsdns.corefile.parser import parse
from hsdns.corefile.tree import CorefileError, Directive, Position, ServerBlock, Token
from hsdns.plugins import NOT_YET, ORDER
from hsdns.rules.finding import Edit, Remark
from hsdns.wire.name import ROOT, Name

DNS_PORT: Final = 53
_NAMES: Final = frozenset(ORDER) | NOT_YET
_MISSPELT: Final = 0.75  # difflib's ratio


class _Directives(frozenset[str]):
    """CoreDNS's plugins, and every word unlike all of them."""

    def __contains__(self, word: object) -> bool:
        return super().__contains__(word) or not get_close_matches(
            str(word), self, n=1, cutoff=_MISSPELT
        )


class CorefileText:
    """The text of a Corefile; its first line is `line` of the file, and its columns are shifted by `indent`.

    `owner` is the ConfigMap that contains it, if any.  With `is_moved`, all findings are at that line and column,
    because the file does not contain the text verbatim.
    """

    def __init__(
        self,
        file: str,
        text: str,
        *,
        line: int = 1,
        indent: int = 0,
        owner: str = "",
        is_moved: bool = False,
    ) -> None:
        self.file, self.owner = file, owner
        self._text, self._line, self._indent, self._is_moved = text, line, indent, is_moved
        self._errors = Errors(collecting=True)

    @cached_property
    def blocks(self) -> Sequence[ServerBlock]:
        """The server blocks that can be read."""
        try:
            return parse(
                self.file,
                text=self._text,
                environ={},
                known_directives=_Directives(_NAMES),
                open_file=lambda path: "",
                list_files=lambda pattern: (),
                errors=self._errors,
            ).blocks
        except CorefileError as error:
            self._errors.add(error)
            return ()

    @property
    def errors(self) -> list[CorefileError]:
        """Its errors, except those that a value known only where the server runs may correct."""
        assert self.blocks is not None, "they are read first"
        return self._errors.in_order()

    def at(self, position: Position) -> Position:
        """The position in the file of a position in the text."""
        if self._is_moved:
            return Position(self.file, self._line, self._indent + 1)
        return Position(self.file, position.line + self._line - 1, position.column + self._indent)

    def remark(
        self,
        position: Position,
        field: str,
        sentence: str,
        *,
        level: str = "",
        edit: Edit | None = None,
    ) -> Remark:
        """Make a remark about a position; `field` is the directive."""
        return Remark(self.at(position), self.owner, field, sentence, level, edit)

    def replaced(self, token: Token, text: str) -> Edit | None:
        """The edit that replaces a token by another word; None if the file does not contain the text verbatim."""
        if self._is_moved:
            return None
        start = self.at(token.position)
        return Edit(start, start._replace(column=start.column + len(token.text)), text)

    def directives(self, name: str) -> Iterator[tuple[ServerBlock, Directive]]:
        """The directives with a name, with their blocks."""
        for block in self.blocks:
            for directive in block.directives:
                if directive.name.text == name:
                    yield block, directive


def directive_of(block: ServerBlock, name: str) -> Directive | None:
    """The first directive with a name in a block."""
    return next((each for each in block.directives if each.name.text == name), None)


def zones_of(block: ServerBlock) -> list[Name]:
    """The zones of a block; none if a key cannot be read."""
    try:
        return [key.zone for token in block.keys for key in parse_key(token, DNS_PORT)]
    except CorefileError:
        return []


def ports_of(block: ServerBlock) -> set[int]:
    """The ports of a block."""
    try:
        return {key.port for token in block.keys for key in parse_key(token, DNS_PORT)}
    except CorefileError:
        return set()


def is_of_root(block: ServerBlock) -> bool:
    """Whether a block answers for all names."""
    return ROOT in zones_of(block)


def property_of(directive: Directive, name: str) -> str | None:
    """The first argument of a property, empty if it has none; None if there is no such property."""
    for line in directive.lines:
        if line.name.text == name:
            return line.args[0].text if line.args else ""
    return None
