"""Services and EndpointSlices that compiled code has read from the API server's protobuf.

Path: apiserver/watch_event.py -> here -> store.py, which needs them in packed form (pack.py).
Rule: the whole object is decoded only for other consumers of events, such as recordings, and for objects that compiled
      code does not pack.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from operator import itemgetter
from typing import Any, Final, Protocol, cast

import msgspec

from hsdns.cluster.objects import (
    IMPORT_NAME_LABEL,
    SERVICE_NAME_LABEL,
    SOURCE_CLUSTER_LABEL,
    EndpointSlice,
    Event,
    Object,
    ObjectMeta,
    Service,
    Upserted,
)
from hsdns.cluster.programming import CHANGE_TIME

PortTexts = tuple[str | None, str | None, int | None]  # name, protocol and number
# Octets per address, the addresses, their labels below the Service, the ports, topology zones, the number not ready.
PackedEndpoints = tuple[
    int,
    bytes,
    tuple[bytes | None, ...] | None,
    tuple[PortTexts, ...],
    tuple[bytes, ...] | None,
    int,
]
# Whether it is headless, its ClusterIPs and ports, whether it has a selector.
PackedSpec = tuple[bool, tuple[bytes, ...], tuple[PortTexts, ...], bool]
_LABELS: Final = (SERVICE_NAME_LABEL, IMPORT_NAME_LABEL, SOURCE_CLUSTER_LABEL)


class SliceReading(Protocol):
    """What compiled code has read of a slice."""

    @property
    def meta(self) -> tuple[str | None, str | None, str | None, str | None]:
        """The labels that name its Service, its ServiceImport and that one's cluster; the time of its change."""

    @property
    def owner(self) -> tuple[bytes, bytes] | None:
        """Namespace and name of its Service as labels."""

    @property
    def changed_at(self) -> str | None:
        """The time of its change."""

    def json(self) -> bytes:
        """The object, with the fields of objects.py."""

    def pack(self, pod_names: bool, zonal: bool, /) -> PackedEndpoints | None:
        """Its endpoints; None if they are not IP addresses of one width in canonical form, or none is ready.

        Their topology zones are left out unless `zonal`; None if one of them is not a label in ASCII.
        """


class ServiceReading(Protocol):
    """What compiled code has read of a Service."""

    @property
    def key(self) -> tuple[bytes, bytes] | None:
        """Namespace and name as labels."""

    def json(self) -> bytes:
        """The object, with the fields of objects.py."""

    def pack(self) -> PackedSpec | None:
        """The fields that DNS needs; None with an ExternalName, external addresses or non-canonical addresses."""


class ReadSlice:
    """A slice; `key` is its namespace and name, `metadata` has the labels and annotations that the store reads."""

    def __init__(self, key: tuple[str, str], resource_version: str, reading: SliceReading) -> None:
        self.key = key
        self.resource_version = resource_version
        self.reading = reading

    @cached_property
    def metadata(self) -> ObjectMeta:
        """Its metadata."""
        *labels, change = self.reading.meta
        found = {name: text for name, text in zip(_LABELS, labels, strict=True) if text is not None}
        return ObjectMeta(
            name=self.key[1],
            namespace=self.key[0],
            resource_version=self.resource_version,
            labels=found,
            annotations={CHANGE_TIME: change} if change is not None else None,
        )

    @cached_property
    def whole(self) -> EndpointSlice:
        """The object with all fields that any part of the program reads."""
        return msgspec.json.decode(self.reading.json(), type=EndpointSlice)


class ReadService:
    """A Service; `key` is its namespace and name."""

    def __init__(
        self, key: tuple[str, str], resource_version: str, reading: ServiceReading
    ) -> None:
        self.key = key
        self.resource_version = resource_version
        self.reading = reading

    @property
    def metadata(self) -> ObjectMeta:
        """Its metadata."""
        return self.whole.metadata

    @cached_property
    def whole(self) -> Service:
        """The object with all fields that any part of the program reads."""
        return msgspec.json.decode(self.reading.json(), type=Service)


ReadObject = ReadSlice | ReadService
READ: Final = (ReadSlice, ReadService)  # for isinstance(), which is slower with the union


class UpsertedRead(Upserted):
    """An object was added or changed; `object` decodes it, `as_read()` does not."""

    __slots__ = ()

    @property
    def object(self) -> Object:
        """The whole object."""
        found: ReadObject = cast(Any, self[0])
        return found.whole


# As UpsertedRead(), without the call of a function in Python.
_upserted_read: Final[Callable[[tuple[ReadObject]], UpsertedRead]] = partial(
    tuple.__new__, UpsertedRead
)


def upserted(found: Object | ReadObject) -> Upserted:
    """The event of an object that was added or changed."""
    return _upserted_read((found,)) if isinstance(found, READ) else Upserted(found)


# The object of an event as it was read; not for events without an object.
as_read: Final[Callable[[Event], Object | ReadObject]] = itemgetter(0)
