"""Decoder for the API server's responses: a line of a watch, a page of a list, a Status.

Path: client.py (bytes) -> here -> reflector.py.
Rule 1: an object is decoded directly into the few fields that DNS needs (msgspec; 44 times faster than models of the
        whole API), one event at a time, so that a list is in memory only once.
Rule 2: a malformed object is skipped and the watch continues; a line that is not an event means that the response is
        not a watch of an API server.
Source: Kubernetes API concepts, "Efficient detection of changes"; metav1.WatchEvent, metav1.Status.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from threading import Lock
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from hsdns.apiserver.resource import Resource
from hsdns.cluster.objects import UNDECODED, Object, ObjectMeta
from hsdns.cluster.read_object import ReadObject, ReadService, ReadSlice
from hsdns.fastpath import ServiceReading, SliceReading, WatchFrames, read_page, read_status

# Splitter of a byte stream into lines.
#
# Rule 1: an incomplete line is buffered, and dropped with the connection: part of a line is never an event.
# Rule 2: a line of more than `limit` octets is skipped, so that a faulty server cannot exhaust the memory.


# etcd limits objects to 1.5 MiB by default; as JSON with escapes they may be several times larger.
MAX_LINE_LEN: Final = 16 * 1024 * 1024


class LineSplitter:
    """Buffers an incomplete line; `skipped` counts the lines above the limit."""

    def __init__(self, limit: int = MAX_LINE_LEN) -> None:
        self.skipped = 0
        self._limit = limit
        self._rest = bytearray()
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes; return the completed lines without their ends and without empty lines."""
        if b"\n" not in data:
            self._buffer_partial(data)
            return []
        first, *others = data.split(b"\n")
        rest = others.pop()
        lines = []
        self._buffer_partial(first)
        if not self._skipping and self._rest:
            lines.append(bytes(self._rest))
        self._rest.clear()
        self._skipping = False
        lines += filter(None, others)
        self._buffer_partial(rest)
        return lines

    def _buffer_partial(self, data: bytes) -> None:
        if self._skipping:
            return
        if len(self._rest) + len(data) > self._limit:
            self._rest.clear()
            self._skipping = True
            self.skipped += 1
        else:
            self._rest += data


INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"

T = TypeVar("T")


class MalformedEvent(ValueError):
    """A line that is not a watch event, or a body that is not a list; the message shows its beginning."""


class StatusCause(msgspec.Struct, frozen=True, gc=False):
    """metav1.StatusCause."""

    reason: str = ""


class StatusDetails(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """metav1.StatusDetails; `retry_after_seconds` is in seconds."""

    causes: list[StatusCause] | None = None
    retry_after_seconds: int | None = None


class Status(msgspec.Struct, frozen=True, gc=False):
    """metav1.Status: the reason for a refusal."""

    kind: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None

    @property
    def is_expired(self) -> bool:
        """Whether the requested history is gone, or the version is not known to this server yet."""
        causes = (self.details.causes or ()) if self.details is not None else ()
        return (
            self.code == 410
            or self.reason in ("Gone", "Expired")
            or any(cause.reason == "ResourceVersionTooLarge" for cause in causes)
            or "Too large resource version" in self.message
        )


class Event(NamedTuple):
    """A watch event; `object` is None for bookmarks, errors and malformed objects."""

    type: str
    object: Object | ReadObject | None
    resource_version: str
    key: tuple[str, str]  # namespace, which all objects in it share, and name
    ends_initial: bool = False
    status: Status | None = None
    fault: str = ""  # why the object is malformed


class Page(NamedTuple):
    """A page of a list: its objects as additions; `following` is the continue token of the next one, or empty."""

    events: Iterable[Event]
    resource_version: str
    following: str


class _Line(msgspec.Struct, Generic[T], frozen=True, gc=False):
    type: str
    object: T


class _ListMeta(msgspec.Struct, frozen=True, rename="camel", gc=False):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct, Generic[T], frozen=True):
    items: list[T] | None
    metadata: _ListMeta = _ListMeta()


class _AnyObject(msgspec.Struct, frozen=True):
    """The fields that all kinds share, to identify malformed objects."""

    metadata: ObjectMeta = ObjectMeta()


# msgspec shows a type to other threads before it is complete, and a decoder that has it then crashes the process.
_MAKING: Final = Lock()


@cache
def _decoder(of: Any, kind: type[Any]) -> msgspec.json.Decoder[Any]:
    """The decoder of a line or a list of objects of a kind."""
    with _MAKING:
        return msgspec.json.Decoder(of[kind])


class JsonEvents:
    """The events of a watch in JSON, one per line; `skipped` counts the lines above the limit."""

    def __init__(self, resource: Resource) -> None:
        self.skipped = 0
        self._resource = resource
        self._lines = LineSplitter()

    def feed(self, data: bytes) -> Iterator[Event]:
        """Add bytes; yield the completed events; raise MalformedEvent at the first line that is not an event."""
        lines = self._lines.feed(data)
        self.skipped += self._lines.skipped
        self._lines.skipped = 0
        for line in lines:
            yield decode_event(line, self._resource)


