"""The generated cluster: names, shares, addresses, changes."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import pytest

from hsdns.cluster.objects import EndpointSlice, Object, Service
from hsdns.sources.synthetic import Shape, SyntheticCluster
from tests.support.cluster.object_lines import object_lines


def objects(**shape: int | float) -> list[Object]:
    return list(SyntheticCluster(Shape(**shape)).objects())  # type: ignore[arg-type]  # a table's values


def addresses(found: Iterable[Object]) -> list[str]:
    slices = (each for each in found if isinstance(each, EndpointSlice))
    return [
        address
        for each in slices
        for end in each.endpoints or ()
        for address in end.addresses or ()
    ]


@pytest.mark.parametrize(
    ("headless", "dual_stack", "first"),
    [
        pytest.param(0.0, 0.0, "c c c c c c c c", id="no headless"),
        pytest.param(1.0, 0.0, "h h h h h h h h", id="all headless"),
        pytest.param(0.5, 0.0, "c h c h c h c h", id="half"),
        pytest.param(0.5, 0.5, "c h cd hd c h cd hd", id="half of each is dual-stack"),
        pytest.param(0.25, 1.0, "cd cd cd hd cd cd cd hd", id="all dual-stack"),
        pytest.param(0.1, 0.0, "c c c c c c c c", id="a tenth: the tenth one"),
    ],
)
def test_shares_are_spread_evenly(headless: float, dual_stack: float, first: str) -> None:
    shape = Shape(headless=headless, dual_stack=dual_stack)
    kinds = [
        ("h" if shape.is_headless(n) else "c") + "d" * shape.is_dual_stack(n) for n in range(1000)
    ]
    assert " ".join(kinds[:8]) == first
    assert sum("h" in kind for kind in kinds) == 1000 * headless
    assert sum("d" in kind for kind in kinds) == pytest.approx(1000 * dual_stack, abs=1)


def test_no_address_is_used_twice() -> None:
    found = addresses(objects(services=300, endpoints=20, dual_stack=0.5))
    assert len(found) == len(set(found)) > 6000


def test_a_dual_stack_service_has_two_cluster_ips() -> None:
    [service] = [
        each
        for each in objects(services=1, headless=0.0, dual_stack=1.0)
        if isinstance(each, Service)
    ]
    assert service.spec.cluster_ips == ["172.16.0.0", "fd00:10:96::"]


def test_the_same_seed_gives_the_same_cluster_and_the_same_changes() -> None:
    def history(seed: int) -> list[Object]:
        cluster = SyntheticCluster(Shape(services=20, endpoints=5, seed=seed))
        return [*cluster.objects(), *(cluster.change() for _ in range(50))]

    assert history(3) == history(3)
    assert addresses(history(3)) != addresses(history(4))
    assert object_lines(islice(history(3), 2)) == object_lines(islice(history(4), 2))


def test_a_change_replaces_one_address_of_one_slice() -> None:
    cluster = SyntheticCluster(Shape(services=4, endpoints=3))
    state = {
        (type(each), each.metadata.namespace, each.metadata.name): each
        for each in cluster.objects()
    }
    versions = {each.metadata.resource_version for each in state.values()}
    for _ in range(200):
        changed = cluster.change()
        key = (EndpointSlice, changed.metadata.namespace, changed.metadata.name)
        before = state[key]
        assert isinstance(before, EndpointSlice)
        assert len(set(addresses([before])) - set(addresses([changed]))) == 1
        assert len(addresses([changed])) == 3
        assert changed.metadata.resource_version not in versions
        versions.add(changed.metadata.resource_version)
        state[key] = changed
        everything = addresses(state.values())
        assert len(everything) == len(set(everything))


def test_nothing_to_change() -> None:
    with pytest.raises(ValueError, match="nothing to change"):
        SyntheticCluster(Shape(services=5, endpoints=0)).change()
