"""All names of cluster zones that have records, with the RRsets in the answers to queries for them.

Path: cli/names.py and server/control/routes.py list them, and compare those of two states; queries do not come here.
Rule 1: the modules that answer queries (lookup.py, schema.py, answer.py) make the records, so a list and a reply cannot
        differ.  This module only finds the names.
Rule 2: RRsets are made as they are consumed, and nothing is added to the caches of the store's values: a list of a
        million records needs the memory of one Service.
Rule 3: a name with several accepted spellings is listed once, as the Kubernetes DNS specification writes it:
        `_http._tcp.web...`, not `http.tcp.web...`.  Names that exist for any text of a client are not listed;
        open_ended() describes them.  Names without records (NODATA) are not listed either.
Rule 4: a running server lists them between its queries: each step of pieces_of_zone() takes about a millisecond.
Rule 5: an EndpointSlice of addressType FQDN can make several CNAME records at one name.  All are listed, as replies to
        A and AAAA queries contain them; a reply to a CNAME query contains at most one.

What changed in DNS between two states of a cluster, as lines for the operator:
Rule 1: a line for each fact, not for each record: what follows from other lines is omitted, namely names made of the
        address of a headless Service's endpoint, reverse names, the targets and weights of SRV records, and addresses
        at the names of ports.
Rule 2: values are never changed, only replaced, so two states are compared by identity and only the Services that
        differ are written out.
"""

from __future__ import annotations

import contextlib
import heapq
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Final, NamedTuple, TypeVar

from hsdns.cluster import schema
from hsdns.cluster.address import REVERSE_ZONES, dashed, is_reverse, reverse_name
from hsdns.cluster.answer import ClusterAnswers
from hsdns.cluster.history import ADDED, DELETED, Noted, ServiceFacts
from hsdns.cluster.lookup import NoSuchName
from hsdns.cluster.schema import POD, SVC, parse
from hsdns.cluster.value import CLUSTER_IP, EXTERNAL_NAME, HEADLESS, Key, ServiceValue
from hsdns.wire.iana import ADDRESSES, RRType, type_to_text
from hsdns.wire.message import RR, Reply
from hsdns.wire.name import MAX_LABEL_LEN, Name, labels_to_wire
from hsdns.wire.rdata import address_to_text
from hsdns.wire.text import rdata_to_text

MOST: Final = 20  # lines for each change
PIECE: Final = 2000  # Services compared at a time
RECORDS: Final = 200  # records written at a time


class _State(NamedTuple):
    """The content of a zone at one moment."""

    namespaces: frozenset[bytes]
    values: dict[Key, ServiceValue]

    def get(self, key: Key) -> ServiceValue | None:
        """The value of a Service whose names exist."""
        return self.values.get(key) if key[0] in self.namespaces else None


class Changes:
    """Compares the state of a cluster with that of the previous call."""

    def __init__(self, answer_set: AnswerSet) -> None:
        self._answer_set = answer_set
        self._states = self._look()

    def follow(self, answer_set: AnswerSet) -> None:
        """From now on, use the state of another configuration with the same zones."""
        self._answer_set = answer_set

    def lines(self) -> list[str]:
        """The removed and the new facts, Service by Service; at most MOST lines."""
        found = [line for piece in self.pieces() for _, line in piece]
        if len(found) > MOST:
            found[MOST - 1 :] = [f"… and {len(found) - MOST + 1} more changes"]
        return found

    def pieces(self) -> Iterator[list[tuple[Name, str]]]:
        """All lines with their zones, in pieces, some of them empty; other tasks may run between two pieces."""
        before, self._states = self._states, self._look()
        for (zone, old), new in zip(before.items(), self._states.values(), strict=True):
            for lines in self._compare(zone, old, new):
                yield [(zone, line) for line in lines]

    def _look(self) -> dict[Name, _State]:
        """The state now.  Whole dicts are copied: this is the only step that takes all Services at once."""
        answer_set = self._answer_set
        namespaces = answer_set.exposed_namespaces()
        return {
            zone: _State(namespaces, dict(answer_set.lookup.values(zone)))
            for zone in answer_set.forward_zones
        }

    def _compare(self, zone: Name, old: _State, new: _State) -> Iterator[list[str]]:
        differ = []
        added = (key for key in new.values if key not in old.values)
        for number, key in enumerate(chain(old.values, added), 1):
            if old.get(key) is not new.get(key):
                differ.append(key)
            if number % PIECE == 0:
                yield []
        for each in in_order(differ):
            if each is None:
                yield []
                continue
            gone: dict[str, None] = {}
            come: dict[str, None] = {}
            for value, facts in ((old.get(each), gone), (new.get(each), come)):
                for _ in _find_facts(self._answer_set, zone, each, value, facts):
                    yield []
            yield [*_differing(gone, come)]


