"""The Services of a cluster, and the ServiceImports of a clusterset, with their EndpointSlices: events become values.

Path: store.py passes on the events -> lookup.py, answer.py and plugins/k8s_external.py read the values.
Rule 1: an event replaces one value in a dict; neither an event nor a lookup iterates over or copies the cluster.
Rule 2: slices and Services may arrive in any order: a slice may arrive before its Service, move to another one, or
        outlive it.
Rule 3: the counters of all that an event changes are incremented in the same call, after the change (freshness.py).
Rule 4: a separate label assigns a slice to a ServiceImport.  A slice that also has a Service's label belongs to both.
Rule 5: an address leads to the objects that have it, not to records; records are computed from the Service's value.
Source: CoreDNS 1.14.7 plugin/kubernetes/controller.go for the events that change a serial, and
plugin/kubernetes/object/{serviceimport,multicluster_endpoint}.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from hsdns.cluster.freshness import (
    Counters,
    address_counter,
    import_counter,
    service_counter,
    spec_counter,
    versions_of,
)
from hsdns.cluster.history import (
    ADDED,
    CHANGED,
    DELETED,
    History,
    Noted,
    Replaced,
    ServiceFacts,
)
from hsdns.cluster.objects import EndpointSlice, Event, Service, ServiceImport
from hsdns.cluster.pack import (
    RejectedObjects,
    change_of,
    import_owner,
    key_of,
    own_labels,
    owner_of,
    pack_import,
    pack_service,
    pack_slice,
    shared_ports,
    source_cluster,
)
from hsdns.cluster.read_object import Programmed, ReadService, ReadSlice, service_kind
from hsdns.cluster.value import Key, PackedSlice, ServiceValue, SliceKey
from hsdns.fastpath import ClusterNames, SliceStore, move_addresses

if TYPE_CHECKING:
    from hsdns.cluster.store import StoreSettings

Owner = TypeVar("Owner", bound=tuple[object, ...])

_NOTHING: Final = ServiceValue(None)  # never changed, as no name is looked up in it


class AddressOwners(Generic[Owner]):
    """Addresses (4 or 16 octets) and the keys of the objects that have them, in the order of their addition."""

    def __init__(self, owners: Mapping[bytes, Owner | list[Owner]]) -> None:
        # Nearly every address has one owner; a tuple around it would cost 48 octets for each endpoint.  Several are a
        # list, which is never changed.
        self.owners = owners

    def lookup(self, address: bytes) -> tuple[Owner, ...]:
        """The owners of an address."""
        found = self.owners.get(address)
        if found is None:
            return ()
        return tuple(found) if isinstance(found, list) else (found,)

    def addresses(self) -> list[bytes]:
        """All addresses that have an owner."""
        return list(self.owners)


class ReverseIndex(AddressOwners[Owner]):
    """The newest owners; compiled code changes them as move() does.

    A change replaces one value, so that a lookup in another thread finds the owners before or after it.
    """

    owners: dict[bytes, Owner | list[Owner]]

    def __init__(self, replaced: Replaced) -> None:
        super().__init__({})
        self._replaced = replaced

    def move(
        self, gone: Sequence[bytes], come: Sequence[bytes], owner: Owner, counters: Counters
    ) -> None:
        """Remove an owner of some addresses, add it to others, then increment the counters of all of them."""
        versions, is_kept = versions_of(counters), self._replaced.is_kept
        if move_addresses is not None and versions is not None and not is_kept:
            move_addresses(self.owners, gone, come, owner, versions)
            return
        owners = self.owners
        for address in gone:
            if owners.get(address) == owner and not is_kept:
                del owners[address]
            elif owner in (known := self.lookup(address)):
                self._put(address, [each for each in known if each != owner])
        for address in come:
            if address not in owners and not is_kept:
                owners[address] = owner
            elif owner not in (known := self.lookup(address)):
                self._put(address, [*known, owner])
        for address in (*gone, *come):
            counters.bump(address_counter(address))

    def _put(self, address: bytes, owners: list[Owner]) -> None:
        put = owners if len(owners) > 1 else owners[0] if owners else None
        self._replaced.put(self.owners, address, put)


class _SliceChange(NamedTuple):
    """The Service and the parts of a slice before an event and after it; no Service: there is no such slice."""

    last_owner: Key | None
    owner: Key | None
    last_parts: tuple[PackedSlice, ...]
    parts: tuple[PackedSlice, ...]

    @property
    def is_seen(self) -> bool:
        """Whether it changes an answer: all fields count except the slice's name and resourceVersion."""
        last, parts = self.last_parts, self.parts
        return self.last_owner != self.owner or [each[2:] for each in last] != [
            each[2:] for each in parts
        ]


