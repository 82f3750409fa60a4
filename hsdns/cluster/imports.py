"""The ServiceImports that a set of clusters shares, and the endpoints behind them: events in, values out.

Path: store.py hands it their events -> answer.py asks it in the zones of `multicluster`.
Rule 1: as in store.py, the value is the unit: an event replaces one, and its counter moves in the same step.
Rule 2: a slice belongs to a ServiceImport by a label of its own.  One that has a Service's label too counts for both.
Source: CoreDNS 1.14.7 plugin/kubernetes/object/{serviceimport,multicluster_endpoint}.go and controller.go.
"""

from __future__ import annotations

from typing import NamedTuple

from hsdns.cluster.complaints import Complaints
from hsdns.cluster.freshness import Counters, NoCounters, import_counter
from hsdns.cluster.objects import EndpointSlice, ObjectMeta, ServiceImport
from hsdns.cluster.pack import import_owner, pack_import, pack_key, pack_slice, source_cluster
from hsdns.cluster.value import Key, PackedSlice, ServiceValue


class Moved(NamedTuple):
    """What an event moves: the serial of the cluster's own zones, that of the zones of `multicluster`."""

    own: bool = False
    shared: bool = False


class Imports:
    """ServiceImports by namespace and name; `changes` counts what has changed."""

    def __init__(self, complaints: Complaints, *, pod_names: bool, zonal: bool) -> None:
        self.values: dict[Key, ServiceValue] = {}
        self.counters: Counters = NoCounters()
        self.changes = 0
        self._complaints = complaints
        self._pod_names = pod_names
        self._zonal = zonal
        self._slice_owner: dict[tuple[str, str], Key] = {}

    def apply(self, found: ServiceImport, gone: bool) -> Moved:
        """Take an event about a ServiceImport; the caller settles its complaints."""
        meta = found.metadata
        key = pack_key(meta)
        if key is None:
            self._complaints.add("name", "its name is no DNS label; it is left out")
            return Moved()
        old = self.values.get(key)
        was_there = old is not None and old.kind is not None
        slices = old.slices if old is not None else ()
        if gone:
            if not was_there:
                return Moved()
            new = ServiceValue(None, slices=slices)
        else:
            if old is not None and was_there and _is_same(old.resource_version, meta):
                return Moved()
            new = pack_import(found, slices, self._complaints.add)
        self._replace(key, new)
        if old is None or not was_there or gone:
            return Moved(own=True)
        return Moved(shared=(old.kind, old.ports) != (new.kind, new.ports))

    def apply_slice(self, found: EndpointSlice, gone: bool) -> Moved:
        """Take an event about any slice; one without the label is none of this one's."""
        meta = found.metadata
        slice_key = (meta.namespace, meta.name)
        before = self._slice_owner.get(slice_key)
        owner = None if gone else import_owner(meta)
        if before is not None and before != owner:
            self._replace_slice(before, meta.name, ())
            del self._slice_owner[slice_key]
        if owner is None:
            return Moved()
        self._slice_owner[slice_key] = owner
        value = self.values.get(owner) or ServiceValue(None)
        old = tuple(part for part in value.slices if part.name == meta.name)
        if before == owner and old and _is_same(old[0].resource_version, meta):
            return Moved()
        new = pack_slice(
            found,
            pod_names=self._pod_names,
            complain=self._complaints.add,
            zonal=self._zonal,
            cluster=source_cluster(meta),
        )
        self._replace_slice(owner, meta.name, new)
        return Moved(shared=before == owner and [p[2:] for p in old] != [p[2:] for p in new])

    def _replace_slice(self, owner: Key, name: str, new: tuple[PackedSlice, ...]) -> None:
        value = self.values.get(owner) or ServiceValue(None)
        rest = tuple(part for part in value.slices if part.name != name)
        self._replace(owner, value.with_slices((*rest, *new)))

    def _replace(self, key: Key, value: ServiceValue) -> None:
        self.changes += 1
        if value.is_empty:
            self.values.pop(key, None)
        else:
            self.values[key] = value
        self.counters.bump(import_counter(*key))


def _is_same(version: str, meta: ObjectMeta) -> bool:
    return version == meta.resource_version != ""
