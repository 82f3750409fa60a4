"""Names that exist near to one that does not."""

from __future__ import annotations

import pytest

from hsdns.cluster.objects import Object
from hsdns.explanation.nearest import COMPARED, MOST_COMPARED, close_words
from tests.support.cluster.explained import explain
from tests.support.cluster.objects import endpoint_slice, namespace, service

OBJECTS: list[Object] = [
    namespace("shop"),
    namespace("test"),
    service("shop/web", "10.96.0.1"),
    service("shop/db"),
    endpoint_slice("shop/db-1", "db", "10.0.0.1 host=db-0"),
]
WEB, DB_0 = "web.shop.svc.cluster.local.", "db-0.db.shop.svc.cluster.local."


@pytest.mark.parametrize(
    ("asked", "name", "why"),
    [
        ("wbe.shop.svc.cluster.local.", WEB, 'Service "wbe" is misspelt'),
        ("web.shpo.svc.cluster.local.", WEB, 'namespace "shpo" is misspelt'),
        ("web.test.svc.cluster.local.", WEB, "in namespace shop"),
        ("shop.web.svc.cluster.local.", WEB, "Service and namespace are exchanged"),
        ("web.shop.cluster.local.", WEB, "the label svc is missing"),
        ("web.svc.shop.cluster.local.", WEB, "the label svc is not at its place"),
        ("web.shop.srv.cluster.local.", WEB, '"srv" is misspelt'),
        ("db-0.shop.pod.cluster.local.", DB_0, "names of pods with a hostname are below their Service"),
        ("db-0.web.shop.svc.cluster.local.", DB_0, "the endpoint belongs to Service db"),
        ("db-1.db.shop.svc.cluster.local.", DB_0, "another endpoint of the Service"),
        ("_grpc._tcp.db.shop.svc.cluster.local. SRV", "_http._tcp.db.shop.svc.cluster.local.", "another port of the Service"),
        ("web.shop.svc.corp.example.", WEB, "the cluster domain is cluster.local., not corp.example."),
        ("web.shop.svc.", WEB, "the cluster domain is missing"),
        ("web.", WEB, "only the search list of a Pod in namespace shop makes the name whole"),
        ("web.shop.", WEB, "the labels svc and the cluster domain are missing"),
    ],
)  # fmt: skip
def test_nearest(asked: str, name: str, why: str) -> None:
    found = explain(asked, *OBJECTS, pods="insecure")
    assert (name, why) in [(each.name, each.why) for each in found.nearest]


# Words that are near to a misspelt one.


MANY = dict.fromkeys(f"svc-{number:05}" for number in range(3 * MOST_COMPARED))


def test_others_run_meanwhile() -> None:
    found = list(close_words("s-other", MANY, 3))
    assert found.count(None) >= MOST_COMPARED // COMPARED
