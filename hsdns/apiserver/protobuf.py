"""Protobuf responses of the API server: compiled code reads them, with the same events as from JSON.

Path: client.py (bytes) -> here, native/src/watch.rs -> reflector.py.
Rule: a Service or an EndpointSlice stays as it was read until something needs the whole object (read_object.py).
Source: Kubernetes API concepts, "Alternate representations of resources"; docs/decisions/0030.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from hsdns.apiserver.lines import MAX_LINE_LEN
from hsdns.apiserver.resource import Resource
from hsdns.apiserver.watch_event import Event, MalformedEvent, Status
from hsdns.cluster.read_object import ReadService, ReadSlice
from hsdns.fastpath import ServiceReading, SliceReading, WatchFrames, read_page, read_status

IS_READ: Final = WatchFrames is not None


class ProtobufEvents:
    """The events of a watch; `skipped` counts the frames above the limit."""

    def __init__(self, resource: Resource, limit: int = MAX_LINE_LEN) -> None:
        assert WatchFrames is not None, "protobuf was not asked for"
        self.skipped = 0
        self._event = partial(_event, resource)
        self._frames = WatchFrames(resource.kind, limit)

    def feed(self, data: bytes) -> Iterator[Event]:
        """Add bytes; return the completed events, then raise MalformedEvent if the next frame is not an event."""
        events, fault = self._frames.feed(data)
        self.skipped += self._frames.take_skipped()
        found = map(self._event, events)
        return _before_fault(found, fault) if fault else found


class ProtobufPage(NamedTuple):
    """A page of a list: the events of its objects, and the other fields as in Page."""

    events: Iterator[Event]
    resource_version: str
    following: str


def read_protobuf_page(body: bytes, resource: Resource) -> ProtobufPage:
    """Read a page of a list; raise MalformedEvent."""
    assert read_page is not None, "protobuf was not asked for"
    try:
        version, following, events = read_page(body, resource.kind)
    except ValueError as error:
        raise MalformedEvent(str(error)) from None
    return ProtobufPage(map(partial(_event, resource), events), version, following)


def status_text(body: bytes) -> str:
    """The JSON of a Status; "" for other bodies."""
    try:
        return "" if read_status is None else read_status(body).decode()
    except ValueError:
        return ""


# As Event(), without the call of a function in Python.
_read_event: Final[Callable[[tuple[object, ...]], Event]] = partial(tuple.__new__, Event)
_READ: Final[dict[Any, type[ReadService | ReadSlice]]] = {
    ServiceReading: ReadService,
    SliceReading: ReadSlice,
}


def _before_fault(events: Iterator[Event], fault: str) -> Iterator[Event]:
    yield from events
    raise MalformedEvent(fault)


def _event(resource: Resource, found: tuple[str, tuple[str, str], str, Any]) -> Event:
    kind, key, version, content = found
    read = _READ.get(type(content))
    if read is not None:
        return _read_event((kind, read(key, version, content), version, key, False, None, ""))
    if kind == "BOOKMARK":
        return Event(kind, None, version, ("", ""), content)
    if kind == "ERROR":
        return Event(kind, None, "", ("", ""), status=msgspec.json.decode(content, type=Status))
    if isinstance(content, str):
        return Event(kind, None, version, key, fault=content)
    return Event(kind, msgspec.json.decode(content, type=resource.type), version, key)
