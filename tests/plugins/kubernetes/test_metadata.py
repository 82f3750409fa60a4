"""Values about a query: which there are, and what they say."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
import pytest

from hsdns.cluster.question import parse
from hsdns.cluster.store import Store, StoreSettings
from hsdns.plugins.kubernetes import client_values, question_values
from tests.support.cluster.kubernetes_plugin import Cluster
from tests.support.cluster.objects import pod, upserts
from tests.support.plugins.requests import make_request


def said(values: Mapping[str, Callable[[], str]]) -> dict[str, str]:
    """All values."""
    return {label.removeprefix("kubernetes/"): value() for label, value in values.items()}


EMPTY = dict.fromkeys(("port-name", "protocol", "endpoint", "service", "namespace", "kind"), "")


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("", {}, EMPTY),
        ("svc", {}, EMPTY),
        ("ns.svc", {}, EMPTY | {"namespace": "ns", "kind": "svc"}),
        ("web.ns.svc", {}, EMPTY | {"service": "web", "namespace": "ns", "kind": "svc"}),
        (
            "_http._tcp.web.ns.svc",
            {},
            EMPTY
            | {"port-name": "http", "protocol": "tcp", "service": "web", "namespace": "ns", "kind": "svc"},
        ),
        (
            "1-2-3-4.ns.pod",
            {},
            EMPTY | {"service": "1-2-3-4", "namespace": "ns", "kind": "pod"},
        ),
        (
            "e.c.web.ns.svc",
            {"multicluster": True},
            EMPTY
            | {"endpoint": "e", "cluster": "c", "service": "web", "namespace": "ns", "kind": "svc"},
        ),
        (
            "eu.1.pin._zone.web.ns.svc",
            {"zonal": True},
            EMPTY | {"zone": "eu.1", "service": "web", "namespace": "ns", "kind": "svc"},
        ),
        ("nope", {"zonal": True}, {"parse-error": "invalid query name"}),
        ("eu.1.pin._zone.web.ns.svc", {}, {"parse-error": "invalid query name"}),
    ],
)  # fmt: skip
def test_questions(name: str, options: dict[str, bool], expected: dict[str, str]) -> None:
    flags = {"zonal": False, "multicluster": False} | options
    asked = parse(tuple(name.encode().split(b".")) if name else (), **flags)
    assert said(question_values(asked, **flags)) == expected


@pytest.mark.parametrize("keeps", [False, True])
def test_clients(keeps: bool) -> None:
    store = Store(StoreSettings(pod_labels=keeps), wall=lambda: 0.0, warn=pytest.fail)
    web = pod("shop/web-0", "10.5.0.1")
    labelled = msgspec.structs.replace(
        web, metadata=msgspec.structs.replace(web.metadata, labels={"app": "web"})
    )
    store.apply(upserts(labelled, pod("other/db-0", "10.5.0.2")))
    own = {"client-namespace": "shop", "client-pod-name": "web-0"}
    assert said(client_values(store.pods, "10.5.0.1")) == own | (
        {"client-label/app": "web"} if keeps else {}
    )
    assert said(client_values(store.pods, "10.5.0.3")) == {}


def test_the_plugin_says_both() -> None:
    cluster = Cluster(pod("testns/web-0", "127.0.0.1"), pods="verified")
    inside = cluster.plugin.metadata(make_request("web.testns.svc.cluster.local."))
    assert said(inside) == EMPTY | {
        "client-namespace": "testns",
        "client-pod-name": "web-0",
        "service": "web",
        "namespace": "testns",
        "kind": "svc",
    }
    outside = cluster.plugin.metadata(make_request("example.org."))
    assert set(said(outside)) == {"client-namespace", "client-pod-name"}
    assert Cluster().plugin.metadata(make_request("example.org.")) == {}
