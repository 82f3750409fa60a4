"""Zone names from file names: REGEXP and ORIGIN_TEMPLATE of `auto`.

Path: plugins/auto.py makes it at setup and calls it for each file.
Source: CoreDNS 1.14.7 plugin/auto regexp.go and walk.go; Go regexp.Expand.
Rule 1: the pattern is Go's (RE2, linear time) and not anchored.
"""

from __future__ import annotations

import re
from typing import Final

from hsdns.corefile.properties import compile_pattern
from hsdns.wire.name import Name

DEFAULT_REGEXP: Final = r"db\.(.*)"
DEFAULT_TEMPLATE: Final = "{1}"
_REFERENCE: Final = re.compile(r"\$?\{(\w+)\}|\$(\w+)|\$\$")


class OriginTemplate:
    """A pattern for file names and a template for their zones; raises ValueError if invalid."""

    def __init__(self, regexp: str = DEFAULT_REGEXP, template: str = DEFAULT_TEMPLATE) -> None:
        self._regexp = compile_pattern(regexp)
        if not self._regexp.groups:
            raise ValueError(f'"{regexp}" needs at least one group, such as "(.*)"')
        self._template = template

    def origin(self, file_name: str) -> Name | None:
        """Return the zone of a file in lower case; None if the file name does not match or gives no valid name."""
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
