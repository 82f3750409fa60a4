"""Causes of an absence in a zone of `multicluster`: the first line for each."""

from __future__ import annotations

import pytest

from hsdns.cluster.objects import (
    IMPORT_NAME_LABEL,
    SOURCE_CLUSTER_LABEL,
    Object,
    ObjectMeta,
    ServiceImport,
    ServiceImportSpec,
    ServicePort,
)
from hsdns.explanation.text import lines
from tests.support.cluster.explained import explain
from tests.support.cluster.objects import endpoint_slice, namespace, service

SHOP = namespace("shop")
NAME = "db.shop.svc.clusterset.local."
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
        (NAME, [], "", "there is no ServiceImport shop/db"),
        (NAME, [service("shop/db", "10.96.0.1")], "", "there is no ServiceImport shop/db"),
        (NAME, [imported()], "namespace_labels a=b",
         "`namespace_labels` of the kubernetes block leaves out shop; and ServiceImport shop/db has no endpoints: it has no "
         "selector and no EndpointSlice"),
        (NAME, [imported()], "", "ServiceImport shop/db has no endpoints: it has no selector and no EndpointSlice"),
        (NAME, [imported(), part("10.0.0.1 ready=false")], "",
         "0 of 1 endpoints of ServiceImport shop/db are ready; a ServiceImport has ready endpoints only"),
        (f"db-0.west.{NAME}", [imported(), part("10.0.0.1 host=db-0")], "",
         "ServiceImport shop/db has no endpoint named db-0 in cluster west; it has db-0 in cluster east"),
        (f"db-1.east.{NAME}", [imported(), part("10.0.0.1 host=db-0")], "",
         'ServiceImport shop/db has no endpoint named db-1 in cluster east; did you mean "db-0"?'),
        (f"_grpc._tcp.{NAME}", [imported(), part("10.0.0.1")], "",
         "ServiceImport shop/db has port http/TCP, but no port named grpc of protocol TCP; EndpointSlice db-1 has port http/TCP"),
        (f"_grpc._tcp.{NAME}", [imported("ClusterSetIP", ips=["10.96.0.9"])], "",
         "ServiceImport shop/db has port http/TCP, but no port named grpc of protocol TCP"),
        (NAME, [imported("ClusterSetIP", ports=None, ips=["10.96.0.9"])], "", "ServiceImport shop/db has no ports"),
        (NAME, [imported("ClusterSetIP", ips=["10.96.0.9"])], "ignore empty_service",
         "`ignore empty_service` hides ServiceImport shop/db, because it has no ready endpoint"),
    ],
)  # fmt: skip
def test_first_line(question: str, objects: list[Object], option: str, cause: str) -> None:
    found = explain(question, SHOP, *objects, text=COREFILE.format(option))
    assert found.cause == f"NXDOMAIN: {cause}"


def test_what_resolves() -> None:
    endpoints = part("10.0.0.1 host=db-0", "10.0.0.2 host=db-1 ready=false")
    found = explain(NAME, SHOP, imported(), endpoints, service("shop/db", "10.96.0.1"), text=COREFILE.format(""))  # fmt: skip
    assert found.cause == "NOERROR: 1 of 2 endpoints of headless ServiceImport shop/db; 1 left out (not ready)"  # fmt: skip
    assert "├─ ServiceImport shop/db: headless, ports http/TCP/80, version 1" in list(lines(found))
    found = explain(NAME, SHOP, imported("ClusterSetIP", ips=["10.96.0.9"]), text=COREFILE.format(""))  # fmt: skip
    assert found.cause == "NOERROR: the IP address of ServiceImport shop/db"
    assert found.service is not None
    assert (found.service.kind, found.service.cluster_ips) == ("ClusterSetIP", ["10.96.0.9"])
