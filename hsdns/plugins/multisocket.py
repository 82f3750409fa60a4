"""Say how many sockets, each with a thread, answer UDP queries at the block's addresses.

Path: beside the queries: server/settings.py asks here when listeners are opened; server/workers.py has the threads.
Source: CoreDNS 1.14.7 plugin/multisocket.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, Self

from hsdns.corefile.arguments import optional_argument
from hsdns.corefile.properties import integer, no_body, only_once
from hsdns.corefile.tree import Directive
from hsdns.plugin import Block, Plugin

MAX_SOCKETS: Final = 1024


class Multisocket(Plugin):
    """Knows the number of sockets; None is as many as there are CPUs to use."""

    name: ClassVar[str] = "multisocket"

    def __init__(self, sockets: int | None = None) -> None:
        self.sockets = sockets

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read `multisocket [N]`."""
        directive = only_once(directives)
        no_body(directive)
        token = optional_argument(directive)
        return cls(None if token is None else integer(1, MAX_SOCKETS)(token))
