"""An EndpointSlice that compiled code has read from the API server's protobuf.

Path: apiserver/protobuf.py -> here -> store.py, which needs its metadata and its endpoints in packed form (pack.py).
Rule: the whole object is decoded only for what else takes events, such as recordings, and for slices that compiled code
      does not pack.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Protocol, cast

import msgspec

from hsdns.cluster.objects import (
    IMPORT_NAME_LABEL,
    SERVICE_NAME_LABEL,
    SOURCE_CLUSTER_LABEL,
    EndpointSlice,
    Event,
    Object,
    ObjectMeta,
    Upserted,
)
from hsdns.cluster.programming import CHANGE_TIME

PortTexts = tuple[str | None, str | None, int | None]  # name, protocol and number
# Octets an address, the addresses, their names below the Service, the ports, how many endpoints are not ready.
Packed = tuple[int, bytes, tuple[str | None, ...] | None, tuple[PortTexts, ...], int]
_LABELS = (SERVICE_NAME_LABEL, IMPORT_NAME_LABEL, SOURCE_CLUSTER_LABEL)


class Reading(Protocol):
    """What compiled code has read of a slice."""

    @property
    def meta(self) -> tuple[str | None, str | None, str | None, str | None]:
        """The labels that name its Service, its ServiceImport and the cluster of that; the time of its change."""

    def json(self) -> bytes:
        """The object, with the fields of objects.py."""

    def pack(self, pod_names: bool, /) -> Packed | None:
        """Its endpoints; None if they are not IP addresses of one width in canonical form, or none is ready."""


class ReadSlice:
    """A slice; `metadata` has the labels and annotations that the store reads, and no others."""

    def __init__(self, key: tuple[str, str], resource_version: str, reading: Reading) -> None:
        self.reading = reading
        *labels, change = reading.meta
        found = {name: text for name, text in zip(_LABELS, labels, strict=True) if text is not None}
        self.metadata = ObjectMeta(
            name=key[1],
            namespace=key[0],
            resource_version=resource_version,
            labels=found,
            annotations={CHANGE_TIME: change} if change is not None else None,
        )

    @cached_property
    def whole(self) -> EndpointSlice:
        """The object with all fields that any part of the program reads."""
        return msgspec.json.decode(self.reading.json(), type=EndpointSlice)


class UpsertedSlice(Upserted):
    """A slice was added or changed; `object` decodes it, `as_read()` does not."""

    __slots__ = ()

    def __new__(cls, found: ReadSlice) -> UpsertedSlice:
        """Make the event of a slice."""
        item: Any = found
        return super().__new__(cls, item)

    @property
    def object(self) -> Object:
        """The whole slice."""
        found: ReadSlice = cast(Any, self[0])
        return found.whole


def as_read(event: Event) -> Object | ReadSlice:
    """The object of an event as it was read; only for events that have one."""
    return event[0]  # type: ignore[misc] # Synced has none
