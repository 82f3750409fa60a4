"""HS208, HS245 to HS247: effects of `rewrite` and `template` on names and replies.

Path: judging.py -> here.
Rule: the rules of rewrite are tried in the order of the file, and the first match ends it, unless that rule begins with
      `continue`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from hsdns.corefile.tree import Position, ServerBlock, Token
from hsdns.rules.check import check
from hsdns.rules.corefile import CorefileText, property_of
from hsdns.rules.finding import Remark
from hsdns.rules.objects import Objects

_FIELDS: Final = ("name", "ttl", "rcode", "cname")
_TRAPS: Final = {"prefix": "begin with", "substring": "contain"}
_KINDS: Final = ("exact", "prefix", "suffix", "substring", "regex")
_ANSWER: Final = "answer"


class _Rule(NamedTuple):
    """A rule of rewrite: its words from the field, such as `name`, on; `goes_on` if later rules are tried after it."""

    block: ServerBlock
    words: list[Token]
    goes_on: bool

    @property
    def kind(self) -> str:
        """The type of match of its pattern."""
        word = self.words[1].text if len(self.words) > 3 else ""
        return word if word in _KINDS else "exact"

    @property
    def pattern(self) -> str:
        """Its pattern as a complete name; empty for a regular expression."""
        at = 2 if len(self.words) > 3 and self.words[1].text in _KINDS else 1
        if self.kind == "regex" or len(self.words) <= at:
            return ""
        return self.words[at].text.lower().rstrip(".") + "."

    @property
    def position(self) -> Position:
        """Its position."""
        return self.words[0].position

    def takes_all_of(self, other: _Rule) -> bool:
        """Whether it matches every name that another rule matches."""
        pattern, longer = self.pattern, other.pattern
        if not pattern or not longer:
            return False
        if self.kind == "suffix":
            return other.kind in ("exact", "suffix") and longer.endswith(pattern)
        if self.kind == "prefix":
            return other.kind in ("exact", "prefix") and longer.startswith(pattern)
        if self.kind == "substring":
            return pattern in longer
        return other.kind == "exact" and pattern == longer


@check("HS208")
def rewrite_trap(objects: Objects) -> Iterator[Remark]:
    """Patterns of rewrite that match whole labels only."""
    for corefile in objects.corefiles:
        for _, directive in corefile.directives("rewrite"):
            words = list(directive.args)
            if words and words[0].text in ("continue", "stop"):
                del words[0]
            if len(words) < 3 or words[0].text not in _FIELDS or words[1].text not in _TRAPS:
                continue
            kind, pattern = words[1].text, words[2]
            if pattern.text.endswith("."):
                continue
            yield corefile.remark(
                pattern.position,
                "rewrite",
                f'a dot is added to the pattern, so only names that {_TRAPS[kind]} "{pattern.text}." match: the '
                f"pattern ends at the end of a label; write the dot if that is meant, or use regex",
            )


@check("HS245")
def denied_family(objects: Objects) -> Iterator[Remark]:
    """Templates that deny a name because it has no address of one family."""
    for corefile in objects.corefiles:
        for _, directive in corefile.directives("template"):
            words = [each.text.upper() for each in directive.args]
            lines = [each for each in directive.lines if each.name.text == "rcode" and each.args]
            if len(words) < 2 or words[1] != "AAAA" or not lines:
                continue
            token = lines[0].args[0]
            if token.text.upper() != "NXDOMAIN" or property_of(directive, _ANSWER) is not None:
                continue
            yield corefile.remark(
                token.position,
                "template",
                "NXDOMAIN says that a name has no records of any type, so musl, the libc of Alpine images, drops its A "
                "records too; write rcode NOERROR, which says that it has no AAAA record",
                edit=corefile.replaced(token, "NOERROR"),
            )


@check("HS246")
def without_answer(objects: Objects) -> Iterator[Remark]:
    """Rules after which the reply has another name than the question."""
    for corefile in objects.corefiles:
        for rule in _of_names(corefile):
            if rule.kind == "exact" or any(each.text == _ANSWER for each in rule.words):
                continue
            yield corefile.remark(
                rule.position,
                "rewrite",
                "the records of the reply keep the rewritten name, and many clients, such as glibc, ignore records of "
                "another name than the one they asked for; add answer auto to the rule, which only rules of the kind "
                "exact need not have",
            )


@check("HS247")
def shadowed(objects: Objects) -> Iterator[Remark]:
    """Rules that never match because of an earlier one."""
    for corefile in objects.corefiles:
        earlier: list[_Rule] = []
        for rule in _of_names(corefile):
            first = next(
                (each for each in earlier if each.block is rule.block and each.takes_all_of(rule)),
                None,
            )
            if first is None:
                if not rule.goes_on:
                    earlier.append(rule)
                continue
            yield corefile.remark(
                rule.position,
                "rewrite",
                f"the rule has no effect: that for {first.kind} {first.pattern} comes first and matches all its names, "
                "and after a match no other rule is tried; put this one above it",
            )


def _of_names(corefile: CorefileText) -> Iterator[_Rule]:
    """The rules for names, in order."""
    for block, directive in corefile.directives("rewrite"):
        words = list(directive.args)
        for line in directive.lines:
            words += [line.name, *line.args]
        mode = words.pop(0).text if words and words[0].text in ("continue", "stop") else ""
        if len(words) > 2 and words[0].text == "name":
            yield _Rule(block, words, mode == "continue")
