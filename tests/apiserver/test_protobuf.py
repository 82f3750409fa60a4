"""Protobuf gives what JSON gives: bytes of kube-apiserver 1.36, and any objects as the fake API server writes them."""

import base64
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.apiserver.resource import ENDPOINT_SLICES, NAMESPACES, PODS, SERVICES
from hsdns.apiserver.watch_event import (
    Event,
    JsonEvents,
    MalformedEvent,
    ProtobufEvents,
    decode_page,
    decode_status,
    read_protobuf_page,
    status_text,
)
from hsdns.cluster.objects import CHANGE_TIME
from hsdns.cluster.pack import key_of, owner_of, pack_service, pack_slice
from hsdns.cluster.read_object import READ, ReadService, ReadSlice
from hsdns.cluster.store import StoreSettings
from hsdns.cluster.value import ServiceValue
from hsdns.fastpath import IMPLEMENTATION
from loadtest.apiserver.protobuf import write_body, write_frame
from tests.strategies import objects

pytestmark = pytest.mark.skipif(IMPLEMENTATION != "rust", reason="the compiled part is not built")

RESOURCES = {each.kind: each for each in (SERVICES, ENDPOINT_SLICES, NAMESPACES, PODS)}
RECORDED = json.loads(Path(__file__).with_name("recorded_protobuf.json").read_text())


def of_form(*forms: str) -> list[Any]:
    return [pytest.param(each, id=each["name"]) for each in RECORDED if each["form"] in forms]


def whole(event: Event) -> Event:
    """The event as JSON gives it."""
    found = event.object
    return event._replace(object=found.whole) if isinstance(found, READ) else event


def packed(event: Event, *, pod_names: bool, zonal: bool) -> tuple[Any, list[str]]:
    rejected: list[str] = []
    found = event.object
    assert found is not None
    parts = pack_slice(
        found,  # type: ignore[arg-type] # only slices come here
        StoreSettings(pod_names, zonal=zonal, not_ready=True),
        lambda reason, sentence: rejected.append(sentence),
    )
    return parts, rejected


def packed_service(event: Event) -> tuple[Any, ...]:
    rejected: list[str] = []
    found: Any = event.object
    value = pack_service(found, (), lambda reason, sentence: rejected.append(sentence))
    fields = set(ServiceValue.__slots__) - {"nodes", "_labels"}
    return key_of(found), {each: getattr(value, each) for each in fields}, rejected


def assert_equal(got: list[Event], wanted: list[Event]) -> None:
    assert [whole(each) for each in got] == wanted
    for one, other in zip(got, wanted, strict=True):
        if isinstance(one.object, ReadService):
            assert packed_service(one) == packed_service(other)
            assert one.object.metadata == one.object.whole.metadata
        if isinstance(one.object, ReadSlice):
            assert owner_of(one.object) == owner_of(other.object)  # type: ignore[arg-type]
            assert one.object.reading.changed_at == (
                one.object.whole.metadata.annotations or {}
            ).get(CHANGE_TIME)
            for pod_names in (False, True):
                for zonal in (False, True):
                    settings = {"pod_names": pod_names, "zonal": zonal}
                    assert packed(one, **settings) == packed(other, **settings)


@pytest.mark.parametrize("recorded", of_form("watch"))
@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_recorded_watches(recorded: dict[str, str], size: int) -> None:
    resource = RESOURCES[recorded["kind"]]
    octets = base64.b64decode(recorded["protobuf"])
    events = ProtobufEvents(resource)
    got = [
        event for at in range(0, len(octets), size) for event in events.feed(octets[at : at + size])
    ]
    assert got
    assert_equal(got, list(JsonEvents(resource).feed(recorded["json"].encode())))


@pytest.mark.parametrize("recorded", of_form("list"))
def test_recorded_lists(recorded: dict[str, str]) -> None:
    resource = RESOURCES[recorded["kind"]]
    got = read_protobuf_page(base64.b64decode(recorded["protobuf"]), resource)
    wanted = decode_page(recorded["json"].encode(), resource)
    assert got.following == wanted.following == ""
    assert_equal(list(got.events), list(wanted.events))


