"""The last changes, and how long it took to serve them."""

from __future__ import annotations

from typing import Any

import msgspec

from hsdns.cluster.objects import EndpointSlice, Object
from hsdns.cluster.read_object import CHANGE_TIME
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.server.control.queries import QueryFilter
from hsdns.server.control.top import MOST_CHANGES, ServedChanges
from hsdns.server.runtime import Turn
from hsdns.wire.name import Name
from tests.server.control.top.looked import Looked
from tests.support.cluster.objects import endpoint_slice, namespace, service, upserts
from tests.support.coroutines.eager import finish

OBJECTS: list[Object] = [namespace("shop"), service("shop/db"), service("shop/web", "10.96.0.1")]
WALL = 1_700_001_000.0  # of the memory server's clock


def written(at: str, *endpoints: str, version: str = "1") -> EndpointSlice:
    """A slice whose controller has noted a time."""
    found = endpoint_slice("shop/db-1", "db", *endpoints, version=version)
    return msgspec.structs.replace(
        found, metadata=msgspec.structs.replace(found.metadata, annotations={CHANGE_TIME: at})
    )


class Following:
    def __init__(self, wanted: QueryFilter = QueryFilter()) -> None:  # noqa: B008 - a tuple
        self.looked = Looked(objects=OBJECTS)
        self.looked.door.wall = lambda: WALL
        (self.block,) = [each for each in self.looked.server.configuration.plugins if isinstance(each, Kubernetes)]  # fmt: skip
        self.changes = ServedChanges(self.looked.door, wanted)

    def take(self, *objects: Any) -> list[tuple[str, str, str | None, float | None]]:
        self.block.store.apply(upserts(*objects))
        rows = finish(self.changes.take(Turn(lambda: 0.0)))
        return [(each["change"], f"{each['record']} {each['name']}", each["written"], each["served_ms"]) for each in rows]  # fmt: skip


DB = "db.shop.svc.cluster.local."


def test_what_is_written_is_served() -> None:
    following = Following()
    assert following.take() == []
    slice_ = written("2023-11-14T22:29:59.5Z", "10.0.0.1")
    (address, port) = following.take(slice_)
    time = "2023-11-14T22:29:59.500+00:00"
    assert address == ("added", f"10.0.0.1 {DB}", time, 500.0)
    assert port[2:] == (time, 500.0)


def test_of_other_changes_only_the_time_is_known() -> None:
    following = Following()
    following.take(written("2023-11-14T22:29:59.5Z", "10.0.0.1"))
    following.looked.door.wall = lambda: WALL + 1
    following.take()
    *_, last = following.take(service("shop/web", "10.96.0.2", version="2"))
    assert last == ("added", "10.96.0.2 web.shop.svc.cluster.local.", None, None)
    for number, text in enumerate(("yesterday", "0001-01-01T00:00:00Z"), 7):
        address = f"10.0.0.{number}"
        *_, last = following.take(written(text, address, version=address))
        assert last == ("added", f"{address} {DB}", None, None)


def test_filter_and_bound() -> None:
    following = Following(QueryFilter(name=Name.from_text(DB)))
    assert following.take(service("shop/web", "10.96.0.2", version="2")) == []
    many = [f"10.0.1.{number}" for number in range(MOST_CHANGES + 5)]
    found = following.take(endpoint_slice("shop/db-1", "db", *many))
    assert len(found) == MOST_CHANGES
