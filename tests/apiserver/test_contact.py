import asyncio
import logging
from random import Random

import pytest

from hsdns.apiserver.contact import REPEAT, Contact, ScopeObserver, WatchMetrics, labels_of
from hsdns.apiserver.reflector import Key, Observer, Reflector
from hsdns.apiserver.resource import NAMESPACES, SERVICES, Scope
from hsdns.metrics import Registry

SCOPE, OTHER = Scope(SERVICES), Scope(NAMESPACES, "shop")
LABELS = ("services", "")


class ObservedContact:
    """A Contact, a clock that stands until it is moved, and the log."""

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


def test_labels() -> None:
    assert (labels_of(SCOPE), labels_of(OTHER)) == (LABELS, ("namespaces", "shop"))


@pytest.mark.parametrize(
    ("synced", "state"),
    [(True, "still serving the last known state"), (False, "nothing has been read yet")],
)
def test_an_outage_is_one_line_when_it_begins_and_one_when_it_is_over(
    synced: bool, state: str
) -> None:
    observed = ObservedContact()
    observed.lose("connection refused", synced=synced)
    observed.now += 3
    observed.lose("connection refused", synced=synced)
    assert observed.log == [
        (
            logging.ERROR,
            "cannot watch services at https://192.0.2.1:6443: connection refused "
            f"(since 2023-11-14T22:15:00Z; {state}; retrying in 1.2 s)",
        )
    ]
    assert observed.metrics.failures.values == {LABELS: 2}
    assert observed.metrics.away.values[LABELS] == 1_700_000_100.0
    assert observed.metrics.connected.values[LABELS] == 0
    observed.log.clear()
    observed.now += 39
    observed.contact.opened(SCOPE)
    assert observed.log == []
    observed.contact.settled(SCOPE)
    assert observed.log == [
        (logging.INFO, "services can be watched at https://192.0.2.1:6443 again, after 42 s")
    ]
    assert observed.metrics.away.values[LABELS] == 0
    assert observed.metrics.connected.values[LABELS] == 1
    observed.contact.closed(SCOPE)
    assert observed.metrics.connected.values[LABELS] == 0


def test_a_long_outage_is_told_once_a_minute_and_a_new_cause_at_once() -> None:
    observed = ObservedContact()
    observed.lose("connection refused")
    observed.now += REPEAT - 1
    observed.lose("connection refused")
    assert len(observed.log) == 1
    observed.lose("no route to host")
    assert len(observed.log) == 2
    observed.now += REPEAT
    observed.lose("no route to host")
    assert len(observed.log) == 3
    assert all("since 2023-11-14T22:15:00Z" in message for _, message in observed.log)


def test_silence_is_that_of_the_scope_heard_of_least() -> None:
    observed = ObservedContact()
    assert observed.contact.silence(observed.now) == float("inf")
    observed.contact.heard(SCOPE)
    observed.now += 5
    assert observed.contact.silence(observed.now) == 5.0
    observed.contact.add(OTHER)
    assert observed.contact.silence(observed.now) == float("inf")
    observed.contact.heard(OTHER)
    assert observed.contact.silence(observed.now) == 5.0
    observed.contact.remove(SCOPE)
    assert observed.contact.silence(observed.now) == 0.0
    assert observed.metrics.contact.values == {("namespaces", "shop"): 1_700_000_105.0}


def test_whoever_is_back_wakes_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        observed = ObservedContact()
        monkeypatch.setattr("hsdns.apiserver.contact.FIRST", 0.0)
        observed.lose("connection refused")
        waiting = asyncio.create_task(observed.contact.wait(30.0))
        for _ in range(5):
            await asyncio.sleep(0)
        observed.contact.opened(SCOPE)
        assert not waiting.done()
        observed.contact.settled(SCOPE)
        async with asyncio.timeout(5):
            await waiting

    asyncio.run(run())


def test_waiting_ends_by_itself() -> None:
    asyncio.run(ObservedContact().contact.wait(0.001))


def test_what_an_observer_counts_and_logs() -> None:
    observed = ObservedContact()
    rejected: list[tuple[str, Key, str]] = []
    observer = ScopeObserver(
        SCOPE,
        observed.metrics,
        lambda level, message: observed.log.append((level, message)),
        lambda kind, key, reason: rejected.append((kind, key, reason)),
    )
    observer.received("ADDED")
    observer.received("ADDED")
    observer.rejected(("n", "a"), "because")
    observer.relisted("start", 0)
    observer.relisted("expired", 2)
    assert observed.metrics.events.values == {("services", "", "ADDED"): 2}
    assert rejected == [("Service", ("n", "a"), "because")]
    assert observed.metrics.relists.values == {
        ("services", "", "start"): 1,
        ("services", "", "expired"): 1,
    }
    assert observed.metrics.missed.values == {LABELS: 2}
    assert observed.log == [
        (
            logging.WARNING,
            "services had to be read anew (expired); 2 deletions had been missed",
        )
    ]
