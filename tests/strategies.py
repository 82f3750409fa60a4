"""What hypothesis draws: names, queries, records, clusters, the events that make them, and questions that hit them.

Path: tests only.
Rule 1: values come from small pools, so that duplicates, clashes and hits are the rule and not the exception.
Rule 2: a cluster is a list of objects without two of one kind, namespace and name, as an API server would hold it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from ipaddress import ip_address
from random import Random
from typing import Final, TypeVar

from hypothesis import strategies as st
from msgspec import structs

from hsdns.cluster.objects import (
    IMPORT_NAME_LABEL,
    SERVICE_NAME_LABEL,
    SOURCE_CLUSTER_LABEL,
    Deleted,
    Endpoint,
    EndpointConditions,
    EndpointPort,
    EndpointSlice,
    Event,
    LoadBalancerIngress,
    LoadBalancerStatus,
    Namespace,
    Object,
    ObjectMeta,
    ObjectReference,
    Pod,
    PodStatus,
    Service,
    ServiceImport,
    ServiceImportSpec,
    ServicePort,
    ServiceSpec,
    ServiceStatus,
    Synced,
    Upserted,
)
from hsdns.wire import rdata
from hsdns.wire.edns import Edns
from hsdns.wire.iana import RRType
from hsdns.wire.message import CD, RD, RR, Query
from hsdns.wire.name import Name
from tests.support.cluster.reference import Options

T = TypeVar("T")

NAMESPACES: Final = ("default", "testns", "kube-system")
SERVICES: Final = ("db", "web", "ext")
SLICES: Final = ("s1", "s2", "s3", "s4")
PORT_NAMES: Final = ("http", "dns", "HTTP", "", None)
PROTOCOLS: Final = ("TCP", "UDP", None)
PORTS: Final = (80, 53, 8080, 65535)
# Plain, IPv6 ending in "::", IPv4-mapped, not in canonical form, and two that are invalid.
ADDRESSES: Final = (
    "10.0.0.1", "10.0.0.2", "10.0.0.30", "fd00::1", "fd00::", "::1:0:0:2", "2001:DB8::5", "::ffff:10.0.0.9",
    "fe80::1%eth0", "10.0.0",
)  # fmt: skip
CLUSTER_IPS: Final = ("10.96.0.1", "10.96.0.2", "fd96::1", "10.0.0.2")
EXTERNAL_IPS: Final = ("192.0.2.1", "192.0.2.2", "2001:db8::7", "nonsense..")
TOPOLOGY_ZONES: Final = (None, None, None, "a", "a", "B", "eu.1", "", "Ümlaut", "x" * 64)
HOSTNAMES: Final = (
    "pod-0", "pod-1", "Pod-0", "10-0-0-1", "x" * 63, "x" * 64, "a.b", "*", "_tcp", "any", "nul\0", "ümlaut", "",
)  # fmt: skip
TARGETS: Final = (
    "example.org", "Example.ORG.", "db.default.svc.cluster.local", "web.testns.svc.cluster.local.",
    "ext.default.svc.cluster.local", "pod-0.db.default.svc.cluster.local", "ns.dns.cluster.local",
    "nope.cluster.local", "cluster.local", "10.1.2.3", "fd00::9", "", "a..b", "y" * 64 + ".org",
)  # fmt: skip
FQDN_ADDRESSES: Final = ("example.org", "web.default.svc.cluster.local", "10.0.0.1")
POD_WORDS: Final = "10-0-0-1 10-0-0-300 010-0-0-1 fd00--1 fd00-- --ffff-a00-1 a-b-c-d x".split()
ZONE_SETS: Final = (
    ("cluster.local.", "in-addr.arpa.", "ip6.arpa."),
    ("cluster.local.", "0.10.in-addr.arpa."),
    ("cluster.local.", "sub.cluster.local."),
    ("10.in-addr.arpa.", "ip6.arpa.", "cluster.local."),
    ("in-addr.arpa.", "cluster.local."),
)
_ANSWERED: Final = (1, 28, 33, 5)
QTYPES: Final = (1, 28, 33, 5, 16, 12, 15, 6, 2, 255, 65, 43, 0, 252, 251, 65280)


# Names and messages

labels = st.binary(min_size=1, max_size=63) | st.sampled_from(
    [b"www", b"WWW", b"a.b", b"\\", b"\xff\xfe", b"\0", b"_tcp", b" ", b'"', b"@", b"9", b"x" * 63]
)


def _name(found: list[bytes]) -> Name:
    wire = b""
    for label in found:
        if len(wire) + len(label) + 2 <= 255:
            wire += bytes([len(label)]) + label
    return Name(wire + b"\0")


@cache
def names(max_labels: int = 6) -> st.SearchStrategy[Name]:
    """Any name that RFC 1035 has room for."""
    return st.lists(labels, max_size=max_labels).map(_name)


_COMMON: Final = tuple(
    Name.from_text(text)
    for text in (
        ".", "org.", "example.org.", "EXAMPLE.org.", "www.example.org.", "a.www.example.org.", "svc.cluster.local.",
        "cluster.local.", "db.default.svc.cluster.local.", "DB.default.SVC.cluster.local.", "x.example.com.",
    )
)  # fmt: skip


@cache
def related_names() -> st.SearchStrategy[Name]:
    """Names that share suffixes, so that there is something to compress."""
    return st.sampled_from(_COMMON) | names()


# Cookies have a form that dnspython checks (RFC 7873 section 4); client subnet (8) and 100 are not sent back.
edns_options = st.lists(
    st.tuples(st.sampled_from([3, 9, 11, 12, 100]), st.binary(max_size=24))
    | st.tuples(st.just(10), st.binary(min_size=8, max_size=8))
    | st.just((8, b"\0\1\x18\0\xc0\0\2")),
    max_size=4,
).map(tuple)
edns = st.builds(
    Edns,
    payload_size=st.sampled_from([0, 100, 512, 1232, 4096, 9000, 65535]),
    do=st.booleans(),
    options=edns_options,
)


@cache
def queries() -> st.SearchStrategy[Query]:
    """A query in class IN, as decode() would give it."""
    return st.builds(
        Query.ask,
        related_names(),
        st.sampled_from(QTYPES),
        query_id=st.integers(0, 65535),
        flags=st.sampled_from([0, RD, CD, RD | CD]),
        edns=st.none() | edns,
    )


@cache
def records() -> st.SearchStrategy[RR]:
    """A record of any type that the server makes, or of one that it only passes on."""
    ttl = st.sampled_from([0, 5, 30, 300, 28800, 0x7FFFFFFF])
    return st.sampled_from([1, 28, 2, 5, 12, 6, 15, 16, 33, 65280]).flatmap(
        lambda rrtype: records_of(rrtype, ttl)
    )


@cache
def records_of(rrtype: int, ttl: st.SearchStrategy[int]) -> st.SearchStrategy[RR]:
    """A record of one of these types."""
    fields = st.tuples(related_names(), ttl, _rdata(rrtype))
    return fields.map(lambda each: RR(each[0], rrtype, each[1], each[2]))


def _rdata(rrtype: int) -> st.SearchStrategy[bytes]:
    target = related_names()
    if rrtype == RRType.A:
        return st.binary(min_size=4, max_size=4)
    if rrtype == RRType.AAAA:
        return st.binary(min_size=16, max_size=16)
    if rrtype in (RRType.NS, RRType.CNAME, RRType.PTR):
        return target.map(lambda name: name.wire)
    if rrtype == RRType.SOA:
        return st.builds(
            lambda mname, rname, serial: rdata.soa(mname, rname, serial, 7200, 1800, 86400, 30),
            target,
            target,
            st.integers(0, 2**32 - 1),
        )
    if rrtype == RRType.MX:
        preference = st.binary(min_size=2, max_size=2)
        return st.tuples(preference, target).map(lambda each: each[0] + each[1].wire)
    if rrtype == RRType.HTTPS:
        after = st.sampled_from([b"", b"\0\1\0\3\2h2"])
        return st.tuples(target, after).map(lambda each: b"\0\1" + each[0].wire + each[1])
    if rrtype == RRType.SRV:
        return st.builds(rdata.srv, st.just(0), st.integers(1, 100), st.sampled_from(PORTS), target)
    if rrtype == RRType.TXT:
        texts = st.lists(st.binary(max_size=40), min_size=1, max_size=3)
        return texts.map(lambda each: rdata.txt(*each))
    return st.binary(max_size=40)


sections = st.lists(records(), max_size=12).map(tuple)


@st.composite
def damaged(draw: st.DrawFn, wire: bytes) -> bytes:
    """A message with a few octets changed, cut, doubled or added."""
    found = bytearray(wire)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(found) - 1, 0)))
        what = draw(st.sampled_from(["set", "cut", "insert", "double"]))
        if what == "set" and found:
            found[at] = draw(
                st.sampled_from([0, 1, 2, 3, 0x3F, 0x40, 0x80, 0xBF, 0xC0, 0xFF])
                | st.integers(0, 255)
            )
        elif what == "cut":
            del found[at:]
        elif what == "insert":
            found[at:at] = draw(st.binary(max_size=12))
        else:
            found += found[at:]
    return bytes(found)


# Clusters


def _mixed(common: Sequence[T], odd: Sequence[T], share: int = 4) -> st.SearchStrategy[T]:
    """Mostly one of the common values, sometimes an odd one."""
    return st.sampled_from(
        [*common] * (share * max(len(odd), 1) // max(len(common), 1) + 1) + [*odd]
    )


def _few(values: st.SearchStrategy[T], most: int) -> st.SearchStrategy[list[T] | None]:
    """One to `most` values, now and then none, or not even a list."""
    some = st.lists(values, min_size=1, max_size=most)
    return st.one_of(some, some, some, st.just([]), st.none())


service_ports = st.builds(
    ServicePort,
    port=st.sampled_from(PORTS),
    name=st.sampled_from(PORT_NAMES),
    protocol=st.sampled_from(PROTOCOLS),
)
slice_ports = st.builds(
    EndpointPort,
    port=st.sampled_from((*PORTS, None)),
    name=st.sampled_from(PORT_NAMES),
    protocol=st.sampled_from(PROTOCOLS),
)


@st.composite
def services(draw: st.DrawFn, namespace: str, name: str, version: str) -> Service:
    """A Service of any of the three kinds, its ports absent, one or several of one name."""
    meta = ObjectMeta(name=name, namespace=namespace, resource_version=version)
    kind = draw(st.sampled_from(["ClusterIP", "headless", "headless", "ExternalName"]))
    ports = draw(_few(service_ports, 2))
    if kind == "ExternalName":
        spec = ServiceSpec(
            type=kind, external_name=draw(_mixed(TARGETS[:9], TARGETS[9:])), ports=ports
        )
    elif kind == "headless":
        spec = ServiceSpec(type="ClusterIP", cluster_ip="None", ports=ports)
    else:
        addresses = draw(
            st.lists(st.sampled_from(CLUSTER_IPS), min_size=1, max_size=2, unique=True)
        )
        several = draw(st.booleans())
        spec = ServiceSpec(
            type=draw(st.sampled_from([None, "ClusterIP", "NodePort", "LoadBalancer"])),
            cluster_ip=addresses[0],
            cluster_ips=addresses if several else None,
            ports=ports,
        )
    if draw(st.booleans()):
        return Service(meta, spec)
    spec = structs.replace(
        spec, external_ips=draw(st.none() | st.lists(st.sampled_from(EXTERNAL_IPS), max_size=2))
    )
    return Service(meta, spec, draw(st.sampled_from(_STATUSES)))


_STATUSES: Final = (
    None,
    ServiceStatus(),
    ServiceStatus(LoadBalancerStatus([LoadBalancerIngress(hostname="lb.example.org")])),
    ServiceStatus(
        LoadBalancerStatus([LoadBalancerIngress("192.0.2.1", "x.org"), LoadBalancerIngress()])
    ),
)


@st.composite
def service_imports(draw: st.DrawFn, namespace: str, name: str, version: str) -> ServiceImport:
    """A ServiceImport of either kind."""
    spec = ServiceImportSpec(
        type=draw(st.sampled_from(["ClusterSetIP", "Headless"])),
        ips=draw(st.none() | st.lists(st.sampled_from((*CLUSTER_IPS, "10.0.0")), max_size=2)),
        ports=draw(_few(service_ports, 2)),
    )
    return ServiceImport(ObjectMeta(name, namespace, version), spec)


_CONDITIONS: Final = (
    None,
    EndpointConditions(ready=True),
    EndpointConditions(),
    EndpointConditions(ready=True, serving=False, terminating=True),
    EndpointConditions(ready=False, serving=True, terminating=True),
)


@st.composite
def endpoints(draw: st.DrawFn, address_type: str) -> Endpoint:
    """An endpoint with one to three addresses, ready or not, named or not."""
    pool = (
        st.sampled_from(FQDN_ADDRESSES)
        if address_type == "FQDN"
        else _mixed(ADDRESSES[:6], ADDRESSES[6:])
    )
    pod = draw(st.sampled_from([None, None, "pod-0", "pod-1", "db-xyz", "p" * 64]))
    return Endpoint(
        addresses=draw(st.lists(pool, min_size=1, max_size=2)),
        conditions=draw(st.sampled_from(_CONDITIONS)),
        hostname=draw(st.none() | _mixed(HOSTNAMES[:4], HOSTNAMES[4:], share=1)),
        target_ref=None if pod is None else ObjectReference(kind="Pod", name=pod),
        zone=draw(st.sampled_from(TOPOLOGY_ZONES)),
    )


@st.composite
def endpoint_slices(draw: st.DrawFn, namespace: str, name: str, version: str) -> EndpointSlice:
    """A slice of one of the namespace's Services, of a Service that is not there, or of none."""
    owner = draw(st.sampled_from([*SERVICES * 3, "gone", None]))
    address_type = draw(st.sampled_from(["IPv4", "IPv4", "IPv6", "FQDN"]))
    found_labels = None if owner is None else {SERVICE_NAME_LABEL: owner}
    shared = draw(st.sampled_from([None] * 4 + ["db", "web"]))
    if shared is not None:
        cluster = draw(st.sampled_from([{}, {SOURCE_CLUSTER_LABEL: "east"}]))
        found_labels = {**(found_labels or {}), IMPORT_NAME_LABEL: shared, **cluster}
    return EndpointSlice(
        ObjectMeta(name=name, namespace=namespace, resource_version=version, labels=found_labels),
        address_type=address_type,
        endpoints=draw(_few(endpoints(address_type), 3)),
        ports=draw(_few(slice_ports, 2)),
    )


