"""The nearest pods, beside a look at each of them."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import msgspec
import pytest

from hsdns.cluster.likeness import likeness
from hsdns.rules.checks.services import PodIndex, _is_meant, is_misspelt
from hsdns.rules.judging import read_files

KEYS = ("app", "tier", "name", "app.kubernetes.io/instance", "pod-template-hash")
VALUES = ("checkout", "chekout", "shop-checkout", "shop-chekout", "a", "b", "true", "cache-1", "cache-2", "db")  # fmt: skip


def drawn(random: Random) -> Mapping[str, str]:
    keys = random.sample(KEYS, random.randint(1, 4))
    return {key: random.choice(VALUES) for key in keys}


def item(kind: str, name: str, labels: Mapping[str, str]) -> dict[str, object]:
    meta = {"name": name, "namespace": "lab"}
    if kind == "Pod":
        return {"apiVersion": "v1", "kind": kind, "metadata": {**meta, "labels": labels}}
    return {"apiVersion": "v1", "kind": kind, "metadata": meta, "spec": {"selector": labels}}


@pytest.mark.parametrize("seed", range(30))
def test_the_same_pods_are_found_as_by_looking_at_each(seed: int) -> None:
    random = Random(seed)
    items = [item("Pod", f"pod-{number}", drawn(random)) for number in range(12)]
    items += [item("Service", f"pod-{number}", drawn(random)) for number in range(20)]
    content = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items})
    objects = read_files([("a.json", content)]).objects
    pods = objects.pod_sets
    index = PodIndex(enumerate(pods))
    for manifest, service in objects.services:
        wanted = service.spec.selector or {}
        assert index.nearest(wanted) == max(
            (likeness(wanted, each.labels), -position) for position, each in enumerate(pods)
        )
        meant = [at for at, each in enumerate(pods) if _is_meant(wanted, each, manifest)]
        likely = [at for at, _ in index.likely(manifest.name, wanted)]
        assert likely == sorted(likely)
        if not objects.selected(manifest, wanted):
            assert set(meant) <= set(likely)


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        ("checkout", "chekout", True),
        ("shop-checkout", "shop-chekout", True),
        ("shop.checkout", "shop-chekout", True),
        ("shop-checkout", "mall-chekout", False),
        ("checkout", "payment", False),
        ("cache-1", "cache-2", False),
        ("db", "dbs", False),
        ("checkout", "checkout", False),
        ("shop-checkout", "chekout", False),
    ],
)
def test_misspelt(one: str, other: str, found: bool) -> None:
    assert is_misspelt(one, other) is found