@pytest.mark.parametrize("recorded", of_form("status"))
def test_recorded_statuses(recorded: dict[str, str]) -> None:
    text = status_text(base64.b64decode(recorded["protobuf"]))
    assert decode_status(text, 404) == decode_status(recorded["json"], 404)


@given(
    st.sampled_from(sorted(RESOURCES)).flatmap(lambda kind: objects(kind, "default", "web-1")),
    st.sampled_from(["ADDED", "MODIFIED", "DELETED"]),
)
def test_any_object(found: Any, kind: str) -> None:
    resource = RESOURCES[type(found).__name__]
    manifest = {"kind": resource.kind, **omitted(msgspec.to_builtins(found))}
    line = msgspec.json.encode({"type": kind, "object": manifest}) + b"\n"
    got = list(ProtobufEvents(resource).feed(write_frame(line)))
    assert_equal(got, list(JsonEvents(resource).feed(line)))
    page = json.dumps(
        {"kind": f"{resource.kind}List", "metadata": {"resourceVersion": "5"}, "items": [manifest]}
    ).encode()
    of_page = list(read_protobuf_page(write_body(page), resource).events)
    assert_equal(of_page, list(decode_page(page, resource).events))


# Fields that Go leaves out of JSON if they are empty; pointers are kept.
POINTERS = {"ready", "serving", "terminating", "zone", "ipFamilyPolicy"}


def omitted(found: Any, kept: bool = False) -> Any:
    """The object without what Go's `omitempty` leaves out."""
    if isinstance(found, list):
        return [omitted(each, kept) for each in found]
    if not isinstance(found, dict):
        return found
    is_slice = "addressType" in found or kept
    return {
        name: omitted(each, is_slice)
        for name, each in found.items()
        if each not in (None, "", [], {})
        or (name in POINTERS and each is not None)
        or (is_slice and name in ("name", "protocol", "hostname") and each == "")
    }


SLICE = {
    "kind": "EndpointSlice",
    "metadata": {"name": "web", "namespace": "shop", "resourceVersion": "7"},
    "endpoints": [],
}


def frame(found: dict[str, Any], kind: str = "ADDED") -> bytes:
    return write_frame(json.dumps({"type": kind, "object": found}).encode())


def test_a_malformed_object_is_skipped_with_its_name() -> None:
    good = frame(SLICE)
    # The endpoints are a number: field 2 of wire type 0, in place of the empty address type (field 4, 2 octets).
    bad = good.replace(b"\x22\x00", b"\x10\x05", 1)
    assert bad != good
    events = list(ProtobufEvents(ENDPOINT_SLICES).feed(bad + good))
    reason = "a field of another type where a string or message belongs"
    assert events[0] == Event("ADDED", None, "7", ("shop", "web"), fault=reason)
    assert events[1].object is not None


@pytest.mark.parametrize(
    ("octets", "message"),
    [
        pytest.param(b"<html><head>", "a frame of impossible length", id="no frame"),
        pytest.param(b"\0\0\0\2\x0a\x05", "a field that is longer than its message", id="short"),
        pytest.param(b"\0\0\0\0", "an object without the mark of Kubernetes", id="empty"),
        pytest.param(
            frame({**SLICE, "kind": "Service"}), "an object of another kind", id="other kind"
        ),
        pytest.param(frame(SLICE, "GONE"), "an event of an unknown type", id="other event"),
        pytest.param(
            frame({**SLICE, "metadata": {}}), "an object without a name", id="without a name"
        ),
    ],
)
def test_what_is_no_event_ends_the_response(octets: bytes, message: str) -> None:
    events = ProtobufEvents(ENDPOINT_SLICES).feed(frame(SLICE) + octets)
    assert next(events).key == ("shop", "web")
    with pytest.raises(MalformedEvent, match=message):
        next(events)


def test_a_long_frame_is_skipped() -> None:
    events = ProtobufEvents(ENDPOINT_SLICES, limit=300)
    long = frame({**SLICE, "endpoints": [{"addresses": ["10.0.0.1"] * 40}]})
    octets, found = frame(SLICE) + long + frame(SLICE), []
    for at in range(0, len(octets), 50):
        found += [event.key for event in events.feed(octets[at : at + 50])]
    assert found == [("shop", "web")] * 2
    assert events.skipped == 1
