"""Causes of an absence that lie in the Corefile, the namespace or the Service: the first line for each."""

from __future__ import annotations

import pytest
from msgspec import structs

from hsdns.cluster.objects import (
    IMPORT_NAME_LABEL,
    SOURCE_CLUSTER_LABEL,
    Object,
    ObjectMeta,
    Selector,
    Service,
    ServiceImport,
    ServiceImportSpec,
    ServicePort,
)
from hsdns.explanation.candidates import PIECE, Candidates, selected
from hsdns.explanation.text import lines
from tests.support.cluster.explained import explain, explained, named_pod
from tests.support.cluster.objects import endpoint_slice, namespace, service

SHOP = namespace("shop")
WEB = service("shop/web", "10.96.0.1")
NAME = "web.shop.svc.cluster.local."


@pytest.mark.parametrize(
    ("question", "objects", "options", "cause"),
    [
        (NAME, [SHOP], {}, "there is no Service shop/web"),
        (NAME, [WEB], {}, "there is no namespace shop"),
        (NAME, [], {}, "there is no namespace shop; and there is no Service shop/web"),
        (NAME, [SHOP, WEB], {"namespaces": "other"}, "`namespaces` of the kubernetes block leaves out shop"),
        (NAME, [SHOP, WEB], {"labels": "app=x"}, "`labels` of the kubernetes block leaves out Service shop/web"),
        (NAME, [SHOP, WEB], {"namespace_labels": "app=x"}, "`namespace_labels` of the kubernetes block leaves out shop"),
        (NAME, [SHOP, WEB], {"ignore": "empty_service"},
         "`ignore empty_service` hides Service shop/web, because it has no ready endpoint"),
        ("db.shop.svc.cluster.local.", [SHOP, service("shop/db"), endpoint_slice("shop/db-1", "db", "10.0.0.1")],
         {"noendpoints": ""}, "`noendpoints` is in the kubernetes block, so no EndpointSlice is read"),
        (NAME, [SHOP, service("shop/web", external="10.1.2.3")], {},
         'externalName "10.1.2.3" of Service shop/web is an IP address, and a CNAME record needs a host name'),
        (f"x.{NAME}", [SHOP, service("shop/web", external="a.test")], {},
         "Service shop/web is of type ExternalName, which has a name of its own only; and Service shop/web has no "
         "endpoint named x: it has no endpoints"),
        (f"_grpc._tcp.{NAME}", [SHOP, WEB], {}, "Service shop/web has port http/TCP, but no port named grpc of protocol TCP"),
        ("10-0-0-1.shop.pod.cluster.local.", [SHOP], {},
         "`pods` of the kubernetes block is disabled, so pods have no names by address"),
        ("10-0-0-1.shop.pod.cluster.local.", [SHOP], {"pods": "verified"},
         "no pod of namespace shop has the address 10.0.0.1 (`pods verified`)"),
        ("db-0.shop.pod.cluster.local.", [SHOP], {"pods": "insecure"},
         'in the pod zone names are addresses, such as 10-0-0-1, and "db-0" is none'),
    ],
)  # fmt: skip
def test_first_line(
    question: str, objects: list[Object], options: dict[str, str], cause: str
) -> None:
    found = explain(question, *objects, **options)
    assert (found.cause, found.outcome) == (f"NXDOMAIN: {cause}", "does not resolve")


# What has endpoints, and what is added to it.


def test_labels_that_a_selector_wants() -> None:
    selector = Selector.from_text("a,b in (y,x),c!=z,!d")
    assert selected(selector, {"e": "1"}) == {"e": "1", "a": "true", "b": "x"}
    assert selector.matches(selected(selector))
    assert selected(None) == {}


# Causes of an absence that lie in the endpoints: the first line for each.


DB = service("shop/db")
NAME_ENDPOINT_CANDIDATES = "db.shop.svc.cluster.local."
PODS = [named_pod("shop/db-0", hostname="db-0", subdomain="other"), named_pod("shop/db-1", subdomain="db"),
        named_pod("shop/db-2"), named_pod("shop/db-3", hostname="db-3")]  # fmt: skip
PARTS = [endpoint_slice("shop/db-1", "db", *(f"10.0.0.{i} pod=db-{i}" for i in range(4)))]


