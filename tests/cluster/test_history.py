"""The last changes that a store has applied."""

from __future__ import annotations

import pytest

from hsdns.cluster.history import ENTRY_OCTETS, History, Noted, ServiceFacts
from hsdns.cluster.objects import Event, Synced
from hsdns.cluster.store import Store, StoreSettings
from tests.support.cluster.objects import deletes, endpoint_slice, namespace, service, upserts

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


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ([], []),
        (upserts(PART), []),
        (upserts(endpoint_slice("shop/db-1", "db", "10.0.0.1 host=db-1", version="2")),
         [("changed", "EndpointSlice db-1 2", ["10.0.0.1 db-1"], ["10.0.0.1 db-0", "10.0.0.2"])]),
        (upserts(endpoint_slice("shop/db-2", "db", "10.0.0.3")),
         [("added", "EndpointSlice db-2 1", ["10.0.0.3", "port http/tcp/80"], [])]),
        (deletes(PART), [("deleted", "EndpointSlice db-1 1", [], ["10.0.0.1 db-0", "10.0.0.2", "port http/tcp/80"])]),
        (upserts(service("shop/db", "10.96.0.1", version="2")),
         [("changed", "Service db 2", ["10.96.0.1"], [])]),
        (deletes(service("shop/db")), [("deleted", "Service db 1", [], ["port http/tcp/80"])]),
        (upserts(service("shop/web", "10.96.0.1")), []),
    ],
)  # fmt: skip
def test_changes(events: list[Event], found: list[object]) -> None:
    assert changes(*events) == found


def test_the_newest_first_and_when() -> None:
    made = store()
    for version in "234":
        made.apply(upserts(endpoint_slice("shop/db-1", "db", f"10.0.0.{version}", version=version)))
    found = made.services.history.of(DB, 2)
    assert [(each.version, each.served) for each in found] == [("4", 7.0), ("3", 7.0)]
    every = made.services.history.after(None)
    assert [each.version for each in every] == ["4", "3", "2"]
    assert made.services.history.after(every[1]) == every[:1]


def test_it_is_bounded_in_octets() -> None:
    ring = History(3 * ENTRY_OCTETS)
    for number in range(9):
        facts = ServiceFacts(), ServiceFacts()
        ring.note(Noted(0.0, DB, "changed", "Service", "db", str(number), "", *facts))
    assert [each.version for each in ring.of(DB, 9)] == ["8", "7", "6"]
