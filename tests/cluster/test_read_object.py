import json
from typing import Any

import msgspec
import pytest

from hsdns.apiserver.resource import ENDPOINT_SLICES, SERVICES, Resource
from hsdns.apiserver.watch_event import ProtobufEvents
from hsdns.cluster.objects import EndpointSlice, Event, Object, Selector, Service, Synced, Upserted
from hsdns.cluster.read_object import READ, as_read, upserted
from hsdns.cluster.store import Store, StoreSettings
from hsdns.fastpath import IMPLEMENTATION
from loadtest.apiserver.objects import endpoint_slice, service
from loadtest.apiserver.protobuf import write_frame

pytestmark = pytest.mark.skipif(IMPLEMENTATION != "rust", reason="the compiled part is not built")

SLICE: dict[str, Any] = endpoint_slice(1, 3).manifest
SERVICE: dict[str, Any] = service(1).manifest
WHOLE_SLICE = msgspec.convert(SLICE, EndpointSlice)
WHOLE_SERVICE = msgspec.convert(SERVICE, Service)
ITEMS = [
    pytest.param(SLICE, ENDPOINT_SLICES, WHOLE_SLICE, id="slice"),
    pytest.param(SERVICE, SERVICES, WHOLE_SERVICE, id="service"),
]


def read(manifest: dict[str, Any], resource: Resource) -> Upserted:
    frame = write_frame(json.dumps({"type": "ADDED", "object": manifest}).encode())
    (event,) = ProtobufEvents(resource).feed(frame)
    assert isinstance(event.object, READ)
    return upserted(event.object)


@pytest.mark.parametrize(("manifest", "resource", "whole"), ITEMS)
def test_an_event_has_the_whole_object(
    manifest: dict[str, Any], resource: Resource, whole: Object
) -> None:
    event = read(manifest, resource)
    assert isinstance(event, Upserted)
    assert event.object == whole
    assert isinstance(as_read(event), READ)
    assert as_read(event).metadata.name == whole.metadata.name
    assert as_read(upserted(whole)) is whole


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
    for of_slice, of_service in (
        (read(SLICE, ENDPOINT_SLICES), read(SERVICE, SERVICES)),
        (Upserted(WHOLE_SLICE), Upserted(WHOLE_SERVICE)),
    ):
        store = Store(settings, wall=lambda: 0.0, warn=lambda sentence: None)

        def follow(events: Any) -> bool:
            followed.extend(each.object for each in events if not isinstance(each, Synced))
            return True

        store.follow(follow)
        events: list[Event] = [of_slice, of_service, Synced()]
        store.apply(events)
        values.append(
            {
                key: (each.kind, each.ports, each.has_selector, each.slices)
                for key, each in store.services.values.items()
            }
        )
    assert values[0] == values[1]
    assert bool(values[0]) is is_there
    assert followed == [WHOLE_SLICE, WHOLE_SERVICE] * 2