def decode_event(line: bytes, resource: Resource) -> Event:
    """Decode one line of a watch; raise MalformedEvent."""
    try:
        found = _decoder(_Line, resource.type).decode(line)
    except UNDECODED as error:
        return _decode_other_event(line, str(error))
    kind = found.type
    if kind == "ERROR":
        return _decode_other_event(line, "")
    meta = found.object.metadata
    if kind == "BOOKMARK":
        ends = (meta.annotations or {}).get(INITIAL_EVENTS_END) == "true"
        return Event(kind, None, meta.resource_version, ("", ""), ends)
    if kind not in ("ADDED", "MODIFIED", "DELETED"):
        raise MalformedEvent(f'an event of type "{kind[:40]}"')
    if not meta.name:
        raise MalformedEvent("an object without a name")
    return Event(kind, found.object, meta.resource_version, _key(meta))


def _decode_other_event(line: bytes, fault: str) -> Event:
    """Decode an ERROR event, or the metadata of a malformed object."""
    try:
        kind = _decoder(_Line, _AnyObject).decode(line).type
    except UNDECODED:
        kind = ""
    if kind == "ERROR":
        try:
            status = _decoder(_Line, Status).decode(line).object
        except UNDECODED as error:
            raise MalformedEvent(f"an ERROR event that is not a Status ({error})") from None
        return Event(kind, None, "", ("", ""), status=status)
    if kind not in ("ADDED", "MODIFIED", "DELETED"):
        raise MalformedEvent(_excerpt(line))
    meta = _decoder(_Line, _AnyObject).decode(line).object.metadata
    if not meta.name:
        raise MalformedEvent("an object without a name")
    return Event(kind, None, meta.resource_version, _key(meta), fault=fault)


def decode_page(body: bytes, resource: Resource) -> Page:
    """Decode a page of a list; raise MalformedEvent."""
    try:
        found = _decoder(_List, resource.type).decode(body)
        events = [_addition(each) for each in found.items or ()]
    except UNDECODED:
        try:
            found = _decoder(_List, msgspec.Raw).decode(body)
        except UNDECODED:
            raise MalformedEvent(_excerpt(body)) from None
        # Object by object, to skip only the malformed ones.
        decoder = msgspec.json.Decoder(resource.type)
        events = [_decode_item(item, decoder) for item in found.items or ()]
    return Page(events, found.metadata.resource_version, found.metadata.continue_)


def _addition(found: Object) -> Event:
    return Event("ADDED", found, found.metadata.resource_version, _key(found.metadata))


def _decode_item(item: msgspec.Raw, decoder: msgspec.json.Decoder[Object]) -> Event:
    try:
        return _addition(decoder.decode(item))
    except UNDECODED as error:
        try:
            meta = msgspec.json.decode(item, type=_AnyObject).metadata
        except UNDECODED:
            raise MalformedEvent(_excerpt(bytes(item))) from None
        return Event("ADDED", None, "", _key(meta), fault=str(error))


def decode_status(text: str, code: int) -> Status:
    """Decode the body of a refusal; if it is not a Status (a proxy's HTML page), make one from its first words."""
    try:
        status = msgspec.json.decode(text, type=Status)
    except UNDECODED:
        status = Status()
    if status.kind != "Status":
        return Status("", code, "", _excerpt(text.encode()))
    return msgspec.structs.replace(status, code=code)


def _key(meta: ObjectMeta) -> tuple[str, str]:
    return sys.intern(meta.namespace), meta.name


def _excerpt(data: bytes) -> str:
    words = " ".join(data[:400].decode("utf-8", "replace").split())
    return f'"{words[:120]}"' if words else "nothing"


# Protobuf responses of the API server: compiled code reads them, with the same events as from JSON.
#
# Rule: a Service or an EndpointSlice stays as it was read until something needs the whole object (read_object.py).
# Source: Kubernetes API concepts, "Alternate representations of resources"; docs/decisions/0030.


IS_READ: Final = WatchFrames is not None


class ProtobufEvents:
    """The events of a watch; `skipped` counts the frames above the limit."""

    def __init__(self, resource: Resource, limit: int = MAX_LINE_LEN) -> None:
        assert WatchFrames is not None, "protobuf was not requested"
        self.skipped = 0
        self._event = partial(_event, resource)
        self._frames = WatchFrames(resource.kind, limit)

    def feed(self, data: bytes) -> Iterator[Event]:
        """Add bytes; return the completed events, then raise MalformedEvent if the next frame is not an event."""
        events, fault = self._frames.feed(data)
        self.skipped += self._frames.take_skipped()
        found = map(self._event, events)
        return _before_fault(found, fault) if fault else found


def read_protobuf_page(body: bytes, resource: Resource) -> Page:
    """Read a page of a list; raise MalformedEvent."""
    assert read_page is not None, "protobuf was not requested"
    try:
        version, following, events = read_page(body, resource.kind)
    except ValueError as error:
        raise MalformedEvent(str(error)) from None
    return Page(map(partial(_event, resource), events), version, following)


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
