"""Zone names from file names: the REGEXP and ORIGIN_TEMPLATE of `auto`.

Path: plugins/auto.py reads its directive with it, and asks it about each file.
Source: CoreDNS 1.14.7 plugin/auto regexp.go and walk.go; Go regexp.Expand.
Rule 1: the expression is Go's (RE2) and runs in linear time; it is not anchored.
"""

from __future__ import annotations

import re
from typing import Final

from hsdns.corefile.pattern import compile_pattern
from hsdns.wire.name import Name

DEFAULT_REGEXP: Final = r"db\.(.*)"
DEFAULT_TEMPLATE: Final = "{1}"
_REFERENCE: Final = re.compile(r"\$?\{(\w+)\}|\$(\w+)|\$\$")


class OriginTemplate:
    """An expression for file names and the name of the zone in each; raise ValueError."""

    def __init__(self, regexp: str = DEFAULT_REGEXP, template: str = DEFAULT_TEMPLATE) -> None:
        self._regexp = compile_pattern(regexp)
        if not self._regexp.groups:
            raise ValueError(f'"{regexp}" needs at least one group, such as "(.*)"')
        self._template = template

    def origin(self, file_name: str) -> Name | None:
        """The zone of a file, in lower case; None where its name is another one or names no zone."""
        match = self._regexp.search(file_name)
        if match is None:
            return None

        def group(reference: re.Match[str]) -> str:
            word = reference[1] or reference[2]
            if word is None:
                return "$"
            number = int(word) if word.isdigit() else self._regexp.groupindex.get(word, -1)
            return match.group(number) or "" if 0 <= number <= self._regexp.groups else ""

        try:
            return Name.from_text(_REFERENCE.sub(group, self._template)).lowered()
        except ValueError:
            return None
