"""What each plugin of a block did."""

from __future__ import annotations

import pytest

from hsdns.cluster.objects import Object
from tests.support.cluster.explained import corefile, explain
from tests.support.cluster.objects import endpoint_slice, namespace, service

OBJECTS: list[Object] = [
    namespace("shop"),
    service("shop/db"),
    endpoint_slice("shop/db-1", "db", "10.0.0.1", "10.0.0.2"),
]
DB = "db.shop.svc.cluster.local."


@pytest.mark.parametrize(
    ("front", "behind", "asked", "steps"),
    [
        ("errors\nlog\n", "", DB, ["kubernetes: answered NOERROR with 2 records"]),
        ("rewrite name x.cluster.local db.shop.svc.cluster.local\n", "", "x.cluster.local.",
         ["rewrite: asked on for db.shop.svc.cluster.local. instead of x.cluster.local.; changed owners",
          "kubernetes: answered NOERROR with 2 records"]),
        ("rewrite type AAAA A\n", "", f"{DB} AAAA",
         ["rewrite: asked on for A instead of AAAA", "kubernetes: answered NOERROR with 2 records"]),
        ("rewrite ttl exact db.shop.svc.cluster.local 7\n", "", DB,
         ["rewrite: changed the TTL to 7", "kubernetes: answered NOERROR with 2 records"]),
        ("fault drop type A share 0.5 named lossy\n", "", DB,
         ['fault: the rule "lossy" may do this: drop type A share 0.5', "kubernetes: answered NOERROR with 2 records"]),
        ("fault drop type AAAA\n", "", DB,
         ["fault: passed on: no rule is about it", "kubernetes: answered NOERROR with 2 records"]),
        ("template IN A x.cluster.local {\nanswer \"{{ .Name }} 9 IN A 192.0.2.1\"\n}\n", "", "x.cluster.local.",
         ["template: answered NOERROR with 1 record"]),
    ],
)  # fmt: skip
def test_steps(front: str, behind: str, asked: str, steps: list[str]) -> None:
    found = explain(asked, *OBJECTS, text=corefile({}, front, behind))
    assert [f"{each.plugin}: {each.did}" for each in found.plugins] == steps
