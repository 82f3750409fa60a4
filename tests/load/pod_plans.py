"""A plan of pods for tests: two namespaces with a Service each, and a name outside."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from hsdns.load.pods import PodPlan, Target, resolv_confs

DOMAIN = "cluster.local"
NAMESPACES = ["shop", "bank"]
WEB = Target("web", "shop", "service")
VAULT = Target("v-0.vault", "bank", "endpoint")
OUTSIDE = Target("www.example.com", "", "external")


def plan(**changes: Any) -> PodPlan:
    """Five pods in turn in `shop` and `bank`, all with glibc, that look up `web` by its short name."""
    found = PodPlan(
        5,
        NAMESPACES,
        resolv_confs(NAMESPACES, "192.0.2.53", DOMAIN, ["node.test"], {}),
        DOMAIN,
        {"glibc": 1},
        {"name": 1},
        [WEB],
        [1.0],
        7,
    )
    return replace(found, **changes)