def selecting(labels: dict[str, str]) -> Service:
    return structs.replace(DB, spec=structs.replace(DB.spec, selector=labels))


@pytest.mark.parametrize(
    ("question", "objects", "cause"),
    [
        (NAME_ENDPOINT_CANDIDATES, [DB], "Service shop/db has no endpoints: it has no selector and no EndpointSlice"),
        (NAME_ENDPOINT_CANDIDATES, [selecting({"name": "x"}), named_pod("shop/x-0", labels={"app": "x"})],
         "Service shop/db has no endpoints: its selector name=x matches no pod; pod x-0 has app=x"),
        (NAME_ENDPOINT_CANDIDATES, [selecting({"app": "x"}), named_pod("shop/x-0", labels={"app": "x"})],
         "Service shop/db has no endpoints: pod x-0, which its selector matches, has no address"),
        (NAME_ENDPOINT_CANDIDATES, [DB, endpoint_slice("shop/db-1", "db", "10.0.0.1 pod=db-0 ready=false"), named_pod("shop/db-0", reason="ContainersNotReady")],
         "0 of 1 endpoints of Service shop/db are ready (pod condition Ready is False: ContainersNotReady); "
         "publishNotReadyAddresses is false"),
        (f"db-0.{NAME_ENDPOINT_CANDIDATES}", [DB, *PARTS, *PODS],
         "Pod shop/db-0 has subdomain other, so its name is below Service other; the Service asked is db"),
        (f"db-1.{NAME_ENDPOINT_CANDIDATES}", [DB, *PARTS, *PODS], "Pod shop/db-1 has subdomain db but no hostname, so it has no name of its own"),
        (f"db-2.{NAME_ENDPOINT_CANDIDATES}", [DB, *PARTS, *PODS], "Pod shop/db-2 has neither hostname nor subdomain, so it has no name of its own"),
        (f"db-3.{NAME_ENDPOINT_CANDIDATES}", [DB, *PARTS, *PODS], "Pod shop/db-3 has a hostname but no subdomain, so it has no name of its own"),
        (f"db-9.{NAME_ENDPOINT_CANDIDATES}", [DB, endpoint_slice("shop/db-1", "db", "10.0.0.1 host=db-0")],
         'Service shop/db has no endpoint named db-9; did you mean "db-0"?'),
        (f"db-0.{NAME_ENDPOINT_CANDIDATES}", [DB, endpoint_slice("shop/db-1", "db", "10.0.0.1 host=db-0 ready=false")],
         "endpoint db-0 of Service shop/db is not ready; publishNotReadyAddresses is false"),
        (f"_http._tcp.{NAME_ENDPOINT_CANDIDATES}", [DB, endpoint_slice("shop/db-1", "db", "10.0.0.1", ports=["/TCP/80"])],
         "the port names differ: Service shop/db has port http/TCP; EndpointSlice db-1 has port (unnamed)/TCP"),
        ("1.0.0.10.in-addr.arpa. PTR", [DB, endpoint_slice("shop/db-1", "db", "10.0.0.1 ready=false")],
         "endpoint 10.0.0.1 of EndpointSlice shop/db-1 is not ready"),
        ("9.0.0.10.in-addr.arpa. PTR", [DB], "no Service has the address as its cluster IP, and no ready endpoint has it"),
    ],
)  # fmt: skip
def test_first_line_of_endpoint_candidates(
    question: str, objects: list[Object], cause: str
) -> None:
    assert explain(question, SHOP, *objects).cause == f"NXDOMAIN: {cause}"


def test_others_run_between_endpoints() -> None:
    part = endpoint_slice("shop/db-1", "db", *(f"10.0.0.{i}" for i in range(10 * PIECE)))
    replay, scene, kept, qname, _ = explained(f"db-9.{NAME_ENDPOINT_CANDIDATES}", SHOP, DB, part)
    parsed = replay.block.answers.lookup.parse(qname, replay.zone)
    assert parsed is not None
    found = list(Candidates(parsed, scene, kept, replay))
    assert found[:10] == [None] * 10
    assert [each.place for each in found if each is not None] == ["Service shop/db"]


# Causes of an absence in a zone of `multicluster`: the first line for each.


