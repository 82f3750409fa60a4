"""Serves a web page: the names that fail now and why, and the explanation of a name.

Path: beside the queries; server/control/routes.py has the page, server/http/pages.py answers with it.
Rule: unlike `control` it may use any address and has no token, so its pages are read-only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from hsdns.corefile.keys import listen_address
from hsdns.corefile.properties import read_properties
from hsdns.corefile.tree import Directive
from hsdns.plugin import Block, Plugin, Runtime


class Dashboard(Plugin):
    """The page at `addresses`, each `host:port`."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self.addresses = tuple(addresses)

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read `dashboard ADDRESS`; all directives of a block take effect."""
        read_properties(directives, cls.PROPERTIES)
        for directive in directives:
            if not directive.args:
                raise directive.error(
                    '"dashboard" needs an address; write "dashboard 127.0.0.1:8079",'
                    " or the address of health to be on the same port"
                )
        return cls([listen_address(directive, "") for directive in directives])

    async def start(self, runtime: Runtime) -> None:
        """Serve the page."""
        for address in self.addresses:
            runtime.serve_dashboard(address)
