"""What the API server sends, decoded: one line of a watch, one page of a list, one Status.

Path: client.py (bytes) -> here -> reflector.py.
Rule 1: an object is decoded straight into the few fields that DNS needs (msgspec; 44 times faster than models of the
        whole API), one event at a time, so a list of any length is in memory once.
Rule 2: an object that does not have the form of its kind is told apart from a line that is no event: the first is left
        out and the watch goes on, the second means that this is not an API server's watch.
Source: Kubernetes API concepts, "Efficient detection of changes"; metav1.WatchEvent, metav1.Status.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from hsdns.apiserver.resource import Resource
from hsdns.cluster.objects import Object, ObjectMeta

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
# What decoding may raise; the last two are Python's own.
_FAULTS: Final = (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError, RecursionError)

T = TypeVar("T")


class MalformedEvent(ValueError):
    """A line that is no watch event, or a body that is no list; the message says what it looks like."""


class StatusCause(msgspec.Struct, frozen=True, gc=False):
    """metav1.StatusCause."""

    reason: str = ""


class StatusDetails(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """metav1.StatusDetails; `retry_after_seconds` is in seconds."""

    causes: list[StatusCause] | None = None
    retry_after_seconds: int | None = None


class Status(msgspec.Struct, frozen=True, gc=False):
    """metav1.Status: why something was refused."""

    kind: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None

    @property
    def is_expired(self) -> bool:
        """Whether the history that was asked for is gone, or the version is one that this server does not know yet."""
        causes = (self.details.causes or ()) if self.details is not None else ()
        return (
            self.code == 410
            or self.reason in ("Gone", "Expired")
            or any(cause.reason == "ResourceVersionTooLarge" for cause in causes)
            or "Too large resource version" in self.message
        )


class Event(NamedTuple):
    """A watch event.  `object` is None for bookmarks and errors, and where it has not the form of its kind."""

    type: str
    object: Object | None
    resource_version: str
    key: tuple[str, str]  # namespace and name
    ends_initial: bool = False
    status: Status | None = None
    fault: str = ""  # why the object could not be read


class Page(NamedTuple):
    """A page of a list; `following` asks for the next one, "" after the last."""

    objects: list[Object]
    resource_version: str
    following: str
    faults: list[tuple[tuple[str, str], str]]  # objects that could not be read: key and reason


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
    """What all kinds have, for objects that are wrong further down."""

    metadata: ObjectMeta = ObjectMeta()


@cache
def _line_decoder(kind: type[Any]) -> msgspec.json.Decoder[_Line[Any]]:
    form: Any = _Line[kind]  # type: ignore[valid-type] # mypy has no word for a type known at run time
    return msgspec.json.Decoder(form)


@cache
def _list_decoder(kind: type[Any]) -> msgspec.json.Decoder[_List[Any]]:
    form: Any = _List[kind]  # type: ignore[valid-type] # as above
    return msgspec.json.Decoder(form)


def decode_event(line: bytes, resource: Resource) -> Event:
    """Decode one line of a watch; raise MalformedEvent."""
    try:
        found = _line_decoder(resource.type).decode(line)
    except _FAULTS as error:
        return _decode_odd_event(line, str(error))
    kind = found.type
    if kind == "ERROR":
        return _decode_odd_event(line, "")
    meta = found.object.metadata
    if kind == "BOOKMARK":
        ends = (meta.annotations or {}).get(INITIAL_EVENTS_END) == "true"
        return Event(kind, None, meta.resource_version, ("", ""), ends)
    if kind not in ("ADDED", "MODIFIED", "DELETED"):
        raise MalformedEvent(f'an event of type "{kind[:40]}"')
    if not meta.name:
        raise MalformedEvent("an object without a name")
    return Event(kind, found.object, meta.resource_version, (meta.namespace, meta.name))


def _decode_odd_event(line: bytes, fault: str) -> Event:
    """Decode an error, or what can be read of an object that has not the form of its kind."""
    try:
        kind = _line_decoder(_AnyObject).decode(line).type
    except _FAULTS:
        kind = ""
    if kind == "ERROR":
        try:
            status = _line_decoder(Status).decode(line).object
        except _FAULTS as error:
            raise MalformedEvent(f"an ERROR event that is no Status ({error})") from None
        return Event(kind, None, "", ("", ""), status=status)
    if kind not in ("ADDED", "MODIFIED", "DELETED"):
        raise MalformedEvent(_shown(line))
    meta = _line_decoder(_AnyObject).decode(line).object.metadata
    if not meta.name:
        raise MalformedEvent("an object without a name")
    return Event(kind, None, meta.resource_version, (meta.namespace, meta.name), fault=fault)


def decode_page(body: bytes, resource: Resource) -> Page:
    """Decode a page of a list; raise MalformedEvent."""
    try:
        found = _list_decoder(resource.type).decode(body)
    except _FAULTS:
        return _decode_odd_page(body, resource)
    meta = found.metadata
    return Page(found.items or [], meta.resource_version, meta.continue_, [])


def _decode_odd_page(body: bytes, resource: Resource) -> Page:
    """Decode a page object by object, so that one of a wrong form does not hide the others."""
    try:
        found = _list_decoder(msgspec.Raw).decode(body)
    except _FAULTS:
        raise MalformedEvent(_shown(body)) from None
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
                raise MalformedEvent(_shown(bytes(item))) from None
            faults.append(((meta.namespace, meta.name), str(error)))
    return Page(objects, found.metadata.resource_version, found.metadata.continue_, faults)


def decode_status(text: str, code: int) -> Status:
    """Decode the body of a refusal; where it is none (a proxy's HTML page), one with the first words of it."""
    try:
        status = msgspec.json.decode(text, type=Status)
    except _FAULTS:
        status = Status()
    if status.kind != "Status":
        return Status("", code, "", _shown(text.encode()))
    return msgspec.structs.replace(status, code=code)


def _shown(data: bytes) -> str:
    words = " ".join(data[:400].decode("utf-8", "replace").split())
    return f'"{words[:120]}"' if words else "nothing"