NAME_IMPORT_CANDIDATES = "db.shop.svc.clusterset.local."
PORTS = [ServicePort(80, "http", "TCP")]
EAST = {IMPORT_NAME_LABEL: "db", SOURCE_CLUSTER_LABEL: "east"}
COREFILE = """clusterset.local cluster.local {{
kubernetes clusterset.local cluster.local {{
multicluster clusterset.local
{}
}}
}}
"""


def imported(kind: str = "Headless", **fields: object) -> ServiceImport:
    spec = ServiceImportSpec(kind, **{"ports": PORTS, **fields})  # type: ignore[arg-type]
    return ServiceImport(ObjectMeta("db", "shop", "1"), spec)


def part(*endpoints: str) -> Object:
    return endpoint_slice("shop/db-1", None, *endpoints, labels=EAST)


@pytest.mark.parametrize(
    ("question", "objects", "option", "cause"),
    [
        (NAME_IMPORT_CANDIDATES, [], "", "there is no ServiceImport shop/db"),
        (NAME_IMPORT_CANDIDATES, [service("shop/db", "10.96.0.1")], "", "there is no ServiceImport shop/db"),
        (NAME_IMPORT_CANDIDATES, [imported()], "namespace_labels a=b",
         "`namespace_labels` of the kubernetes block leaves out shop; and ServiceImport shop/db has no endpoints: it has no "
         "selector and no EndpointSlice"),
        (NAME_IMPORT_CANDIDATES, [imported()], "", "ServiceImport shop/db has no endpoints: it has no selector and no EndpointSlice"),
        (NAME_IMPORT_CANDIDATES, [imported(), part("10.0.0.1 ready=false")], "",
         "0 of 1 endpoints of ServiceImport shop/db are ready; a ServiceImport has ready endpoints only"),
        (f"db-0.west.{NAME_IMPORT_CANDIDATES}", [imported(), part("10.0.0.1 host=db-0")], "",
         "ServiceImport shop/db has no endpoint named db-0 in cluster west; it has db-0 in cluster east"),
        (f"db-1.east.{NAME_IMPORT_CANDIDATES}", [imported(), part("10.0.0.1 host=db-0")], "",
         'ServiceImport shop/db has no endpoint named db-1 in cluster east; did you mean "db-0"?'),
        (f"_grpc._tcp.{NAME_IMPORT_CANDIDATES}", [imported(), part("10.0.0.1")], "",
         "ServiceImport shop/db has port http/TCP, but no port named grpc of protocol TCP; EndpointSlice db-1 has port http/TCP"),
        (f"_grpc._tcp.{NAME_IMPORT_CANDIDATES}", [imported("ClusterSetIP", ips=["10.96.0.9"])], "",
         "ServiceImport shop/db has port http/TCP, but no port named grpc of protocol TCP"),
        (NAME_IMPORT_CANDIDATES, [imported("ClusterSetIP", ports=None, ips=["10.96.0.9"])], "", "ServiceImport shop/db has no ports"),
        (NAME_IMPORT_CANDIDATES, [imported("ClusterSetIP", ips=["10.96.0.9"])], "ignore empty_service",
         "`ignore empty_service` hides ServiceImport shop/db, because it has no ready endpoint"),
    ],
)  # fmt: skip
def test_first_line_of_import_candidates(
    question: str, objects: list[Object], option: str, cause: str
) -> None:
    found = explain(question, SHOP, *objects, text=COREFILE.format(option))
    assert found.cause == f"NXDOMAIN: {cause}"


def test_what_resolves() -> None:
    endpoints = part("10.0.0.1 host=db-0", "10.0.0.2 host=db-1 ready=false")
    found = explain(NAME_IMPORT_CANDIDATES, SHOP, imported(), endpoints, service("shop/db", "10.96.0.1"), text=COREFILE.format(""))  # fmt: skip
    assert found.cause == "NOERROR: 1 of 2 endpoints of headless ServiceImport shop/db; 1 left out (not ready)"  # fmt: skip
    assert "├─ ServiceImport shop/db: headless, ports http/TCP/80, version 1" in list(lines(found))
    found = explain(NAME_IMPORT_CANDIDATES, SHOP, imported("ClusterSetIP", ips=["10.96.0.9"]), text=COREFILE.format(""))  # fmt: skip
    assert found.cause == "NOERROR: the IP address of ServiceImport shop/db"
    assert found.service is not None
    assert (found.service.kind, found.service.cluster_ips) == ("ClusterSetIP", ["10.96.0.9"])
