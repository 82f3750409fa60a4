from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from hsdns.upstream.policy import POLICIES, Policy


@pytest.mark.parametrize("name", POLICIES)
def test_one_upstream(name: str) -> None:
    policy = Policy(name, Random(1))
    assert [list(policy.order(["a"])) for _ in range(3)] == [["a"]] * 3


def test_sequential() -> None:
    policy = Policy("sequential", Random(1))
    assert [policy.order(["a", "b", "c"]) for _ in range(3)] == [["a", "b", "c"]] * 3


def test_round_robin_begins_with_the_second_and_rotates_nothing_else() -> None:
    policy = Policy("round_robin", Random(1))
    orders = ["".join(policy.order(["a", "b", "c"])) for _ in range(4)]
    assert orders == ["bac", "cab", "abc", "bac"]


def test_random_draws_every_order() -> None:
    policy = Policy("random", Random(1))
    counts = Counter("".join(policy.order(["a", "b", "c"])) for _ in range(600))
    assert set(counts) == {"abc", "acb", "bac", "bca", "cab", "cba"}
    assert min(counts.values()) > 60
