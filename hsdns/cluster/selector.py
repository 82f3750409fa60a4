"""Label selectors, as `kubectl -l` accepts them.

Path: the kubernetes plugin parses `labels` and `namespace_labels`; store.py drops the objects that do not match.
Source: Kubernetes "Labels and Selectors": `a=b`, `a==b`, `a!=b`, `a in (x,y)`, `a notin (x,y)`, `a`, `!a`, separated by
commas.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_KEY = r"(?:[a-zA-Z0-9](?:[-a-zA-Z0-9._]*[a-zA-Z0-9])?/)?[a-zA-Z0-9](?:[-a-zA-Z0-9._]*[a-zA-Z0-9])?"
_VALUE = r"(?:[a-zA-Z0-9](?:[-a-zA-Z0-9._]*[a-zA-Z0-9])?)?"
_REQUIREMENT = re.compile(
    rf"\s*(?:(?P<absent>!\s*{_KEY})"
    rf"|(?P<set_key>{_KEY})\s+(?P<set_op>in|notin)\s*\((?P<values>[^()]*)\)"
    rf"|(?P<key>{_KEY})\s*(?P<op>==|=|!=)\s*(?P<value>{_VALUE})"
    rf"|(?P<present>{_KEY}))\s*(?:,|$)"
)


class Requirement(NamedTuple):
    """One condition: the value of a label is, or with `wanted` False is not, one of `values` (None: any value)."""

    key: str
    values: frozenset[str] | None
    wanted: bool

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels meet the requirement; `!=` and `notin` also match objects without the label."""
        value = labels.get(self.key)
        found = value is not None and (self.values is None or value in self.values)
        return found is self.wanted

    def __str__(self) -> str:
        """The form that the API accepts."""
        if self.values is None:
            return self.key if self.wanted else f"!{self.key}"
        if len(self.values) == 1:
            return f"{self.key}{'=' if self.wanted else '!='}{min(self.values)}"
        return f"{self.key} {'in' if self.wanted else 'notin'} ({','.join(sorted(self.values))})"


class Selector(NamedTuple):
    """Selects the objects that meet all requirements."""

    requirements: tuple[Requirement, ...]

    def __str__(self) -> str:
        """The form that the API accepts."""
        return ",".join(map(str, self.requirements))

    @classmethod
    def from_text(cls, text: str) -> Selector:
        """Parse a selector; raise ValueError with the part that is wrong."""
        found, at = [], 0
        while at < len(text):
            match = _REQUIREMENT.match(text, at)
            if match is None:
                raise ValueError(
                    f'"{text[at:].strip()}" is not a label selector; write for example "app=web"'
                )
            found.append(_requirement(match))
            at = match.end()
        if not found or text.rstrip().endswith(","):
            raise ValueError(f'"{text}" is not a label selector; write for example "app=web"')
        return cls(tuple(found))

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Whether an object with these labels is selected."""
        return all(requirement.matches(labels or {}) for requirement in self.requirements)


def _requirement(match: re.Match[str]) -> Requirement:
    if match["absent"]:
        return Requirement(match["absent"][1:].strip(), None, wanted=False)
    if match["present"]:
        return Requirement(match["present"], None, wanted=True)
    if match["set_op"]:
        values = frozenset(value.strip() for value in match["values"].split(","))
        return Requirement(match["set_key"], values, wanted=match["set_op"] == "in")
    return Requirement(match["key"], frozenset((match["value"],)), wanted=match["op"] != "!=")