@st.composite
def pods(draw: st.DrawFn, namespace: str, name: str, version: str) -> Pod:
    """A pod with or without an address; some have ended."""
    meta = ObjectMeta(name=name, namespace=namespace, resource_version=version)
    address = draw(st.sampled_from(["10.0.0.1", "10.0.0.2", "fd00::1", "fd00::", "", None]))
    phase = draw(st.sampled_from(["Running", "Running", "Pending", None, "Succeeded", "Failed"]))
    return Pod(meta, PodStatus(pod_ip=address, phase=phase))


@st.composite
def objects(draw: st.DrawFn, kind: str, namespace: str, name: str, version: str = "1") -> Object:
    """One object with a given identity."""
    if kind == "Service":
        return draw(services(namespace, name, version))
    if kind == "EndpointSlice":
        return draw(endpoint_slices(namespace, name, version))
    if kind == "Pod":
        return draw(pods(namespace, name, version))
    if kind == "ServiceImport":
        return draw(service_imports(namespace, name, version))
    return Namespace(ObjectMeta(name=namespace, resource_version=version))


_IDENTITIES: Final = (
    *[("Namespace", namespace, namespace) for namespace in NAMESPACES],
    *[("Service", "default", name) for name in SERVICES],
    *[("Service", "testns", name) for name in SERVICES[:2]],
    *[("EndpointSlice", "default", name) for name in SLICES],
    *[("EndpointSlice", "testns", name) for name in SLICES[:2]],
    *[("Pod", "default", name) for name in ("pod-0", "pod-1")],
    *[("ServiceImport", "default", name) for name in SERVICES[:2]],
)


