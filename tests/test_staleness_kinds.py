"""No answer of the younger kinds of names is older than the last event: topology zones, imports, external addresses."""

from __future__ import annotations

import importlib
from types import ModuleType

import msgspec
import pytest

from hsdns.cluster.objects import (
    IMPORT_NAME_LABEL,
    SOURCE_CLUSTER_LABEL,
    Deleted,
    Endpoint,
    EndpointPort,
    EndpointSlice,
    Event,
    Namespace,
    Object,
    ObjectMeta,
    Service,
    ServiceImport,
    ServiceImportSpec,
    ServicePort,
    ServiceSpec,
    Upserted,
)
from tests.fastpath.twins import BOTH
from tests.support.cluster.objects import endpoint_slice, service
from tests.support.servers.memory_server import MemoryServer, ask, cluster_objects

DB = "db.default.svc.cluster.local."
OTHER = endpoint_slice("default/db-1", "db", "10.0.0.9 host=db-0", version="2")
GONE = Namespace(ObjectMeta(name="default", resource_version="9"))


@pytest.fixture(params=BOTH)
def twin(request: pytest.FixtureRequest) -> ModuleType:
    """One of the twins: its module."""
    return importlib.import_module(request.param)


# Topology zones, the Services of a set of clusters, and how Services are reached from outside.
EVERYTHING = """.:53 {
bind 192.0.2.53
k8s_external example.org 2.0.192.in-addr.arpa {
headless
}
kubernetes cluster.local clusterset.local in-addr.arpa ip6.arpa {
zonal
multicluster clusterset.local
}
}
"""
WEB_SET, DB_SET = "web.default.svc.clusterset.local.", "db.default.svc.clusterset.local."


def imported(name: str, *ips: str, version: str = "1") -> ServiceImport:
    spec = ServiceImportSpec(
        "ClusterSetIP" if ips else "Headless", list(ips), [ServicePort(80, "http", "TCP")]
    )
    return ServiceImport(ObjectMeta(name, "default", version), spec)


def shared(address: str, cluster: str = "east", version: str = "1") -> EndpointSlice:
    """Endpoint db-0 of the ServiceImport db."""
    labels = {IMPORT_NAME_LABEL: "db", SOURCE_CLUSTER_LABEL: cluster}
    endpoints = [Endpoint([address], hostname="db-0")]
    meta = ObjectMeta("db-1", "default", version, labels=labels)
    return EndpointSlice(meta, "IPv4", endpoints, [EndpointPort("http", "TCP", 80)])


def outside(name: str, *addresses: str, version: str = "1") -> Service:
    ports = [ServicePort(80, "http", "TCP")]
    spec = ServiceSpec(cluster_ips=["10.96.0.1"], external_ips=list(addresses), ports=ports)
    return Service(ObjectMeta(name, "default", version), spec)


def placed(zone: str, version: str = "1") -> EndpointSlice:
    """Endpoint db-0 of the Service db."""
    return msgspec.structs.replace(
        endpoint_slice("default/db-1", "db", version=version),
        endpoints=[Endpoint(["10.0.0.1"], hostname="db-0", zone=zone)],
    )


