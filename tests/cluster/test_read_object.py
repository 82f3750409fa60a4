import json
from typing import Any

import msgspec
import pytest

from hsdns.apiserver.protobuf import ProtobufEvents
from hsdns.apiserver.resource import ENDPOINT_SLICES
from hsdns.cluster.objects import EndpointSlice, Event, Synced, Upserted
from hsdns.cluster.read_object import ReadSlice, UpsertedRead, as_read
from hsdns.cluster.selector import Selector
from hsdns.cluster.store import Store, StoreSettings
from hsdns.fastpath import IMPLEMENTATION
from loadtest.apiserver.objects import endpoint_slice
from loadtest.apiserver.protobuf import write_frame

pytestmark = pytest.mark.skipif(IMPLEMENTATION != "rust", reason="the compiled part is not built")

MANIFEST: dict[str, Any] = endpoint_slice(1, 3).manifest
WHOLE = msgspec.convert(MANIFEST, EndpointSlice)


def read() -> UpsertedRead:
    frame = write_frame(json.dumps({"type": "ADDED", "object": MANIFEST}).encode())
    (event,) = ProtobufEvents(ENDPOINT_SLICES).feed(frame)
    assert isinstance(event.object, ReadSlice)
    return UpsertedRead(event.object)


def test_an_event_has_the_whole_object() -> None:
    event = read()
    assert isinstance(event, Upserted)
    assert event.object == WHOLE
    assert isinstance(as_read(event), ReadSlice)
    assert as_read(Upserted(WHOLE)) is WHOLE


@pytest.mark.parametrize(
    ("settings", "is_there"),
    [
        pytest.param(StoreSettings(), True, id="defaults"),
        pytest.param(StoreSettings(pod_names=True, zonal=True), True, id="names and zones"),
        pytest.param(StoreSettings(labels=Selector.from_text("app=web-1")), True, id="selected"),
        pytest.param(
            StoreSettings(labels=Selector.from_text("app=other")), False, id="not selected"
        ),
    ],
)
def test_a_store_has_what_json_gives(settings: StoreSettings, is_there: bool) -> None:
    values: list[Any] = []
    followed: list[Any] = []
    for event in (read(), Upserted(WHOLE)):
        store = Store(settings, wall=lambda: 0.0, warn=lambda sentence: None)

        def follow(events: Any) -> bool:
            followed.extend(each.object for each in events if not isinstance(each, Synced))
            return True

        store.follow(follow)
        events: list[Event] = [event, Synced()]
        store.apply(events)
        values.append({key: each.slices for key, each in store.services.values.items()})
    assert values[0] == values[1]
    assert bool(values[0]) is is_there
    assert followed == [WHOLE, WHOLE]
