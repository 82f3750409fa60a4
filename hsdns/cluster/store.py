"""The state of a cluster for one kubernetes plugin: turns events into values.

Path: source -> Store.apply -> services.py, Pods; the kubernetes plugin answers from them.
Rule 1: an event replaces one value; neither an event nor a lookup iterates over or copies the cluster.
Rule 2: events that lead to the same objects lead to the same answers, in any order.
Rule 3: a serial changes when an event could change an answer: with any add or delete, and with updates that change what
        is visible (CoreDNS 1.14.7 plugin/kubernetes/controller.go).
Rule 4: a restored snapshot is served until Synced.  The source delivers all existing objects before that, and each of
        them is applied regardless of its version; restored objects that it has not delivered are deleted at Synced.
Rule 5: the counters of all that an event changes are incremented in the same call, after the change (freshness.py).
Rule 6: only the thread of the watch writes; others read without a lock.  So values are replaced, never changed, and a
        reader copies a dict before it iterates over it.

Pods by address: for the names `1-2-3-4.NAMESPACE.pod.ZONE` and to find the pod that a query comes from:
Source: CoreDNS 1.14.7 plugin/kubernetes findPods; controller.go for terminating pods.

A store as it was at an earlier time, for queries that a rule of `fault` answers from an earlier state:
Rule 1: nothing is copied: the newest value is read first, and then the values that were replaced (history.py).
Rule 2: all values are those of one time, so an answer from several values never mixes two states.
Rule 3: the settings, and whether the cluster can be watched, are those at the time of the request.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Generic, NamedTuple

import msgspec

from hsdns.cluster.address import pack_address
from hsdns.cluster.freshness import ANYTHING, STALENESS, Counters, NoCounters, namespace_counter
from hsdns.cluster.history import K, Replaced, V
from hsdns.cluster.objects import (
    Deleted,
    EndpointSlice,
    Event,
    Identity,
    Namespace,
    Object,
    Pod,
    Selector,
    Service,
    ServiceImport,
    Synced,
    identity,
    stub,
)
from hsdns.cluster.pack import RejectedObjects, pack_label, quoted
from hsdns.cluster.read_object import ReadObject, ReadService, ReadSlice, as_read, programming_in
from hsdns.cluster.services import AddressOwners, Imports, Services, Shared
from hsdns.cluster.value import Key, ServiceValue, SliceKey
from hsdns.fastpath import ClusterNames
from hsdns.metrics import Registry
from hsdns.wire.rdata import address_to_text

PodKey = tuple[bytes, str]  # namespace in lower case, and name


class PodsByAddress:
    """Pods by address; `terminating` are those that are being deleted."""

    def __init__(
        self, by_address: Mapping[bytes, tuple[PodKey, ...]], terminating: Container[PodKey]
    ) -> None:
        self.by_address = by_address
        self.terminating = terminating

    def count(self, address: bytes, namespace: bytes) -> int:
        """The number of pods in a namespace with this address; pods on the host network share one."""
        return sum(owner[0] == namespace for owner in self.by_address.get(address, ()))

    def of_client(self, address: str) -> PodKey | None:
        """The pod with a client's address; None if there is none, or pods of several namespaces have it.

        A new pod may get the address of one that is still listed as terminating, so terminating pods only count if
        there is no other.  Pods of several namespaces share an address on the host network.
        """
        packed = pack_address(address)
        pods = self.by_address.get(packed, ()) if packed is not None else ()
        found = [pod for pod in pods if pod not in self.terminating] or pods
        return found[-1] if len({namespace for namespace, _ in found}) == 1 else None

    def address_of(self, label: bytes, namespace: bytes) -> bytes | None:
        """The address in a pod's label if a pod of that namespace has it (`pods verified`)."""
        text = _address_text(label)
        address = None if text is None else pack_address(text)
        # CoreDNS compares the stored address as text, so only its canonical form finds a pod.
        if address is None or address_to_text(address) != text:
            return None
        return address if self.count(address, namespace) else None


