"""Reads dnsperf's files of queries: a line for each, `NAME TYPE`.

Path: cli/load.py reads -queries -> here -> questions.py.
Rule 1: empty lines and those that begin with `;` are skipped, as dnsperf does; here also those that begin with `#`,
        which dnsperf would send as queries.
Rule 2: anything else must be a query.  dnsperf takes the first type that begins with the given text (C for CNAME), and
        ignores what follows the type; here the type must be complete, and may be followed by its class, IN.
Source: dnsperf 2.14, "Constructing a query input file", src/dns.c and src/qtype.c.
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
BLOCKS: Final = ("require", "prohibit", "add", "delete", "send")  # of dynamic updates
# Types that have names in dnsperf but not in the rest of hsdns.
MORE_TYPES: Final = {
    "NSAP": 22, "NSAP-PTR": 23, "A6": 38, "SINK": 40, "DOA": 259, "AMTRELAY": 260,
}  # fmt: skip
_TYPES: Final = ("A", "AAAA", "ANY", "CNAME", "HTTPS", "MX", "NS", "PTR", "SOA", "SRV", "TXT")


def read_queries(lines: Iterable[str], path: str) -> list[Question]:
    """The questions of a file; raise LoadError.  `path` is used in messages."""
    found = []
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or line[0] in ";#":
            continue
        if "\0" in line:
            raise LoadError(f"{path}:{number}: this is no text; a file for dnsperf -B is not read")
        if words[0].lower() in BLOCKS and (len(words) == 1 or len(words) > 2):
            raise LoadError(
                f'{path}:{number}: "{line.strip()}" is of a dynamic update (dnsperf -u), and only queries are sent'
            )
        if len(words) not in (2, 3) or (len(words) == 3 and words[2].upper() != "IN"):
            raise LoadError(
                f'{path}:{number}: "{line.strip()}" is not a name and a type; write a line such as www.example.com A'
            )
        name, qtype = words[:2]
        try:
            qname = Name.from_text(name)
        except ValueError as error:
            raise LoadError(f'{path}:{number}: "{name}" is no name: {error}') from None
        known = MORE_TYPES.get(qtype.upper())
        try:
            found.append(Question(qname, known or type_from_text(qtype.upper()), GROUP))
        except ValueError as error:
            raise LoadError(f"{path}:{number}: {error}{did_you_mean(qtype, _TYPES)}") from None
    if not found:
        raise LoadError(
            f"{path}: there are no queries in it; write lines such as www.example.com A"
        )
    return found
