"""The objects of a test's cluster: documents in, events out; the controllers are simulated.

Path: cluster.py changes documents -> here, cluster/controllers -> events -> server.py delivers them.
Rule 1: invalid input raises ClusterError with the messages of the API server's validation, and changes nothing.
Rule 2: readiness set by a test is applied to the objects that the controllers create: to a pod, so that it affects
        every Service that selects the pod, or to an endpoint without a pod.  It is removed with its object.
Rule 3: an API server rejects endpoints on loopback addresses, but the servers of a test listen there.  So endpoints
        written in Python may have such addresses, and endpoints of manifests may not.

Handles of a test for the objects of its cluster: Service, Endpoint, StatefulSet:
Rule 1: they hold names only; their properties show the served state.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from hsdns.cluster.controllers.address import FAMILIES, family_of
from hsdns.cluster.controllers.document import NOT_READY, READY, Document
from hsdns.cluster.controllers.kinds import KINDS, PodManifest
from hsdns.cluster.controllers.simulation import running_pods, simulate
from hsdns.cluster.controllers.workload import RunningPod
from hsdns.cluster.objects import (
    SERVICE_NAME_LABEL,
    EndpointConditions,
    EndpointSlice,
    Event,
    Identity,
    Object,
    PodCondition,
    differences,
    identity,
)
from hsdns.cluster.objects import Endpoint as ApiEndpoint
from hsdns.cluster.objects import Service as ApiService
from hsdns.sources.file_text import read_file
from hsdns.sources.manifest_file import read_manifest_file
from hsdns.sources.manifest_folder import manifest_paths, missing_paths, settings_remark
from hsdns.testing.errors import ClusterError, checks_keywords, hides, unknown
from hsdns.testing.pod import ZONE, is_loopback

if TYPE_CHECKING:
    from hsdns.testing.cluster import Cluster

__tracebackhide__ = hides

STAND_INS: Final = {"IPv4": "192.0.2.1", "IPv6": "2001:db8::1"}  # while the others are checked
PodKey = tuple[str, str]  # namespace, name
EndpointKey = tuple[str, str, str]  # namespace, Service, address
_State = tuple[dict[tuple[str, str, str], Document], dict[PodKey, bool], dict[EndpointKey, bool]]


class Objects:
    """All objects; `warn` takes sentences about obvious mistakes.  take_events() returns the changes."""

    def __init__(self, warn: Callable[[str], None] = lambda sentence: None) -> None:
        self._warn = warn
        self._documents: dict[tuple[str, str, str], Document] = {}
        self._ready_pods: dict[PodKey, bool] = {}
        self._ready_endpoints: dict[EndpointKey, bool] = {}
        self._current: dict[Identity, Object] = {}

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
        """Add or replace the objects of a text in YAML or JSON; raise ClusterError for unknown kinds."""
        remarks: list[str] = []
        documents = _read(text.encode(), "manifest", remarks.append)
        for each in remarks:
            sentence, ignored, hint = each.partition(", so the object is ignored")
            if ignored:
                raise ClusterError(f"{sentence}{hint}")
            self._warn(each)
        if not documents and text.strip():
            known = ", ".join(sorted({kind for _, kind in KINDS}))
            raise ClusterError(
                f"manifest: no object in it matters to DNS; kinds that do are {known}"
            )
        self._add(documents)

    def apply_paths(self, paths: Sequence[str]) -> None:
        """Add or replace the objects of files and folders."""
        missing = missing_paths(paths)
        if missing:
            raise ClusterError("\n".join(each.partition(": ")[2] for each in missing))
        documents: list[Document] = []
        for path in manifest_paths(paths):
            content = read_file(path)
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

    def service(self, namespace: str, name: str) -> ApiService | None:
        """A Service with the fields that the controllers set."""
        found = self._current.get((ApiService, namespace, name))
        return found if isinstance(found, ApiService) else None

    def services(self) -> list[tuple[str, str]]:
        """Namespace and name of each Service."""
        return [(namespace, name) for kind, namespace, name in self._current if kind is ApiService]

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
        kept: dict[EndpointKey, bool] = {}  # of endpoints that exist
        made = [
            self._with_endpoints(each, kept) for each in simulate(documents.values(), self._warn)
        ]
        self._ready_endpoints = kept
        before, self._current = self._current, {identity(each): each for each in made}
        return differences(before, self._current)

    def _add(self, documents: Iterable[Document]) -> None:
        self._documents.update((each.key, each) for each in documents)

    def _with_endpoints(self, made: Object, kept: dict[EndpointKey, bool]) -> Object:
        """An EndpointSlice with the readiness set by the test."""
        if not isinstance(made, EndpointSlice) or not self._ready_endpoints:
            return made
        endpoints, changed = [], ""
        for each in made.endpoints or ():
            for address in each.addresses or ():
                key = (*_service_of(made), address)
                ready = self._ready_endpoints.get(key)
                if ready is not None:
                    kept[key] = ready
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


Ports = Mapping[str, int | str]  # name -> number, or "NUMBER/PROTOCOL"


class _Handle:
    """An object of the cluster, by its name."""

    def __init__(self, cluster: Cluster, namespace: str, name: str) -> None:
        self.namespace = namespace
        self.name = name
        self._cluster = cluster

    def __repr__(self) -> str:
        """Show kind, namespace and name."""
        return f"<{type(self).__name__} {self.namespace}/{self.name}>"

    def delete(self) -> None:
        """Delete a Service with its EndpointSlices but not pods, a StatefulSet with its pods but not its Service."""
        with self._cluster.changing():
            self._objects.remove(type(self).__name__, self.namespace, self.name)

    @property
    def _objects(self) -> Objects:
        objects, kind = self._cluster.objects, type(self).__name__
        if not objects.has(kind, self.namespace, self.name):
            raise ClusterError(f"{self!r} was deleted; make it again with cluster.{kind.lower()}()")
        return objects


class Service(_Handle):
    """A Service and its endpoints."""

    @property
    def dns_name(self) -> str:
        """The whole name, without a final dot."""
        return f"{self.name}.{self.namespace}.svc.{ZONE}"

    @property
    def addresses(self) -> list[str]:
        """The addresses of all its endpoints, ready or not."""
        endpoints = self._objects.endpoints(self.namespace, self.name)
        return list(dict.fromkeys(address for address, _ in endpoints))

    @property
    def cluster_ips(self) -> list[str]:
        """Its cluster IPs; none for a headless Service and an ExternalName."""
        found = self._objects.service(self.namespace, self.name)
        return [each for each in (found and found.spec.cluster_ips) or () if each != "None"]

    def endpoints(self, *addresses: str) -> Self:
        """Add ready endpoints, as an EndpointSlice without pods."""
        with self._cluster.changing():
            self._add(*({"addresses": [str(address)]} for address in addresses))
        return self

    @checks_keywords
    def endpoint(self, address: str, *, hostname: str | None = None, ready: bool = True) -> Self:
        """Add an endpoint; with a hostname it has its own name below the name of the Service."""
        with self._cluster.changing() as objects:
            self._add({"addresses": [str(address)], **({"hostname": hostname} if hostname else {})})
            objects.set_endpoint_ready((self.namespace, self.name, address), ready)
        return self

    def __getitem__(self, address: str) -> Endpoint:
        """The endpoint with an address; raise ClusterError if there is none."""
        known = self.addresses
        if address not in known:
            raise unknown(f"{self!r} has no endpoint", address, known)
        return Endpoint(self._cluster, self, address)

    def ready(self) -> Self:
        """Make all endpoints ready."""
        return self._set_ready(True)

    def not_ready(self) -> Self:
        """Make no endpoint ready."""
        return self._set_ready(False)

    def _set_ready(self, ready: bool) -> Self:
        with self._cluster.changing() as objects:
            for address in self.addresses:
                objects.set_endpoint_ready((self.namespace, self.name, address), ready)
        return self

    def _add(self, *added: Mapping[str, Any]) -> None:
        """Add endpoints to the endpoints written by the test, or replace them; all or none."""
        objects = self._objects
        service = objects.service(self.namespace, self.name)
        if service is not None and service.spec.selector:
            raise ClusterError(
                f"{self!r} has a selector, so its endpoints are pods; remove selector to write endpoints"
            )
        new = [address for each in added for address in each["addresses"]]
        written = [each for each in self._written() if each["addresses"][0] not in new]
        self._write([*written, *added])

    def _written(self) -> list[Mapping[str, Any]]:
        """The endpoints written by the test."""
        objects = self._objects
        return [each for family in FAMILIES for each in objects.endpoints_in(self._slice(family))]

    def _write(self, endpoints: Sequence[Mapping[str, Any]]) -> None:
        service = self._objects.service(self.namespace, self.name)
        ports = [
            {"name": each.name or "", "port": each.port, "protocol": each.protocol}
            for each in (service and service.spec.ports) or ()
        ]
        slices = []
        for family in FAMILIES:
            _, namespace, name = self._slice(family)
            labels = {SERVICE_NAME_LABEL: self.name}
            slices.append({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": family,
                "metadata": {"name": name, "namespace": namespace, "labels": labels},
                "endpoints": [each for each in endpoints if family_of(each["addresses"][0]) == family],
                "ports": ports,
            })  # fmt: skip
        self._objects.apply_slices("endpoints()", slices)

    def _slice(self, family: str) -> tuple[str, str, str]:
        return "EndpointSlice", self.namespace, f"{self.name}-test-{family.lower()}"


class Endpoint:
    """One address of a Service."""

    def __init__(self, cluster: Cluster, service: Service, address: str) -> None:
        self.service = service
        self.address = address
        self._cluster = cluster

    def ready(self) -> Self:
        """Make it ready; if it is a pod, in each Service that selects the pod."""
        return self._set_ready(True)

    def not_ready(self) -> Self:
        """Make it not ready; if it is a pod, in each Service that selects the pod."""
        return self._set_ready(False)

    def delete(self) -> None:
        """Delete it; raise ClusterError if it was not written by endpoints() or endpoint()."""
        with self._cluster.changing():
            service = self._there()
            written = service._written()
            left = [each for each in written if self.address not in each["addresses"]]
            if len(left) == len(written):
                raise ClusterError(
                    f"{self.address} of {service!r} was not written by endpoints(); "
                    "scale its workload, or make it not_ready()"
                )
            service._write(left)

    def _set_ready(self, ready: bool) -> Self:
        with self._cluster.changing() as objects:
            service = self._there()
            objects.set_endpoint_ready((service.namespace, service.name, self.address), ready)
        return self

    def _there(self) -> Service:
        self.service[self.address]
        return self.service


class StatefulSet(_Handle):
    """A StatefulSet and its pods, NAME-0, NAME-1 and so on."""

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        name: str,
        service: Service,
        labels: Mapping[str, str],
    ) -> None:
        super().__init__(cluster, namespace, name)
        self.service = service
        self._labels = labels

    @property
    def addresses(self) -> list[str]:
        """The IPv4 addresses of its pods, by ordinal."""
        pods = self._objects.pods()
        return [
            next(each for each in pods[self.namespace, name].addresses if family_of(each) == "IPv4")
            for name in self._pod_names(pods)
        ]

    def scale(self, replicas: int) -> Self:
        """Change the number of pods."""
        with self._cluster.changing():
            self._write(self._objects, replicas)
        return self

    def ready(self, *ordinals: int) -> Self:
        """Make pods ready, all of them without ordinals."""
        return self._set_ready(ordinals, True)

    def not_ready(self, *ordinals: int) -> Self:
        """Make pods not ready, all of them without ordinals."""
        return self._set_ready(ordinals, False)

    def _set_ready(self, ordinals: Sequence[int], ready: bool) -> Self:
        with self._cluster.changing():
            objects = self._objects
            names = self._pod_names(objects.pods())
            chosen = [f"{self.name}-{ordinal}" for ordinal in ordinals] or names
            for name in chosen:
                if name not in names:
                    raise unknown(f"{self!r} has no pod", name, names)
            for name in chosen:
                objects.set_pod_ready((self.namespace, name), ready)
        return self

    def _pod_names(self, pods: Mapping[tuple[str, str], object]) -> list[str]:
        names: list[str] = []
        while (self.namespace, name := f"{self.name}-{len(names)}") in pods:
            names.append(name)
        return names

    def _write(self, objects: Objects, replicas: int) -> None:
        fields = {
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": {
                "replicas": replicas, "serviceName": self.service.name,
                "selector": {"matchLabels": self._labels},
                "template": {"metadata": {"labels": self._labels}},
            },
        }  # fmt: skip
        objects.apply_objects("statefulset()", [fields])


def port_list(ports: Ports) -> list[dict[str, Any]]:
    """The ports of a Service as in a manifest; raise ClusterError for one that cannot be read."""
    made: list[dict[str, Any]] = []
    for name, value in ports.items():
        number, slash, protocol = str(value).partition("/")
        if not number.isdigit() or (slash and not protocol):
            raise ClusterError(
                f'port "{name}" is {value!r}; write a number, or a number and a protocol such as "53/UDP"'
            )
        made.append({"name": name, "port": int(number), "protocol": protocol or "TCP"})
    return made
