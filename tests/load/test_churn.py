import asyncio
from collections.abc import Sequence

import pytest

from hsdns.cluster.objects import EndpointSlice, Event, Service, Upserted
from hsdns.load.api import ClusterApi
from hsdns.load.churn import Churn
from hsdns.sources.synthetic_cluster import Shape

SHAPE = Shape(4, 2, seed=3)


def test_the_truth_has_a_change_before_the_api() -> None:
    delivered: list[tuple[int, Event]] = []
    churn: Churn

    def deliver(events: object) -> None:
        assert isinstance(events, list)
        delivered.extend((churn.history.version, each) for each in events)

    churn = Churn(SHAPE, deliver, lambda: 0.0)
    before = churn.history.version
    churn.change()
    churn.change()
    assert [version for version, _ in delivered] == [before, before + 1]
    slices = [each.object for _, each in delivered if isinstance(each, Upserted)]
    assert all(isinstance(each, EndpointSlice) for each in slices)
    assert len(churn.history.since(EndpointSlice, before) or []) == 2
    assert churn.history.since(Service, before) == []


def test_the_seed_says_which() -> None:
    found = []
    for _ in range(2):
        events: list[Event] = []
        churn = Churn(SHAPE, events.extend, lambda: 0.0)
        for _ in range(5):
            churn.change()
        found.append(events)
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("now", "made", "due"), [(10.0, 0, 0), (10.5, 0, 5), (10.5, 5, 0), (10.55, 5, 0), (12.0, 5, 15)]
)
def test_how_many_are_due(now: float, made: int, due: int) -> None:
    churn = Churn(SHAPE, lambda events: None, lambda: now)
    assert churn.due(10.0, 10.0, made) == due


def test_changes_at_a_rate() -> None:
    """On a clock that runs a millisecond for each look at it."""

    async def test() -> None:
        now = 0.0
        events: list[Event] = []
        enough = asyncio.Event()

        def clock() -> float:
            nonlocal now
            now += 0.001
            return now

        def deliver(some: Sequence[Event]) -> None:
            events.extend(some)
            if len(events) == 8:
                enough.set()

        churn = Churn(SHAPE, deliver, clock)
        api = ClusterApi(churn.history, "127.0.0.1", 0)
        running = asyncio.create_task(churn.run(api, 400.0))
        await enough.wait()
        running.cancel()
        assert len(events) <= now * 400

    asyncio.run(test())
