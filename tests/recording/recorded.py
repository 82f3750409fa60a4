"""Recordings in memory, made as a server makes them.

Path: tests only.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hsdns.cluster.objects import Event
from hsdns.cluster.store import Store, StoreSettings
from hsdns.recording.cli import RecordingWriter
from hsdns.recording.entry import End, Entry, Header, RecordedQuery
from hsdns.recording.reader import Recording
from hsdns.server.control.cluster import EventFollower, Told

HEADER = Header(server="1.2.3", began="2026-01-01T00:00:00.000+00:00", zones=["cluster.local."])
END = End(9.0, "2026-01-01T00:00:09.000+00:00", "interrupted")


def to_octets(entries: Iterable[Entry], header: Header = HEADER, *, flushes: bool = False) -> bytes:
    """The file of a recording, with `flushes` a frame for each entry."""
    file = io.BytesIO()
    writer = RecordingWriter(file, header)
    for entry in entries:
        writer.add([entry])
        if flushes:
            writer.flush()
    writer.flush()
    return file.getvalue()


def opened(octets: bytes) -> Recording:
    """The recording `FILE`."""
    return Recording("FILE", io.BytesIO(octets))


def query(at: float, name: str = "web.shop.svc.cluster.local.", **others: Any) -> RecordedQuery:
    time = "2026-01-01T00:00:01.000+00:00"
    others = {"rcode": "NOERROR", **others}
    return RecordedQuery(at, time, "10.244.0.7", "udp", name, "A", **others)


def make_store(settings: StoreSettings | None = None) -> Store:
    return Store(
        settings or StoreSettings(), wall=lambda: 1_767_225_600.0, warn=lambda sentence: None
    )


class Course:
    """A store that is recorded; each event is a second after the one before."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._now = 0.0
        door: Any = SimpleNamespace(clock=self.clock, wall=self.clock, began=0.0)
        self._follower = EventFollower(store, self.clock)
        self._told = Told(door, store)

    def clock(self) -> float:
        return self._now

    def begin(self) -> list[Entry]:
        return list(self._told.state(*self._follower.begin()))

    def apply(self, events: Sequence[Event]) -> list[Entry]:
        """Apply a batch; what is recorded of it."""
        self._now += 1.0
        self.store.apply(events)
        found: list[Entry] = []
        while (batch := self._follower.take()) is not None:
            found += self._told.events(*batch)
        return found


def recorded(initial: Sequence[Event], later: Iterable[Sequence[Event]] = ()) -> list[Entry]:
    """The entries of a store with some events before, and batches while it is recorded, a second apart."""
    course = Course(make_store())
    course.apply(initial)
    course._now = 0.0
    entries = course.begin()
    for batch in later:
        entries += course.apply(batch)
    return [*entries, END]


def write(path: Path, *batches: Sequence[Event]) -> None:
    """A recording that begins with the first batch."""
    path.write_bytes(to_octets(recorded(batches[0], batches[1:])))


def whole(store: Store) -> dict[str, Any]:
    """All that a store has, versions too; without Services that DNS cannot show."""
    return {
        "services": {
            key: _value(value)
            for key, value in store.services.values.items()
            if value.kind or value.slices
        },
        "imports": {
            key: _value(value)
            for key, value in store.imports.values.items()
            if value.kind or value.slices
        },
        "namespaces": dict(store.namespaces),
        "pods": dict(store.pods.by_address),
        "terminating": set(store.pods.terminating),
        "pod labels": dict(store.pods.labels or {}),
        "serves": store.serves,
    }


def _value(value: Any) -> tuple[Any, ...]:
    return (
        value.kind,
        value.resource_version if value.kind is not None else "",
        value.cluster_ips,
        value.ports,
        value.external_name,
        value.has_selector,
        value.external,
        value.slices,
    )
