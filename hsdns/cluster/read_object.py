"""Services and EndpointSlices that compiled code has read from the API server's protobuf.

Path: apiserver/watch_event.py -> here -> store.py, which needs them in packed form (pack.py).
Rule: the whole object is decoded only for other consumers of events, such as recordings, and for objects that compiled
      code does not pack.

The DNS programming duration (CoreDNS's term): the time from a change of endpoints to the new answers:
Rule 1: the start is the time in the slice's annotation by the EndpointSlice controller; a slice without a valid one is
        not measured.  The clocks of two machines are compared, so the duration may be negative.
Rule 2: parsing and counting are deferred to the next scrape, to keep the handling of events short.
Rule 3: the slices that exist at the start are measured too, with their age, as in CoreDNS.
Source: CoreDNS 1.14.7 plugin/kubernetes/object/metrics.go; RFC 3339 section 5.6.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from functools import cached_property, partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from hsdns.cluster.objects import (
    CHANGE_TIME,
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
from hsdns.cluster.value import HEADLESS, ServiceValue
from hsdns.fastpath import read_time as compiled_read_time
from hsdns.metrics import PROGRAMMING_BUCKETS, Registry

if TYPE_CHECKING:
    from hsdns.fastpath._native import ServiceReading, SliceReading

_RFC3339: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})"
)
_ZERO_TIME: Final = datetime.fromisoformat("0001-01-01T00:00:00+00:00")  # of Go

# Takes the kind of Service, the annotated time of the change, and the current time in seconds since the epoch.
Programmed = Callable[[str, str, float], None]


def programming_in(metrics: Registry) -> Programmed:
    """The function that observes durations in CoreDNS's histogram."""
    histogram = metrics.histogram(
        "coredns_kubernetes_dns_programming_duration_seconds",
        PROGRAMMING_BUCKETS,
        ("service_kind",),
    )

    def observe(kind: str, changed_at: str, now: float) -> None:
        start = read_time(changed_at)
        if start is not None:
            histogram.observe(now - start, (kind,))

    return lambda kind, changed_at, now: metrics.defer(observe, kind, changed_at, now)


def read_time(text: str) -> float | None:
    """Seconds since the epoch from RFC 3339; None if the text is not a time, or is Go's zero time."""
    found = None if compiled_read_time is None else compiled_read_time(text)
    return read_time_in_python(text) if found is None else found


def read_time_in_python(text: str) -> float | None:
    """The same as read_time(), without compiled code."""
    if _RFC3339.fullmatch(text) is None:
        return None
    try:
        found = datetime.fromisoformat(text)  # ignores digits beyond microseconds
    except ValueError:
        return None
    return None if found == _ZERO_TIME else found.timestamp()


def service_kind(value: ServiceValue) -> str:
    """The value of the metric's label `service_kind`; an ExternalName is "cluster_ip", as in CoreDNS."""
    if value.kind != HEADLESS:
        return "cluster_ip"
    return "headless_with_selector" if value.has_selector else "headless_without_selector"


PortTexts = tuple[str | None, str | None, int | None]  # name, protocol and number
_LABELS: Final = (SERVICE_NAME_LABEL, IMPORT_NAME_LABEL, SOURCE_CLUSTER_LABEL)


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

    @property
    def changed_at(self) -> str | None:
        """The time of the change that led to this one, as annotated by a controller."""
        return self.reading.changed_at

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

    @property
    def changed_at(self) -> str | None:
        """The time of the change that led to this one, as annotated by a controller."""
        return self.whole.changed_at

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
