"""Sets the number of UDP sockets per address.

Path: beside the queries: server/transport/sockets.py reads the number when listeners are opened, and
server/transport/udp.py runs a thread for each socket.
Source: CoreDNS 1.14.7 plugin/multisocket.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Self

from hsdns.corefile.keys import optional_argument
from hsdns.corefile.properties import integer, no_body, only_once
from hsdns.corefile.tree import Directive
from hsdns.plugin import Block, Plugin

MAX_SOCKETS: Final = 1024


class Multisocket(Plugin):
    """Holds the number of sockets; None means the number of available CPUs."""

    def __init__(self, sockets: int | None = None) -> None:
        self.sockets = sockets

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read `multisocket [N]`."""
        directive = only_once(directives)
        no_body(directive)
        token = optional_argument(directive)
        return cls(None if token is None else integer(1, MAX_SOCKETS)(token))
