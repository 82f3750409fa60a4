"""Matchers: whether a rule applies to a name, and the name it is replaced with.

Path: rule.py matches the qname of a query, answer.py the names in a reply.
Source: CoreDNS 1.14.7 plugin/rewrite name.go.
Rule 1: names are compared as text: presentation form with the final dot; qnames in lower case.
Rule 2: affected_names() must cover every name that matches: for other names of a zone, negative answers are given
        without the chain.
"""

from __future__ import annotations

from typing import Protocol

from hsdns.corefile.properties import Match, Pattern
from hsdns.wire.name import Name

AffectedNames = tuple[Name, ...] | None  # matches are at or below these names; None: anywhere


class Matcher(Protocol):
    """One of the ways to match a name."""

    def matches(self, text: str) -> bool:
        """Whether the name matches."""

    def replace(self, text: str, to: str) -> str | None:
        """Return the replacement of a name, None if it does not match."""

    def affected_names(self, zone: Name) -> AffectedNames:
        """Return where in a zone names may match."""


class Exact:
    """Matches the whole name."""

    def __init__(self, text: str) -> None:
        self._name = name_of(text)
        self.text = text if self._name is None else self._name.to_text()

    def matches(self, text: str) -> bool:
        """Compare."""
        return text == self.text

    def replace(self, text: str, to: str) -> str | None:
        """Replace the name."""
        return to if text == self.text else None

    def affected_names(self, zone: Name) -> AffectedNames:
        """Return the name, if it is in the zone."""
        name = self._name
        return (name,) if name is not None and name.is_at_or_below(zone) else ()


class Prefix:
    """Matches the beginning of a name."""

    def __init__(self, text: str) -> None:
        self.text = text

    def matches(self, text: str) -> bool:
        """Compare the beginning."""
        return text.startswith(self.text)

    def replace(self, text: str, to: str) -> str | None:
        """Replace the beginning."""
        return to + text[len(self.text) :] if self.matches(text) else None

    def affected_names(self, zone: Name) -> AffectedNames:
        """Anywhere."""
        return None


class Suffix:
    """Matches the end of a name."""

    def __init__(self, text: str) -> None:
        self.text = text

    def matches(self, text: str) -> bool:
        """Compare the end."""
        return text.endswith(self.text)

    def replace(self, text: str, to: str) -> str | None:
        """Replace the end."""
        return text[: len(text) - len(self.text)] + to if self.matches(text) else None

    def affected_names(self, zone: Name) -> AffectedNames:
        """Return the name after the first dot, because the text before it may be the end of a label."""
        parent = name_of(self.text.partition(".")[2])
        if "\\" in self.text or parent is None or zone.is_at_or_below(parent):
            return None
        return (parent,) if parent.is_at_or_below(zone) else ()


class Substring:
    """Matches any part of a name."""

    def __init__(self, text: str) -> None:
        self.text = text

    def matches(self, text: str) -> bool:
        """Search the text."""
        return self.text in text

    def replace(self, text: str, to: str) -> str | None:
        """Replace all occurrences."""
        return text.replace(self.text, to) if self.matches(text) else None

    def affected_names(self, zone: Name) -> AffectedNames:
        """Anywhere."""
        return None


class Regex:
    """Matches by a regular expression."""

    def __init__(self, pattern: Pattern) -> None:
        self._pattern = pattern

    def matches(self, text: str) -> bool:
        """Search."""
        return self._pattern.search(text) is not None

    def replace(self, text: str, to: str) -> str | None:
        """Replace the whole name by `to`, with `{0}` to `{n}` replaced by the groups."""
        found = self._pattern.search(text)
        return None if found is None else _substitute_groups(to, found)

    def affected_names(self, zone: Name) -> AffectedNames:
        """Anywhere."""
        return None


class Below:
    """Matches a name and all names below it; used by `answer auto` for names in replies."""

    def __init__(self, text: str) -> None:
        self.text = text

    def matches(self, text: str) -> bool:
        """Compare the end, by labels."""
        return text == self.text or text.endswith("." + self.text)

    def replace(self, text: str, to: str) -> str | None:
        """Replace the end."""
        return text[: len(text) - len(self.text)] + to if self.matches(text) else None

    def affected_names(self, zone: Name) -> AffectedNames:
        """Raise AssertionError: it is used for replies only."""
        return None


def name_of(text: str) -> Name | None:
    """Parse a name; return None if it is invalid."""
    try:
        return Name.from_text(text).lowered()
    except ValueError:
        return None


def _substitute_groups(to: str, found: Match) -> str:
    # One after the other, as in CoreDNS: the text of a group may itself contain `{2}`.
    for number, value in enumerate((found.group(0), *found.groups())):
        to = to.replace(f"{{{number}}}", value or "")
    return to