OF_EVERYTHING = [
    pytest.param([service("default/db"), placed("a")], f"a.pin._zone.{DB}", Upserted(placed("b", "2")), id="topology-zone"),
    pytest.param([service("default/db"), placed("a")], f"a.prefer._zone.{DB}", Deleted(placed("a")), id="endpoint-of-a-topology-zone"),
    pytest.param([service("default/db"), placed("a")], f"z.prefer._zone.{DB} SRV", Deleted(service("default/db")), id="service-of-a-topology-zone"),
    pytest.param([service("default/db"), placed("a")], f"b.pin._zone.{DB}", Upserted(placed("b", "2")), id="topology-zone-that-was-empty"),
    pytest.param([imported("web", "10.97.0.1")], WEB_SET, Upserted(imported("web", "10.97.0.2", version="2")), id="import"),
    pytest.param([imported("web", "10.97.0.1")], WEB_SET, Deleted(imported("web")), id="import-deleted"),
    pytest.param([imported("web", "10.97.0.1")], WEB_SET, Deleted(GONE), id="namespace-of-an-import"),
    pytest.param([imported("db"), shared("10.0.0.1")], DB_SET, Upserted(shared("10.0.0.2", version="2")), id="endpoint-of-an-import"),
    pytest.param([imported("db"), shared("10.0.0.1")], f"db-0.east.{DB_SET}", Upserted(shared("10.0.0.1", "west", "2")), id="endpoint-that-moves-to-another-cluster"),
    pytest.param([imported("db"), shared("10.0.0.1")], f"{DB_SET} SRV", Deleted(shared("10.0.0.1")), id="slice-of-an-import-deleted"),
    pytest.param([outside("web", "192.0.2.1")], "web.default.example.org.", Upserted(outside("web", "192.0.2.2", version="2")), id="external-address"),
    pytest.param([outside("web", "192.0.2.1")], "web.default.example.org.", Upserted(outside("web", version="2")), id="external-address-taken-away"),
    pytest.param([outside("web", "192.0.2.1")], "_http._tcp.web.default.example.org. SRV", Deleted(outside("web")), id="srv-from-outside"),
    pytest.param([outside("web", "192.0.2.1")], "web.default.example.org.", Deleted(GONE), id="namespace-from-outside"),
    pytest.param([outside("web", "192.0.2.1")], "1.2.0.192.in-addr.arpa. PTR", Upserted(outside("web", "192.0.2.2", version="2")), id="ptr-from-outside"),
    pytest.param([outside("web", "192.0.2.1")], "1.2.0.192.in-addr.arpa. PTR", Upserted(outside("api", "192.0.2.1")), id="second-ptr-from-outside"),
    pytest.param([service("default/db"), placed("a")], "db-0.db.default.example.org.", Deleted(placed("a")), id="endpoint-from-outside"),
    pytest.param([service("default/db"), placed("a")], "db.default.example.org. SRV", Upserted(OTHER), id="endpoints-from-outside"),
    pytest.param([outside("dns", "192.0.2.1"), endpoint_slice("default/dns-1", "dns", "192.0.2.53")], "example.org. NS", Upserted(outside("dns", "192.0.2.9", version="2")), id="ns-from-outside"),
    pytest.param([outside("dns", "192.0.2.1"), endpoint_slice("default/dns-1", "dns", "192.0.2.53")], "ns1.dns.example.org.", Deleted(endpoint_slice("default/dns-1", "dns")), id="ns-address-from-outside"),
    pytest.param([], "web.default.example.org.", Upserted(outside("web", "192.0.2.1")), id="external-address-that-comes"),
    pytest.param([], "1.2.0.192.in-addr.arpa. PTR", Upserted(outside("web", "192.0.2.1")), id="external-ptr-that-comes"),
    pytest.param([], WEB_SET, Upserted(imported("web", "10.97.0.1")), id="import-that-comes"),
    pytest.param([service("default/web", "10.96.0.1")], WEB_SET, Upserted(imported("web", "10.97.0.1")), id="import-beside-a-service"),
]  # fmt: skip


@pytest.mark.parametrize(("objects", "question", "event"), OF_EVERYTHING)
def test_next_answer_of_every_kind_is_new(
    twin: ModuleType, objects: list[Object], question: str, event: Event
) -> None:
    memory_server = MemoryServer(EVERYTHING, twin, cluster_objects(*objects))
    wire = ask(question)
    memory_server.from_chain(wire)
    before = memory_server.from_chain(wire)  # a topology zone without endpoints is stored now
    known = memory_server.from_table(wire)
    assert before is not None
    # What has a SOA record of these zones is not kept: its serial is another than the one that is written.
    has_soa = before[9] and (
        "example.org" in question or "clusterset" in question or "192.in" in question
    )
    assert known == (None if has_soa else before)
    memory_server.apply(event)
    new = memory_server.from_chain(wire, stores=False)
    assert new != before
    for protocol in ("udp", "tcp"):
        assert memory_server.from_table(wire, protocol) in (None, new)
