"""Sets timeouts and query limits for TCP, TLS and HTTPS connections.

Path: beside the queries: server/transport/sockets.py combines the limits of a listener's blocks;
server/transport/tcp.py and server/http/doh.py enforce them.  UDP has none.
Source: CoreDNS 1.14.7 plugin/timeouts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

from hsdns.corefile.properties import Property, integer, no_arguments, one, read_properties
from hsdns.corefile.properties import duration as go_duration
from hsdns.corefile.tree import Directive, Token
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
        raise token.error(
            f'"{token.text}" would allow no query; give 1 or more, or {UNLIMITED} for no limit'
        )
    return count


@dataclass(eq=False)
class Timeouts(Plugin):
    """Holds the limits of the block's connections, in seconds and queries; None if not given."""

    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {
        "read": Property(one(_duration), syntax="DURATION"),
        "write": Property(one(_duration), syntax="DURATION"),
        "idle": Property(one(_duration), syntax="DURATION"),
        "maxtcpqueries": Property(one(_queries), syntax="N"),
    }

    read: float | None
    write: float | None
    idle: float | None
    maxtcpqueries: int | None

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read the body, which must not be empty; of several values the last takes effect."""
        for directive in directives:
            no_arguments(directive)
            if not directive.lines:
                raise directive.error(
                    f'"timeouts" is empty; give at least one of {", ".join(cls.PROPERTIES)}'
                )
        return cls(**read_properties(directives, cls.PROPERTIES))
