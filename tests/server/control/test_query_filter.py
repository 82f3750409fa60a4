"""Which names a reader wants to see."""

from __future__ import annotations

import pytest

from hsdns.server.control.queries import QueryFilter, namespace_of
from hsdns.wire.name import Name

ZONES = tuple(map(Name.from_text, ("cluster.local.", "b.cluster.local.")))
SHOP = QueryFilter(ZONES, b"shop")


@pytest.mark.parametrize(
    ("name", "namespace"),
    [
        ("web.shop.svc.cluster.local", b"shop"),
        ("web.SHOP.svc.cluster.local", b"shop"),
        ("_http._tcp.web.shop.svc.cluster.local", b"shop"),
        ("shop.svc.cluster.local", b"shop"),
        ("10-0-0-1.shop.pod.cluster.local", b"shop"),
        ("www.example.org.shop.svc.cluster.local", b"shop"),
        ("web.shop.svc.b.cluster.local", b"shop"),
        ("svc.cluster.local", None),
        ("web.shop.cluster.local", None),
        ("web.shop.svc.example.org", None),
    ],
)
def test_namespaces(name: str, namespace: bytes | None) -> None:
    assert namespace_of(Name.from_text(name), ZONES) == namespace
    assert SHOP.has(Name.from_text(name)) == (namespace is not None)


def test_names() -> None:
    wanted = QueryFilter(name=Name.from_text("svc.cluster.local"))
    names = ("SVC.cluster.local", "a.svc.cluster.local", "asvc.cluster.local", "cluster.local")
    assert [wanted.has(Name.from_text(name)) for name in names] == [True, True, False, False]
    assert QueryFilter().has(Name.from_text("."))
