"""The cluster's state for one kubernetes plugin: events in, values out.

Path: source -> Store.apply -> (plugins/kubernetes asks) services, namespaces, pods, reverse.
Rule 1: an event replaces one Service's value in a dict; nothing walks or copies the cluster, no event and no lookup.
Rule 2: any order of events that ends in the same objects ends in the same answers: a slice may come before its Service,
        move between Services, or outlive it.
Rule 3: `serial` moves when an event could change an answer: any add or delete, and updates that change what is visible
        (CoreDNS 1.14.7 plugin/kubernetes/controller.go).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hsdns.cluster.objects import (
    Deleted,
    EndpointSlice,
    Event,
    Namespace,
    Object,
    Pod,
    Service,
    Synced,
)
from hsdns.cluster.pack import (
    pack_address,
    pack_key,
    pack_label,
    pack_service,
    pack_slice,
    slice_owner,
)
from hsdns.cluster.reverse import ReverseIndex
from hsdns.cluster.selector import Selector
from hsdns.cluster.value import Key, PackedSlice, ServiceValue, SliceKey

PodKey = tuple[bytes, str]


class Store:
    """Services, namespaces and pods by name, and addresses back to them.

    `wall` gives seconds since the epoch for `serial`; `complain` takes a sentence about an object that breaks the
    rules.  `pod_names` lets endpoints without a hostname be called like their pod.  `endpoints` False ignores slices.
    The selectors drop objects that they do not match, as the API server would.
    """

    def __init__(
        self,
        wall: Callable[[], float],
        complain: Callable[[str], None],
        *,
        pod_names: bool = False,
        endpoints: bool = True,
        labels: Selector | None = None,
        namespace_labels: Selector | None = None,
    ) -> None:
        self.services: dict[Key, ServiceValue] = {}
        self.namespaces: dict[bytes, str] = {}
        self.pods: dict[bytes, tuple[PodKey, ...]] = {}  # address -> namespace label and pod name
        self.cluster_ips: ReverseIndex[Key] = ReverseIndex()
        self.endpoint_ips: ReverseIndex[SliceKey] = ReverseIndex()
        self.synced = False
        self.serial = 0
        self._wall = wall
        self._complain = complain
        self._pod_names = pod_names
        self._endpoints = endpoints
        self._labels = labels
        self._namespace_labels = namespace_labels
        self._slice_owner: dict[
            tuple[str, str], Key
        ] = {}  # a slice's namespace and name -> its Service
        self._pod_address: dict[PodKey, bytes] = {}

    def use_clock(self, wall: Callable[[], float]) -> None:
        """Take the clock for `serial` from now on."""
        self._wall = wall

    def apply(self, events: Sequence[Event]) -> None:
        """Take a batch of events in one step."""
        changed = False
        for event in events:
            if isinstance(event, Synced):
                self.synced = True
            else:
                changed |= self._apply(
                    event.object, isinstance(event, Deleted) or not self._selects(event.object)
                )
        if changed:
            self.serial = int(self._wall())

    def _selects(self, found: Object) -> bool:
        selector = self._namespace_labels if isinstance(found, Namespace) else self._labels
        return selector is None or selector.matches(found.metadata.labels)

    def _apply(self, found: Object, gone: bool) -> bool:
        if isinstance(found, EndpointSlice):
            return self._endpoints and self._apply_slice(found, gone)
        if isinstance(found, Service):
            return self._apply_service(found, gone)
        if isinstance(found, Pod):
            return self._apply_pod(found, gone)
        namespace = pack_label(found.metadata.name)
        if namespace is not None:
            if gone:
                self.namespaces.pop(namespace, None)
            else:
                self.namespaces[namespace] = found.metadata.resource_version
        return False

    def _apply_service(self, service: Service, gone: bool) -> bool:
        meta = service.metadata
        key = pack_key(meta)
        if key is None:
            if not gone:
                self._complain(
                    f"Service {meta.namespace}/{meta.name[:80]}: its name is no DNS label; it is left out"
                )
            return False
        old = self.services.get(key)
        was_there = old is not None and bool(old.resource_version or old.kind)
        if gone:
            if old is None or not was_there:
                return False
            new = ServiceValue(None, slices=old.slices)
        else:
            if old is not None and old.kind and old.resource_version == meta.resource_version != "":
                return False
            new = pack_service(service, old.slices if old is not None else (), self._complain)
        self._replace(key, new)
        for address in old.cluster_ips if old is not None else ():
            if address not in new.cluster_ips:
                self.cluster_ips.remove(address, key)
        for address in new.cluster_ips:
            self.cluster_ips.add(address, key)
        if gone or not was_there or old is None:
            return True
        return old.ports != new.ports or old.external_name != new.external_name

    def _apply_slice(self, found: EndpointSlice, gone: bool) -> bool:
        meta = found.metadata
        slice_key = (meta.namespace, meta.name)
        before = self._slice_owner.get(slice_key)
        owner = None if gone else slice_owner(meta)
        if owner is None and not gone:
            self._complain(
                f"EndpointSlice {meta.namespace}/{meta.name}: no usable label kubernetes.io/service-name; "
                "it is left out"
            )
        if before is not None and before != owner:
            self._replace_slice(before, meta.name, ())
            del self._slice_owner[slice_key]
        if owner is None:
            return before is not None
        self._slice_owner[slice_key] = owner
        old = self._parts(owner, meta.name)
        if old and before == owner and old[0].resource_version == meta.resource_version != "":
            return False
        new = pack_slice(found, pod_names=self._pod_names, complain=self._complain)
        self._replace_slice(owner, meta.name, new)
        # All but the slice's name and resourceVersion.
        return before != owner or [part[2:] for part in old] != [part[2:] for part in new]

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
        for address in gained - lost:
            self.endpoint_ips.add(address, slice_key)

    def _replace(self, key: Key, value: ServiceValue) -> None:
        if value.is_empty and not value.resource_version:
            self.services.pop(key, None)
        else:
            self.services[key] = value

    def _apply_pod(self, pod: Pod, gone: bool) -> bool:
        meta = pod.metadata
        namespace = pack_label(meta.namespace)
        if namespace is None or (not gone and meta.deletion_timestamp):
            return False  # CoreDNS keeps a terminating pod as it was until it is gone
        key = (namespace, meta.name)
        old = self._pod_address.get(key)
        ended = gone or pod.status.phase in ("Succeeded", "Failed", "Unknown")
        new = None if ended else pack_address(pod.status.pod_ip or "")
        if old == new:
            return False
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


def _addresses(parts: Sequence[PackedSlice]) -> set[bytes]:
    return {
        part.addresses[at : at + part.width]
        for part in parts
        if part.width and part.reversible
        for at in range(0, len(part.addresses), part.width)
    }