class Shared(NamedTuple):
    """What the parts of a store share; `wall` gives seconds since the epoch for serials and the history."""

    settings: StoreSettings
    wall: Callable[[], float]
    counters: Counters
    rejected: RejectedObjects
    replaced: Replaced


class SlicedValues:
    """Values by namespace and name, each with its slices; `changes` is a number that grows with every change.

    `counter` gives the counter of a value.
    """

    def __init__(self, shared: Shared, counter: Callable[[bytes, bytes], int]) -> None:
        self.values: dict[Key, ServiceValue] = {}
        self.changes = 0
        self._counter = counter
        self._settings, self._wall, self._counters, self._rejected, self._replaced = shared
        # The value of each slice, by the slice's namespace and name.
        self._slice_owner: dict[tuple[str, str], Key] = {}

    def _change_of(
        self, kind: str, found: Service | ReadService | ServiceImport, gone: bool
    ) -> tuple[Key, ServiceValue, ServiceValue, bool] | None:
        """What an event replaces: key, value before and after, whether the object was known; None for nothing."""
        key = key_of(found)
        before = _NOTHING if key is None else self.values.get(key, _NOTHING)
        is_known = bool(before.resource_version or before.kind)
        new = _NOTHING
        if key is None:
            self._rejected.add("name", "its name is not a DNS label; it is skipped")
        elif gone:
            new = ServiceValue(None, slices=before.slices)
        elif before.kind and before.resource_version == found.resource_version != "":
            return None
        elif isinstance(found, ServiceImport):
            new = pack_import(found, before.slices, self._rejected.add)
        else:
            new = pack_service(found, before.slices, self._rejected.add)
        self._rejected.finish(kind, found.key, gone)
        return None if key is None or (gone and not is_known) else (key, before, new, is_known)

    def _put_slice(
        self, found: EndpointSlice | ReadSlice, owner: Key | None, cluster: bytes = b""
    ) -> _SliceChange | None:
        """Store a slice for its owner, or remove it if it has none; None if that changes nothing."""
        slice_key, name = found.key, found.key[1]
        last = self._slice_owner.get(slice_key)
        if owner is None:
            if last is None:
                return None
            parts = self._parts(last, name)
            self._replace_slice(last, name, ())
            del self._slice_owner[slice_key]
            return _SliceChange(last, None, parts, ())
        self._slice_owner[slice_key] = owner
        parts = self._parts(owner, name)
        if parts and last == owner and parts[0].resource_version == found.resource_version != "":
            return None
        new = pack_slice(found, self._settings, self._rejected.add, cluster)
        self._replace_slice(owner, name, new)
        if last is not None and last != owner:
            # Only now, so that its addresses always lead to a value.
            self._replace_slice(last, name, ())
        return _SliceChange(last, owner, parts, new)

    def _parts(self, owner: Key, name: str) -> tuple[PackedSlice, ...]:
        value = self.values.get(owner)
        return tuple([part for part in value.slices if part.name == name]) if value else ()

    def _replace_slice(self, owner: Key, name: str, new: tuple[PackedSlice, ...]) -> None:
        """Replace the parts of one slice, at their position."""
        value = self.values.get(owner, _NOTHING)
        before: list[PackedSlice] = []
        after: list[PackedSlice] = []
        old: list[PackedSlice] = []
        for part in value.slices:
            if part.name == name:
                old.append(part)
            else:
                (after if old else before).append(part)
        self._replace_parts((*owner, name), old, new, value.with_slices((*before, *new, *after)))

    def _replace_parts(
        self,
        key: SliceKey,
        old: Sequence[PackedSlice],
        new: Sequence[PackedSlice],
        value: ServiceValue,
    ) -> None:
        """Replace a value by the one in which new parts of a slice replace old ones."""
        self._replace(key[:2], value)

    def _replace(self, key: Key, value: ServiceValue) -> None:
        """Replace a value, then increment its counter."""
        self.changes += 1
        self._replaced.put(self.values, key, None if value.is_empty else value)
        self._counters.bump(self._counter(*key))


