"""Log at level debug, and let a fault in a handler end the process instead of one query.

Path: beside the queries; server/lifecycle.py looks for it in the blocks and sets the process's log level.
Source: CoreDNS 1.14.7 plugin/debug.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

from hsdns.corefile.properties import no_arguments, no_body
from hsdns.corefile.tree import Directive
from hsdns.plugin import Block, Plugin


class Debug(Plugin):
    """Stands in a block where the operator wants to see more; one is enough for the whole process."""

    name: ClassVar[str] = "debug"
    debug_mode = True

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Take no options; saying it twice does no harm."""
        for directive in directives:
            no_arguments(directive)
            no_body(directive)
        return cls()
