"""Reads the objects of a question for an explanation, and reports objects that cannot be read.

Path: explain.py, once the chain has answered -> here -> the source's read(), or the store if that fails.
Rule 1: objects are read in the watch thread: `in_watch` runs a coroutine there.
Rule 2: objects that cannot be read are reported, and taken from the store if it has them.
Rule 3: an object whose version differs between source and store is reported, because the answer comes from the store.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Mapping
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from msgspec import structs

from hsdns.causes.view import View
from hsdns.cluster.address import pack_address
from hsdns.cluster.objects import Identity, Namespace, Object, Pod, Service, identity
from hsdns.cluster.pack import pack_key
from hsdns.cluster.snapshot import stored_objects
from hsdns.cluster.source import Fault, Lead, Reading
from hsdns.explanation.scene import ClusterObjects
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.sources.api_server import ApiServer
from hsdns.sources.manifests import Manifests

MOST_TOLD: Final = 4  # objects that are in another version
Versions = dict[Identity, str]
T = TypeVar("T")


class InWatch(Protocol):
    """Runs a coroutine in the thread of the watch."""

    def __call__(self, coro: Coroutine[Any, Any, T], /) -> Awaitable[T]:
        """Its result; raise TimeoutError."""


class Seen(NamedTuple):
    """The objects of a question; `remarks` report what could not be read, `is_partial` says that this may be the cause.

    `behind` says which objects the server has in another version, `refused` which ones of the name are not served.
    """

    objects: ClusterObjects
    remarks: tuple[str, ...] = ()
    is_partial: bool = False
    behind: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


class LiveObjects:
    """The objects of a kubernetes block that has started; `in_watch` raises TimeoutError if there is no answer."""

    def __init__(self, block: Kubernetes, in_watch: InWatch) -> None:
        self._block, self._in_watch = block, in_watch

    async def see(self, lead: Lead) -> Seen:
        """Read the objects of a lead."""
        block = self._block
        store, source = block.store, block.source
        if lead.address:
            services = self._with_address(lead)
            spaces = dict.fromkeys((*lead.namespaces, *(key[0] for key in services)))
            lead = lead._replace(services=services, namespaces=tuple(spaces))
        reading = await self._read(lead)
        is_assumed = isinstance(source, ApiServer) and source.within is not None
        remarks = [
            each.sentence
            for each in reading.faults
            if not (is_assumed and each.kind == "Namespace")
        ]
        unread = {each.kind for each in reading.faults}
        stored = stored_objects(store, lead)
        versions = {
            identity(each): each.resource_version
            for each in stored
            if not isinstance(each, Namespace | Pod)
        }
        objects = [_versioned(each, versions) for each in reading.objects]
        known = {identity(each) for each in objects}
        objects += [
            each
            for each in stored
            if (type(each).__name__ in unread or "" in unread) and identity(each) not in known
        ]
        if isinstance(source, ApiServer):
            remarks = [*source.outages(), *remarks]
        is_partial = not unread <= {"Pod", "Namespace"}
        behind = [] if is_partial else self._behind(objects, versions, lead)
        found = ClusterObjects(objects)
        return Seen(found, tuple(remarks), is_partial, tuple(behind), reading.refused)

    async def view(self, seen: Seen, namespace: str, selector: Mapping[str, str]) -> View:
        """What may stand behind a Service: its objects as seen, and pods and workloads as its source has them."""
        source, view = self._block.source, View()
        if isinstance(source, ApiServer | Manifests):
            try:
                view = await self._in_watch(source.read_view(namespace, selector))
            except TimeoutError:
                view.unknown["pods"] = "the watch is busy"
        else:
            view.add((type(each).__name__, each) for each in seen.objects if isinstance(each, Pod))
            if not any(self._block.store.services.endpoint_ips.addresses()):
                view.unknown["endpointslices"] = f"{source} has none"
        if seen.is_partial:
            view.unknown["endpointslices"] = seen.remarks[0]
        view.add((type(each).__name__, each) for each in seen.objects if not isinstance(each, Pod))
        return view

    async def _read(self, lead: Lead) -> Reading:
        try:
            return await self._in_watch(self._block.source.read(lead))
        except TimeoutError:
            return Reading((), (Fault("the objects could not be read: the watch is busy"),))

    def _behind(self, objects: list[Object], versions: Versions, lead: Lead) -> list[str]:
        """The objects whose version differs between server and source, as sentences."""
        found = {identity(each): each.metadata.resource_version for each in objects}
        told = []
        for key, version in versions.items():
            kind, namespace, name = key
            shown = f"{kind.__name__} {namespace}/{name}"
            if key not in found:
                told.append(f"the server still has {shown}, which has been deleted")
            elif version and found[key] and version != found[key]:
                told.append(
                    f"{shown} is at version {found[key]}, and the server answers from {version}"
                )
        for each in objects:
            if isinstance(each, Service) and self._misses(each):
                meta = each.metadata
                told.append(f"the server does not have Service {meta.namespace}/{meta.name} yet")
        return told[:MOST_TOLD]

    def _misses(self, service: Service) -> bool:
        """Whether the store lacks a Service that it should have."""
        labels = self._block.options["labels"]
        is_selected = labels is None or labels.matches(service.metadata.labels)
        return is_selected and pack_key(service.metadata) not in self._block.store.services.values

    def _with_address(self, lead: Lead) -> tuple[tuple[bytes, bytes], ...]:
        """The Services of the lead, and the store's Services with its address."""
        packed = pack_address(lead.address)
        if packed is None:
            return lead.services
        services = self._block.store.services
        found = [*services.cluster_ips.lookup(packed)]
        found += [(owner[0], owner[1]) for owner in services.endpoint_ips.lookup(packed)]
        return tuple(dict.fromkeys((*lead.services, *found)))


def _versioned(found: Object, versions: Versions) -> Object:
    """An object with the version of the store, if its source gives it none."""
    meta = found.metadata
    if meta.resource_version or isinstance(found, Pod):
        return found
    version = versions.get(identity(found), "")
    return structs.replace(found, metadata=structs.replace(meta, resource_version=version))
