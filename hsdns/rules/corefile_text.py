"""A Corefile to check: a separate file, or a value of a ConfigMap.

Path: judging.py -> here -> Objects -> checks/.
Rule 1: no other file is read: what a Corefile imports is known from ConfigMaps, or it counts as empty.
Rule 2: an external plugin may be in a custom build, which is a warning, and one with a name unlike all others a note.
Rule 3: what a variable of the environment may correct is no error.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple

from hsdns.assemble import AssembledBlock, assemble, plugin_class
from hsdns.corefile.keys import parse_key, split_ip_port
from hsdns.corefile.lexer import Files, Source, tokenize
from hsdns.corefile.mounted import Mounted
from hsdns.corefile.parser import parse
from hsdns.corefile.properties import EXTERNAL, about_directive
from hsdns.corefile.tree import (
    Corefile,
    CorefileError,
    Directive,
    Errors,
    NotInHsdns,
    Position,
    ServerBlock,
    Token,
)
from hsdns.plugins import NOT_YET, ORDER
from hsdns.rules.rule import Edit, Remark
from hsdns.wire.name import Name

DNS_PORT: Final = 53
_NAMES: Final = frozenset(ORDER) | NOT_YET.keys()
_PLUGIN_NAME: Final = re.compile(r"[a-z][a-z0-9_-]*")
_MISSPELT: Final = 0.75  # difflib's ratio
_PLACE: Final = re.compile(r"(.+?):([0-9]+):([0-9]+): (.*)", re.DOTALL)
_IMPORT: Final = re.compile(r'nothing to import|snippet "')
_VARIABLE: Final = "(the environment variable "
# Warnings about what only the server's machine has, and those of a rule (HS208).
_LEFT_OUT: Final = re.compile(
    r"does not exist|is a directory|trying again|no file matches|is not set|kubeconfig|certificate|token|environment|"
    r"at the end of a label only"
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


class CorefileText(Files):
    """The text of a Corefile; `mounted` has what a ConfigMap has beside it."""

    def __init__(self, source: Source, mounted: Mounted | None = None) -> None:
        self.source, self.mounted = source, mounted
        self._errors = Errors(collecting=True)
        self._warnings: dict[str, None] = {}
        self._unknown: set[str] = set()
        self._folders: set[str] = set()  # of which files are known, so that those are all

    @cached_property
    def blocks(self) -> Sequence[ServerBlock]:
        """The server blocks that can be read."""
        return self._parsed.blocks

    @cached_property
    def _parsed(self) -> Corefile:
        try:
            return parse(
                self.source.file,
                text=self.source,
                environ={},
                known_directives=_NAMES,
                files=self,
                errors=self._errors,
                keeps_unknown=True,
            )
        except CorefileError as error:
            self._errors.add(error)
            return Corefile(self.source.file, (), (), "")

    def open_file(self, path: str) -> str | Source:
        """Read a file of a ConfigMap; what is not known counts as empty."""
        try:
            if self.mounted is not None:
                found = self.mounted.open_file(path)
                self._folders.add(os.path.dirname(path))
                return found
        except FileNotFoundError:
            if os.path.dirname(path) == os.path.dirname(self.source.file):
                raise  # the ConfigMap would have it
        if f"({os.path.basename(path)})" in self.source.text:
            raise FileNotFoundError(path)  # a snippet, which is not yet defined
        self._unknown.add(path)
        return ""

    def list_files(self, pattern: str) -> Sequence[str]:
        """List the files of ConfigMaps that match a glob."""
        found = self.mounted.list_files(pattern) if self.mounted is not None else ()
        if found:
            self._folders.add(os.path.dirname(pattern))
        else:
            self._unknown.add(pattern)
        return found

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
            if is_whole and block.keys[0].position not in self.importing:
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
            warn=self._warnings.setdefault,
            errors=self._errors,
        )
        for (block, known), assembled in zip(blocks, configuration.blocks, strict=True):
            if directive_of(block, "bind") != directive_of(known, "bind"):
                assembled.listens = ()  # it is not known where
            yield SetUp(block, known, assembled)

    @cached_property
    def importing(self) -> set[Position]:
        """The first key of each block in which, before the next one, what is not known is imported."""
        folder = os.path.dirname(self.source.file)
        unknown = {each for each in self._unknown if os.path.dirname(each) not in self._folders}
        firsts = [block.keys[0].position for block in self.blocks]
        firsts = [each for each in firsts if self.source.has(each)]
        return {
            max(before)
            for word, target in pairwise(tokenize(self.source))
            if word.text == "import" and os.path.join(folder, target.text) in unknown
            if (before := [each for each in firsts if each < word.position])
        }

    @property
    def errors(self) -> Iterator[Remark]:
        """All with which CoreDNS does not start, but for files that only its machine has."""
        assert self.setup is not None, "they are found first"
        levels = {
            each.name.position: _level_of(each.name.text, block)
            for block in self.blocks
            for each in block.directives
            if each.name.text not in _NAMES
        }
        for each in self._errors.in_order():
            is_import = isinstance(each.__context__, FileNotFoundError) and _IMPORT.match(
                each.message
            )
            is_of_machine = isinstance(each.__context__, OSError) and not is_import
            is_of_machine = is_of_machine or _VARIABLE in each.message
            if is_of_machine or isinstance(each, NotInHsdns):
                continue  # or only hsdns lacks it
            remark = self.remark(each.position, "", each.message)
            yield remark._replace(level=levels.get(each.position, ""))

    @property
    def warnings(self) -> Iterator[tuple[Position, str]]:
        """What CoreDNS takes silently, though it means another thing."""
        assert self.setup is not None, "they are found first"
        for text in dict.fromkeys((*self._parsed.warnings, *self._warnings)):
            position, sentence = split_position(text)
            if position is not None and not _LEFT_OUT.search(sentence):
                yield position, sentence

    def _source_of(self, position: Position) -> Source:
        """The text that has a position: this one, or one that it imports."""
        return next((each for each in self.used if each.has(position)), self.source)

    @property
    def used(self) -> Sequence[Source]:
        """The texts that it imports."""
        assert self.blocks is not None, "they are read first"
        return self.mounted.used if self.mounted is not None else ()

    def remark(self, position: Position, field: str, sentence: str) -> Remark:
        """Make a remark about a position; `field` is the directive, or ""."""
        return Remark(position, self._source_of(position).owner, field, sentence)

    def replaced(self, token: Token, text: str) -> Edit | None:
        """The edit that replaces a token by another word; None if the file does not contain the text verbatim."""
        start = token.position
        if self._source_of(start).words is not None:
            return None
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


def split_position(text: str) -> tuple[Position | None, str]:
    """The position of a warning such as `Corefile:2:11: hosts file ...`, None if it has none, and its sentence."""
    found = _PLACE.fullmatch(text)
    if found is None:
        return None, text
    return Position(found[1], int(found[2]), int(found[3])), found[4]


def _level_of(word: str, block: ServerBlock) -> str:
    """The level of a finding about an unknown directive, "" for that of the rule."""
    if word in EXTERNAL:
        return "warning"
    plugins = (plugin_class(each.name.text) for each in block.directives if _is_known(each))
    if not _PLUGIN_NAME.fullmatch(word) or any(word in each.PROPERTIES for each in plugins):
        return ""
    is_misspelt = about_directive(word) or get_close_matches(word, _NAMES, n=1, cutoff=_MISSPELT)
    return "" if is_misspelt else "note"


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
