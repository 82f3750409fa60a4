"""The reply to a question in a cluster zone: one method for each record type.

Path: plugins/kubernetes.py cuts out the zone and asks; schema.py makes the records of Services, nameserver.py those of
the zone itself.
Rule 1: a name that does not exist raises NoSuchName; whether that is a fallthrough, SERVFAIL or NXDOMAIN, the plugin
        decides.
Rule 2: every reply is `fresh`: computed from the newest event, so no cache may keep it.
Rule 3: what is read from the store is recorded in `dependencies` first, so that the answer table
        knows how long the reply is valid.
Source: CoreDNS 1.14.7 plugin/kubernetes and plugin/backend_lookup.go.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from hsdns.cluster import question, schema
from hsdns.cluster.freshness import (
    ANYTHING,
    Dependencies,
    address_counter,
    import_counter,
    namespace_counter,
    service_counter,
)
from hsdns.cluster.nameserver import Nameserver
from hsdns.cluster.pods import pod_address, pod_count
from hsdns.cluster.question import POD, Asked
from hsdns.cluster.reverse import address_of, is_reverse
from hsdns.cluster.store import Store
from hsdns.cluster.value import CLUSTER_IP, Key, ServiceValue
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import RR, Reply, nodata, unwritten
from hsdns.wire.name import Name
from hsdns.wire.rdata import soa, srv, txt

SOA_TTL_CAP: Final = 300  # seconds (CoreDNS plugin/backend_lookup.go)
VERSION_TTL: Final = 28800  # seconds
SCHEMA_VERSION: Final = b"1.1.0"  # of the Kubernetes DNS specification
MAX_CHAIN: Final = 10  # CNAMEs in a row
# CNAMEs in all, for one question: slices of names can fan out at every step.
MAX_FOLLOWED: Final = 256

Lookup = Callable[[Name, int], Awaitable[Reply]]


class NoSuchName(Exception):
    """The name does not exist."""


class _Outside(Exception):
    """The answer needs a lookup outside the zone, so the name exists."""


async def _never(qname: Name, qtype: int) -> Reply:
    raise _Outside


class _Following:
    """What one question's CNAMEs share: how to ask outside, what was read, and how many may still be followed."""

    __slots__ = ("dependencies", "left", "lookup")

    def __init__(self, lookup: Lookup, dependencies: Dependencies | None) -> None:
        self.lookup = lookup
        self.dependencies = dependencies
        self.left = MAX_FOLLOWED


