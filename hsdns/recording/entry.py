"""The entries of a recording: one struct for each, and its line of JSON.

Path: server/control/cluster.py makes those about objects, cli.py those about queries -> recording/cli.py; reader.py
-> playback.py.  docs/contributing/recording.md describes the format.
Rule 1: `at` is in seconds: in a recording since its start, in the streams of the control API since the server's start.
Rule 2: the entry's name comes first in its line, so that lines can be skipped without decoding.
Rule 3: a reader ignores unknown entries and fields.  An incompatible change gets another VERSION.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Literal

import msgspec
from msgspec import structs

from hsdns.cluster.objects import (
    CHANGE_TIME,
    IMPORT_NAME_LABEL,
    SERVICE_NAME_LABEL,
    SOURCE_CLUSTER_LABEL,
    UNDECODED,
    Deleted,
    EndpointSlice,
    Event,
    Object,
    ObjectMeta,
    Pod,
    Synced,
    Upserted,
    read_object,
)

FORMAT: Final = "hsdns recording"
VERSION: Final = 1
QUERY_LINE: Final = b'{"entry":"query"'  # the start of the line of a query
# The properties of a kubernetes block that affect its answers, apart from the selection of objects.
SHAPING: Final = (
    "pods", "endpoint_pod_names", "ttl", "noendpoints", "ignore", "explain", "fallthrough", "zonal", "multicluster",
    "namespaces",
)  # fmt: skip
Change = Literal["ADDED", "MODIFIED", "DELETED", "SYNCED"]


class _Entry(msgspec.Struct, frozen=True, tag_field="entry", omit_defaults=True):
    """The base class of all entries."""


class Header(_Entry, frozen=True, tag="header", omit_defaults=False):
    """The first entry: the recorded server, the time (RFC 3339), and the settings that affect its answers.

    `kubernetes` are the SHAPING properties of the block in the Corefile, each a list of words.
    """

    format: str = FORMAT
    version: int = VERSION
    server: str = ""
    began: str = ""
    source: str = ""
    zones: list[str] = []
    kubernetes: list[list[str]] = []
    anonymised: bool = False


class RecordedObject(_Entry, frozen=True, tag="object"):
    """An object of a state; a State entry ends the list of its objects."""

    object: msgspec.Raw


class State(_Entry, frozen=True, tag="state", omit_defaults=False):
    """Marks the objects since the last State or event as the complete state at this time.

    `serves` tells whether the server had a state to answer from.
    """

    at: float
    time: str
    objects: int
    serves: bool


class ObjectEvent(_Entry, frozen=True, tag="event"):
    """An object was added, changed or deleted; SYNCED: all that existed at the start of the server had been read."""

    at: float
    time: str
    type: Change
    object: msgspec.Raw = msgspec.Raw(b"")


class RecordedQuery(_Entry, frozen=True, tag="query"):
    """A query that was answered, as in /v1/queries."""

    at: float
    time: str
    client: str
    transport: str
    name: str
    type: str
    rcode: str | None = None
    duration_ms: float = 0.0
    answered_by: str = ""
    size: int = 0
    truncated: bool = False
    server: str = ""


class Share(_Entry, frozen=True, tag="share", omit_defaults=False):
    """Which share of the queries is recorded from now on; 1 until then."""

    at: float
    time: str
    share: float


class Gap(_Entry, frozen=True, tag="gap", omit_defaults=False):
    """Some events were not recorded; the state after them follows."""

    at: float
    time: str
    events: int


class End(_Entry, frozen=True, tag="end", omit_defaults=False):
    """The last entry of a complete recording, with the reason for its end."""

    at: float
    time: str
    reason: str


Entry = Header | RecordedObject | State | ObjectEvent | RecordedQuery | Share | Gap | End
NAMES: Final = ("header", "object", "state", "event", "query", "share", "gap", "end")


class _Named(msgspec.Struct, frozen=True):
    entry: str = ""


# Within a string of JSON each quote has a backslash before it, so that these are members and nothing else.
_NULL: Final = re.compile(rb',"[A-Za-z]+":null')
_NULL_FIRST: Final = re.compile(rb'(?<=\{)"[A-Za-z]+":null,?')
_NO_UID: Final = b',"uid":""'  # of the metadata, which is the first member
_decode: Final[Callable[[bytes], Entry]] = msgspec.json.Decoder(Entry).decode
_decode_name = msgspec.json.Decoder(_Named).decode
_encode = msgspec.json.Encoder().encode


def to_line(entry: Entry) -> bytes:
    """The line of an entry."""
    return _encode(entry) + b"\n"


def read_line(line: bytes) -> Entry | None:
    """The entry of a line, None for one that this version does not know; raise ValueError."""
    try:
        return _decode(line)
    except UNDECODED as error:
        try:
            name = _decode_name(line).entry
        except UNDECODED:
            raise ValueError("it is not an entry of a recording") from None
        if name and name not in NAMES:
            return None
        raise ValueError(f"it is not an entry of a recording: {error}") from None


def to_raw(found: Object) -> msgspec.Raw:
    """Return an object as JSON, with its kind and without empty fields."""
    members = _NULL_FIRST.sub(b"", _NULL.sub(b"", _encode(found)[1:].replace(_NO_UID, b"", 1)))
    return msgspec.Raw(b'{"kind":"%b",%b' % (type(found).__name__.encode(), members))


def to_event(entry: ObjectEvent | RecordedObject) -> Event:
    """Return the event that a source delivers; raise ValueError."""
    change = entry.type if isinstance(entry, ObjectEvent) else "ADDED"
    if change == "SYNCED":
        return Synced()
    found = read_object(entry.object)
    return Deleted(found) if change == "DELETED" else Upserted(found)


# Reduces an object to the fields that a recording needs.
#
# Rule 1: the only recorded labels are the label that assigns a slice to its Service, and the labels of Pods, which
#         selectors of Services use.  The selectors of the Corefile have been applied before.
# Rule 2: the only recorded annotation is the time of the change that a slice reflects.


OWNERS: Final = (SERVICE_NAME_LABEL, IMPORT_NAME_LABEL, SOURCE_CLUSTER_LABEL)


def reduced(found: Object) -> Object:
    """Return the object with only the fields that DNS needs."""
    meta = found.metadata
    labels = meta.labels if isinstance(found, Pod) else None
    annotations = None
    if isinstance(found, EndpointSlice):
        labels = {name: text for name, text in (meta.labels or {}).items() if name in OWNERS}
        if CHANGE_TIME in (meta.annotations or {}):
            annotations = {CHANGE_TIME: (meta.annotations or {})[CHANGE_TIME]}
    needed = ObjectMeta(
        name=meta.name,
        namespace=meta.namespace,
        resource_version=meta.resource_version,
        labels=labels or None,
        annotations=annotations,
        deletion_timestamp=meta.deletion_timestamp,
    )
    return structs.replace(found, metadata=needed)
