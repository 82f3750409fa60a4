"""The cluster's state for one kubernetes plugin: events in, values out.

Path: source -> Store.apply -> (plugins/kubernetes asks) services, namespaces, pods, reverse.
Rule 1: an event replaces one Service's value in a dict; nothing walks or copies the cluster, no event and no lookup.
Rule 2: any order of events that ends in the same objects ends in the same answers: a slice may come before its Service,
        move between Services, or outlive it.
Rule 3: `serial` moves when an event could change an answer: any add or delete, and updates that change what is visible
        (CoreDNS 1.14.7 plugin/kubernetes/controller.go).
Rule 4: what comes from a snapshot is served until Synced.  Each object of it is read again when the source delivers it,
        whatever its version, and what the source has not delivered by then is gone.
Rule 5: whatever of it an answer may have read has its counter moved in the same step (freshness.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from hsdns.cluster.complaints import Complaints, shown
from hsdns.cluster.freshness import (
    ANYTHING,
    Counters,
    Names,
    NoCounters,
    NoNames,
    address_counter,
    namespace_counter,
    service_counter,
)
from hsdns.cluster.imports import Imports
from hsdns.cluster.objects import (
    Deleted,
    EndpointSlice,
    Event,
    Namespace,
    Object,
    ObjectMeta,
    Pod,
    Service,
    ServiceImport,
    Synced,
)
from hsdns.cluster.pack import (
    import_owner,
    pack_address,
    pack_key,
    pack_label,
    pack_service,
    pack_slice,
    slice_owner,
)
from hsdns.cluster.programming import CHANGE_TIME, Programmed, programming_in, service_kind
from hsdns.cluster.reverse import ReverseIndex
from hsdns.cluster.selector import Selector
from hsdns.cluster.value import Key, PackedSlice, ServiceValue, SliceKey
from hsdns.metrics import Registry

PodKey = tuple[bytes, str]
ObjectKey = tuple[type[Object], str, str]  # and namespace and name


class Store:
    """Services, namespaces and pods by name, and addresses back to them.

    `wall` gives seconds since the epoch for `serial`; `complain` takes sentences about objects that break the rules.
    `programmed` is told after a slice's change for which kind of Service that was, and since when it was on its way.
    `restored` is when the snapshot was saved that is being served, `changes` counts what has changed, for whoever keeps
    a copy of it.  `pod_names` lets endpoints without a hostname be called like their pod.  `endpoints` False ignores
    slices.  The selectors drop objects that they do not match, as the API server would.  `zonal` keeps the topology
    zones of endpoints, `multicluster` ServiceImports, `pod_labels` the labels of pods.
    """

    def __init__(
        self,
        wall: Callable[[], float],
        complain: Callable[[str], None],
        *,
        programmed: Programmed | None = None,
        pod_names: bool = False,
        endpoints: bool = True,
        labels: Selector | None = None,
        namespace_labels: Selector | None = None,
        zonal: bool = False,
        multicluster: bool = False,
        pod_labels: bool = False,
    ) -> None:
        self.services: dict[Key, ServiceValue] = {}
        self.namespaces: dict[bytes, str] = {}
        self.pods: dict[bytes, tuple[PodKey, ...]] = {}  # address -> namespace label and pod name
        self.cluster_ips: ReverseIndex[Key] = ReverseIndex()
        self.endpoint_ips: ReverseIndex[SliceKey] = ReverseIndex()
        self.external_ips: ReverseIndex[Key] = ReverseIndex()
        self.leaving: set[PodKey] = set()  # pods that are being deleted
        self.pod_labels: dict[PodKey, dict[str, str]] | None = {} if pod_labels else None
        self.synced = False
        self.restored: float | None = None
        self.serial = 0
        self.external_serial = 0  # of zones that show how Services are reached from outside
        self.shared_serial = 0  # of zones that show ServiceImports
        self.changes = 0
        self.complaints = Complaints(complain)
        self.imports = Imports(self.complaints, pod_names=pod_names, zonal=zonal)
        self.programmed = programmed
        self.names: Names = NoNames()
        self._counters: Counters = NoCounters()
        self._wall = wall
        self._pod_names = pod_names
        self._endpoints = endpoints
        self._labels = labels
        self._namespace_labels = namespace_labels
        self._zonal = zonal
        self._multicluster = multicluster
        # Namespace and name of a slice -> its Service.
        self._slice_owner: dict[tuple[str, str], Key] = {}
        self._pod_address: dict[PodKey, bytes] = {}
        self._unconfirmed: set[ObjectKey] = set()  # restored, and not delivered since

    @property
    def serves(self) -> bool:
        """Whether there is a state of the cluster to answer from, be it an old one."""
        return self.synced or self.restored is not None

    @property
    def settings(self) -> dict[str, str]:
        """What decides how objects are packed and which are let in, in words: two stores that differ in it differ."""
        found = {
            "endpoint_pod_names": self._pod_names,
            "noendpoints": not self._endpoints,
            "labels": self._labels,
            "namespace_labels": self._namespace_labels,
            "zonal": self._zonal,
            "multicluster": self._multicluster,
            "pod_labels": self.pod_labels is not None,
        }
        return {name: str(value) for name, value in found.items() if value}

    def emptied(self) -> Store:
        """A new store with the same settings; it complains to nobody."""
        return Store(
            self._wall,
            lambda sentence: None,
            pod_names=self._pod_names,
            endpoints=self._endpoints,
            labels=self._labels,
            namespace_labels=self._namespace_labels,
            zonal=self._zonal,
            multicluster=self._multicluster,
            pod_labels=self.pod_labels is not None,
        )

    def count_in(self, metrics: Registry) -> None:
        """Count what is wrong and how long changes take here from now on."""
        self.complaints.count_in(metrics)
        self.programmed = programming_in(metrics)

    def use_clock(self, wall: Callable[[], float]) -> None:
        """Take the clock for `serial` from now on."""
        self._wall = wall

    def use_counters(self, counters: Counters, names: Names) -> None:
        """Move these counters and keep these names from now on; to be called before the first event."""
        self._counters, self.imports.counters, self.names = counters, counters, names

    def apply(self, events: Sequence[Event]) -> None:
        """Take a batch of events in one step."""
        changes, changed = self.changes, False
        for event in events:
            if isinstance(event, Synced):
                self.synced = True
                if self._unconfirmed or self.restored is not None:
                    changed |= self._drop_unconfirmed()
                continue
            found = event.object
            changed |= self._apply(found, isinstance(event, Deleted) or not self._selects(found))
            if self._unconfirmed:
                meta = found.metadata
                self._unconfirmed.discard((type(found), meta.namespace, meta.name))
        self._show(changed, changes)

    def _show(self, changed: bool, changes: int) -> None:
        """Let the fast path know of a batch of events."""
        names = self.names
        if changed:
            self.serial = names.serial = int(self._wall())
        if self.changes != changes:
            self._counters.bump(ANYTHING)
        if not names.open and self.serves:
            names.open = True

    def restore(self, objects: Iterable[Object], saved: float) -> None:
        """Take the objects of a snapshot, saved so many seconds after the epoch; Synced ends their time.

        They were selected when they were saved, so selectors are not asked again.  Where `objects` raises, what came
        before is used, but the store does not say that it serves: names may be missing.
        """
        changes = self.changes
        for found in objects:
            meta = found.metadata
            unversioned = msgspec.structs.replace(meta, resource_version="")
            self._apply(msgspec.structs.replace(found, metadata=unversioned), gone=False)
            self._unconfirmed.add((type(found), meta.namespace, meta.name))
        self.restored = saved
        self._show(True, changes)

    def _drop_unconfirmed(self) -> bool:
        changed = False
        for kind, namespace, name in self._unconfirmed:
            changed |= self._apply(kind(ObjectMeta(name=name, namespace=namespace)), gone=True)
        self._unconfirmed = set()
        self.restored = None
        return changed

    def _selects(self, found: Object) -> bool:
        by_namespace = isinstance(found, Namespace | ServiceImport)
        selector = self._namespace_labels if by_namespace else self._labels
        return selector is None or selector.matches(found.metadata.labels)

    def _apply(self, found: Object, gone: bool) -> bool:
        if isinstance(found, EndpointSlice):
            if self._multicluster:
                self._apply_shared(found, gone)
            return self._endpoints and self._apply_slice(found, gone)
        if isinstance(found, ServiceImport):
            return self._apply_shared(found, gone)
        if isinstance(found, Service):
            return self._apply_service(found, gone)
        if isinstance(found, Pod):
            return self._apply_pod(found, gone)
        self._apply_namespace(found.metadata, gone)
        return False

    def _apply_shared(self, found: ServiceImport | EndpointSlice, gone: bool) -> bool:
        """Take an event about what a set of clusters shares."""
        if not self._multicluster:
            return False
        changes = self.imports.changes
        if isinstance(found, ServiceImport):
            moved = self.imports.apply(found, gone)
        else:
            moved = self.imports.apply_slice(found, gone)
        self.changes += self.imports.changes - changes
        if moved.shared:
            self.shared_serial = int(self._wall())
        if isinstance(found, ServiceImport) or not self._endpoints:
            self._settle(type(found).__name__, found.metadata, gone)
        return moved.own

    def _apply_namespace(self, meta: ObjectMeta, gone: bool) -> None:
        namespace = pack_label(meta.name)
        if namespace is None:
            self.complaints.add("name", "its name is no DNS label; it is left out")
        elif gone:
            if self.namespaces.pop(namespace, None) is not None:
                self.changes += 1
                self.names.remove_namespace(namespace)
                self._counters.bump(namespace_counter(namespace))
        else:
            if namespace not in self.namespaces:
                self.names.add_namespace(namespace)
                self._counters.bump(namespace_counter(namespace))
            self.changes += self.namespaces.get(namespace) != meta.resource_version
            self.namespaces[namespace] = meta.resource_version
        self._settle("Namespace", meta, gone)

    def _apply_service(self, service: Service, gone: bool) -> bool:
        meta = service.metadata
        key = pack_key(meta)
        if key is None:
            self.complaints.add("name", "its name is no DNS label; it is left out")
            self._settle("Service", meta, gone)
            return False
        old = self.services.get(key)
        was_there = old is not None and bool(old.resource_version or old.kind)
        if gone:
            self._settle("Service", meta, gone)
            if old is None or not was_there:
                return False
            new = ServiceValue(None, slices=old.slices)
        else:
            if old is not None and old.kind and old.resource_version == meta.resource_version != "":
                return False
            new = pack_service(service, old.slices if old is not None else (), self.complaints.add)
            self._settle("Service", meta, gone)
        self._replace(key, new)
        before = old or ServiceValue(None)
        self._lead(self.cluster_ips, key, before.cluster_ips, new.cluster_ips)
        self._lead(
            self.external_ips,
            key,
            [each for each in before.external if isinstance(each, bytes)],
            [each for each in new.external if isinstance(each, bytes)],
        )
        if gone or not was_there:
            return True  # the serial of the outside stays, as in CoreDNS
        if before.ports != new.ports or before.external != new.external:
            self.external_serial = int(self._wall())
        return before.ports != new.ports or before.external_name != new.external_name

    def _lead(
        self, index: ReverseIndex[Key], key: Key, old: Sequence[bytes], new: Sequence[bytes]
    ) -> None:
        """Let the new addresses lead to a Service, and the old ones no more."""
        for address in old:
            if address not in new:
                index.remove(address, key)
                self._counters.bump(address_counter(address))
        for address in new:
            index.add(address, key)
            self._counters.bump(address_counter(address))

    def _apply_slice(self, found: EndpointSlice, gone: bool) -> bool:
        meta = found.metadata
        slice_key = (meta.namespace, meta.name)
        before = self._slice_owner.get(slice_key)
        owner = None if gone else slice_owner(meta)
        if owner is None and not gone and import_owner(meta) is None:
            self.complaints.add(
                "owner", "it has no usable label kubernetes.io/service-name; it is left out"
            )
        if before is not None and before != owner:
            self._replace_slice(before, meta.name, ())
            del self._slice_owner[slice_key]
        if owner is None:
            self._settle("EndpointSlice", meta, gone)
            self._measure(meta, slice_owner(meta))
            return before is not None
        self._slice_owner[slice_key] = owner
        old = self._parts(owner, meta.name)
        if old and before == owner and old[0].resource_version == meta.resource_version != "":
            return False
        new = pack_slice(
            found, pod_names=self._pod_names, complain=self.complaints.add, zonal=self._zonal
        )
        self._settle("EndpointSlice", meta, gone)
        self._replace_slice(owner, meta.name, new)
        self._measure(meta, owner)
        # All but the slice's name and resourceVersion.
        return before != owner or [part[2:] for part in old] != [part[2:] for part in new]

    def _measure(self, meta: ObjectMeta, owner: Key | None) -> None:
        """Tell since when a slice's change was on its way, if it says so and its Service is known."""
        begun = (meta.annotations or {}).get(CHANGE_TIME)
        if self.programmed is None or not begun or owner is None:
            return
        value = self.services.get(owner)
        if value is not None and value.kind is not None:
            self.programmed(service_kind(value), begun, self._wall())

    def _parts(self, owner: Key, name: str) -> tuple[PackedSlice, ...]:
        value = self.services.get(owner)
        return (
            tuple(part for part in value.slices if part.name == name) if value is not None else ()
        )

    def _replace_slice(self, owner: Key, name: str, new: tuple[PackedSlice, ...]) -> None:
        """Exchange one slice's parts, in their place, and the addresses that lead to them."""
        value = self.services.get(owner) or ServiceValue(None)
        before: list[PackedSlice] = []
        after: list[PackedSlice] = []
        old: list[PackedSlice] = []
        for part in value.slices:
            if part.name == name:
                old.append(part)
            else:
                (after if old else before).append(part)
        slices = (*before, *new, *after)
        self._replace(owner, value.with_slices(slices))
        gained, lost = _addresses(new), _addresses(old)
        slice_key = (*owner, name)
        for address in lost - gained:
            self.endpoint_ips.remove(address, slice_key)
            self._counters.bump(address_counter(address))
        for address in gained - lost:
            self.endpoint_ips.add(address, slice_key)
            self._counters.bump(address_counter(address))

    def _replace(self, key: Key, value: ServiceValue) -> None:
        self.changes += 1
        if value.is_empty and not value.resource_version:
            if self.services.pop(key, None) is not None:
                self.names.remove_service(*key)
        else:
            if key not in self.services:
                self.names.add_service(*key)
            self.services[key] = value
        self._counters.bump(service_counter(*key))

    def _apply_pod(self, pod: Pod, gone: bool) -> bool:
        meta = pod.metadata
        namespace = pack_label(meta.namespace)
        if namespace is None:
            return False
        key = (namespace, meta.name)
        old = self._pod_address.get(key)
        if not gone and meta.deletion_timestamp:
            if old is not None:
                self.leaving.add(key)
            return False  # CoreDNS keeps a terminating pod as it was until it is gone
        self.leaving.discard(key)
        ended = gone or pod.status.phase in ("Succeeded", "Failed", "Unknown")
        new = None if ended or not pod.status.pod_ip else pack_address(pod.status.pod_ip)
        if new is None and pod.status.pod_ip and not ended:
            self.complaints.add(
                "address", f"podIP {shown(pod.status.pod_ip)} is no address; it is left out"
            )
        self._settle("Pod", meta, gone)
        if self.pod_labels is not None:
            self.pod_labels.pop(key, None)
            if new is not None and meta.labels:
                self.pod_labels[key] = meta.labels
        if old == new:
            return False
        self.changes += 1
        if old is not None:
            rest = tuple(known for known in self.pods[old] if known != key)
            if rest:
                self.pods[old] = rest
            else:
                del self.pods[old]
            del self._pod_address[key]
        if new is not None:
            self.pods[new] = (*self.pods.get(new, ()), key)
            self._pod_address[key] = new
        return True

    def _settle(self, kind: str, meta: ObjectMeta, gone: bool) -> None:
        """End the reading of an object with what was wrong with it."""
        complaints = self.complaints
        if not complaints.wanted:
            return
        if gone:
            complaints.forget(kind, meta.namespace, meta.name)
        else:
            complaints.settle(kind, meta.namespace, meta.name)


def _addresses(parts: Sequence[PackedSlice]) -> set[bytes]:
    return {address for part in parts if part.reversible for address in part.separate}
