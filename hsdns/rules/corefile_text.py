"""A Corefile to check: a separate file, or a value of a ConfigMap.

Path: judging.py -> here -> Objects -> checks/.
Rule 1: no other file is read: imported files are unknown, and count as empty.
Rule 2: a plugin with a name unlike those of CoreDNS's plugins is assumed to be in a custom build.
Rule 3: what a variable of the environment may correct is no error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple

from hsdns.assemble import AssembledBlock, assemble
from hsdns.corefile.keys import parse_key, split_ip_port
from hsdns.corefile.lexer import tokenize
from hsdns.corefile.parser import parse
from hsdns.corefile.tree import (
    Corefile,
    CorefileError,
    Directive,
    Errors,
    Position,
    ServerBlock,
    Token,
)
from hsdns.plugins import NOT_YET, ORDER
from hsdns.rules.rule import Edit, Remark
from hsdns.wire.name import Name

DNS_PORT: Final = 53
_NAMES: Final = frozenset(ORDER) | NOT_YET
_MISSPELT: Final = 0.75  # difflib's ratio


class _Directives(frozenset[str]):
    """CoreDNS's plugins, and every word unlike all of them."""

    def __contains__(self, word: object) -> bool:
        return super().__contains__(word) or not get_close_matches(
            str(word), self, n=1, cutoff=_MISSPELT
        )


class _Interfaces(dict[str, Sequence[str]]):
    """Those of the machine where the server runs, of which nothing is known: any word is one, with its own address."""

    def __contains__(self, word: object) -> bool:
        return split_ip_port(str(word), DNS_PORT) is None

    def __missing__(self, word: str) -> Sequence[str]:
        self[word] = (f"fe80::{len(self) + 1:x}",)
        return self[word]


class SetUp(NamedTuple):
    """A block as written, its part that was set up, and what that made."""

    block: ServerBlock
    known: ServerBlock
    assembled: AssembledBlock


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
        return self._parsed.blocks

    @cached_property
    def _parsed(self) -> Corefile:
        try:
            return parse(
                self.file,
                text=self._text,
                environ={},
                known_directives=_Directives(_NAMES),
                open_file=lambda path: "",
                list_files=lambda pattern: (),
                errors=self._errors,
            )
        except CorefileError as error:
            self._errors.add(error)
            return Corefile(self.file, (), (), "")

    @cached_property
    def setup(self) -> Sequence[SetUp]:
        """What a server makes of its blocks, without what depends on its machine and on plugins that are not known.

        A block of which a part is unknown is set up by itself: that part may be what tells it from the others.
        """
        whole: list[tuple[ServerBlock, ServerBlock]] = []
        groups = [whole]
        for block in self.blocks:
            if any(key.lacking for key in block.keys):
                continue
            known = [_on_any_machine(each) for each in block.directives if _is_known(each)]
            is_whole = len(known) == len(block.directives)
            if is_whole and block.keys[0].position not in self._importing:
                whole.append((block, block._replace(directives=tuple(known))))
                continue
            # The unknown part may have kubernetes.
            if not any(each.name.text == "kubernetes" for each in known):
                known = [each for each in known if each.name.text != "k8s_external"]
            groups.append([(block, block._replace(directives=tuple(known)))])
        return [each for group in groups for each in self._assembled(group)]

    def _assembled(self, blocks: Sequence[tuple[ServerBlock, ServerBlock]]) -> Iterator[SetUp]:
        configuration = assemble(
            replace(self._parsed, blocks=tuple(known for _, known in blocks), warnings=()),
            interfaces=_Interfaces,
            validating=True,
            runs_code=False,
            warn=lambda sentence: None,
            errors=self._errors,
        )
        for (block, known), assembled in zip(blocks, configuration.blocks, strict=True):
            if directive_of(block, "bind") != directive_of(known, "bind"):
                assembled.listens = ()  # it is not known where
            yield SetUp(block, known, assembled)

    @cached_property
    def _importing(self) -> set[Position]:
        """The first key of each block in which, before the next one, what is no snippet of the text is imported."""
        words = tokenize(self._text, self.file)
        snippets = {each.text[1:-1] for each in words if each.text.startswith("(")}
        firsts = [block.keys[0].position for block in self.blocks]
        return {
            max(before)
            for word, target in pairwise(words)
            if word.text == "import" and word.starts_line and target.text not in snippets
            if (before := [each for each in firsts if each < word.position])
        }

    @property
    def errors(self) -> list[CorefileError]:
        """All with which CoreDNS does not start, but for files that only its machine has."""
        assert self.setup is not None, "they are found first"
        return [
            each
            for each in self._errors.in_order()
            if not isinstance(each.__context__, OSError)
            and not isinstance(each.__cause__, NotImplementedError)  # only hsdns lacks it
        ]

    def at(self, position: Position) -> Position:
        """The position in the file of a position in the text."""
        if self._is_moved:
            return Position(self.file, self._line, self._indent + 1)
        return Position(self.file, position.line + self._line - 1, position.column + self._indent)

    def remark(self, position: Position, field: str, sentence: str) -> Remark:
        """Make a remark about a position; `field` is the directive, or ""."""
        return Remark(self.at(position), self.owner, field, sentence)

    def replaced(self, token: Token, text: str) -> Edit | None:
        """The edit that replaces a token by another word; None if the file does not contain the text verbatim."""
        if self._is_moved:
            return None
        start = self.at(token.position)
        return Edit(start, start._replace(column=start.column + len(token.text)), text)

    def directives(self, name: str) -> Iterator[Placed]:
        """The directives with a name."""
        for block in self.blocks:
            for directive in block.directives:
                if directive.name.text == name:
                    yield Placed(self, block, directive)


class Placed(NamedTuple):
    """A directive, with its block and its Corefile."""

    corefile: CorefileText
    block: ServerBlock
    directive: Directive

    def beside(self, name: str) -> Directive | None:
        """The first directive with a name in its block."""
        return directive_of(self.block, name)

    def property(self, name: str) -> str | None:
        """The first argument of a property, empty if it has none; None if there is no such property."""
        return property_of(self.directive, name)

    def remark(
        self, sentence: str, *, at: Token | None = None, level: str = "", edit: Edit | None = None
    ) -> Remark:
        """Make a remark about it; `at` is the token with the position, if it is another."""
        name = self.directive.name
        found = self.corefile.remark((at or name).position, name.text, sentence)
        return found._replace(level=level, edit=edit)


def _on_any_machine(directive: Directive) -> Directive:
    """A directive with an address in place of each file of upstreams."""
    if directive.name.text != "forward":
        return directive
    args = [
        each._replace(text="192.0.2.1") if "/" in each.text and "://" not in each.text else each
        for each in directive.args[1:]
    ]
    return directive._replace(args=(*directive.args[:1], *args))


def _is_known(directive: Directive) -> bool:
    words = (
        directive.name,
        *directive.args,
        *(each for line in directive.lines for each in (line.name, *line.args)),
    )
    return directive.name.text in ORDER and not any(each.lacking for each in words)


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


def property_of(directive: Directive, name: str) -> str | None:
    """The first argument of a property, empty if it has none; None if there is no such property."""
    for line in directive.lines:
        if line.name.text == name:
            return line.args[0].text if line.args else ""
    return None
