"""Stores the replies of one listener's chains in its answer table.

Path: beside step 2; server/instance.py makes one for each listener, query.py enqueues what the chain answered, and
server/transport/udp.py and tcp.py have the queue stored once the replies are sent.
Rule 1: policy.py says which replies are stored.
Rule 2: a name that cannot exist is not stored; the first one becomes the template of its negative zone, if it has one.
Rule 3: replies that clients query are recomputed when an event has invalidated them (recompute.py);
        server/answer_tables.py calls recompute().
Rule 4: where compiled code can make a reply (MadeReplies), a miss becomes a hit before the chain is asked, and
        counts as one.
Rule 5: compiled code asks the upstreams of `forward` itself for names outside of `kubernetes`, if every handler of the
        block allows it (BlockPolicy.forwarding), and hands the others to the chain (native/src/forward.rs).

Replies about Services that compiled code makes, without the chain:
Rule 1: the chain answers the first query of a form: zone, type, flags, with or without an answer.  Compiled code has to
        make the same reply, octet for octet; else replies of that form are left to the chain.
Rule 2: only in a zone whose names all handlers up to `kubernetes` treat alike, and that has no other zone below it.
Rule 3: it makes addresses, SRV and PTR records of Services with and without a ClusterIP and of their endpoints; all
        else is left to the chain.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from hsdns.answer_table.capabilities import CountsCacheHits, Forwards
from hsdns.answer_table.hits import HitGroups, HitLog
from hsdns.answer_table.negative_zones import NegativeZones, NumerousNames
from hsdns.answer_table.policy import BlockPolicy
from hsdns.answer_table.recompute import RecomputedNames, compute, key_of
from hsdns.chain import BlockChoice, Endpoint, Request
from hsdns.cluster.freshness import Dependencies, versions_of
from hsdns.fastpath import AnswerTable, ClusterNames, ServiceReplies, Tap, Terms, Versions
from hsdns.fastpath.key import KEY_CD, KEY_DO
from hsdns.fastpath.records import MAX_STORED_LEN
from hsdns.wire.decode import decode
from hsdns.wire.encode import MAX_TCP_LEN, encode, reply_size
from hsdns.wire.iana import Rcode, RRClass, RRType
from hsdns.wire.message import AD, TC, Query, Reply
from hsdns.wire.name import Name

Note = Callable[[tuple[bytes, int, int, bool, bool], float], None]


class Form(NamedTuple):
    """What the replies of a form have in common: their terms, and what notes one in a cache.

    `note` takes the key of `cache` and the time in monotonic seconds.
    """

    terms: Terms
    note: Note | None


# The key of a stored reply (recompute.key_of), the counters that it depends on, and the note of its form.
Stored = tuple[bytes, tuple[int, ...], Note | None]


class MadeReplies:
    """Makes replies for the blocks of one listener, which serve `zones`."""

    def __init__(
        self, versions: Versions, blocks: BlockChoice[BlockPolicy], zones: Iterable[Name]
    ) -> None:
        self._versions = versions
        self._blocks = blocks
        self._zones = tuple(zones)
        # A ServiceReplies for each block with a usable zone, None for others.
        self._makers: dict[BlockPolicy, Any] = {}
        # Replaced, never changed: store() is called in two threads.
        self._usable: tuple[Any, ...] = ()

    def store(self, wire: bytes, table: AnswerTable) -> Stored | None:
        """Make the reply to a query and store it; None if the chain has to."""
        for maker in self._usable:
            stored: Stored | None = maker.store(wire, table)
            if stored is not None:
                return stored
        return None

    def lacks(self, policy: BlockPolicy, wire: bytes) -> bool:
        """Whether it could make the reply to a query if its form were known."""
        if policy not in self._makers:
            maker = self._makers[policy] = self._maker(policy)
            self._usable += () if maker is None else (maker,)
        maker = self._makers[policy]
        return maker is not None and maker.lacks(wire)

    def add_form(
        self, policy: BlockPolicy, wire: bytes, reply: Reply, out: bytes, form: Form
    ) -> None:
        """Add the form of a reply of the chain, `out` in octets, whose records are as `kubernetes` made them."""
        maker = self._makers.get(policy)
        if maker is None:
            return
        if reply.answer:
            maker.add_form(wire, out, reply.answer[0].ttl, b"", form.note, form.terms)
        elif len(reply.authority) == 1 and reply.authority[0].rrtype == RRType.SOA:
            soa = reply.authority[0]
            maker.add_form(wire, out, soa.ttl, soa.rdata, form.note, form.terms)

    def _maker(self, policy: BlockPolicy) -> object:
        source = policy.source
        values = source.plain_values() if source is not None else None
        versions = versions_of(self._versions)  # None for those of the twin in Python
        if ServiceReplies is None or versions is None or source is None or values is None:
            return None
        zones = [zone.lower for zone in source.zones if self._is_usable(zone, policy)]
        if not zones:
            return None
        return ServiceReplies(
            values.services,
            values.namespaces,
            values.cluster_ips,
            values.endpoint_ips,
            versions,
            zones,
            values.primary_zone.lower,
        )

    def _is_usable(self, zone: Name, policy: BlockPolicy) -> bool:
        source = policy.source
        found = self._blocks.match(zone, RRType.A)
        if source is None or found is None or found.block is not policy or not zone.labels:
            return False
        others = [each for each in (*self._zones, *source.zones) if each != zone]
        return policy.treats_alike(zone) and not any(each.is_at_or_below(zone) for each in others)


CAPACITY: Final = (
    64 * 1024 * 1024
)  # octets of replies that a table and the caches of its blocks store at most
LEAST: Final = CAPACITY // 4  # octets that the table always has, however much the caches store
# Octets by which the capacity changes at a time: evicting this much takes a millisecond or two.
STEP: Final = 1024 * 1024
_NOBODY: Final = Endpoint("", 0)
# Of replies that compiled code makes from those of an upstream, in the order of Forwarder.serve().
_FORWARDED: Final = (
    (Rcode.NOERROR, "success"),
    (Rcode.NOERROR, "denial"),
    (Rcode.NXDOMAIN, "denial"),
)
# Those of clients, without those that only validators ask for.
FORWARDED_TYPES: Final = (
    RRType.A, RRType.AAAA, RRType.CNAME, RRType.HTTPS, RRType.MX, RRType.NS, RRType.PTR, RRType.SOA, RRType.SRV,
    RRType.SVCB, RRType.TXT,
)  # fmt: skip


class _Answer(NamedTuple):
    """A query with its reply, `out` in octets, and the block that made it."""

    wire: bytes
    query: Query
    reply: Reply
    out: bytes
    dependencies: Dependencies
    policy: BlockPolicy
    zone: Name


class AnswerTableWriter:
    """One listener's answer table, and what is stored, counted and logged for it.

    `blocks` has the policy of the server block for each zone of the listener, `server` is the listener as metrics name
    it.  The table reports its hits to `tap`, with the number `source`.
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
        self._caches = {each.cache for each in blocks.values() if each.cache is not None}
        self._capacity = CAPACITY
        self.recomputed = RecomputedNames()
        self._made = MadeReplies(versions, self._blocks, blocks)
        self._numerous = NumerousNames(self.table, self.hits, self._negative_zones)
        self._forwards: list[Forwards] = []
        for zone, policy in blocks.items():
            self._forward(zone, policy, blocks)
        self._queue: list[tuple[bytes, Query, Reply, bytes, Dependencies]] = []

    def _forward(self, zone: Name, policy: BlockPolicy, zones: Iterable[Name]) -> None:
        """Let compiled code forward what the handlers of a block need not see."""
        found = policy.forwarding(zone)
        matched = self._blocks.match(zone, RRType.A)
        if found is None or matched is None or versions_of(self._versions) is None:
            return
        forward, storing = found
        compiled, (own, exclusions) = forward.compiled, forward.forwarded()
        if zone.is_at_or_below(own):
            own = zone
        if compiled is None or not own.is_at_or_below(zone):
            return
        kubernetes = () if policy.source is None else policy.source.zones
        others = (each for each in zones if each != zone and each.is_at_or_below(zone))
        compiled.serve(
            self.table,
            own.lower,
            [each.lower for each in (*exclusions, *kubernetes, *storing.exclusions, *others)],
            {
                qtype: [
                    self.hits.number(matched.zone, policy, qtype, rcode, kind)
                    for rcode, kind in _FORWARDED
                ]
                for qtype in FORWARDED_TYPES
            },
            success=storing.success,
            denial=storing.denial,
            rotates=policy.rotates_addresses,
        )
        self._forwards.append(forward)

    def count_forwarded(self) -> None:
        """Add what compiled code has counted of upstreams, and of what it stores."""
        for each in self._forwards:
            each.count_forwarded()
        stored: dict[CountsCacheHits, Counter[str]] = defaultdict(Counter)
        for cache, kind, count in self.hits.forwarded() if self._forwards else ():
            stored[cache][kind] += count
        for cache, counts in stored.items():
            cache.count_forwarded(self.server, counts)

    def dependencies(self) -> Dependencies:
        """A new record of the dependencies of one reply."""
        return Dependencies(self._versions)

    def enqueue(
        self, wire: bytes, query: Query, reply: Reply, out: bytes, dependencies: Dependencies
    ) -> None:
        """Queue a reply for flush(), so that the client does not wait until it is stored."""
        self._queue.append((wire, query, reply, out, dependencies))

    def flush(self) -> None:
        """Store the queued replies; to be called when they have been sent.

        A reply whose counters were incremented meanwhile is stored as stale.
        """
        queue = self._queue
        if queue:
            self._share_memory()
        while queue:
            self._store(*queue.pop())

    def make(self, wire: bytes, now: float) -> bool:
        """Store the reply to a query that is a miss, if compiled code can make it: the query is a hit then."""
        stored = self._made.store(wire, self.table)
        if stored is None:
            return False
        key, counters, note = stored
        self.recomputed.add(key, wire, counters)
        if note is not None:
            name, qtype, flags = key[:-3], int.from_bytes(key[-3:-1], "big"), key[-1]
            note((name, qtype, RRClass.IN, bool(flags & KEY_DO), bool(flags & KEY_CD)), now)
        return True

    def recompute(self, wire: bytes, now: float) -> tuple[int, ...] | None:
        """Store the reply to a query before a client sends it, and return its counters; `now` in monotonic seconds.

        None if the next query has to compute it.  With the compiled table, it may be called in the watch thread.
        """
        stored = self._made.store(wire, self.table)
        return stored[1] if stored is not None else self.recompute_by_chain(wire, now)

    def recompute_by_chain(self, wire: bytes, now: float) -> tuple[int, ...] | None:
        """The same, but never by compiled code."""
        found = self._compute(wire, now)
        if found is None or not self._put(found, is_recomputed=True):
            return None
        return found.dependencies.counters

    def _compute(self, wire: bytes, now: float) -> _Answer | None:
        query = decode(wire)
        found = self._blocks.match(query.qname, query.qtype)
        policy = found.block if found is not None else None
        if found is None or policy is None or policy.recompute_chain is None:
            return None
        dependencies = Dependencies(self._versions)
        request = Request(
            query, _NOBODY, _NOBODY, "udp", self.server, found.zone, now, 0, dependencies
        )
        reply = compute(policy.recompute_chain, request)
        if reply is None or not policy.may_store(query, reply, dependencies):
            return None
        out = encode(query, reply, MAX_TCP_LEN)
        return _Answer(wire, query, reply, out, dependencies, policy, found.zone)

    def _share_memory(self) -> None:
        """Subtract the memory of the caches from the table's capacity, step by step."""
        wanted = max(LEAST, CAPACITY - sum(each.stored_octets() for each in self._caches))
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
        if dependencies.is_numerous and (
            self._numerous.makes(query, reply, policy, found.zone, wire, out, dependencies.mark)
            or not self._numerous.is_repeated(query.qname)
        ):
            return
        cached = dependencies.cached
        answer = _Answer(wire, query, reply, out, dependencies, policy, found.zone)
        is_stored = self._put(answer)
        is_recomputable = (
            not cached and policy.recompute_chain is not None and reply.rcode == Rcode.NOERROR
        )
        # Replies that depend on their namespace alone, such as Pod addresses, hardly ever change, and their number is
        # unlimited.
        may_change = len(dependencies.counters) > 1 or query.qtype == RRType.PTR
        if is_stored and is_recomputable and may_change:
            self.recomputed.add(key_of(query), wire, dependencies.counters)
            if self._made.lacks(policy, wire):
                self._add_form(wire)

    def _add_form(self, wire: bytes) -> None:
        """Tell compiled code the form of a reply, with the order of records that `kubernetes` makes."""
        found = self._compute(wire, 0.0)  # which does not depend on the time
        if found is None:
            return
        kind, mark_ttl = found.dependencies.mark or (None, -1)
        note, cache = None, found.policy.cache
        if cache is not None and kind is not None and mark_ttl > 0:
            note = partial(cache.note_made, self.server, kind, mark_ttl)
        form = Form(self._terms(found, kind, mark_ttl), note)
        self._made.add_form(found.policy, wire, found.reply, found.out, form)

    def _put(self, answer: _Answer, *, is_recomputed: bool = False) -> bool:
        wire, query, reply, out, dependencies, _, zone = answer
        kind: str | None
        cached = dependencies.cached
        errors = reply.extended_errors if query.edns is not None else b""
        size = reply_size(query, reply)
        # Truncated for this client; the table stores the whole reply, and truncates it for each client.
        if out[2] << 8 & TC:
            # A big reply of `cache` arrives here at each query, and should not be encoded each time without being
            # stored.
            if size > (MAX_TCP_LEN if cached is None else MAX_STORED_LEN):
                return False
            out = encode(query, reply, MAX_TCP_LEN)
        if cached is not None:
            kind, mark_ttl = cached.kind, -1
            if cached.ad:  # the table clears it for clients that have not asked for it
                out = out[:3] + bytes((out[3] | AD,)) + out[4:]
        else:
            if (
                reply.rcode == Rcode.NXDOMAIN
                and not errors
                and self._negative_zones.store_template(query, zone, wire, out, size)
            ):
                return False
            kind, mark_ttl = dependencies.mark or (None, -1)
        return self.table.store(
            wire,
            out,
            dependencies.pairs,
            self._terms(answer, kind, mark_ttl),
            size=size,
            timed=None if cached is None else cached.timing,
            errors=errors,
            renewed=is_recomputed,
        )

    def _terms(self, answer: _Answer, kind: str | None, mark_ttl: int) -> Terms:
        policy = answer.policy
        names: ClusterNames | None = None
        if answer.dependencies.cached is None:
            assert policy.source is not None, "or the policy has a reason"
            names = policy.source.names
        group = self.hits.number(answer.zone, policy, answer.query.qtype, answer.reply.rcode, kind)
        is_logged = policy.log is not None
        return Terms(
            group, policy.rotates_addresses, names, mark_ttl, is_logged, policy.max_payload
        )
