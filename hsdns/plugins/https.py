"""Limits the number of DNS over HTTPS connections.

Path: beside the queries: server/transport/sockets.py passes the limit to server/http/doh.py.
Source: CoreDNS 1.14.7 plugin/https.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final, Self

from hsdns.corefile.properties import (
    Property,
    integer,
    no_arguments,
    one,
    only_once,
    read_properties,
)
from hsdns.corefile.tree import Directive
from hsdns.plugin import Block, Plugin

DEFAULT_CONNECTIONS: Final = 200  # CoreDNS core/dnsserver server_https.go


class Https(Plugin):
    """Holds the limit; 0 means no limit."""

    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {
        "max_connections": Property(
            one(integer(0)), default=DEFAULT_CONNECTIONS, syntax="N", repeat="once"
        ),
    }

    def __init__(self, max_connections: int = DEFAULT_CONNECTIONS) -> None:
        self.max_connections = max_connections

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read `https { max_connections N }`."""
        no_arguments(only_once(directives))
        return cls(**read_properties(directives, cls.PROPERTIES))
