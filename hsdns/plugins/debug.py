"""Enables debug logging, with the whole stack of each exception in a plugin.

Path: not on the path of queries; server/lifecycle.py looks for it in the blocks and sets the log level of the process,
server/instance.py makes query.py log the stacks.
Source: CoreDNS 1.14.7 plugin/debug, which disables recovery, so that a query that makes a plugin panic ends the
process.  hsdns always recovers; otherwise any client could end the server.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from hsdns.corefile.properties import no_arguments, no_body
from hsdns.corefile.tree import Directive
from hsdns.plugin import Block, Plugin


class Debug(Plugin):
    """Marks a configuration for debugging; one in any block is enough for the process."""

    debug_mode = True

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Accept neither arguments nor options; may occur several times."""
        for directive in directives:
            no_arguments(directive)
            no_body(directive)
        return cls()
