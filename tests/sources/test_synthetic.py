"""The source `synthetic`: settings, rate of changes, events."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

import pytest

from hsdns.cluster.objects import EndpointSlice, Event, Object, Service, Synced, Upserted
from hsdns.sources.synthetic import Pace, Shape, Synthetic, SyntheticCluster
from tests.support.cluster.object_lines import object_lines
from tests.support.plugins.runtime import FakeRuntime
from tests.support.tables import values

TABLES = Path(__file__).with_name("tables.txt")


def no_report(level: int, message: str) -> None:
    raise AssertionError(message)


def test_load_delivers_everything_and_then_synced() -> None:
    batches: list[Sequence[Event]] = []
    Synthetic(Shape(services=3000, endpoints=1)).load(batches.append, no_report)
    events = [event for batch in batches for event in batch]
    assert events[-1] == Synced()
    assert len(batches) > 2
    services = [
        each for each in events if isinstance(each, Upserted) and isinstance(each.object, Service)
    ]
    assert len(services) == 3000


@pytest.mark.parametrize(("rate", "times", "due"), values(TABLES, "pace"))
def test_pace(rate: float, times: list[float], due: list[int]) -> None:
    pace = Pace(rate, 0.0)
    assert [pace.due(now) for now in times] == due


def test_watch_delivers_changes_until_it_is_cancelled() -> None:
    async def run() -> list[Event]:
        events: list[Event] = []
        enough = asyncio.Event()

        def deliver(batch: Sequence[Event]) -> None:
            events.extend(batch)
            if len(events) >= 20:
                enough.set()

        watching = asyncio.create_task(
            Synthetic(Shape(services=3), changes=1000).watch(deliver, no_report, FakeRuntime())
        )
        async with asyncio.timeout(10):
            await enough.wait()
        watching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await watching
        return events

    events = asyncio.run(run())
    assert all(
        isinstance(each, Upserted) and isinstance(each.object, EndpointSlice) for each in events
    )


# The generated cluster: names, shares, addresses, changes.


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


def test_no_address_is_used_twice() -> None:
    found = addresses(objects(services=300, endpoints=20, dual_stack=0.5))
    assert len(found) == len(set(found)) > 6000


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