class Services(SlicedValues):
    """Services, and indexes from addresses to their keys.

    `external_serial` is the serial of the zones of k8s_external, `history` has the last changes.  `programmed` takes
    the kind of Service, the time of the change and the current time for each change of a slice.  `unlisted` takes off
    the names what is gone: it is called when the event has been shown, as replies with these names were valid until
    then.
    """

    def __init__(self, shared: Shared, names: ClusterNames, programmed: Programmed | None) -> None:
        super().__init__(shared, service_counter)
        settings, replaced = shared.settings, shared.replaced
        self.cluster_ips: ReverseIndex[Key] = ReverseIndex(replaced)
        self.endpoint_ips: ReverseIndex[SliceKey] = ReverseIndex(replaced)
        self.external_ips: ReverseIndex[Key] = ReverseIndex(replaced)
        self.external_serial = 0
        self.history = History()
        self.unlisted: list[Callable[[], None]] = []
        self._names = names
        self._programmed = programmed
        self._compiled = None
        versions = versions_of(shared.counters)
        if SliceStore is not None and versions is not None:
            self._compiled = SliceStore(
                self.values,
                self._slice_owner,
                self.endpoint_ips.owners,
                names,
                versions,
                ServiceValue,
                partial(tuple.__new__, PackedSlice),  # no call of a function in Python
                shared_ports,
                settings.endpoint_pod_names,
                settings.zonal,
                settings.not_ready,
            )

    def apply_first(self, events: Sequence[Event]) -> int:
        """Apply what the events of a state that nothing reads yet begin with; return how many, 0 without compiled code.

        It leaves to the other methods what they reject, and all that is not an addition.
        """
        if self._compiled is None or self._replaced.is_kept or self._rejected.is_pending:
            return 0
        count: int
        count, timed = self._compiled.apply_first(events, self.cluster_ips.owners)
        self.changes += count
        for value, changed_at in timed:
            self._time(value, changed_at)
        return count

    def _time(self, value: ServiceValue | None, changed_at: str) -> None:
        """Observe how long a change of a slice took, if its time is known and it belongs to a Service."""
        if (
            self._programmed is not None
            and changed_at
            and value is not None
            and value.kind is not None
        ):
            self._programmed(service_kind(value), changed_at, self._wall())

    def apply(self, found: Service | ReadService, gone: bool) -> bool:
        """Apply an event about a Service; return whether the serial of the cluster's zones changes."""
        change = self._change_of("Service", found, gone)
        if change is None:
            return False
        key, before, new, is_known = change
        zonal = self._settings.zonal
        had, has = own_labels(before, zonal), own_labels(new, zonal)
        self._relist(key, new, [*(has - had)], [*(had - has)])
        self._counters.bump(spec_counter(*key))
        if self.history.is_open:
            event = DELETED if gone else CHANGED if is_known else ADDED
            facts = [
                ServiceFacts(each.cluster_ips, each.ports, each.external_name)
                for each in (before, new)
            ]
            of = "Service", found.key[1], found.resource_version, found.changed_at or ""
            self.history.note(Noted(self._wall(), key, event, *of, *facts))
        for index, last, now in (
            (self.cluster_ips, before.cluster_ips, new.cluster_ips),
            (self.external_ips, before.external, new.external),
        ):
            if last or now:
                come = [each for each in now if isinstance(each, bytes)]
                left = [each for each in last if isinstance(each, bytes) and each not in come]
                index.move(left, come, key, self._counters)
        if gone or not is_known:
            return True  # but not the external serial, as in CoreDNS
        if before.ports != new.ports or before.external != new.external:
            self._replaced.put_serial(self, "external_serial", int(self._wall()))
        return before.ports != new.ports or before.external_name != new.external_name

    def apply_slice(self, found: EndpointSlice | ReadSlice, gone: bool) -> bool:
        """Apply an event about an EndpointSlice; return whether the serial of the cluster's zones changes."""
        done, owner = None, None
        is_for_python = gone or self._replaced.is_kept
        if self._compiled is not None and isinstance(found, ReadSlice) and not is_for_python:
            done = self._compiled.apply(found.key, found.resource_version, found.reading)
        if done is None:
            owner = None if gone else owner_of(found)
            if owner is None and not gone and import_owner(found.metadata) is None:
                self._rejected.add(
                    "owner", "it has no usable label kubernetes.io/service-name; it is skipped"
                )
            change = self._put_slice(found, owner)
        else:
            owner, last, parts, new, lost = done
            if lost:
                self.unlisted.append(partial(self._names.remove_labels, owner[0], owner[1], lost))
            change = None if new is None else _SliceChange(last, owner, parts, new)
            self.changes += change is not None
        if change is None and owner is not None:
            return False  # the same version again
        self._rejected.finish("EndpointSlice", found.key, gone)
        changed_at = found.changed_at or ""
        if change is not None and self.history.is_open:
            key = change.owner or change.last_owner
            assert key is not None, "one of them is known"
            event = DELETED if owner is None else CHANGED if change.last_owner else ADDED
            of = event, "EndpointSlice", found.key[1], found.resource_version, changed_at
            parts = change.last_parts, change.parts
            self.history.note(Noted(self._wall(), key, *of, *parts))
        if changed_at:
            self._time(self.values.get(owner or owner_of(found) or (b"", b"")), changed_at)
        return change is not None and change.is_seen

    def _replace_parts(
        self,
        key: SliceKey,
        old: Sequence[PackedSlice],
        new: Sequence[PackedSlice],
        value: ServiceValue,
    ) -> None:
        change = change_of(old, new)
        self._relist(key[:2], value, change.gained, change.lost)
        self.endpoint_ips.move(change.gone, change.come, key, self._counters)

    def _relist(
        self, key: Key, value: ServiceValue, gained: Sequence[bytes], lost: Sequence[bytes]
    ) -> None:
        """Replace a value; `gained` and `lost` are the labels below it that are added and removed.

        New labels are listed before they exist, and removed ones until the event is shown: a lookup in another thread
        never denies a name that exists.
        """
        names = self._names
        if value.is_empty:
            if key in self.values:
                self.unlisted.append(partial(names.remove_service, *key))
        else:
            if key not in self.values:
                names.add_service(*key)
            if gained:
                names.add_labels(*key, gained)
            if lost:
                self.unlisted.append(partial(names.remove_labels, *key, lost))
        self._replace(key, value)


class Imports(SlicedValues):
    """ServiceImports; `serial` is that of the zones of `multicluster`."""

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared, import_counter)
        self.serial = 0

    def apply(self, found: ServiceImport, gone: bool) -> bool:
        """Apply an event about a ServiceImport; return whether the serial of the cluster's own zones changes."""
        change = self._change_of("ServiceImport", found, gone)
        if change is None:
            return False
        key, before, new, is_known = change
        self._replace(key, new)
        if gone or not is_known:
            return True
        self._renumber((before.kind, before.ports) != (new.kind, new.ports))
        return False

    def apply_slice(self, found: EndpointSlice | ReadSlice, gone: bool) -> None:
        """Apply an event about any slice; one without a ServiceImport's label is ignored."""
        owner = None if gone else import_owner(found.metadata)
        change = self._put_slice(found, owner, source_cluster(found.metadata))
        if change is not None:
            self._renumber(change.last_owner == change.owner and change.is_seen)

    def _renumber(self, is_seen: bool) -> None:
        if is_seen:
            self._replaced.put_serial(self, "serial", int(self._wall()))