@st.composite
def clusters(draw: st.DrawFn) -> list[Object]:
    """Objects in any order; some of the Services, slices and namespaces are missing."""
    absent = draw(st.sets(st.sampled_from(_IDENTITIES), max_size=5))
    return [
        draw(objects(*identity))
        for identity in draw(st.permutations(_IDENTITIES))
        if identity not in absent
    ]


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """Adds, changes and deletes in any order: slices before their Services, namespaces late, deletes of nothing."""
    found: list[Event] = [Upserted(draw(objects(*identity))) for identity in _IDENTITIES[:4]]
    steps = st.tuples(st.sampled_from(_IDENTITIES[3:] * 2 + _IDENTITIES), st.integers(0, 3))
    drawn = draw(st.lists(steps, min_size=4, max_size=16))
    # The first objects have version 1; an API server never gives one version to two states.
    for version, (identity, what) in enumerate(drawn, start=2):
        changed = draw(objects(*identity, str(version)))
        found.append(Deleted(changed) if what == 0 else Upserted(changed))
    if draw(st.booleans()):
        found.insert(draw(st.integers(0, len(found))), Synced())
    return found


def remaining(events: Sequence[Event]) -> list[Object]:
    """The objects that are there after a history."""
    found: dict[tuple[str, str, str], Object] = {}
    for event in events:
        if isinstance(event, Synced):
            continue
        meta = event.object.metadata
        identity = (type(event.object).__name__, meta.namespace, meta.name)
        found.pop(identity, None)
        if isinstance(event, Upserted):
            found[identity] = event.object
    return list(found.values())