def noted_lines(answer_set: AnswerSet, zone: Name, noted: Noted) -> Iterator[list[str]]:
    """What one change of an object changed in DNS, or behind a cluster IP, as lines of Changes, and in such pieces."""
    key = noted.service
    now = answer_set.lookup.values(zone).get(key)
    if now is None or now.kind is None:
        now = ServiceValue(HEADLESS)  # it is gone, and so are its cluster IPs
    found: list[dict[str, None]] = []
    for packed, is_there in (
        (noted.before, noted.event != ADDED),
        (noted.after, noted.event != DELETED),
    ):
        facts: dict[str, None] = {}
        if isinstance(packed, ServiceFacts):
            value = ServiceValue(
                kind_of(packed),
                "",
                packed.cluster_ips,
                packed.ports,
                packed.external_name,
                now.slices,
            )
        else:
            value, is_there = now.with_slices(packed), True
        if value.kind == CLUSTER_IP and value.slices is packed:
            service = b".".join((key[1], key[0], SVC)).decode("utf-8", "replace")
            name = f"{service}.{zone.to_text().removesuffix('.')}"
            hosts = (each for part in value.slices for each in part.hosts)
            facts = {
                f"endpoint {address_to_text(each)} {name}": None
                for each in hosts
                if isinstance(each, bytes)
            }
        elif is_there:
            for _ in _find_facts(answer_set, zone, key, value, facts):
                yield []
        found.append(facts)
    yield [*_differing(*found)]


def kind_of(facts: ServiceFacts) -> str:
    """The kind of a Service."""
    if facts.external_name is not None:
        return EXTERNAL_NAME
    return CLUSTER_IP if facts.cluster_ips else HEADLESS


def _differing(gone: Mapping[str, None], come: Mapping[str, None]) -> Iterator[str]:
    yield from (f"- {fact}" for fact in gone if fact not in come)
    yield from (f"+ {fact}" for fact in come if fact not in gone)


def _find_facts(
    answer_set: AnswerSet, zone: Name, key: Key, value: ServiceValue | None, facts: dict[str, None]
) -> Iterator[None]:
    """Add the facts of a Service to `facts`; yield after some of them."""
    if value is None:
        return
    headless = value.kind == HEADLESS
    for rrset in answer_set.pieces_of_service(zone, key, value):
        yield
        for number, record in enumerate(rrset, 1):
            fact = _fact(record, headless)
            if fact is not None:
                facts[fact] = None
            if number % RECORDS == 0:
                yield


def _fact(record: RR, headless: bool) -> str | None:
    """The fact that a record of a Service shows; None if other records show it."""
    label, owner = record.owner.labels[0], record.owner.to_text().removesuffix(".")
    is_port = label.startswith(b"_")
    if record.rrtype in ADDRESSES:
        if is_port or (headless and label == dashed(record.rdata)):
            return None
        return f"{address_to_text(record.rdata)} {owner}"
    if record.rrtype == RRType.SRV and is_port:
        return f"port {int.from_bytes(record.rdata[4:6], 'big')} {owner}"
    if record.rrtype == RRType.CNAME and not is_port:
        return f"CNAME {Name(record.rdata).to_text().removesuffix('.')} {owner}"
    return None


SORTED_AT_ONCE: Final = 500
RRset = tuple[RR, ...]  # empty only in pieces_of_zone()
Labels = tuple[bytes, ...]
Item = TypeVar("Item")


