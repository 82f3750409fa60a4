"""Which server block answers a query.

Path: step 4, `decode -> block_choice -> chain`; query.py asks for each query and for each lookup within the server.
Source: CoreDNS 1.14.7 core/dnsserver/server.go, ServeDNS.
Rule 1: the longest zone wins, compared label by label; the root zone is the last resort; no zone is REFUSED.
Rule 2: a DS query belongs to the parent's side of a zone cut: it takes the shortest zone that matches, the root zone
        only where no other does.
Rule 3: where `view` lets several blocks serve one zone, they are tried in file order, then those of the next shorter
        zone.  A DS query then goes to the last block that takes it, of the root zone's blocks to the first.
Rule 4: each block's filters get the query as it came in, so no block sees what the filters of another one add.
Rule 5: a block without handlers refuses the query; where blocks have filters, that of the root zone is passed over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Generic, NamedTuple, Protocol, Self, TypeVar, runtime_checkable

import msgspec

from hsdns.chain import Request
from hsdns.wire.iana import RRType
from hsdns.wire.name import ROOT, Name

T = TypeVar("T")
_ROOT: Final = ROOT.lower


@runtime_checkable
class RequestFilter(Protocol):
    """A handler that sees a query before its block is chosen (CoreDNS: Viewer and FilterFunc, `metadata`)."""

    def filter_request(self, request: Request) -> Request | None:
        """Return the request as the block is to see it; None where the query is not for this block."""


class Candidate(NamedTuple, Generic[T]):
    """A block that serves a zone: its chain, or what else is to be found; None for a block without handlers."""

    zone: Name
    block: T | None
    filters: tuple[RequestFilter, ...] = ()


class BlockChoice(Generic[T]):
    """The server blocks of one listener.

    `blocks` gives the candidates of each zone in file order.
    """

    def __init__(self, blocks: Mapping[Name, Sequence[Candidate[T]]]) -> None:
        self._candidates = {zone.lower: tuple(found) for zone, found in blocks.items()}
        self._first = {
            zone: found[0]._replace(zone=ROOT) if found[0].zone == ROOT else found[0]
            for zone, found in self._candidates.items()
        }
        self._only_root = self._first.get(_ROOT) if len(self._first) == 1 else None
        self._has_filters = any(
            each.filters for found in self._candidates.values() for each in found
        )

    @classmethod
    def by_zone(cls, blocks: Mapping[Name, T | None]) -> Self:
        """Choose by the zone alone, one block for each."""
        return cls({zone: (Candidate(zone, block),) for zone, block in blocks.items()})

    def choose(self, request: Request) -> tuple[Request, T] | None:
        """Find the block for a query, and the request as that block sees it; None where the query is refused.

        Raises what a filter raises.
        """
        query = request.query
        if self._has_filters:
            return self._choose_filtered(request)
        found = self._only_root or self.match(query.qname, query.qtype)
        if found is None or found.block is None:
            return None
        zone = found.zone
        if request.zone is not zone:
            request = msgspec.structs.replace(request, zone=zone)
        return request, found.block

    def match(self, qname: Name, qtype: int) -> Candidate[T] | None:
        """Find the zone for a question, and the first block that serves it, whatever its filters say."""
        if self._only_root is not None:
            return self._only_root
        found = None
        first = self._first
        for suffix in qname.ancestors():
            candidate = first.get(suffix)
            if candidate is not None:
                if suffix == _ROOT and found is not None:
                    return found  # Rule 2
                found = candidate
                if qtype != RRType.DS:
                    return found
        return found

    def _choose_filtered(self, request: Request) -> tuple[Request, T] | None:
        query = request.query
        found: tuple[Request, T] | None = None
        for suffix in query.qname.ancestors():
            is_root = suffix == _ROOT
            if is_root and found is not None:
                break
            for candidate in self._candidates.get(suffix, ()):
                if candidate.block is None:
                    if is_root:
                        continue
                    return None
                filtered = _filter(request.replace(zone=candidate.zone), candidate.filters)
                if filtered is not None:
                    found = filtered, candidate.block
                    if query.qtype != RRType.DS or (is_root and query.qname != ROOT):
                        return found
        return found


def _filter(request: Request, filters: Sequence[RequestFilter]) -> Request | None:
    filtered: Request | None = request
    for each in filters:
        if filtered is None:
            return None
        filtered = each.filter_request(filtered)
    return filtered
