"""The rule behind the fields of each record."""

from __future__ import annotations

from hsdns.cluster.objects import Object
from hsdns.explanation.records import PIECE, record_reports
from hsdns.wire.iana import RRType
from hsdns.wire.message import RR, Reply
from hsdns.wire.name import Name
from tests.support.cluster.explained import corefile, explain
from tests.support.cluster.objects import endpoint_slice, namespace, service
from tests.support.coroutines.eager import turns

OBJECTS: list[Object] = [
    namespace("shop"),
    service("shop/db"),
    endpoint_slice(
        "shop/db-1", "db", "10.0.0.1", "10.0.0.2", "10.0.0.3", ports=["http/TCP/80", "grpc/TCP/90"]
    ),
]
DB = "db.shop.svc.cluster.local."


def rules(question: str, text: str = "", **options: str) -> list[list[str]]:
    return [each.rules for each in explain(question, *OBJECTS, text=text, **options).records]


def test_weight() -> None:
    assert rules(f"{DB} SRV")[1] == [
        "TTL 5 from `ttl` of kubernetes",
        "priority 0, weight 16 = 100 / 6 (6 pairs of an address and a port)",
    ]
    found = rules("10-0-0-1.shop.pod.cluster.local. SRV", pods="insecure")
    assert found[0][1] == "weight 100 = 100 / the pods with the address"


def test_order() -> None:
    assert rules(DB)[0][1] == "order: that of the objects"
    turned = corefile({}, "loadbalance\n")
    found = [rules(DB, turned)[0][1] for _ in range(20)]
    assert "order: changed by loadbalance" in found


def test_others_run_between_records() -> None:
    replies = [RR(Name.from_text(DB), RRType.A, 5, bytes((10, 0, 0, i))) for i in range(3 * PIECE)]
    pauses = 0

    async def pause() -> None:
        nonlocal pauses
        pauses += 1

    reply = Reply(answer=tuple(replies))
    found, _ = turns(record_reports(reply, (), None, None, pause))
    assert [each.rdata for each in found] == [f"10.0.0.{i}" for i in range(3 * PIECE)]
    assert pauses == 3