# Questions

_ZONAL: Final = ("a.pin._zone.", "b.prefer._zone.", "eu.1.prefer._zone.", "c.pin._zone.")
seeds = st.integers(0, 0xFFFFFFFF)


def existing_names(
    cluster: Sequence[Object], zones: Sequence[str] = ("cluster.local.",)
) -> list[str]:
    """Every name that the objects could stand at, in every form of the grammar, and its neighbours."""
    zone = next(zone for zone in zones if not zone.endswith("arpa."))
    found = ["", *"svc. pod. dns-version. x.dns-version. ns.dns. dns. apex.dns. nope.".split()]
    found += [
        f"{namespace}.{kind}." for namespace in (*NAMESPACES, "nope") for kind in ("svc", "pod")
    ]
    found += [
        f"{left}{word}.{NAMESPACES[0]}.pod."
        for word in POD_WORDS
        for left in ("", "a.", "_a._b.", "a.b.c.")
    ]
    reverse = list(zones)
    for each in cluster:
        meta = each.metadata
        if isinstance(each, Service):
            home = f"{meta.name}.{meta.namespace}.svc."
            found += [
                f"{left}{home}"
                for left in ("", "_tcp.", "_._tcp.", "_._.", "_x._tcp.", "a.b.c.", "nope.", *_ZONAL)
            ]
            found += [f"{left}{meta.name}.{meta.namespace}." for left in ("", "_x._tcp.", "pod-0.")]
            found += [
                f"{name}.{protocol}.{home}"
                for port in each.spec.ports or ()
                for name, protocol in [
                    (f"_{port.name}", f"_{port.protocol}"),
                    (f"{port.name}", f"{port.protocol}"),
                    (f"_{port.name}", "_udp"),
                ]
                if port.name
            ]
            reverse += [
                _reverse(text) for text in each.spec.cluster_ips or [each.spec.cluster_ip or ""]
            ]
        elif isinstance(each, EndpointSlice):
            home = f"{(each.metadata.labels or {}).get(SERVICE_NAME_LABEL, 'db')}.{meta.namespace}.svc."
            for endpoint in each.endpoints or ():
                words = [
                    endpoint.hostname or "",
                    (endpoint.target_ref and endpoint.target_ref.name) or "",
                ]
                for text in endpoint.addresses or ():
                    dashed = text.replace(".", "-").replace(":", "-")
                    words += [dashed, dashed + "0"]
                    reverse.append(_reverse(text))
                found += [
                    f"{_escape(word)}.{cluster}{home}"
                    for word in words
                    if 0 < len(word.encode()) < 64
                    for cluster in ("", "east.")
                ]
            found += [
                f"_{port.name}._{port.protocol}.{home}" for port in each.ports or () if port.name
            ]
        elif isinstance(each, Pod):
            dashed = (each.status.pod_ip or "x").replace(".", "-").replace(":", "-")
            found.append(f"{dashed}.{meta.namespace}.pod.")
    reverse += [
        f"{each}in-addr.arpa." for each in ("1.0.0.10.", "0.0.10.", "svc.", "db.default.svc.")
    ]
    return (
        [f"{left}{zone}" for left in found] + [text for text in reverse if text] + ["example.org."]
    )


