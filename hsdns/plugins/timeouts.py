"""Say how long a connection may take, and how many queries it may carry.

Path: beside the queries: server/settings.py gives each listener the limits of its blocks, server/tcp.py and
server/doh.py keep them.  UDP has none.
Source: CoreDNS 1.14.7 plugin/timeouts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar, Final, Self

from hsdns.corefile.properties import Property, integer, no_arguments, one, read_properties
from hsdns.corefile.properties import duration as go_duration
from hsdns.corefile.tree import CorefileError, Directive, Token
from hsdns.plugin import Block, Plugin

SHORTEST: Final = 1.0  # seconds
LONGEST: Final = 24 * 3600.0
UNLIMITED: Final = -1


def _duration(token: Token) -> float:
    """Read a duration; a number without a unit is in seconds."""
    if re.fullmatch(r"[+-]?[0-9]{1,18}", token.text):
        token = token._replace(text=f"{token.text}s")
    return go_duration(SHORTEST, LONGEST)(token)


def _queries(token: Token) -> int:
    count = integer(UNLIMITED)(token)
    if count == 0:
        raise CorefileError(
            token.position,
            f'"{token.text}" queries are none; give 1 or more, or {UNLIMITED} for any number',
        )
    return count


class Timeouts(Plugin):
    """Knows the limits of its block's connections, in seconds; None is what it says nothing about."""

    name: ClassVar[str] = "timeouts"
    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {
        "read": Property(one(_duration), syntax="DURATION"),
        "write": Property(one(_duration), syntax="DURATION"),
        "idle": Property(one(_duration), syntax="DURATION"),
        "maxtcpqueries": Property(one(_queries), syntax="N"),
    }

    def __init__(
        self,
        read: float | None = None,
        write: float | None = None,
        idle: float | None = None,
        maxtcpqueries: int | None = None,
    ) -> None:
        self.read = read
        self.write = write
        self.idle = idle
        self.max_queries = maxtcpqueries

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read the body, which must say something; of several values the last one counts."""
        for directive in directives:
            no_arguments(directive)
            if not directive.lines:
                raise CorefileError(
                    directive.name.position,
                    f'"timeouts" says nothing; give at least one of {", ".join(cls.PROPERTIES)}',
                )
        return cls(**read_properties(directives, cls.PROPERTIES))
