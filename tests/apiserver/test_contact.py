import asyncio
import logging
from random import Random

import pytest

from hsdns.apiserver.reflector import Key, Observer, Reflector
from hsdns.apiserver.resource import NAMESPACES, SERVICES, Scope
from hsdns.apiserver.watcher import (
    REPEAT,
    Contact,
    Returning,
    ScopeObserver,
    WatchMetrics,
)
from hsdns.metrics import Registry

SCOPE, OTHER = Scope(SERVICES), Scope(NAMESPACES, "shop")
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


def test_what_an_outage_tells() -> None:
    """The beginning of the oldest outage, whenever the scopes that are away change, and their end."""
    harness = Harness()
    told: list[str] = []
    harness.contact.on_lost = told.append
    harness.lose("connection refused")
    harness.now += 5
    harness.lose("no route to host")
    harness.contact.add(OTHER)
    reflector = Reflector(OTHER, lambda events: None, Observer(), Random(1))
    harness.contact.lost(OTHER, reflector, 1.0)
    harness.contact.established(SCOPE)
    harness.contact.established(SCOPE)
    harness.contact.remove(OTHER)
    first, second = "2023-11-14T22:15:00Z", "2023-11-14T22:15:05Z"
    assert told == [first, first, second, ""]


def test_silence_is_that_of_the_oldest_scope() -> None:
    harness = Harness()
    assert harness.contact.silence(harness.now) == float("inf")
    harness.contact.received(SCOPE)
    harness.now += 5
    assert harness.contact.silence(harness.now) == 5.0
    harness.contact.add(OTHER)
    assert harness.contact.silence(harness.now) == float("inf")
    harness.contact.received(OTHER)
    assert harness.contact.silence(harness.now) == 5.0
    harness.contact.remove(SCOPE)
    assert harness.contact.silence(harness.now) == 0.0
    assert harness.metrics.contact.values == {("namespaces", "shop"): 1_700_000_105.0}


def test_whoever_is_back_wakes_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        harness = Harness()
        monkeypatch.setattr("hsdns.apiserver.watcher.FIRST_PAUSE", 0.0)
        harness.lose("connection refused")
        waiting = asyncio.create_task(harness.contact.wait(30.0))
        for _ in range(5):
            await asyncio.sleep(0)
        harness.contact.opened(SCOPE)
        assert not waiting.done()
        harness.contact.established(SCOPE)
        async with asyncio.timeout(30):
            await waiting

    asyncio.run(run())


@pytest.mark.parametrize("is_away", [True, False])
def test_a_server_that_was_away_ends_a_pause(
    is_away: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        harness = Harness()
        monkeypatch.setattr("hsdns.apiserver.watcher.FIRST_PAUSE", 0.0)
        monkeypatch.setattr("hsdns.apiserver.watcher.LOOK_EVERY", 0.0)
        harness.contact.returning = Returning(lambda: asyncio.sleep(0), Random(1))
        seconds = 30.0 if is_away else 0.001
        async with asyncio.timeout(30):
            assert await harness.contact.wait(seconds, is_away=is_away) is is_away

    asyncio.run(run())


def test_what_an_observer_counts_and_logs() -> None:
    harness = Harness()
    rejected: list[tuple[str, Key, str]] = []
    observer = ScopeObserver(
        SCOPE,
        harness.metrics,
        lambda level, message: harness.log.append((level, message)),
        lambda kind, key, reason: rejected.append((kind, key, reason)),
    )
    observer.received("ADDED")
    observer.received("ADDED")
    observer.rejected(("n", "a"), "because")
    observer.relisted("start", 0)
    observer.relisted("expired", 2)
    assert harness.metrics.events.values == {("services", "", "ADDED"): 2}
    assert rejected == [("Service", ("n", "a"), "because")]
    assert harness.metrics.relists.values == {
        ("services", "", "start"): 1,
        ("services", "", "expired"): 1,
    }
    assert harness.metrics.missed.values == {LABELS: 2}
    assert harness.log == [
        (
            logging.WARNING,
            "services were relisted (expired); 2 missed deletions found",
        )
    ]
