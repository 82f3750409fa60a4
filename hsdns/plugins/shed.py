"""Counts the queries and replies that UDP sockets drop under load, as CoreDNS's plugin of this name does.

Path: beside the queries: server/instance.py looks for it at each address, server/answer_tables.py counts.
Source: CoreDNS 1.14.7 plugin/shed, which gives each socket one writer with a bounded queue.  hsdns is bounded without
this plugin: server/transport/udp.py limits the waiting queries, and drops a reply that the kernel does not accept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from hsdns.corefile.properties import no_arguments, no_body, only_once
from hsdns.corefile.tree import Directive
from hsdns.plugin import Block, Plugin


class Shed(Plugin):
    """Marks the addresses of a server block."""

    counts_drops = True

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Accept neither arguments nor properties, and plain DNS only, because other schemes have no UDP."""
        directive = only_once(directives)
        no_arguments(directive)
        no_body(directive, may_be_empty=True)
        for server in block.servers:
            if not server.startswith("dns://"):
                raise directive.error(
                    f'"shed" is for UDP, but {server} of this server block has none; '
                    "move that key to a server block of its own"
                )
        return cls()
