from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hsdns.load.cluster.names import KINDS, POD_KINDS, cluster_questions, cluster_targets
from hsdns.load.questions import Questions
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.wire.iana import type_to_text
from tests.load.clusters import with_block


def questions(
    mix: Mapping[str, int] | None = None, exponent: float = 0.0, seed: int = 1, *source: str
) -> Questions:
    async def choose(block: Kubernetes) -> Questions:
        return cluster_questions([block.answer_set()], mix, exponent, seed)

    found = with_block(choose, *source)
    assert isinstance(found, Questions)
    return found


def test_kinds_of_names() -> None:
    found = questions(dict.fromkeys(KINDS, 1))
    names: dict[str, set[str]] = {kind: set() for kind in KINDS}
    for each in found.all:
        names[each.group].add(f"{each.name.to_text()} {type_to_text(each.qtype)}")
    services, zone = ["svc-0", "svc-2"], "ns-0.svc.cluster.local."
    headless = ["svc-1", "svc-3"]
    assert names["service"] == {f"{each}.{zone} A" for each in services}
    assert names["headless"] == {f"{each}.{zone} A" for each in headless}
    assert names["srv"] == {f"_http._tcp.{each}.{zone} SRV" for each in services + headless}
    assert names["absent"] == {f"absent-{at}.{zone} A" for at in range(4)}
    assert names["endpoint"] >= {
        f"{each}-{at}.{each}.{zone} A" for each in headless for at in (0, 1)
    }
    assert [len(names[each]) for each in ("endpoint", "reverse", "pod")] == [8, 8 + 2, 8]
    assert all(name.endswith(".in-addr.arpa. PTR") for name in names["reverse"])
    assert all(name.endswith(".ns-0.pod.cluster.local. A") for name in names["pod"])


def test_shares_and_the_order_of_a_seed() -> None:
    mix = {"headless": 30, "reverse": 10}
    found = questions(mix, exponent=1.0)
    shares: Counter[str] = Counter()
    for each, weight in zip(found.all, found.weights, strict=True):
        shares[each.group] += weight  # type: ignore[assignment] # a share is no whole number
    assert {kind: round(share, 6) for kind, share in shares.items()} == mix
    assert sorted(found.weights[:2]) == [10, 20]
    orders = [questions(mix, seed=seed).all for seed in (1, 1, 2, 3, 4)]
    assert orders[0] == orders[1]
    assert any(order != orders[0] for order in orders[2:])


def test_a_kind_without_names_leaves_its_share_to_the_others() -> None:
    found = questions(None, 0.0, 1, "synthetic", "services=2", "endpoints=1", "headless=0")
    assert {each.group for each in found.all} == {"service", "srv", "endpoint", "reverse", "absent"}


def targets(
    mix: Mapping[str, int] | None = None, external: tuple[str, ...] = ()
) -> tuple[str, dict[str, set[str]], dict[str, float]]:
    """The domain, the names of each kind, and the weight of each kind."""

    async def choose(block: Kubernetes) -> object:
        return cluster_targets(block.answer_set(), external, mix, 1.0, 1)

    zone, found, weights = with_block(choose)
    names: dict[str, set[str]] = {}
    shares: Counter[str] = Counter()
    for each, weight in zip(found, weights, strict=True):
        names.setdefault(each.kind, set()).add(f"{each.labels} {each.namespace}".strip())
        shares[each.kind] += weight
    return zone.to_text(), names, {kind: round(share, 6) for kind, share in shares.items()}


def test_what_pods_look_up() -> None:
    domain, names, shares = targets(external=("www.example.com.",))
    assert domain == "cluster.local."
    endpoints = names.pop("endpoint")
    assert names == {
        "service": {"svc-0 ns-0", "svc-2 ns-0"},
        "headless": {"svc-1 ns-0", "svc-3 ns-0"},
        "absent": {f"absent-{at} ns-0" for at in range(4)},
        "external": {"www.example.com"},
    }
    assert {"svc-1-0.svc-1 ns-0", "svc-3-1.svc-3 ns-0"} <= endpoints
    assert shares == POD_KINDS
    assert targets({"headless": 7, "service": 0})[2] == {"headless": 7}
