"""Reads dnsperf's files of queries: a line for each, `NAME TYPE`.

Path: cli/load.py reads -queries -> here -> questions.py.
Rule: empty lines and those that begin with `;` or `#` are skipped, as dnsperf does; anything else must be a query.
Source: dnsperf 2.14, "Constructing an Input File".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hsdns.corefile.tree import did_you_mean
from hsdns.load.errors import LoadError
from hsdns.load.questions import Question
from hsdns.wire.iana import type_from_text
from hsdns.wire.name import Name

GROUP: Final = "file"
_TYPES: Final = ("A", "AAAA", "ANY", "CNAME", "HTTPS", "MX", "NS", "PTR", "SOA", "SRV", "TXT")


def read_queries(lines: Iterable[str], path: str) -> list[Question]:
    """The questions of a file; raise LoadError.  `path` is for the sentences."""
    found = []
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or line[0] in ";#":
            continue
        if len(words) != 2:
            raise LoadError(
                f'{path}:{number}: "{line.strip()}" is not a name and a type; write a line such as www.example.com A'
            )
        name, qtype = words
        try:
            qname = Name.from_text(name)
        except ValueError as error:
            raise LoadError(f'{path}:{number}: "{name}" is no name: {error}') from None
        try:
            found.append(Question(qname, type_from_text(qtype.upper()), GROUP))
        except ValueError as error:
            raise LoadError(f"{path}:{number}: {error}{did_you_mean(qtype, _TYPES)}") from None
    if not found:
        raise LoadError(
            f"{path}: there are no queries in it; write lines such as www.example.com A"
        )
    return found
