"""The ServiceImports of a clusterset with their EndpointSlices: turns events into values.

Path: store.py passes on the events -> lookup.py reads the values in the zones of `multicluster`.
Rule 1: as in services.py, an event replaces one value and increments its counter in the same step.
Rule 2: a separate label assigns a slice to a ServiceImport.  A slice that also has a Service's label belongs to both.
Source: CoreDNS 1.14.7 plugin/kubernetes/object/{serviceimport,multicluster_endpoint}.go and controller.go.
"""

from __future__ import annotations

from typing import NamedTuple

from hsdns.cluster.freshness import Counters, import_counter
from hsdns.cluster.objects import EndpointSlice, ObjectMeta, ServiceImport
from hsdns.cluster.pack import import_owner, pack_import, pack_key, pack_slice, source_cluster
from hsdns.cluster.read_object import ReadSlice
from hsdns.cluster.rejected import RejectedObjects
from hsdns.cluster.replaced import IMPORTS, Replaced
from hsdns.cluster.value import Key, PackedSlice, ServiceValue


class ChangedSerials(NamedTuple):
    """Which serials an event changes: that of the cluster's own zones, and that of the zones of `multicluster`."""

    own: bool = False
    shared: bool = False


class Imports:
    """ServiceImports by namespace and name; `changes` is a number that grows with every change."""

    def __init__(
        self,
        counters: Counters,
        rejected: RejectedObjects,
        *,
        pod_names: bool,
        zonal: bool,
        counts_not_ready: bool,
        replaced: Replaced | None = None,
    ) -> None:
        self.values: dict[Key, ServiceValue] = {}
        self.changes = 0
        self._replaced = Replaced() if replaced is None else replaced
        self._counters = counters
        self._rejected = rejected
        self._pod_names = pod_names
        self._zonal = zonal
        self._counts_not_ready = counts_not_ready
        self._slice_owner: dict[tuple[str, str], Key] = {}

    def apply(self, found: ServiceImport, gone: bool) -> ChangedSerials:
        """Apply an event about a ServiceImport; the caller finishes its rejections."""
        meta = found.metadata
        key = pack_key(meta)
        if key is None:
            self._rejected.add("name", "its name is not a DNS label; it is skipped")
            return ChangedSerials()
        old = self.values.get(key)
        had_import = old is not None and old.kind is not None
        slices = old.slices if old is not None else ()
        if gone:
            if not had_import:
                return ChangedSerials()
            new = ServiceValue(None, slices=slices)
        else:
            if old is not None and had_import and _is_same(old.resource_version, meta):
                return ChangedSerials()
            new = pack_import(found, slices, self._rejected.add)
        self._replace(key, new)
        if old is None or not had_import or gone:
            return ChangedSerials(own=True)
        return ChangedSerials(shared=(old.kind, old.ports) != (new.kind, new.ports))

    def apply_slice(self, found: EndpointSlice | ReadSlice, gone: bool) -> ChangedSerials:
        """Apply an event about any slice; one without a ServiceImport's label is ignored."""
        meta = found.metadata
        slice_key = (meta.namespace, meta.name)
        before = self._slice_owner.get(slice_key)
        owner = None if gone else import_owner(meta)
        if before is not None and before != owner:
            self._replace_slice(before, meta.name, ())
            del self._slice_owner[slice_key]
        if owner is None:
            return ChangedSerials()
        self._slice_owner[slice_key] = owner
        value = self.values.get(owner) or ServiceValue(None)
        old = tuple(part for part in value.slices if part.name == meta.name)
        if before == owner and old and _is_same(old[0].resource_version, meta):
            return ChangedSerials()
        new = pack_slice(
            found,
            pod_names=self._pod_names,
            reject=self._rejected.add,
            zonal=self._zonal,
            cluster=source_cluster(meta),
            counts_not_ready=self._counts_not_ready,
        )
        self._replace_slice(owner, meta.name, new)
        return ChangedSerials(
            shared=before == owner and [p[2:] for p in old] != [p[2:] for p in new]
        )

    def _replace_slice(self, owner: Key, name: str, new: tuple[PackedSlice, ...]) -> None:
        value = self.values.get(owner) or ServiceValue(None)
        rest = tuple(part for part in value.slices if part.name != name)
        self._replace(owner, value.with_slices((*rest, *new)))

    def _replace(self, key: Key, value: ServiceValue) -> None:
        self.changes += 1
        if self._replaced.is_kept:
            self._replaced.note(IMPORTS, key, self.values.get(key))
        if value.is_empty:
            self.values.pop(key, None)
        else:
            self.values[key] = value
        self._counters.bump(import_counter(*key))


def _is_same(version: str, meta: ObjectMeta) -> bool:
    return version == meta.resource_version != ""
