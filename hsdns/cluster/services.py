"""The Services of a cluster with their EndpointSlices, and indexes of their addresses: turns events into values.

Path: store.py passes on the events -> lookup.py, nameserver.py, external.py and transfer.py read the values.
Rule 1: an event replaces one value in a dict; neither an event nor a lookup iterates over or copies the cluster.
Rule 2: slices and Services may arrive in any order: a slice may arrive before its Service, move to another one, or
        outlive it.
Rule 3: the counters of all that an event changes are incremented in the same call, after the change (freshness.py).
Source: CoreDNS 1.14.7 plugin/kubernetes/controller.go for the events that change a serial.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from hsdns.cluster.freshness import (
    Counters,
    Names,
    service_counter,
    spec_counter,
    versions_of,
)
from hsdns.cluster.history import History, Noted, Packed, ServiceFacts
from hsdns.cluster.objects import EndpointSlice, Service
from hsdns.cluster.pack import (
    import_owner,
    key_of,
    owner_of,
    pack_service,
    pack_slice,
    shared_ports,
)
from hsdns.cluster.read_object import (
    CHANGE_TIME,
    READ,
    Programmed,
    ReadService,
    ReadSlice,
    service_kind,
)
from hsdns.cluster.rejected import RejectedObjects
from hsdns.cluster.replaced import (
    CLUSTER_IPS,
    ENDPOINT_IPS,
    EXTERNAL_IPS,
    SERIALS,
    SERVICES,
    Replaced,
)
from hsdns.cluster.reverse import ReverseIndex
from hsdns.cluster.service_labels import change_of, own_labels
from hsdns.cluster.value import Key, PackedSlice, ServiceValue, SliceKey
from hsdns.fastpath import ClusterNames, SliceStore

ADDED, CHANGED, DELETED = "added", "changed", "deleted"
EXTERNAL_SERIAL = "external"  # its key among the replaced serials


class _SliceChange(NamedTuple):
    """A slice that was added or changed, with its Service and parts before and now."""

    found: EndpointSlice | ReadSlice
    changed_at: str | None
    last_owner: Key | None
    owner: Key
    last_parts: tuple[PackedSlice, ...]
    parts: tuple[PackedSlice, ...]

    @property
    def is_seen(self) -> bool:
        """Whether it changes an answer: all fields count except the slice's name and resourceVersion."""
        last, parts = self.last_parts, self.parts
        return self.last_owner != self.owner or [each[2:] for each in last] != [
            each[2:] for each in parts
        ]


