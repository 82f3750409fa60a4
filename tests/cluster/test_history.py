"""The last changes that a store has applied."""

from __future__ import annotations

from hsdns.cluster.history import ENTRY_OCTETS, History, Noted, ServiceFacts
from hsdns.cluster.objects import Event, Synced
from hsdns.cluster.store import Store, StoreSettings
from tests.support.cluster.objects import endpoint_slice, namespace, service, upserts

DB = (b"shop", b"db")
PART = endpoint_slice("shop/db-1", "db", "10.0.0.1 host=db-0", "10.0.0.2")


def store(*events: Event) -> Store:
    made = Store(StoreSettings(), wall=lambda: 7.0, warn=lambda sentence: None)
    made.apply([*upserts(namespace("shop"), service("shop/db"), PART), Synced()])
    made.apply(events)
    return made


def changes(*events: Event) -> list[tuple[str, str, list[str], list[str]]]:
    found = store(*events).services.history.of(DB, 9)
    return [
        (each.event, f"{each.kind} {each.name} {each.version}", *each.facts()) for each in found
    ]


def test_it_is_bounded_in_octets() -> None:
    ring = History(3 * ENTRY_OCTETS)
    for number in range(9):
        facts = ServiceFacts(), ServiceFacts()
        ring.note(Noted(0.0, DB, "changed", "Service", "db", str(number), "", *facts))
    assert [each.version for each in ring.of(DB, 9)] == ["8", "7", "6"]
