"""Which of several blocks a query goes to, where the blocks look at it first.

Path: step 4, in place of zones.py on a listener that has a block with `view` or `metadata`.
Source: CoreDNS 1.14.7 core/dnsserver/server.go: blocks of one zone are tried in file order, then those of the next
shorter zone; the root is the last resort; a DS question goes to the last block that takes it, of the root's blocks to
the first.
Rule 1: every block is asked with the query as it came in, so what one block's guards add, another does not see.
Rule 2: a block without handlers refuses the query, but the root's is passed over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hsdns.chain import Handler, Next, Request
from hsdns.wire.iana import RRType
from hsdns.wire.name import ROOT, Name
from hsdns.zones import Zones


class Entrance(NamedTuple):
    """A block's chain, and the handlers that decide whether a query is for it."""

    chain: Next | None
    guards: tuple[Handler, ...] = ()

    def enter(self, request: Request) -> Request | None:
        """Ask the guards; what they return is what the chain is to be given."""
        entering: Request | None = request
        for guard in self.guards:
            if entering is None:
                return None
            entering = guard.enter(entering)
        return entering


class Entrances:
    """The blocks of one listener."""

    def __init__(self, zones: Mapping[Name, Sequence[Entrance]]) -> None:
        self._zones = Zones({zone: tuple(entrances) for zone, entrances in zones.items()})

    def choose(self, request: Request) -> tuple[Request, Next] | None:
        """Find the chain for a query, and the query as its block sees it; None where it is refused."""
        query = request.query
        found = None
        for zone, entrances in self._zones.matches(query.qname):
            if zone == ROOT and found is not None:
                break
            for entrance in entrances:
                if entrance.chain is None:
                    if zone == ROOT:
                        continue
                    return None
                entered = entrance.enter(request.replace(zone=zone))
                if entered is not None:
                    found = entered, entrance.chain
                    if query.qtype != RRType.DS or (zone == ROOT and query.qname != ROOT):
                        return found
        return found
