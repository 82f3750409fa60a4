"""How a rule tells whether it is about a name, and what it makes of it.

Path: rule.py asks about the qname of a query, answer.py about names in a reply.
Source: CoreDNS 1.14.7 plugin/rewrite name.go.
Rule 1: names are compared as text: presentation form with the final dot, qnames in lower case.
Rule 2: names_matched() must cover every name that matches: for all others the answer table gives the negative answers
        of a zone without the plugin chain.
"""

from __future__ import annotations

from typing import Protocol

from hsdns.corefile.pattern import Match, Pattern
from hsdns.wire.name import Name

Claims = tuple[Name, ...] | None  # names at or below which something may match; None for any


class Matcher(Protocol):
    """One of the five ways to match a name."""

    def matches(self, text: str) -> bool:
        """Whether a name is meant."""

    def replace(self, text: str, to: str) -> str | None:
        """What a name becomes, None where it is not meant."""

    def names_matched(self, zone: Name) -> Claims:
        """Where in a zone names may be meant."""


class Exact:
    """The whole name."""

    def __init__(self, text: str) -> None:
        self._name = name_of(text)
        self.text = text if self._name is None else self._name.to_text()

    def matches(self, text: str) -> bool:
        """Compare."""
        return text == self.text

    def replace(self, text: str, to: str) -> str | None:
        """Put the other name in its place."""
        return to if text == self.text else None

    def names_matched(self, zone: Name) -> Claims:
        """The name, if it is in the zone."""
        name = self._name
        return (name,) if name is not None and name.is_at_or_below(zone) else ()


class Prefix:
    """What a name begins with."""

    def __init__(self, text: str) -> None:
        self.text = text

    def matches(self, text: str) -> bool:
        """Look at the beginning."""
        return text.startswith(self.text)

    def replace(self, text: str, to: str) -> str | None:
        """Exchange the beginning."""
        return to + text[len(self.text) :] if self.matches(text) else None

    def names_matched(self, zone: Name) -> Claims:
        """Anywhere."""
        return None


class Suffix:
    """What a name ends with."""

    def __init__(self, text: str) -> None:
        self.text = text

    def matches(self, text: str) -> bool:
        """Look at the end."""
        return text.endswith(self.text)

    def replace(self, text: str, to: str) -> str | None:
        """Exchange the end."""
        return text[: len(text) - len(self.text)] + to if self.matches(text) else None

    def names_matched(self, zone: Name) -> Claims:
        """All below the first dot: what stands before it may be the end of a label."""
        parent = name_of(self.text.partition(".")[2])
        if "\\" in self.text or parent is None or zone.is_at_or_below(parent):
            return None
        return (parent,) if parent.is_at_or_below(zone) else ()


class Substring:
    """What stands anywhere in a name."""

    def __init__(self, text: str) -> None:
        self.text = text

    def matches(self, text: str) -> bool:
        """Look everywhere."""
        return self.text in text

    def replace(self, text: str, to: str) -> str | None:
        """Exchange it wherever it stands."""
        return text.replace(self.text, to) if self.matches(text) else None

    def names_matched(self, zone: Name) -> Claims:
        """Anywhere."""
        return None


class Regex:
    """What a regular expression finds in a name."""

    def __init__(self, pattern: Pattern) -> None:
        self._pattern = pattern

    def matches(self, text: str) -> bool:
        """Search."""
        return self._pattern.search(text) is not None

    def replace(self, text: str, to: str) -> str | None:
        """Put the other name in place of the whole, `{0}` to `{n}` in it replaced by what the groups found."""
        found = self._pattern.search(text)
        return None if found is None else _fill(to, found)

    def names_matched(self, zone: Name) -> Claims:
        """Anywhere."""
        return None


class Below:
    """A name and all below it, as whole labels; what `answer auto` finds names of a reply with."""

    def __init__(self, text: str) -> None:
        self.text = text

    def matches(self, text: str) -> bool:
        """Compare the end."""
        return text == self.text or text.endswith("." + self.text)

    def replace(self, text: str, to: str) -> str | None:
        """Exchange the end."""
        return text[: len(text) - len(self.text)] + to if self.matches(text) else None

    def names_matched(self, zone: Name) -> Claims:
        """Never asked: it is about replies."""
        return None


def name_of(text: str) -> Name | None:
    """Read a name; None where the text is none."""
    try:
        return Name.from_text(text).lowered()
    except ValueError:
        return None


def _fill(to: str, found: Match) -> str:
    # One after the other, as CoreDNS does: what a group found may hold `{2}` itself.
    for number, value in enumerate((found.group(0), *found.groups())):
        to = to.replace(f"{{{number}}}", value or "")
    return to
