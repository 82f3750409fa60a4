"""The files in the section Examples of a rule's page."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from hsdns.rules.rule import Rule

FENCE: Final = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Example(NamedTuple):
    """A file and its findings, one per line; `language` is yaml or corefile."""

    language: str
    content: str
    findings: str


def examples(rule: Rule) -> list[Example]:
    """The files, in order; those without findings are repaired ones."""
    found: list[Example] = []
    for language, body in FENCE.findall(rule.section("Examples")):
        if language == "text":
            found[-1] = found[-1]._replace(findings=body)
        else:
            found.append(Example(language, body, ""))
    return found