class Pods(PodsByAddress):
    """The pods of a store; `labels` holds the labels of pods, None if they are not kept.

    `changes` is a number that grows with every change of an address.
    """

    by_address: dict[bytes, tuple[PodKey, ...]]
    terminating: dict[PodKey, bool]  # each True

    def __init__(self, rejected: RejectedObjects, *, labels: bool, replaced: Replaced) -> None:
        super().__init__({}, {})
        self._replaced = replaced
        self.labels: dict[PodKey, dict[str, str]] | None = {} if labels else None
        self.changes = 0
        self._rejected = rejected
        self._address: dict[PodKey, bytes] = {}

    def apply(self, pod: Pod, gone: bool) -> bool:
        """Apply an event about a pod; return whether its address, and so the serial of the zones, changes."""
        meta = pod.metadata
        namespace = pack_label(meta.namespace)
        if namespace is None:
            return False
        key = (namespace, meta.name)
        old = self._address.get(key)
        if not gone and meta.deletion_timestamp:
            if old is not None:
                self._replaced.put(self.terminating, key, True)
            return False  # CoreDNS keeps a terminating pod as it was until it is deleted
        if key in self.terminating:
            self._replaced.put(self.terminating, key, None)
        ended = gone or pod.status.phase in ("Succeeded", "Failed", "Unknown")
        new = None if ended or not pod.status.pod_ip else pack_address(pod.status.pod_ip)
        if new is None and pod.status.pod_ip and not ended:
            self._rejected.add(
                "address", f"podIP {quoted(pod.status.pod_ip)} is not an IP address; it is skipped"
            )
        self._rejected.finish("Pod", pod.key, gone)
        if self.labels is not None:
            if new is not None and meta.labels:
                self.labels[key] = meta.labels
            else:
                self.labels.pop(key, None)
        if old == new:
            return False
        self.changes += 1
        if old is not None:
            rest = tuple(known for known in self.by_address[old] if known != key)
            self._replaced.put(self.by_address, old, rest or None)
            del self._address[key]
        if new is not None:
            self._replaced.put(self.by_address, new, (*self.by_address.get(new, ()), key))
            self._address[key] = new
        return True


def address_in(label: bytes) -> bytes | None:
    """The address in a pod's label, None if it has none (`pods insecure`)."""
    text = _address_text(label)
    return None if text is None else pack_address(text)


def _address_text(label: bytes) -> str | None:
    """The label as an address: exactly three dashes, none of them doubled, make IPv4, anything else IPv6."""
    try:
        text = label.decode("ascii")
    except UnicodeDecodeError:
        return None
    if text.count("-") == 3 and "--" not in text:
        return text.replace("-", ".")
    return text.replace("-", ":")


_SLICES: Final = (EndpointSlice, ReadSlice)
_SERVICES: Final = (Service, ReadService)
Follow = Callable[[Sequence[Event]], bool]  # takes a batch; whether it takes the next


class StoreSettings(NamedTuple):
    """The objects that a store takes and the fields that it keeps of them.

    `endpoint_pod_names` names endpoints without a hostname after their pods, `noendpoints` ignores slices.  The
    selectors drop the objects that they do not match, as the API server would.  `zonal` keeps the topology zones of
    endpoints, `multicluster` the ServiceImports, `pods` pods by address, `pod_labels` their labels, `not_ready` how
    many endpoints are not ready.
    """

    endpoint_pod_names: bool = False
    noendpoints: bool = False
    labels: Selector | None = None
    namespace_labels: Selector | None = None
    zonal: bool = False
    multicluster: bool = False
    pod_labels: bool = False
    pods: bool = True
    not_ready: bool = False

    def to_texts(self) -> dict[str, str]:
        """The settings that differ from the default, for a snapshot: only one with the same texts can be restored.

        A snapshot has the same objects with and without `not_ready`.
        """
        kept = self._replace(pods=False, not_ready=False)._asdict()
        return {name: str(value) for name, value in kept.items() if value}