class AnswerSet:
    """The names of a kubernetes block; `zones` are its zones, in lower case."""

    def __init__(self, answers: ClusterAnswers, zones: Sequence[Name]) -> None:
        self.answers = answers
        self.lookup = answers.lookup
        self.zones = tuple(zones)
        self.forward_zones = tuple(
            zone for zone in zones if not is_reverse(_below((b"a", b"b"), zone))
        )

    def rrsets(self) -> Iterator[RRset]:
        """All RRsets, zone by zone: the zone itself, Services by namespace and name, pods, addresses."""
        for zone in self.zones:
            yield from self.of_zone(zone)

    def of_zone(self, zone: Name) -> Iterator[RRset]:
        """The RRsets of one zone; names in a longer zone of the block belong to that zone."""
        return filter(None, self.pieces_of_zone(zone))

    def pieces_of_zone(self, zone: Name) -> Iterator[RRset]:
        """The same, with an empty RRset wherever other tasks may run before the next one is made."""
        found = chain(
            self._apex(zone), self._services(zone), self._pods(zone), self._pointers(zone)
        )
        inner = [each for each in self.zones if each != zone and each.is_at_or_below(zone)]
        if not inner:
            return found
        return (
            rrset
            for rrset in found
            if not rrset or not any(rrset[0].owner.is_at_or_below(each) for each in inner)
        )

    def of_service(self, zone: Name, key: Key, value: ServiceValue) -> Iterator[RRset]:
        """The RRsets of one state of a Service (or ServiceImport), whether or not its namespace is exposed."""
        return filter(None, self.pieces_of_service(zone, key, value))

    def pieces_of_service(self, zone: Name, key: Key, value: ServiceValue) -> Iterator[RRset]:
        """The same, with empty RRsets as in pieces_of_zone()."""
        if value.kind is None or self.lookup.hides(value):
            return
        value = value.with_slices(value.slices)  # its caches are dropped with it
        ttl, multicluster = self.lookup.ttl, self.lookup.is_multicluster(zone)
        for labels in _labels(value, self.lookup.zonal, multicluster):
            labels = (*labels, key[1], key[0], SVC)
            parsed = parse(labels, zonal=self.lookup.zonal, multicluster=multicluster)
            try:
                owner = Name.from_labels((*labels, *zone.labels))
            except ValueError:  # over 255 octets, so no query can ask for it
                continue
            node = schema.find(value, parsed, owner, ttl) if parsed is not None else None
            if node is None or parsed is None:
                continue
            if node.targets:
                yield tuple(RR(owner, RRType.CNAME, ttl, each.lower) for each in node.targets)
            if node.a:
                yield node.a
            if node.aaaa:
                yield node.aaaa
            for _ in schema.make_srv(value, node, parsed, owner, zone, ttl):
                yield ()
            if node.srv is not None and node.srv[0]:
                yield node.srv[0]
            value.nodes.clear()

    def exposed(self, zone: Name) -> dict[Key, ServiceValue]:
        """The current Services (or ServiceImports) of a zone in exposed namespaces."""
        namespaces = self.exposed_namespaces()
        values = dict(self.lookup.values(zone))
        return {key: value for key, value in values.items() if key[0] in namespaces}

    def exposed_namespaces(self) -> frozenset[bytes]:
        """The namespaces whose names exist now."""
        namespaces = list(self.lookup.store.namespaces)
        return frozenset(name for name in namespaces if self.lookup.is_exposed(name, None))

    def open_ended(self) -> list[str]:
        """Sentences about the names that are answered but not listed, because any text makes one."""
        if self.lookup.pods != "insecure":
            return []
        return [
            f"A-B-C-D.NAMESPACE.pod.{zone.to_text()} A A.B.C.D: any address (pods insecure)"
            for zone in self.forward_zones
        ]

    def _apex(self, zone: Name) -> Iterator[RRset]:
        server, version = _below((b"ns", b"dns"), zone), _below((b"dns-version",), zone)
        yield from self._ask(zone, zone, RRType.SOA, RRType.NS)
        yield from self._ask(server, zone, RRType.A, RRType.AAAA)
        yield from self._ask(version, zone, RRType.TXT)

    def _services(self, zone: Name) -> Iterator[RRset]:
        if zone not in self.forward_zones:
            return
        namespaces, values = self.exposed_namespaces(), dict(self.lookup.values(zone))
        for key in in_order(values):
            yield ()
            if key is not None and key[0] in namespaces:
                yield from self.pieces_of_service(zone, key, values[key])

    def _pods(self, zone: Name) -> Iterator[RRset]:
        if self.lookup.pods != "verified" or zone not in self.forward_zones:
            return
        owners = dict(self.lookup.store.pods.by_address)
        found = ((pod[0], address) for address, pods in owners.items() for pod in pods)
        last = None
        for each in in_order(found):
            yield ()
            if each is None or each == last:  # pods of the host's network share its address
                continue
            namespace, address = last = each
            label = re.sub("[.:]", "-", address_to_text(address)).encode()
            owner = _below((label, namespace, POD), zone)
            yield from self._ask(owner, zone, RRType.A, RRType.AAAA, RRType.SRV)

    def _pointers(self, zone: Name) -> Iterator[RRset]:
        services = self.lookup.store.services
        addresses = chain(services.cluster_ips.addresses(), services.endpoint_ips.addresses())
        lengths = [
            length
            for length, reverse in zip((4, 16), REVERSE_ZONES, strict=True)
            if reverse.is_at_or_below(zone) or zone.is_at_or_below(reverse)
        ]
        if not lengths:
            return
        last = None
        for each in in_order((len(address), address) for address in addresses):
            yield ()
            if each is None or each == last or each[0] not in lengths:
                continue  # an endpoint may have a cluster IP
            last = each
            owner = reverse_name(each[1])
            if owner.is_at_or_below(zone):
                yield from self._ask(owner, zone, RRType.PTR)

    def _ask(self, owner: Name, zone: Name, *rrtypes: int) -> Iterator[RRset]:
        """The answers to queries that need neither a Service's records nor another server."""
        for rrtype in rrtypes:
            with contextlib.suppress(NoSuchName):
                reply = self.answers.answer(owner, rrtype, zone)
                if isinstance(reply, Reply) and reply.answer:
                    yield reply.answer


