"""The objects of a test's cluster: documents in, events out; the controllers are simulated.

Path: handles.py and cluster.py change documents -> here, cluster/controllers -> events -> server.py delivers them.
Rule 1: invalid input raises ClusterError with the messages of the API server's validation, and changes nothing.
Rule 2: readiness set by a test is applied to the objects that the controllers create: to a pod, so that it affects
        every Service that selects the pod, or to an endpoint without a pod.  It is removed with its object.
Rule 3: an API server rejects endpoints on loopback addresses, but the servers of a test listen there.  So endpoints
        written in Python may have such addresses, and endpoints of manifests may not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from hsdns.cluster.controllers.document import NOT_READY, READY, Document
from hsdns.cluster.controllers.kinds import PodManifest
from hsdns.cluster.controllers.simulation import running_pods, simulate
from hsdns.cluster.controllers.workload import RunningPod
from hsdns.cluster.objects import (
    SERVICE_NAME_LABEL,
    Deleted,
    EndpointConditions,
    EndpointSlice,
    Event,
    Object,
    PodCondition,
    Service,
    Upserted,
)
from hsdns.cluster.objects import Endpoint as ApiEndpoint
from hsdns.sources.manifest_file import read_manifest_file
from hsdns.sources.manifest_folder import manifest_paths, missing_paths, settings_remark
from hsdns.testing.errors import ClusterError, hides
from hsdns.testing.names import is_loopback

__tracebackhide__ = hides

STAND_INS: Final = {"IPv4": "192.0.2.1", "IPv6": "2001:db8::1"}  # while the others are checked
PodKey = tuple[str, str]  # namespace, name
EndpointKey = tuple[str, str, str]  # namespace, Service, address
_Key = tuple[type[Object], str, str]
_State = tuple[dict[tuple[str, str, str], Document], dict[PodKey, bool], dict[EndpointKey, bool]]


class Objects:
    """All objects; `warn` takes sentences about obvious mistakes.  take_events() returns the changes."""

    def __init__(self, warn: Callable[[str], None] = lambda sentence: None) -> None:
        self._warn = warn
        self._documents: dict[tuple[str, str, str], Document] = {}
        self._ready_pods: dict[PodKey, bool] = {}
        self._ready_endpoints: dict[EndpointKey, bool] = {}
        self._current: dict[_Key, Object] = {}

    def state(self) -> _State:
        """The state for restore(), to undo the changes that follow."""
        return dict(self._documents), dict(self._ready_pods), dict(self._ready_endpoints)

    def restore(self, state: _State) -> None:
        """Undo the changes since state()."""
        self._documents, self._ready_pods, self._ready_endpoints = state

    def apply_objects(self, where: str, objects: Iterable[Mapping[str, Any]]) -> None:
        """Add or replace objects in the form of a manifest; `where` names the call in an error."""
        documents: list[Document] = []
        for fields in objects:
            documents += _read(json.dumps(fields).encode(), where, self._warn, is_one=True)
        self._add(documents)

    def apply_slices(self, where: str, slices: Iterable[Mapping[str, Any]]) -> None:
        """Add or replace EndpointSlices with one address for each endpoint, loopback addresses too (Rule 3)."""
        documents: list[Document] = []
        for fields in slices:
            written = [each["addresses"] for each in fields["endpoints"]]
            stand_in = STAND_INS[fields["addressType"]]
            checked = [
                {**each, "addresses": [stand_in]} if is_loopback(each["addresses"][0]) else each
                for each in fields["endpoints"]
            ]
            text = json.dumps({**fields, "endpoints": checked}).encode()
            (read,) = _read(text, where, self._warn, is_one=True)
            assert isinstance(read.object, EndpointSlice), "as it was written"
            endpoints = [
                msgspec.structs.replace(each, addresses=addresses)
                for each, addresses in zip(read.object.endpoints or (), written, strict=True)
            ]
            found = msgspec.structs.replace(read.object, endpoints=endpoints)
            documents.append(read._replace(object=found))
        self._add(documents)

    def apply_text(self, text: str) -> None:
        """Add or replace the objects of a text in YAML or JSON."""
        self._add(_read(text.encode(), "manifest", self._warn))

    def apply_paths(self, paths: Sequence[str]) -> None:
        """Add or replace the objects of files and folders."""
        missing = missing_paths(paths)
        if missing:
            raise ClusterError("\n".join(each.partition(": ")[2] for each in missing))
        documents: list[Document] = []
        for path in manifest_paths(paths):
            with open(path, "rb") as file:
                content = file.read()
            remark = settings_remark(content, path, paths)
            if remark:
                self._warn(remark)
            else:
                documents += _read(content, path, self._warn)
        self._add(documents)

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """Remove an object, if it exists, and for a Service its EndpointSlices."""
        self._documents.pop((kind, namespace, name), None)
        if kind != "Service":
            return
        self._documents.pop(("Endpoints", namespace, name), None)
        for key, document in [*self._documents.items()]:
            if isinstance(document.object, EndpointSlice) and _service_of(document.object) == (
                namespace,
                name,
            ):
                del self._documents[key]

    def has(self, kind: str, namespace: str, name: str) -> bool:
        """Whether there is a document of this object."""
        return (kind, namespace, name) in self._documents

    def endpoints_in(self, key: tuple[str, str, str]) -> list[dict[str, Any]]:
        """The endpoints of an EndpointSlice that was written by the test, in the form of a manifest."""
        document = self._documents.get(key)
        if document is None or not isinstance(document.object, EndpointSlice):
            return []
        found: list[dict[str, Any]] = msgspec.to_builtins(document.object.endpoints or [])
        return found

    def service(self, namespace: str, name: str) -> Service | None:
        """A Service with the fields that the controllers set."""
        found = self._current.get((Service, namespace, name))
        return found if isinstance(found, Service) else None

    def services(self) -> list[tuple[str, str]]:
        """Namespace and name of each Service."""
        return [(namespace, name) for kind, namespace, name in self._current if kind is Service]

    def endpoints(self, namespace: str, service: str) -> Iterator[tuple[str, ApiEndpoint]]:
        """The endpoints of a Service, each with its address."""
        for each in self._current.values():
            if isinstance(each, EndpointSlice) and _service_of(each) == (namespace, service):
                for endpoint in each.endpoints or ():
                    for address in endpoint.addresses or ():
                        yield address, endpoint

    def pods(self) -> dict[PodKey, RunningPod]:
        """The pods, those of workloads too."""
        running = running_pods(self._documents.values())
        return {
            (each.manifest.metadata.namespace, each.manifest.metadata.name): each
            for each in running
        }

    def set_pod_ready(self, key: PodKey, ready: bool) -> None:
        """Make a pod ready or not."""
        self._ready_pods[key] = ready

    def set_endpoint_ready(self, key: EndpointKey, ready: bool) -> None:
        """Make an endpoint, or its pod if it has one, ready or not."""
        namespace, service, address = key
        for found, endpoint in self.endpoints(namespace, service):
            pod = endpoint.target_ref
            if found == address and pod is not None and pod.kind == "Pod":
                pod_key = (pod.namespace or namespace, pod.name or "")
                if pod_key in self.pods():
                    self.set_pod_ready(pod_key, ready)
                    return
        self._ready_endpoints[key] = ready

    def take_events(self) -> list[Event]:
        """The events since the last call."""
        documents = dict(self._documents)
        if self._ready_pods:
            pods = self.pods()
            self._ready_pods = {
                key: ready for key, ready in self._ready_pods.items() if key in pods
            }
            for key, ready in self._ready_pods.items():
                document = _with_readiness(pods[key], ready)
                documents[document.key] = document
        made = simulate(documents.values(), self._warn)
        if self._ready_endpoints:
            self._forget_endpoints(made)
            made = [self._with_endpoints(each) for each in made]
        before, self._current = self._current, {_key(each): each for each in made}
        events: list[Event] = [
            Upserted(each) for key, each in self._current.items() if before.get(key) != each
        ]
        events += [Deleted(each) for key, each in before.items() if key not in self._current]
        return events

    def _add(self, documents: Iterable[Document]) -> None:
        self._documents.update((each.key, each) for each in documents)

    def _forget_endpoints(self, made: Iterable[Object]) -> None:
        """Forget the readiness of endpoints that no longer exist."""
        there = {
            (*_service_of(each), address)
            for each in made
            if isinstance(each, EndpointSlice)
            for endpoint in each.endpoints or ()
            for address in endpoint.addresses or ()
        }
        self._ready_endpoints = {
            key: ready for key, ready in self._ready_endpoints.items() if key in there
        }

    def _with_endpoints(self, made: Object) -> Object:
        """An EndpointSlice with the readiness set by the test."""
        if not isinstance(made, EndpointSlice):
            return made
        service = _service_of(made)
        endpoints, changed = [], ""
        for each in made.endpoints or ():
            for address in each.addresses or ():
                ready = self._ready_endpoints.get((*service, address))
                if ready is not None:
                    conditions = EndpointConditions(ready=ready, serving=ready, terminating=False)
                    each = msgspec.structs.replace(each, conditions=conditions)
                    changed += f" {address}={ready}"
            endpoints.append(each)
        if not changed:
            return made
        version = made.metadata.resource_version + changed
        metadata = msgspec.structs.replace(made.metadata, resource_version=version)
        return msgspec.structs.replace(made, metadata=metadata, endpoints=endpoints)


def _read(
    content: bytes, where: str, warn: Callable[[str], None], *, is_one: bool = False
) -> list[Document]:
    """The documents of a text; raise ClusterError with all errors.  Errors of a single mapping have no line numbers."""
    found = read_manifest_file(content, where)
    if found.problems:
        place = f"{where}:1: "
        problems = [
            f"{where}: {each.removeprefix(place)}" if is_one else each for each in found.problems
        ]
        raise ClusterError("\n".join(problems))
    for each in found.warnings:
        warn(each)
    return found.documents


def _with_readiness(pod: RunningPod, ready: bool) -> Document:
    """A pod's manifest with readiness, which replaces the generated or the given one."""
    manifest, meta = pod.manifest, pod.manifest.metadata
    status = manifest.status
    if status.phase is not None or status.conditions is not None:  # it was read from a cluster
        others = [each for each in status.conditions or () if each.type != "Ready"]
        own = PodCondition("Ready", "True" if ready else "False", "set by a test")
        status = msgspec.structs.replace(status, conditions=[*others, own])
    annotations = {key: text for key, text in (meta.annotations or {}).items() if key != NOT_READY}
    annotations[READY] = "true" if ready else "false"
    metadata = msgspec.structs.replace(meta, annotations=annotations)
    made = PodManifest(metadata, manifest.spec, status)
    return Document("Pod", meta.namespace, meta.name, made, "set by a test")


def _service_of(each: EndpointSlice) -> tuple[str, str]:
    return each.metadata.namespace, (each.metadata.labels or {}).get(SERVICE_NAME_LABEL, "")


def _key(each: Object) -> _Key:
    return type(each), each.metadata.namespace, each.metadata.name