class Store:
    """Services, ServiceImports, pods and namespaces, each by name, and indexes from addresses to them.

    `wall` gives seconds since the epoch for the serials, `warn` takes sentences about invalid objects.  `counters` and
    `names` show the answer table what is valid; without them nothing is cached from this store.  `restored` is the time
    at which the snapshot being served was saved, `lost` since when the API server cannot be watched (a date and time,
    "" while it can).  `replaced` has the values that changes have replaced, if they are needed.
    """

    def __init__(
        self,
        settings: StoreSettings,
        *,
        wall: Callable[[], float],
        warn: Callable[[str], None],
        counters: Counters | None = None,
        names: ClusterNames | None = None,
        metrics: Registry | None = None,
        replaced: Replaced | None = None,
    ) -> None:
        self.settings = settings
        self._is_selective = (settings.labels, settings.namespace_labels) != (None, None)
        self.replaced = replaced = Replaced() if replaced is None else replaced
        self.rejected = RejectedObjects(warn, metrics)
        self._wall = wall
        self._counters: Counters = NoCounters() if counters is None else counters
        self._names = ClusterNames() if names is None else names
        shared = Shared(settings, wall, self._counters, self.rejected, replaced)
        programmed = None if metrics is None else programming_in(metrics)
        self.services = Services(shared, self._names, programmed)
        self.imports = Imports(shared)
        self.pods = Pods(self.rejected, labels=settings.pod_labels, replaced=replaced)
        self.namespaces: dict[bytes, str] = {}  # name to resourceVersion
        self.synced = False
        self.restored: float | None = None
        self.lost = ""
        self.serial = 0
        self._namespace_changes = 0
        self._published = 0  # the number of changes that the answer table knows of
        self._unconfirmed: set[Identity] = set()  # restored and not yet delivered by the source
        self._followers: list[Follow] = []

    @property
    def serves(self) -> bool:
        """Whether there is a state to answer from, even an old one."""
        return self.synced or self.restored is not None

    @property
    def changes(self) -> int:
        """A number that grows with every change, for users that keep a copy."""
        return (
            self.services.changes
            + self.imports.changes
            + self.pods.changes
            + self._namespace_changes
        )

    def apply(self, events: Sequence[Event]) -> None:
        """Apply a batch of events in one step."""
        first, counters = self._apply_first(events), self._counters
        new_serial, left = first > 0, len(events) - first
        for event in events[first:]:
            left -= 1
            if is_read := self.serves:
                counters.hold()
            try:
                new_serial |= self._apply_event(event)
            finally:
                if is_read:
                    self._bump_all()
                    counters.release(more=left > 0)
            if self.services.unlisted:
                self._unlist()
        self._publish(new_serial)
        self._pass_on(events)

    def _apply_first(self, events: Sequence[Event]) -> int:
        """Apply what the first state of a cluster begins with, if compiled code can; return the number of events."""
        each = self.settings
        if self.serves or each.noendpoints or each.multicluster or self._is_selective:
            return 0
        return self.services.apply_first(events)

    def _apply_event(self, event: Event) -> bool:
        """Apply one event; return whether the serial of the cluster's own zones changes."""
        if self.replaced.is_kept:
            self.replaced.begin()
        if isinstance(event, Synced):
            if not self.synced:
                self.synced = self.services.history.is_open = True
                self.replaced.open()
                self._counters.bump(STALENESS)
            if self._unconfirmed or self.restored is not None:
                return self._drop_unconfirmed()
            return False
        found = as_read(event)
        gone = isinstance(event, Deleted) or (self._is_selective and not self.selects(found))
        new_serial = self._apply(found, gone)
        if self._unconfirmed:
            self._unconfirmed.discard(identity(found.whole))
        return new_serial

    def _unlist(self) -> None:
        """Deny the names that an event has removed: only when it has been shown, which need not wait for it."""
        for unlist in self.services.unlisted:
            unlist()
        self.services.unlisted.clear()

    def follow(self, follow: Follow) -> None:
        """Pass each batch to `follow` once it is applied, while that returns True; only the writing thread calls it."""
        self._pass_on(())  # drops followers that have ended, even if no event arrives
        self._followers.append(follow)

    def _pass_on(self, events: Sequence[Event]) -> None:
        if self._followers:
            self._followers = [follow for follow in self._followers if follow(events)]

    def selects(self, found: Object | ReadObject) -> bool:
        """Whether the selectors match an object; one that they do not match counts as deleted."""
        settings = self.settings
        by_namespace = isinstance(found, Namespace | ServiceImport)
        selector = settings.namespace_labels if by_namespace else settings.labels
        if selector is None:
            return True
        return selector.matches(found.whole.metadata.labels)

    def restore(self, objects: Iterable[Object], saved: float) -> None:
        """Apply the objects of a snapshot that was saved at `saved` seconds since the epoch.

        Selectors are not applied, since they were when it was saved.  If `objects` raises, the objects before are used,
        but `serves` stays False, since names may be missing.
        """
        for found in objects:
            unversioned = msgspec.structs.replace(found.metadata, resource_version="")
            self._apply(msgspec.structs.replace(found, metadata=unversioned), gone=False)
            self._unlist()
            self._unconfirmed.add(identity(found))
        self.restored = saved
        self.replaced.open()
        self._counters.bump(STALENESS)
        self._publish(True)

    def lose(self, since: str) -> None:
        """Record since when the API server cannot be watched; "" if it can be watched again."""
        self.lost = since
        self._counters.bump(STALENESS)

    def _publish(self, new_serial: bool) -> None:
        """Make a batch of events visible to the answer table."""
        names = self._names
        if new_serial:
            names.serial = int(self._wall())
            self.replaced.put_serial(self, "serial", names.serial)
        self._bump_all()
        if not names.open and self.serves:
            names.open = True

    def _bump_all(self) -> None:
        """Increment the counter of all changes, if there are any since the last call."""
        changes = self.changes
        if self._published != changes:
            self._published = changes
            self._counters.bump(ANYTHING)

    def _drop_unconfirmed(self) -> bool:
        new_serial = False
        gone = [Deleted(stub(each)) for each in self._unconfirmed]
        for event in gone:
            new_serial |= self._apply(event.object, gone=True)
        self._pass_on(gone)
        self._unconfirmed = set()
        self.restored = None
        self._counters.bump(STALENESS)
        return new_serial

    def _apply(self, found: Object | ReadObject, gone: bool) -> bool:
        """Apply one event; return whether the serial of the cluster's own zones changes."""
        settings = self.settings
        if isinstance(found, _SLICES):
            if settings.multicluster:
                self.imports.apply_slice(found, gone)
            if not settings.noendpoints:
                return self.services.apply_slice(found, gone)
            self.rejected.finish("EndpointSlice", found.key, gone)
        elif isinstance(found, _SERVICES):
            return self.services.apply(found, gone)
        elif isinstance(found, ServiceImport):
            return settings.multicluster and self.imports.apply(found, gone)
        elif isinstance(found, Pod):
            return settings.pods and self.pods.apply(found, gone)
        else:
            self._apply_namespace(found, gone)
        return False

    def _apply_namespace(self, found: Namespace, gone: bool) -> None:
        namespace, version = pack_label(found.metadata.name), found.resource_version
        if namespace is None:
            self.rejected.add("name", "its name is not a DNS label; it is skipped")
        elif (known := self.namespaces.get(namespace)) is None or gone:
            if known is not None or not gone:
                self._namespace_changes += 1
                self.replaced.put(self.namespaces, namespace, None if gone else version)
                if gone:
                    unlist = partial(self._names.remove_namespace, namespace)
                    self.services.unlisted.append(unlist)
                else:
                    self._names.add_namespace(namespace)
                self._counters.bump(namespace_counter(namespace))
        elif known != version:
            self._namespace_changes += 1
            self.namespaces[namespace] = version
        self.rejected.finish("Namespace", found.key, gone)