def questions(
    seed: int, cluster: Sequence[Object], zones: Sequence[str], count: int
) -> list[tuple[Name, int]]:
    """Names that the cluster has something to do with, in any case, and types; half of them with an answer in mind.

    A plain function of a drawn seed: drawing each question would use up hypothesis' budget and fill its reports.
    """
    chance = Random(seed)
    names_of_all = existing_names(cluster, zones)
    likely = [text for text in names_of_all if text.count(".") > 5]
    found = []
    for _ in range(count):
        text = chance.choice(likely if likely and chance.random() < 0.6 else names_of_all)
        if text.endswith("arpa.") and chance.random() < 0.7:
            qtype = RRType.PTR
        else:
            qtype = chance.choice(_ANSWERED if chance.random() < 0.7 else QTYPES)
        found.append((Name.from_text(_recase(text, chance)), qtype))
    return found


@st.composite
def options(draw: st.DrawFn) -> Options:
    """Any combination of the plugin's properties."""
    return Options(
        zones=draw(st.sampled_from(ZONE_SETS)),
        ttl=draw(st.sampled_from([0, 5, 30, 300, 3600])),
        pods=draw(st.sampled_from(["disabled", "insecure", "verified"])),
        endpoint_pod_names=draw(st.booleans()),
        ignore_empty_service=draw(st.booleans()),
        noendpoints=draw(st.sampled_from([False] * 7 + [True])),
        namespaces=draw(st.sampled_from([(), (), (), ("default",), ("testns", "nope")])),
        fallthrough=draw(st.sampled_from([None, None, None, (), ("in-addr.arpa.", "ip6.arpa.")])),
        synced=draw(st.sampled_from([True, True, True, False])),
        local_addresses=draw(
            st.sampled_from([(), ("192.0.2.1", "fd99::1"), ("10.0.0.1", "fd00::1")])
        ),
    )


def _recase(text: str, chance: Random) -> str:
    # Only ASCII letters have a case in the DNS, and those of an escape none.
    if chance.random() < 0.7 or not text.isascii():
        return text
    return "".join(chance.choice((letter.upper(), letter)) for letter in text)


def _reverse(text: str) -> str:
    try:
        return ip_address(text).reverse_pointer + "."
    except ValueError:
        return ""


def _escape(word: str) -> str:
    return "".join(
        chr(octet)
        if chr(octet).isalnum() and octet < 128
        else f"\\{octet:03d}"
        if octet not in b"-_*"
        else chr(octet)
        for octet in word.encode()
    )
