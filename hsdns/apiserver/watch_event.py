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
from collections.abc import Iterator
from functools import cache
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from hsdns.apiserver.lines import LineSplitter
from hsdns.apiserver.resource import Resource
from hsdns.cluster.objects import Object, ObjectMeta
from hsdns.cluster.read_object import ReadObject

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
# The exceptions of decoding; the last two are raised by Python itself.
_FAULTS: Final = (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError, RecursionError)

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
    """A page of a list; `following` is the continue token of the next one, "" after the last."""

    objects: list[Object]
    resource_version: str
    following: str
    faults: list[tuple[tuple[str, str], str]]  # malformed objects: key and reason

    @property
    def events(self) -> Iterator[Event]:
        """The objects, then the malformed ones, as additions."""
        for found in self.objects:
            meta = found.metadata
            yield Event("ADDED", found, meta.resource_version, _key(meta))
        for key, fault in self.faults:
            yield Event("ADDED", None, "", key, fault=fault)


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


@cache
def _line_decoder(kind: type[Any]) -> msgspec.json.Decoder[_Line[Any]]:
    form: Any = _Line[kind]  # type: ignore[valid-type] # a type known only at run time
    return msgspec.json.Decoder(form)


@cache
def _list_decoder(kind: type[Any]) -> msgspec.json.Decoder[_List[Any]]:
    form: Any = _List[kind]  # type: ignore[valid-type] # as above
    return msgspec.json.Decoder(form)


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
        found = _line_decoder(resource.type).decode(line)
    except _FAULTS as error:
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
        kind = _line_decoder(_AnyObject).decode(line).type
    except _FAULTS:
        kind = ""
    if kind == "ERROR":
        try:
            status = _line_decoder(Status).decode(line).object
        except _FAULTS as error:
            raise MalformedEvent(f"an ERROR event that is not a Status ({error})") from None
        return Event(kind, None, "", ("", ""), status=status)
    if kind not in ("ADDED", "MODIFIED", "DELETED"):
        raise MalformedEvent(_excerpt(line))
    meta = _line_decoder(_AnyObject).decode(line).object.metadata
    if not meta.name:
        raise MalformedEvent("an object without a name")
    return Event(kind, None, meta.resource_version, _key(meta), fault=fault)


def decode_page(body: bytes, resource: Resource) -> Page:
    """Decode a page of a list; raise MalformedEvent."""
    try:
        found = _list_decoder(resource.type).decode(body)
    except _FAULTS:
        return _decode_malformed_page(body, resource)
    meta = found.metadata
    return Page(found.items or [], meta.resource_version, meta.continue_, [])


def _decode_malformed_page(body: bytes, resource: Resource) -> Page:
    """Decode a page object by object, to skip only the malformed ones."""
    try:
        found = _list_decoder(msgspec.Raw).decode(body)
    except _FAULTS:
        raise MalformedEvent(_excerpt(body)) from None
    decoder = msgspec.json.Decoder(resource.type)
    objects: list[Object] = []
    faults = []
    for item in found.items or ():
        try:
            objects.append(decoder.decode(item))
        except _FAULTS as error:
            try:
                meta = msgspec.json.decode(item, type=_AnyObject).metadata
            except _FAULTS:
                raise MalformedEvent(_excerpt(bytes(item))) from None
            faults.append((_key(meta), str(error)))
    return Page(objects, found.metadata.resource_version, found.metadata.continue_, faults)


def decode_status(text: str, code: int) -> Status:
    """Decode the body of a refusal; if it is not a Status (a proxy's HTML page), make one from its first words."""
    try:
        status = msgspec.json.decode(text, type=Status)
    except _FAULTS:
        status = Status()
    if status.kind != "Status":
        return Status("", code, "", _excerpt(text.encode()))
    return msgspec.structs.replace(status, code=code)


def _key(meta: ObjectMeta) -> tuple[str, str]:
    return sys.intern(meta.namespace), meta.name


def _excerpt(data: bytes) -> str:
    words = " ".join(data[:400].decode("utf-8", "replace").split())
    return f'"{words[:120]}"' if words else "nothing"
