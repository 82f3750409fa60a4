"""Which labels are nearest to a selector."""

import pytest

from hsdns.cluster.objects import likeness


@pytest.mark.parametrize(
    ("labels", "count"),
    [
        ({}, 0),
        ({"app": "web"}, 2),
        ({"app": "shop"}, 1),
        ({"name": "web"}, 1),
        ({"app": "front", "tier": "web"}, 2),
    ],
)
def test_keys_and_values_count(labels: dict[str, str], count: int) -> None:
    assert likeness({"app": "web"}, labels) == count
