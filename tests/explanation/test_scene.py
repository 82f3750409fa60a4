"""What an answer depends on, and asking again."""

from __future__ import annotations

from hsdns.wire.iana import RRType
from hsdns.wire.name import Name
from tests.support.cluster.explained import explained
from tests.support.cluster.objects import namespace, service

SHOP = namespace("shop")
WEB = service("shop/web", "10.96.0.1")
QUESTION = "web.shop.svc.cluster.local."


def test_asking_again() -> None:
    replay, scene, _, qname, _ = explained(QUESTION, SHOP, WEB)
    assert replay.exists(scene, qname, RRType.A)
    assert [each.rdata for each in replay.records(scene, qname, RRType.A)] == [
        bytes((10, 96, 0, 1))
    ]
    changed = scene.with_objects(service("shop/web", "10.96.0.2"))
    assert replay.records(changed, qname, RRType.A)[0].rdata == bytes((10, 96, 0, 2))
    assert not replay.exists(scene.with_options(namespaces=("x",)), qname, RRType.A)
    assert replay.records(scene, Name.from_text("x.shop.svc.cluster.local."), RRType.A) == ()