def listed(answer_sets: Iterable[AnswerSet]) -> Iterator[dict[str, Any] | None]:
    """What `hsdns names` and the control API write; None wherever other tasks may run.

    It is an object for each RRset, with its RDATA as in a zone file, and then the sentences of open_ended().  `behind`
    is there if no endpoint is ready behind a name with a cluster IP, and says so.
    """
    sentences: dict[str, None] = {}
    for answer_set in answer_sets:
        sentences |= dict.fromkeys(answer_set.open_ended())
        lookup = answer_set.lookup
        is_known = bool(
            lookup.store.services.endpoint_ips.owners
        )  # else the source may have no endpoints
        for zone in answer_set.zones:
            for rrset in answer_set.pieces_of_zone(zone):
                yield None
                if rrset:
                    behind = lookup.nothing_behind(rrset[0].owner, zone) if is_known else ""
                    yield from _object(zone, rrset, behind)
    for sentence in sentences:
        yield {"open_ended": sentence}


def _object(zone: Name, rrset: RRset, behind: str) -> Iterator[dict[str, Any] | None]:
    owner, rrtype, ttl, _, _ = rrset[0]
    records = []
    for number, record in enumerate(rrset, 1):
        records.append(rdata_to_text(rrtype, record.rdata))
        if number % RECORDS == 0:
            yield None
    yield {
        "name": owner.to_text(),
        "type": type_to_text(rrtype),
        "ttl": ttl,
        "records": records,
        "zone": zone.to_text(),
        **({"behind": behind} if behind else {}),
    }


def in_order(items: Iterable[Item]) -> Iterator[Item | None]:
    """Sort in pieces, with None after each; then yield the items."""
    rest, parts = iter(items), []
    while part := sorted(islice(rest, SORTED_AT_ONCE)):  # type: ignore[type-var] # keys, which are tuples of bytes
        parts.append(part)
        yield None
    yield from heapq.merge(*parts)  # type: ignore[type-var] # as above


def _labels(value: ServiceValue, zonal: bool, multicluster: bool) -> Iterator[Labels]:
    """The labels left of the Service's own name in the names below it; each once."""
    yield ()
    if value.kind == EXTERNAL_NAME:
        return
    yield from port_labels(value)
    endpoints = dict.fromkeys(
        (label, part.cluster)
        for label, places in value.labels.items()
        for part, _ in places
        if label
    )
    for label, cluster in endpoints:
        yield (label, cluster) if cluster else (label,)
    if zonal and not multicluster and value.kind == HEADLESS:
        topology = dict.fromkeys(
            zone for part in value.slices for zone in part.topology_zones or () if zone
        )
        for zone in topology:
            for directive in (b"pin", b"prefer"):
                yield (*zone.split(b"."), directive, b"_zone")


def port_labels(value: ServiceValue) -> list[Labels]:
    """`_PORT`, `_PROTOCOL` for each port that has a name; not for ExternalName Services."""
    ports = value.ports
    if value.kind == HEADLESS:
        ports = tuple(port for part in value.slices for port in part.ports)
    return [
        (b"_" + name, b"_" + protocol)
        for name, protocol in dict.fromkeys((port.name, port.protocol) for port in ports)
        if 0 < len(name) < MAX_LABEL_LEN and 0 < len(protocol) < MAX_LABEL_LEN
    ]


def _below(labels: Labels, zone: Name) -> Name:
    return Name(labels_to_wire(labels) + zone.lower)
