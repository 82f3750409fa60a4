"""The loop around a reflector, with an API server in memory."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from random import Random

import pytest

from hsdns.apiserver.reflector import Observer, Reflector
from hsdns.apiserver.resource import SERVICES, Scope
from hsdns.apiserver.transport import Away
from hsdns.apiserver.watcher import REPEAT, Contact, Returning, Watcher, WatchMetrics
from hsdns.cluster.objects import Event, Synced
from hsdns.cluster.source import Report
from hsdns.metrics import Registry
from loadtest.apiserver.fake_cluster import FakeCluster
from tests.support.apiserver import faults
from tests.support.apiserver.memory_api import MemoryApi
from tests.support.coroutines.event_loops import until


class Pauses(Contact):
    """A Contact that does not wait, but records the pauses."""

    def __init__(self, report: Report, metrics: WatchMetrics) -> None:
        super().__init__(
            lambda: "https://192.0.2.1:6443", report, metrics, lambda: 0.0, lambda: 0.0
        )
        self.pauses: list[float] = []

    async def wait(self, seconds: float, *, is_away: bool = False) -> bool:
        self.pauses.append(seconds)
        await asyncio.sleep(0)
        return is_away


class ObservedWatcher:
    """A watcher of Services and what comes of it."""

    def __init__(self, gives_up: Callable[[Reflector], bool] = lambda reflector: False) -> None:
        self.cluster = FakeCluster()
        self.cluster.apply({"kind": "Service", "metadata": {"name": "web", "namespace": "n"}})
        self.api = MemoryApi(self.cluster)
        self.log: list[str] = []
        self.names: list[str] = []
        self.faulty = 0
        self.metrics = WatchMetrics(Registry())
        self.contact = Pauses(lambda level, message: self.log.append(message), self.metrics)
        self.reflector = Reflector(Scope(SERVICES), self.deliver, Observer(), Random(1))
        self.watcher = Watcher(
            self.reflector, self.api, self.contact, lambda: 0.0, gives_up=gives_up
        )
        self.changed = asyncio.Event()

    def deliver(self, events: Sequence[Event]) -> None:
        if self.faulty:
            self.faulty -= 1
            raise ZeroDivisionError
        self.names += [each.object.metadata.name for each in events if not isinstance(each, Synced)]
        self.changed.set()

    async def until_known(self, count: int = 1) -> None:
        task = asyncio.create_task(self.watcher.run())
        async with asyncio.timeout(20):
            while len(self.reflector.known) != count or not self.reflector.synced:
                self.changed.clear()
                await self.changed.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def codes(self) -> dict[str, float]:
        """The requests and their results."""
        values = self.metrics.requests.values
        return {f"{labels[2]} {labels[3]}": count for labels, count in values.items()}


async def test_a_server_that_returns_begins_with_short_pauses() -> None:
    observed = ObservedWatcher()
    observed.api.up = False
    task = asyncio.create_task(observed.watcher.run())
    await until(lambda: len(observed.contact.pauses) >= 8, "eight failures")
    assert max(observed.contact.pauses) <= 1.6
    observed.api.up = True
    await observed.until_known()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_what_deliver_raises_means_the_state_anew(caplog: pytest.LogCaptureFixture) -> None:
    observed = ObservedWatcher()
    observed.faulty = 1
    await observed.until_known()
    assert observed.names == ["web"]
    assert "services: cannot handle an event" in caplog.text


async def test_gives_up_ends_the_loop() -> None:
    observed = ObservedWatcher(gives_up=lambda reflector: reflector.forbidden)
    observed.cluster.fail(faults.unavailable())
    observed.cluster.revoke("services")
    async with asyncio.timeout(20):
        await observed.watcher.run()
    assert observed.codes() == {"stream 503": 1, "stream 403": 1}
    assert observed.metrics.connected.values == {}


SCOPE = Scope(SERVICES)
LABELS = ("services", "")


class Harness:
    """A Contact with a manual clock and its log."""

    def __init__(self) -> None:
        self.now = 100.0
        self.log: list[tuple[int, str]] = []
        self.registry = Registry()
        self.metrics = WatchMetrics(self.registry)
        self.contact = Contact(
            lambda: "https://192.0.2.1:6443",
            lambda level, message: self.log.append((level, message)),
            self.metrics,
            clock=lambda: self.now,
            wall=lambda: self.now + 1_700_000_000.0,
        )
        self.contact.add(SCOPE)

    def lose(self, cause: str, *, synced: bool = True) -> None:
        reflector = Reflector(SCOPE, lambda events: None, Observer(), Random(1))
        reflector.synced, reflector.failure = synced, cause
        self.contact.lost(SCOPE, reflector, 1.25)


@pytest.mark.parametrize(
    ("synced", "state"),
    [(True, "still serving the last known state"), (False, "nothing has been read yet")],
)
def test_an_outage_is_logged_when_it_begins_and_when_it_ends(synced: bool, state: str) -> None:
    harness = Harness()
    harness.lose("connection refused", synced=synced)
    harness.now += 3
    harness.lose("connection refused", synced=synced)
    assert harness.log == [
        (
            logging.ERROR,
            "cannot watch services at https://192.0.2.1:6443: connection refused "
            f"(since 2023-11-14T22:15:00Z; {state}; retrying in 1.2 s)",
        )
    ]
    assert harness.metrics.failures.values == {LABELS: 2}
    assert harness.metrics.away.values[LABELS] == 1_700_000_100.0
    assert harness.metrics.connected.values[LABELS] == 0
    harness.log.clear()
    harness.now += 39
    harness.contact.opened(SCOPE)
    assert harness.log == []
    harness.contact.established(SCOPE)
    assert harness.log == [
        (logging.INFO, "services can be watched at https://192.0.2.1:6443 again, after 42 s")
    ]
    assert harness.metrics.away.values[LABELS] == 0
    assert harness.metrics.connected.values[LABELS] == 1
    harness.contact.closed(SCOPE)
    assert harness.metrics.connected.values[LABELS] == 0


def test_a_long_outage_is_logged_once_a_minute_and_a_new_cause_at_once() -> None:
    harness = Harness()
    harness.lose("connection refused")
    harness.now += REPEAT - 1
    harness.lose("connection refused")
    assert len(harness.log) == 1
    harness.lose("no route to host")
    assert len(harness.log) == 2
    harness.now += REPEAT
    harness.lose("no route to host")
    assert len(harness.log) == 3
    assert all("since 2023-11-14T22:15:00Z" in message for _, message in harness.log)


@pytest.mark.parametrize("is_away", [True, False])
async def test_a_server_that_was_away_ends_a_pause(
    is_away: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = Harness()
    monkeypatch.setattr("hsdns.apiserver.watcher.FIRST_PAUSE", 0.0)
    monkeypatch.setattr("hsdns.apiserver.watcher.LOOK_EVERY", 0.0)
    harness.contact.returning = Returning(lambda: asyncio.sleep(0), Random(1))
    seconds = 30.0 if is_away else 0.001
    async with asyncio.timeout(30):
        assert await harness.contact.wait(seconds, is_away=is_away) is is_away


@pytest.mark.parametrize("hangs", [True, False])
async def test_one_connection_serves_all_who_wait(
    hangs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that hangs is given up, and nobody asks when no one waits."""
    monkeypatch.setattr("hsdns.apiserver.watcher.LOOK_EVERY", 0.0)
    monkeypatch.setattr("hsdns.apiserver.watcher.REACH_TIMEOUT", 0.001)
    asked, accepts_from = list[int](), 3

    async def reach() -> None:
        asked.append(1)
        if len(asked) < accepts_from:
            if hangs:
                await asyncio.Event().wait()
            raise Away("refused")

    returning = Returning(reach, Random(1))
    async with asyncio.timeout(20):
        await asyncio.gather(*(returning.wait() for _ in range(4)))
        assert len(asked) == 3
        await returning.wait()
        assert len(asked) == 4
    accepts_from = 1 << 30
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await returning.wait()
    before = len(asked)
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(asked) == before
