from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hsdns.load.cluster.names import cluster_questions
from hsdns.load.questions import Questions
from hsdns.plugins.kubernetes import Kubernetes
from tests.load.clusters import with_block


def questions(
    mix: Mapping[str, int] | None = None, exponent: float = 0.0, seed: int = 1, *source: str
) -> Questions:
    async def choose(block: Kubernetes) -> Questions:
        return cluster_questions([block.answer_set()], mix, exponent, seed)

    found = with_block(choose, *source)
    assert isinstance(found, Questions)
    return found


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
