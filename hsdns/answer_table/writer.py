"""Stores the replies of one listener's chains in its answer table.

Path: beside step 2; server/processors.py makes one for each listener, query.py enqueues what the chain answered, and
server/udp.py and tcp.py have the queue stored once the replies are sent.
Rule 1: policy.py says which replies are stored.
Rule 2: names that cannot exist are stored as the template of their negative zone, where they are in one.
Rule 3: what was asked for is made again when an event has ended it (renewal.py); server/renewals.py calls renew().
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hsdns.answer_table.hits import HitGroups, HitLog
from hsdns.answer_table.negative_zones import NegativeZones
from hsdns.answer_table.policy import BlockPolicy
from hsdns.answer_table.renewal import RenewedNames, make
from hsdns.block_choice import BlockChoice
from hsdns.chain import Endpoint, Request
from hsdns.cluster.freshness import Dependencies
from hsdns.fastpath import AnswerTable, ClusterNames, Tap, Versions
from hsdns.fastpath.records import MAX_STORED_LEN
from hsdns.wire.decode import decode
from hsdns.wire.encode import MAX_TCP_LEN, encode
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import AD, TC, Query, Reply
from hsdns.wire.name import Name
from hsdns.wire.size import reply_size

CAPACITY: Final = (
    64 * 1024 * 1024
)  # octets of replies that a table and the caches of its blocks store at most
LEAST: Final = CAPACITY // 4  # octets that are left to the table however much the caches store
# Octets by which the room of the table changes at a time: to evict that much takes a millisecond or two.
STEP: Final = 1024 * 1024
_NOBODY: Final = Endpoint("", 0)


class AnswerTableWriter:
    """One listener's answer table and what is stored, counted and logged of it.

    `blocks` gives the policy of the block behind each zone of the listener, `server` the listener as metrics name it.
    `tap` takes the hits of the table, as those of `source`.
    """

    def __init__(
        self,
        server: str,
        blocks: Mapping[Name, BlockPolicy],
        versions: Versions,
        tap: Tap | None = None,
        source: int = 0,
    ) -> None:
        self.server = server
        self.table = AnswerTable(versions, CAPACITY, tap, source)
        self.is_needed = any(policy.stores_any for policy in blocks.values())
        self.hits = HitGroups(server, self.table)
        self._blocks = BlockChoice.by_zone(blocks)
        self.hit_log = HitLog(server, self._blocks, blocks.values())
        self._versions = versions
        self._negative_zones = NegativeZones(self.table, self.hits, blocks)
        self._sharers = {each for policy in blocks.values() for each in policy.sharers}
        self._capacity = CAPACITY
        self.renewed = RenewedNames()
        self._queue: list[tuple[bytes, Query, Reply, bytes, Dependencies]] = []

    def dependencies(self) -> Dependencies:
        """A record for one query of what its reply depends on."""
        return Dependencies(self._versions)

    def enqueue(
        self, wire: bytes, query: Query, reply: Reply, out: bytes, dependencies: Dependencies
    ) -> None:
        """Queue a reply for flush(), so that the client need not wait for its storing."""
        self._queue.append((wire, query, reply, out, dependencies))

    def flush(self) -> None:
        """Store what is queued; to be called when the replies have been sent.

        A reply whose counters have moved meanwhile is stale, as it would be if they moved later.
        """
        queue = self._queue
        if queue:
            self._share_memory()
        while queue:
            self._store(*queue.pop())

    def renew(self, wire: bytes, now: float) -> tuple[int, ...] | None:
        """Make and store the reply to a query that nobody has asked at `now`, in monotonic seconds.

        Return the counters that it depends on, None if it is left to who asks.  It may be called in the thread of the
        watch, if the table may (the compiled one).
        """
        query = decode(wire)
        found = self._blocks.match(query.qname, query.qtype)
        policy = found.block if found is not None else None
        if found is None or policy is None or policy.renewal is None:
            return None
        dependencies = Dependencies(self._versions)
        request = Request(
            query, _NOBODY, _NOBODY, "udp", self.server, found.zone, now, 0, dependencies
        )
        reply = make(policy.renewal, request)
        if reply is None or not policy.may_store(query, reply, dependencies):
            return None
        out = encode(query, reply, MAX_TCP_LEN)
        is_stored = self._put(
            wire, query, reply, out, dependencies, policy, found.zone, renewed=True
        )
        return dependencies.counters if is_stored else None

    def _share_memory(self) -> None:
        """Leave to the caches what they use, step by step."""
        wanted = max(LEAST, CAPACITY - sum(each.stored_octets() for each in self._sharers))
        change = min(max(wanted - self._capacity, -STEP), STEP)
        if abs(change) == STEP:
            self._capacity += change
            self.table.set_capacity(self._capacity)

    def _store(
        self, wire: bytes, query: Query, reply: Reply, out: bytes, dependencies: Dependencies
    ) -> None:
        """Store a reply if its block's policy allows it; `out` is what was sent."""
        found = self._blocks.match(query.qname, query.qtype)
        policy = found.block if found is not None else None
        if found is None or policy is None or not policy.may_store(query, reply, dependencies):
            return
        cached = dependencies.cached
        is_stored = self._put(wire, query, reply, out, dependencies, policy, found.zone)
        is_renewable = not cached and policy.renewal is not None and reply.rcode == Rcode.NOERROR
        # What depends on its namespace alone, such as the address of a Pod, hardly ever changes, and has no end.
        may_change = len(dependencies.counters) > 1 or query.qtype == RRType.PTR
        if is_stored and is_renewable and may_change:
            self.renewed.add(query, wire, dependencies.counters)

    def _put(
        self,
        wire: bytes,
        query: Query,
        reply: Reply,
        out: bytes,
        dependencies: Dependencies,
        policy: BlockPolicy,
        zone: Name,
        *,
        renewed: bool = False,
    ) -> bool:
        kind: str | None
        names: ClusterNames | None = None
        cached = dependencies.cached
        errors = reply.extended_errors if query.edns is not None else b""
        size = reply_size(query, reply)
        # Truncated for this client; the table has all of it, and truncates for each.
        if out[2] << 8 & TC:
            # A reply of `cache` comes here whenever it is asked for, and must not be encoded each time in vain.
            if size > (MAX_TCP_LEN if cached is None else MAX_STORED_LEN):
                return False
            out = encode(query, reply, MAX_TCP_LEN)
        if cached is not None:
            kind, mark_ttl = cached.kind, -1
            if cached.ad:  # the table leaves it out for this client, if it has not asked for it
                out = out[:3] + bytes((out[3] | AD,)) + out[4:]
        else:
            assert policy.source is not None, "or the policy has a reason"
            if (
                reply.rcode == Rcode.NXDOMAIN
                and not errors
                and self._negative_zones.store_template(query, zone, wire, out, size)
            ):
                return False
            kind, mark_ttl = dependencies.mark or (None, -1)
            names = policy.source.names
        return self.table.store(
            wire,
            out,
            dependencies.pairs,
            self.hits.number(zone, policy, query.qtype, reply.rcode, kind),
            size=size,
            rotate=policy.rotates_addresses,
            names=names,
            mark_ttl=mark_ttl,
            log=policy.log is not None,
            max_payload=policy.max_payload,
            timed=None if cached is None else cached.timing,
            errors=errors,
            renewed=renewed,
        )