class EarlierTable(Mapping[K, V], Generic[K, V]):
    """A dict as it was at a time, in monotonic seconds; an index of addresses is one, too."""

    def __init__(self, replaced: Replaced, time: float, newest: Mapping[K, V]) -> None:
        self._replaced, self._time, self._newest = replaced, time, newest

    def __getitem__(self, key: K) -> V:
        """The value that a key had; raise KeyError if it had none."""
        found: V | None = self._replaced.at(self._newest, key, self._time, self._newest.get(key))
        if found is None:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[K]:
        """The keys that had a value."""
        keys = dict.fromkeys([*self._newest, *self._replaced.keys(self._newest)])
        return (key for key in keys if key in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class EarlierImports(NamedTuple):
    """The ServiceImports at that time."""

    values: EarlierTable[Key, ServiceValue]
    serial: int


class EarlierServices(NamedTuple):
    """The Services at that time."""

    values: EarlierTable[Key, ServiceValue]
    cluster_ips: AddressOwners[Key]
    endpoint_ips: AddressOwners[SliceKey]
    external_ips: AddressOwners[Key]
    external_serial: int


class EarlierStore:
    """A store as it was at a time; valid only if its `replaced` keeps the state of that time."""

    def __init__(self, store: Store, time: float) -> None:
        services, pods, at = store.services, store.pods, store.replaced.at
        table = partial(EarlierTable, store.replaced, time)
        self.settings, self.serves = store.settings, store.serves
        self.restored, self.lost = store.restored, store.lost
        self.serial: int = at(store, "serial", time, store.serial)
        self.namespaces = table(store.namespaces)
        imports = store.imports
        self.imports = EarlierImports(
            table(imports.values), at(imports, "serial", time, imports.serial)
        )
        self.services = EarlierServices(
            table(services.values),
            AddressOwners(table(services.cluster_ips.owners)),
            AddressOwners(table(services.endpoint_ips.owners)),
            AddressOwners(table(services.external_ips.owners)),
            at(services, "external_serial", time, services.external_serial),
        )
        self.pods = PodsByAddress(table(pods.by_address), table(pods.terminating))


# The state that answers are computed from: the newest or an earlier one.
ClusterView = Store | EarlierStore