class ClusterAnswers:
    """Answers from one store.

    `primary_zone` is where PTR records point, `namespaces` the allowed ones (none: all), `pods` a mode of the option of
    that name, `ignore_empty` hides Services with a ClusterIP and no ready endpoint.  `ttl` in seconds.  `zonal` lets
    names ask for a topology zone; zones at or below one of `multicluster` show ServiceImports instead of Services.
    """

    def __init__(
        self,
        store: Store,
        *,
        primary_zone: Name,
        ttl: int,
        namespaces: frozenset[bytes] = frozenset(),
        pods: str = "disabled",
        ignore_empty: bool = False,
        zonal: bool = False,
        multicluster: tuple[Name, ...] = (),
    ) -> None:
        self.store = store
        self.primary_zone = primary_zone
        self.ttl = ttl
        self.nameserver = Nameserver(store, ttl, ())
        self._namespaces = namespaces
        self._pods = pods
        self._ignore_empty = ignore_empty
        self._zonal = zonal
        self._multicluster = multicluster

    def serve_at(self, local_addresses: Sequence[str]) -> None:
        """Take the addresses on which this server is reached, for NS records."""
        self.nameserver = Nameserver(self.store, self.ttl, local_addresses)

    def soa(self, zone: Name) -> RR:
        """The zone's SOA record; its own TTL is capped, the minimum is not."""
        shared = self.is_multicluster(zone)
        rdata = soa(
            Name(b"\2ns\3dns" + zone.lower),
            Name(b"\12hostmaster" + zone.lower),
            self.store.shared_serial if shared else self.store.serial,
            7200,
            1800,
            86400,
            self.ttl,
        )
        return RR(zone, RRType.SOA, min(self.ttl, SOA_TTL_CAP), rdata)

    def is_multicluster(self, zone: Name) -> bool:
        """Whether a zone shows ServiceImports."""
        shared = self._multicluster
        return bool(shared) and any(zone.is_at_or_below(each) for each in shared)

    def parse(self, qname: Name, zone: Name) -> Asked | None:
        """What a name in a zone asks for; None for names that cannot exist."""
        return question.parse(
            qname.below(zone), zonal=self._zonal, multicluster=self.is_multicluster(zone)
        )

    async def answer(
        self,
        qname: Name,
        qtype: int,
        zone: Name,
        lookup: Lookup,
        dependencies: Dependencies | None = None,
    ) -> Reply:
        """The reply for a name in a zone; raise NoSuchName.  `lookup` asks for names outside."""
        if qtype in (RRType.A, RRType.AAAA):
            following = _Following(lookup, dependencies)
            records, truncated = await self._addresses(qname, qtype, zone, following, ())
            return self._positive(zone, records, tc=truncated)
        if qtype == RRType.SRV:
            return self._positive(zone, *self._srv(qname, zone, dependencies))
        if qtype == RRType.PTR:
            return self._positive(zone, self._ptr(qname, zone, dependencies))
        if qtype == RRType.SOA:
            return self._positive(zone, (self.soa(zone),) if qname == zone else ())
        if qtype == RRType.TXT:
            return self._positive(zone, self._txt(qname, zone, dependencies))
        if qtype == RRType.CNAME:
            return self._positive(zone, self._cname(qname, zone, dependencies))
        if qtype == RRType.NS and qname == zone:
            if dependencies is not None:
                dependencies.note(ANYTHING)
            return self._positive(zone, *self.nameserver.records(zone))
        if qtype in (RRType.AXFR, RRType.IXFR):
            return unwritten(Rcode.REFUSED)
        self._require(qname, zone, dependencies)
        return self._positive(zone, ())

    def is_missing(self, qname: Name, qtype: int, zone: Name) -> bool:
        """Tell whether a name does not exist at this moment, without following it anywhere."""
        answer = self.answer(qname, qtype, zone, _never)
        try:
            answer.send(None)
        except NoSuchName:
            return True
        except (StopIteration, _Outside):
            pass
        return False

    def _positive(
        self,
        zone: Name,
        answer: tuple[RR, ...],
        additional: tuple[RR, ...] = (),
        *,
        tc: bool = False,
    ) -> Reply:
        if not answer:
            return nodata(self.soa(zone)).replace(fresh=True)
        return Reply(answer=answer, additional=additional, aa=True, tc=tc, fresh=True)

    # One method a record type; all raise NoSuchName where the name does not exist.

    async def _addresses(
        self, qname: Name, qtype: int, zone: Name, following: _Following, before: tuple[RR, ...]
    ) -> tuple[tuple[RR, ...], bool]:
        """Records of one address type, following ExternalNames; and whether an upstream's answer was truncated."""
        if self.nameserver.is_default(qname, zone):
            if following.dependencies is not None:
                following.dependencies.note(ANYTHING)
            return self.nameserver.addresses(qname, qtype, zone), False
        found = self._find(qname, zone, following.dependencies)
        if found is None:
            return (), False
        if isinstance(found, bytes):
            wanted = schema.address_type(found) == qtype
            return ((RR(qname.lowered(), qtype, self.ttl, found),) if wanted else ()), False
        node, _ = found
        records = node.a if qtype == RRType.A else node.aaaa
        truncated = False
        for target in node.targets:
            more, cut = await self._follow(qname, target, qtype, zone, following, before)
            records, truncated = records + more, truncated or cut
        # Several targets, or a way back here, can lead to one record; a set holds it once (RFC 2181 section 5).
        return (tuple(dict.fromkeys(records)) if node.targets else records), truncated

    async def _follow(
        self,
        qname: Name,
        target: Name,
        qtype: int,
        zone: Name,
        following: _Following,
        before: tuple[RR, ...],
    ) -> tuple[tuple[RR, ...], bool]:
        """A CNAME and what it leads to: within the zone nothing unless that has records, outside always the CNAME."""
        cname = RR(qname.lowered(), RRType.CNAME, self.ttl, target.lower)
        following.left -= 1
        if target.is_at_or_below(qname) or len(before) > MAX_CHAIN or following.left < 0:
            return (), False
        if any(known.rdata == cname.rdata for known in before):  # followed already, from wherever
            return (), False
        if target.is_at_or_below(zone):
            try:
                records, cut = await self._addresses(
                    target, qtype, zone, following, (*before, cname)
                )
            except NoSuchName:
                return (), False
            return ((cname, *records) if records else ()), cut
        reply = await following.lookup(target, qtype)
        if reply.dropped:
            return (), False
        return (cname, *reply.answer), reply.tc

    def _srv(
        self, qname: Name, zone: Name, dependencies: Dependencies | None
    ) -> tuple[tuple[RR, ...], tuple[RR, ...]]:
        if self.nameserver.is_default(qname, zone):
            return (), ()
        found = self._find(qname, zone, dependencies)
        if found is None:
            return (), ()
        if isinstance(found, bytes):
            # Labels left of a pod's address are ignored, in the target too.
            labels = qname.below(zone)[-3:]
            target = Name.from_labels((*labels, *zone.labels))
            asked_pod = self.parse(qname, zone)
            assert asked_pod is not None, "found"
            # One entry a pod, as of any address: those that share it share the weight.
            entries = (
                pod_count(found, self.store, asked_pod.namespace) if self._pods == "verified" else 1
            )
            weight = max(1, 100 // entries)
            record = RR(qname.lowered(), RRType.SRV, self.ttl, srv(0, weight, 0, target))
            return (record,), (RR(target, schema.address_type(found), self.ttl, found),)
        node, asked = found
        value = self.values(zone)[asked.namespace, asked.name]
        return schema.srv_records(value, node, asked, qname, zone, self.ttl)

    def _ptr(self, qname: Name, zone: Name, dependencies: Dependencies | None) -> tuple[RR, ...]:
        address = address_of(qname)
        if address is None:
            self._find(qname, zone, dependencies)
            return ()
        targets = self._pointers(address, dependencies)
        if not targets:
            raise NoSuchName
        owner = qname.lowered()
        return tuple(
            RR(owner, RRType.PTR, self.ttl, target.wire) for target in dict.fromkeys(targets)
        )

    def _pointers(self, address: bytes, dependencies: Dependencies | None) -> list[Name]:
        """Names of an address: of the first Service with that ClusterIP, else of all endpoints."""
        store = self.store
        if dependencies is not None:
            dependencies.note(address_counter(address))
        # Of several that share one (manifests can say so) always the same, whatever came first.
        for namespace, name in sorted(store.cluster_ips.lookup(address)):
            if self.has_pointers(namespace, dependencies):
                target = schema.target_name(
                    None, Asked(question.SVC, namespace, name), self.primary_zone
                )
                return [target] if target is not None else []
        found: list[Name] = []
        for owner in store.endpoint_ips.lookup(address):
            if self.has_pointers(owner[0], dependencies):
                if dependencies is not None:
                    dependencies.note(service_counter(owner[0], owner[1]))
                value = store.services[owner[0], owner[1]]
                found += schema.pointers(value, owner, address, self.primary_zone)
        return found

    def _txt(self, qname: Name, zone: Name, dependencies: Dependencies | None) -> tuple[RR, ...]:
        """The version, else nothing; names without any record are name errors for TXT even where they exist."""
        if qname.below(zone) == (b"dns-version",):
            return (RR(qname.lowered(), RRType.TXT, VERSION_TTL, txt(SCHEMA_VERSION)),)
        found = self._find(qname, zone, dependencies)
        if found is None:
            raise NoSuchName
        if not isinstance(found, bytes) and not found[0].entry_count and not found[1].topology_zone:
            raise NoSuchName
        return ()

    def _cname(self, qname: Name, zone: Name, dependencies: Dependencies | None) -> tuple[RR, ...]:
        if self.nameserver.is_default(qname, zone):
            return ()
        found = self._find(qname, zone, dependencies)
        if found is None or isinstance(found, bytes) or not isinstance(found[0].first, Name):
            return ()
        return (RR(qname.lowered(), RRType.CNAME, self.ttl, found[0].first.lower),)

    def _require(self, qname: Name, zone: Name, dependencies: Dependencies | None) -> None:
        """Other types: only whether the name exists counts."""
        if not self.nameserver.is_default(qname, zone):
            self._find(qname, zone, dependencies)

    def _find(
        self, qname: Name, zone: Name, dependencies: Dependencies | None
    ) -> tuple[schema.Node, Asked] | bytes | None:
        """A Service's or endpoint's node, a pod's address, or None for names that exist and hold nothing."""
        asked = self.parse(qname, zone)
        if asked is None:
            raise NoSuchName
        if not asked.kind:
            return None
        if is_reverse(qname) or not self.is_exposed(asked.namespace, dependencies):
            raise NoSuchName
        if asked.kind == POD:
            return self._find_pod(asked, dependencies)
        if not asked.name:
            return None
        if dependencies is not None:
            counter = import_counter if self.is_multicluster(zone) else service_counter
            dependencies.note(counter(asked.namespace, asked.name))
        value = self.values(zone).get((asked.namespace, asked.name))
        if value is None or (
            self._ignore_empty and value.kind == CLUSTER_IP and not value.has_endpoints
        ):
            raise NoSuchName
        node = schema.find(value, asked, qname, self.ttl)
        if node is None:
            raise NoSuchName
        return node, asked

    def values(self, zone: Name) -> dict[Key, ServiceValue]:
        """What a zone shows."""
        return self.store.imports.values if self.is_multicluster(zone) else self.store.services

    def _find_pod(self, asked: Asked, dependencies: Dependencies | None) -> bytes | None:
        if self._pods == "disabled":
            raise NoSuchName
        if self._pods == "verified" and dependencies is not None:
            # Pods have no counters: with `verified` they come and go too often to be stored.
            dependencies.mark_uncacheable()
        if not asked.name:
            return None
        address = pod_address(
            asked.name, self.store if self._pods == "verified" else None, asked.namespace
        )
        if address is None:
            raise NoSuchName
        return address

    def is_allowed(self, namespace: bytes) -> bool:
        """Whether `namespaces` lets a namespace through."""
        return not self._namespaces or namespace in self._namespaces

    def has_pointers(self, namespace: bytes, dependencies: Dependencies | None) -> bool:
        """Whether PTR may name a namespace: without `namespaces` any, with it only one that exists and is listed."""
        return not self._namespaces or self.is_exposed(namespace, dependencies)

    def is_exposed(self, namespace: bytes, dependencies: Dependencies | None) -> bool:
        """Whether names in a namespace may exist."""
        if dependencies is not None:
            dependencies.note(namespace_counter(namespace))
        return self.is_allowed(namespace) and namespace in self.store.namespaces
