import asyncio
from collections.abc import Sequence

import pytest

from hsdns.cluster.objects import EndpointSlice, Event, Service, Upserted
from hsdns.load.cluster.api import ClusterApi
from hsdns.load.cluster.changes import DEFAULT, KINDS
from hsdns.load.cluster.churn import TICK, Churn, Pace
from hsdns.sources.synthetic import Shape

SHAPE = Shape(4, 2, seed=3)
ALL = dict.fromkeys(KINDS, 1)


def test_the_truth_has_a_change_before_the_api() -> None:
    delivered: list[tuple[int, Event]] = []
    churn: Churn

    def deliver(events: object) -> None:
        assert isinstance(events, list)
        delivered.extend((churn.history.version, each) for each in events)

    churn = Churn(SHAPE, DEFAULT, 1, deliver, lambda: 0.0)
    before = churn.history.version
    versions = [churn.change(), churn.change()]
    assert [version for version, _ in delivered] == [before, before + 1]
    slices = [each.object for _, each in delivered if isinstance(each, Upserted)]
    assert all(isinstance(each, EndpointSlice) for each in slices)
    assert [each.metadata.resource_version for each in slices] == versions
    lines = churn.history.since(EndpointSlice, before) or []
    assert [f'"resourceVersion":"{version}"'.encode() in line for version, line in zip(versions, lines, strict=True)] == [True, True]  # fmt: skip
    assert churn.history.since(Service, before) == []


@pytest.mark.parametrize("kinds", [DEFAULT, ALL])
def test_the_seed_says_which(kinds: dict[str, int]) -> None:
    found = []
    for seed in (1, 1, 2):
        events: list[Event] = []
        churn = Churn(SHAPE, kinds, seed, events.extend, lambda: 0.0)
        for _ in range(5):
            churn.change()
        found.append(events)
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize(
    ("now", "due", "left"), [(10.0, 0, 0.1), (10.5, 5, 0.1), (10.55, 5, 0.05), (12.0, 20, 0.1)]
)
def test_how_many_are_due(now: float, due: int, left: float) -> None:
    clock = iter((10.0, now, now, now, 99.0))
    pace = Pace(10.0, lambda: next(clock))
    assert (pace.due(), pace.due()) == (due, 0)
    assert pace.left() == pytest.approx(left)
    assert pace.left() == TICK


def test_changes_at_a_rate() -> None:
    """On a clock that runs a millisecond for each look at it."""

    async def test() -> None:
        now = 0.0
        events: list[Event] = []
        written: list[tuple[str, float]] = []
        enough = asyncio.Event()

        def clock() -> float:
            nonlocal now
            now += 0.001
            return now

        def deliver(some: Sequence[Event]) -> None:
            events.extend(some)

        def wrote(version: str, time: float) -> None:
            written.append((version, time))
            if len(written) == 8:
                enough.set()

        churn = Churn(SHAPE, ALL, 1, deliver, clock, wrote)
        first = churn.history.version + 1
        api = ClusterApi(churn.history, "127.0.0.1", 0)
        running = asyncio.create_task(churn.run(api, 400.0))
        await enough.wait()
        running.cancel()
        assert len(events) <= now * 400
        assert [int(version) for version, _ in written] == list(range(first, first + len(written)))
        assert sorted(time for _, time in written) == [time for _, time in written]

    asyncio.run(test())