class Services:
    """Services by namespace and name, and indexes from addresses to their keys.

    `wall` gives seconds since the epoch for `external_serial`, the serial of the zones of k8s_external.  `programmed`
    takes the kind of Service, the time of the change and the current time for each change of a slice.  `changes` is a
    number that grows with every change, `history` has the last changes.  `pod_names` names endpoints without a hostname
    after their pods, `zonal` keeps their topology zones, `counts_not_ready` how many endpoints are not ready.
    """

    def __init__(
        self,
        *,
        wall: Callable[[], float],
        counters: Counters,
        names: Names,
        rejected: RejectedObjects,
        programmed: Programmed | None,
        pod_names: bool,
        zonal: bool,
        counts_not_ready: bool,
        replaced: Replaced | None = None,
    ) -> None:
        self._replaced = replaced = Replaced() if replaced is None else replaced
        self.values: dict[Key, ServiceValue] = {}
        self.cluster_ips: ReverseIndex[Key] = ReverseIndex(replaced, CLUSTER_IPS)
        self.endpoint_ips: ReverseIndex[SliceKey] = ReverseIndex(replaced, ENDPOINT_IPS)
        self.external_ips: ReverseIndex[Key] = ReverseIndex(replaced, EXTERNAL_IPS)
        self.external_serial = 0
        self.changes = 0
        self.history = History()
        self._wall = wall
        self._counters = counters
        self._names = names
        self._rejected = rejected
        self._programmed = programmed
        self._pod_names = pod_names
        self._zonal = zonal
        self._counts_not_ready = counts_not_ready
        self._shown: _SliceChange | None = None  # what finish() reports
        self.unlisted: list[Callable[[], None]] = []  # take off the names what is gone
        # The Service of each slice, by the slice's namespace and name.
        self._slice_owner: dict[tuple[str, str], Key] = {}
        self._compiled = None
        versions = versions_of(counters)
        if SliceStore is not None and isinstance(names, ClusterNames) and versions is not None:
            self._compiled = SliceStore(
                self.values,
                self._slice_owner,
                self.endpoint_ips.owners,
                names,
                versions,
                ServiceValue,
                partial(tuple.__new__, PackedSlice),  # no call of a function in Python
                shared_ports,
                pod_names,
                zonal,
                counts_not_ready,
            )

    def apply(self, service: Service | ReadService, gone: bool) -> bool:
        """Apply an event about a Service; return whether the serial of the cluster's zones changes."""
        key = key_of(service)
        if key is None:
            self._rejected.add("name", "its name is not a DNS label; it is skipped")
            self._finish("Service", service, gone)
            return False
        old = self.values.get(key)
        had_service = old is not None and bool(old.resource_version or old.kind)
        if gone:
            self._finish("Service", service, gone)
            if old is None or not had_service:
                return False
            new = ServiceValue(None, slices=old.slices)
        else:
            if old is not None and old.kind and old.resource_version == _version(service) != "":
                return False
            new = pack_service(service, old.slices if old is not None else (), self._rejected.add)
            self._finish("Service", service, gone)
        had, has = own_labels(old, self._zonal), own_labels(new, self._zonal)
        self._replace(key, new, [*(has - had)], [*(had - has)])
        self._counters.bump(spec_counter(*key))
        before = old or _NOTHING
        if self.history.is_open:
            facts = (_facts(before), _facts(new))
            event = DELETED if gone else CHANGED if had_service else ADDED
            meta = service.metadata
            written = (meta.annotations or {}).get(CHANGE_TIME, "")
            of = (event, "Service", meta.name, meta.resource_version, written)
            self.history.note(Noted(self._wall(), key, *of, *facts))
        self._reindex(self.cluster_ips, key, before.cluster_ips, new.cluster_ips)
        if before.external or new.external:
            self._reindex(
                self.external_ips,
                key,
                [each for each in before.external if isinstance(each, bytes)],
                [each for each in new.external if isinstance(each, bytes)],
            )
        if gone or not had_service:
            return True  # but not the external serial, as in CoreDNS
        if before.ports != new.ports or before.external != new.external:
            if self._replaced.is_kept:
                self._replaced.note(SERIALS, EXTERNAL_SERIAL, self.external_serial)
            self.external_serial = int(self._wall())
        return before.ports != new.ports or before.external_name != new.external_name

    def apply_slice(self, found: EndpointSlice | ReadSlice, gone: bool) -> bool:
        """Apply an event about an EndpointSlice; return whether the serial of the cluster's zones changes by its end.

        For one that is added or changed, finish() says so.
        """
        if isinstance(found, ReadSlice):
            slice_key, changed_at = found.key, found.reading.changed_at
            if self._compiled is not None and not gone and not self._replaced.is_kept:
                done = self._compiled.apply(slice_key, found.resource_version, found.reading)
                if done is not None:
                    owner, before, old, new, lost = done
                    if lost:
                        self.unlisted.append(
                            partial(self._names.remove_labels, owner[0], owner[1], lost)
                        )
                    if new is None:
                        return False
                    self.changes += 1
                    self._shown = _SliceChange(found, changed_at, before, owner, old, new)
                    return False
        else:
            meta = found.metadata
            slice_key = (meta.namespace, meta.name)
            changed_at = (meta.annotations or {}).get(CHANGE_TIME)
        name = slice_key[1]
        before = self._slice_owner.get(slice_key)
        owner = None if gone else owner_of(found)
        if owner is None:
            if not gone and import_owner(found.metadata) is None:
                self._rejected.add(
                    "owner", "it has no usable label kubernetes.io/service-name; it is skipped"
                )
            if before is not None:
                if self.history.is_open:
                    parts = self._parts(before, name)
                    self._note_slice(before, found, changed_at, DELETED, parts, ())
                self._replace_slice(before, name, ())
                del self._slice_owner[slice_key]
            self._finish("EndpointSlice", found, gone)
            self._measure(changed_at, owner_of(found))
            return before is not None
        self._slice_owner[slice_key] = owner
        old = self._parts(owner, name)
        if old and before == owner and old[0].resource_version == _version(found) != "":
            return False
        new = pack_slice(
            found,
            pod_names=self._pod_names,
            reject=self._rejected.add,
            zonal=self._zonal,
            counts_not_ready=self._counts_not_ready,
        )
        self._replace_slice(owner, name, new)
        if (
            before is not None and before != owner
        ):  # only now, so that its addresses always lead to a value
            self._replace_slice(before, name, ())
        self._shown = _SliceChange(found, changed_at, before, owner, old, new)
        return False

    def finish(self) -> bool:
        """Report a slice that was added or changed; return whether the serial of the cluster's zones changes.

        To be called when the event has been shown, which need not wait for it.  Only then are names denied that it has
        removed, as replies with them were valid until then.
        """
        for unlist in self.unlisted:
            unlist()
        self.unlisted.clear()
        shown, self._shown = self._shown, None
        if shown is None:
            return False
        found, changed_at, before, owner, old, new = shown
        self._finish("EndpointSlice", found, False)
        if self.history.is_open:
            event = ADDED if before is None else CHANGED
            self._note_slice(owner, found, changed_at, event, old, new)
        self._measure(changed_at, owner)
        return shown.is_seen

    def _finish(
        self, kind: str, found: Service | EndpointSlice | ReadService | ReadSlice, gone: bool
    ) -> None:
        """Finish an object that was read; its metadata is needed only if it has faults."""
        if self._rejected.is_pending:
            self._rejected.finish(kind, found.metadata, gone)

    def _reindex(
        self, index: ReverseIndex[Key], key: Key, old: Sequence[bytes], new: Sequence[bytes]
    ) -> None:
        """Replace the addresses of a Service in an index."""
        if old or new:
            index.move([each for each in old if each not in new], new, key, self._counters)

    def _note_slice(
        self,
        owner: Key,
        found: EndpointSlice | ReadSlice,
        changed_at: str | None,
        event: str,
        before: Packed,
        after: Packed,
    ) -> None:
        name = found.key[1] if isinstance(found, ReadSlice) else found.metadata.name
        of = (event, "EndpointSlice", name, _version(found), changed_at or "")
        self.history.note(Noted(self._wall(), owner, *of, before, after))

    def _measure(self, changed_at: str | None, owner: Key | None) -> None:
        """Report the time of a slice's change if it has one and its Service is known."""
        if self._programmed is None or not changed_at or owner is None:
            return
        value = self.values.get(owner)
        if value is not None and value.kind is not None:
            self._programmed(service_kind(value), changed_at, self._wall())

    def _parts(self, owner: Key, name: str) -> tuple[PackedSlice, ...]:
        value = self.values.get(owner)
        return (
            tuple(part for part in value.slices if part.name == name) if value is not None else ()
        )

    def _replace_slice(self, owner: Key, name: str, new: tuple[PackedSlice, ...]) -> None:
        """Replace the parts of one slice, at their position, and their addresses in the index."""
        value = self.values.get(owner) or _NOTHING
        before: list[PackedSlice] = []
        after: list[PackedSlice] = []
        old: list[PackedSlice] = []
        for part in value.slices:
            if part.name == name:
                old.append(part)
            else:
                (after if old else before).append(part)
        slices = (*before, *new, *after)
        change = change_of(old, new)
        self._replace(owner, value.with_slices(slices), change.gained, change.lost)
        self.endpoint_ips.move(change.gone, change.come, (*owner, name), self._counters)

    def _replace(
        self, key: Key, value: ServiceValue, gained: Sequence[bytes], lost: Sequence[bytes]
    ) -> None:
        """Replace a value; `gained` and `lost` are the labels below it that are added and removed.

        New labels are listed before they exist, and removed ones until the event is shown (finish): a lookup in another
        thread never denies a name that exists.
        """
        self.changes += 1
        if self._replaced.is_kept:
            self._replaced.note(SERVICES, key, self.values.get(key))
        names = self._names
        if value.is_empty and not value.resource_version:
            if self.values.pop(key, None) is not None:
                self.unlisted.append(partial(names.remove_service, *key))
        else:
            if key not in self.values:
                names.add_service(*key)
            if gained:
                names.add_labels(*key, gained)
            self.values[key] = value
            if lost:
                self.unlisted.append(partial(names.remove_labels, *key, lost))
        self._counters.bump(service_counter(*key))


_NOTHING: Final = ServiceValue(None)  # never changed, as no name is looked up in it


def _version(found: Service | EndpointSlice | ReadService | ReadSlice) -> str:
    return found.resource_version if isinstance(found, READ) else found.metadata.resource_version


def _facts(value: ServiceValue) -> ServiceFacts:
    return ServiceFacts(value.cluster_ips, value.ports, value.external_name)
