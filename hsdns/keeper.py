"""What the answer table of one listener may keep, and how what it answers counts.

Path: beside step 2: server/lifecycle.py makes one for each listener; query.py hands it what the chain answered.
Rule 1: opting in: a block is kept only if every one of its handlers is cacheable and one of them is `kubernetes`.
Rule 2: of its replies only `fresh` ones are kept, whose every dependence has a counter.
Rule 3: names that cannot exist are answered from a template in a region: a forward zone of `kubernetes`, without
        fallthrough for it, less what other blocks and the handlers before it claim.  Where `cache` would remember each
        such name there is no region: these names are kept one by one, like others.
Rule 4: what the table counts is added to the same metrics as what the chain counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from hsdns.chain import Endpoint, Handler, Request
from hsdns.cluster.freshness import Dependencies
from hsdns.fastpath import AnswerTable, LogRecord, Versions
from hsdns.plugins.cache import Cache
from hsdns.plugins.cache.options import DENIAL
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.plugins.log import Kept, Log
from hsdns.plugins.prometheus import TYPES, Counted, QueryCounts
from hsdns.wire.decode import decode
from hsdns.wire.edns import MAX_PAYLOAD_SIZE
from hsdns.wire.encode import MAX_TCP_LEN, encode
from hsdns.wire.iana import Rcode, RRType, rcode_to_text
from hsdns.wire.message import TC, Query, Reply
from hsdns.wire.name import Name
from hsdns.wire.size import reply_size
from hsdns.zones import Zones

CAPACITY: Final = 64 * 1024 * 1024  # octets of answers that a table keeps at most
# Types of which a name that does not exist is NXDOMAIN, whatever it is (CoreDNS has exceptions for others).
REGION_TYPES: Final = (
    RRType.A, RRType.AAAA, RRType.CNAME, RRType.HTTPS, RRType.MX, RRType.NS, RRType.PTR, RRType.SRV, RRType.SVCB,
    RRType.TXT,
)  # fmt: skip

_REVERSE: Final = (Name.from_text("in-addr.arpa."), Name.from_text("ip6.arpa."))


class Group(NamedTuple):
    """Queries that count alike; None where the block has no plugin that counts them."""

    counted: Counted | None
    cache: tuple[Cache, str] | None  # and as which kind


class Region(NamedTuple):
    """A zone in which names that cannot exist need no chain."""

    zone: Name
    block: Name
    number: int
    holes: tuple[Name, ...]  # at or below them a reply is not that of the rest


class Policy:
    """What may be kept of one block; `reason` says why nothing is, "" where it is."""

    def __init__(self, handlers: Sequence[Handler]) -> None:
        self.handlers = tuple(handlers)
        self.kubernetes = next((each for each in handlers if isinstance(each, Kubernetes)), None)
        self.cache = next((each for each in handlers if isinstance(each, Cache)), None)
        self.log = next((each for each in handlers if isinstance(each, Log)), None)
        self.rotates = any(each.rotates for each in handlers)
        self.max_payload = min((each.max_payload for each in handlers), default=MAX_PAYLOAD_SIZE)
        counting = next((at for at, each in enumerate(handlers) if each.counts), None)
        following = handlers[counting + 1 : counting + 2] if counting is not None else ()
        self.plugin = "".join(each.name for each in following)
        self.counts = counting is not None
        must_see = [each.name for each in handlers if not each.cacheable]
        self.reason = f"{', '.join(must_see)} must see every query" if must_see else ""
        if self.kubernetes is None:
            self.reason = "it has no kubernetes plugin"

    def lower(self, query: Query) -> Query:
        """The query as handlers see it, who let no larger payload size through than `max_payload`."""
        edns = query.edns
        if edns is None or edns.payload_size <= self.max_payload:
            return query
        return query.replace(edns=edns.lowered(self.max_payload))


class Keeper:
    """Teaches and counts one listener's table.

    `blocks` gives the policy of the block behind each zone of the listener.
    """

    def __init__(
        self,
        server: str,
        blocks: Mapping[Name, Policy],
        versions: Versions,
        counts: QueryCounts,
        capacity: int = CAPACITY,
    ) -> None:
        self.server = server
        self.table = AnswerTable(versions, capacity)
        self._versions = versions
        self._counts = counts
        self._blocks = dict(blocks)
        self._zones = Zones(self._blocks)
        self._groups: dict[Group, int] = {}
        self._by_index: list[Group] = []
        self._regions: list[Region] = []
        self._taught: set[int] = set()
        self._queue: list[tuple[bytes, Query, Reply, bytes, Dependencies]] = []
        for zone, policy in blocks.items():
            if not policy.reason:
                self._add_regions(zone, policy, blocks)

    @property
    def keeps(self) -> bool:
        """Whether any block's replies are kept."""
        return any(not policy.reason for policy in self._blocks.values())

    def dependencies(self) -> Dependencies:
        """A record for one query of what its answer depends on."""
        return Dependencies(self._versions)

    def enqueue(
        self, wire: bytes, query: Query, reply: Reply, out: bytes, dependencies: Dependencies
    ) -> None:
        """Put a reply by for flush(); whoever waits for it has it sooner."""
        self._queue.append((wire, query, reply, out, dependencies))

    def flush(self) -> None:
        """Learn what was put by; to be called when replies have been sent.

        An event that came in between makes what is learned stale, as it would have if it had come later.
        """
        queue = self._queue
        while queue:
            self.store(*queue.pop())

    def store(
        self, wire: bytes, query: Query, reply: Reply, out: bytes, dependencies: Dependencies
    ) -> None:
        """Keep a reply, if it may be kept; `out` is what was sent."""
        if (
            not reply.fresh
            or not dependencies.is_cacheable
            or reply.tc
            or reply.rd is not None
            or reply.rcode not in (Rcode.NOERROR, Rcode.NXDOMAIN)
            or query.qtype not in TYPES
        ):
            return
        found = self._zones.match(query.qname, query.qtype)
        if found is None:
            return
        zone, policy = found
        if policy.reason or policy.kubernetes is None:
            return
        # The table's own OPT record says what the query's does, but for a size that is lowered.
        if reply.edns is not None and reply.edns != policy.lower(query).edns:
            return
        size = reply_size(query, reply)
        if out[2] << 8 & TC:  # cut for this client; the table has all of it, and cuts for each
            if size > MAX_TCP_LEN:
                return
            out = encode(query, reply, MAX_TCP_LEN)
        if reply.rcode == Rcode.NXDOMAIN:
            region = self._region_of(query, zone)
            if region is not None and region.number not in self._taught:
                if self.table.set_template(region.number, wire, out, size):
                    self._taught.add(region.number)
                return
            # A name that a region which has its template leaves to the chain is kept like others.
        mark = dependencies.mark
        group = self._group(zone, policy, query.qtype, reply.rcode, mark[0] if mark else None)
        self.table.store(
            wire,
            out,
            dependencies.pairs,
            group,
            size=size,
            rotate=policy.rotates,
            names=policy.kubernetes.names,
            mark_ttl=mark[1] if mark else -1,
            log=policy.log is not None,
            max_payload=policy.max_payload,
        )

    @property
    def logs(self) -> bool:
        """Whether what the table answers is to be logged."""
        return any(policy.log is not None and not policy.reason for policy in self._blocks.values())

    def write_log(
        self, records: Sequence[LogRecord], endpoint: Callable[[bytes], Endpoint]
    ) -> None:
        """Have lines written about queries that the table has answered; `endpoint` reads a socket address."""
        for record in records:
            query = decode(record.query)
            found = self._zones.match(query.qname, query.qtype)
            if found is None or found[1].log is None:
                continue
            zone, policy = found
            assert policy.log is not None, "asked just now"
            nobody = Endpoint("", 0)  # a format that shows it is not kept
            client = endpoint(record.address)
            protocol = "tcp" if record.is_tcp else "udp"
            request = Request(policy.lower(query), client, nobody, protocol, self.server, zone, 0.0)
            kept = Kept(record.flags, record.size, record.answers)
            policy.log.write_kept(request, kept, record.seconds)

    def fold(self) -> None:
        """Add what the table has counted since the last time to the metrics."""
        for index, is_tcp, cells in self.table.take_counts():
            group = self._by_index[index]
            if group.counted is not None:
                self._counts.fold(group.counted, "tcp" if is_tcp else "udp", cells)
            if group.cache is not None and cells[53] + cells[54]:
                cache, kind = group.cache
                cache.fold(self.server, kind, cells[53], cells[54])

    def _add_regions(self, zone: Name, policy: Policy, blocks: Mapping[Name, Policy]) -> None:
        kubernetes = policy.kubernetes
        assert kubernetes is not None, "reason"
        for region in kubernetes.zones:
            owner = self._zones.match(region, RRType.A)
            if owner is None or owner[0] != zone or _holds_addresses(region):
                continue
            if not kubernetes.tells_absence(region) or self._remembers_denials(policy, region):
                continue
            holes = self._holes(region, zone, policy, blocks)
            if holes is None:
                continue
            kind = DENIAL if policy.cache is not None and _covers(policy.cache, region) else None
            groups = {
                int(qtype): self._group(zone, policy, qtype, Rcode.NXDOMAIN, kind)
                for qtype in REGION_TYPES
            }
            number = self.table.add_negative_zone(
                region.lower,
                kubernetes.names,
                [hole.lower for hole in holes],
                groups,
                -1 if kind is None else 0,
                policy.log is not None,
                policy.max_payload,
            )
            self._regions.append(Region(region, zone, number, tuple(holes)))

    def _holes(
        self, region: Name, zone: Name, policy: Policy, blocks: Mapping[Name, Policy]
    ) -> list[Name] | None:
        """What in a region others answer, or count name by name; None for all of it."""
        kubernetes = policy.kubernetes
        assert kubernetes is not None, "reason"
        holes = [other for other in blocks if other != zone and other.is_at_or_below(region)]
        holes += [
            other for other in kubernetes.zones if other != region and other.is_at_or_below(region)
        ]
        if policy.cache is not None and not _covers(policy.cache, region):
            holes += [other for other in policy.cache.zones if other.is_at_or_below(region)]
        for handler in policy.handlers:
            if handler is kubernetes:
                break
            claimed = handler.names_answered_first(region)
            if claimed is None:
                return None
            holes += claimed
        return holes

    @staticmethod
    def _remembers_denials(policy: Policy, region: Name) -> bool:
        """Whether `cache` counts names that do not exist one by one."""
        cache = policy.cache
        return (
            cache is not None and _covers(cache, region) and not cache.is_disabled(DENIAL, region)
        )

    def _region_of(self, query: Query, block: Name) -> Region | None:
        """The region of a block's own that a name is in; what another block says of its zone may differ."""
        if query.qtype not in REGION_TYPES:
            return None
        found = [
            region
            for region in self._regions
            if region.block == block
            and query.qname.is_at_or_below(region.zone)
            and query.qname != region.zone
            and not any(query.qname.is_at_or_below(hole) for hole in region.holes)
        ]
        return max(found, key=lambda region: len(region.zone.lower), default=None)

    def _group(self, zone: Name, policy: Policy, qtype: int, rcode: int, kind: str | None) -> int:
        counted = None
        if policy.counts:
            rrtype = TYPES.get(qtype, "other")
            shown = Name(zone.lower).to_text()
            counted = Counted(self.server, shown, rrtype, rcode_to_text(rcode), policy.plugin)
        cache = (policy.cache, kind) if policy.cache is not None and kind is not None else None
        group = Group(counted, cache)
        index = self._groups.get(group)
        if index is None:
            index = self._groups[group] = len(self._by_index)
            self._by_index.append(group)
        return index


def _holds_addresses(region: Name) -> bool:
    """Whether names of addresses lie in a zone: which of those exist is not to be seen from their labels."""
    return any(
        region.is_at_or_below(reverse) or reverse.is_at_or_below(region) for reverse in _REVERSE
    )


def _covers(cache: Cache, region: Name) -> bool:
    return any(region.is_at_or_below(zone) for zone in cache.zones)
