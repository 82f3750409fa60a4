"""Causes of an absence that lie in the Corefile, the namespace or the Service: the first line for each."""

from __future__ import annotations

import pytest

from hsdns.cluster.objects import Object
from tests.support.cluster.explained import explain
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
