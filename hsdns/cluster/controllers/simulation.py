"""The simulation: documents in, the objects of a settled cluster out.

Path: sources/manifests -> here -> the differences from the objects delivered before -> Store.apply.
Rule 1: objects in the input are used as they are; only missing ones are made.
Rule 2: the resource version of an object is a hash of its content, so unchanged objects are recognised.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import TypeVar

import msgspec

from hsdns.cluster.controllers.address import (
    HEADLESS,
    given_cluster_ips,
    pod_pools,
    service_pools,
    with_cluster_ips,
)
from hsdns.cluster.controllers.defaults import with_defaults
from hsdns.cluster.controllers.document import Document, is_ready_by_annotation
from hsdns.cluster.controllers.endpointslice import (
    is_made,
    is_mirrored,
    mirrored_slices,
    slices_of,
)
from hsdns.cluster.controllers.kinds import Endpoints, Node, PodManifest, Workload
from hsdns.cluster.controllers.workload import (
    TERMINAL,
    RunningPod,
    run_pod,
    status_addresses,
    workload_pods,
)
from hsdns.cluster.objects import (
    SERVICE_NAME_LABEL,
    EndpointSlice,
    Namespace,
    Object,
    ObjectMeta,
    Service,
    ServiceImport,
)

T = TypeVar("T", bound=msgspec.Struct)


def simulate(
    documents: Iterable[Document], warn: Callable[[str], None] = lambda sentence: None
) -> list[Object]:
    """The objects of the documents and of the controllers; `warn` takes sentences about what cannot be simulated."""
    unique = _unique(documents, warn)
    ordered = [unique[key] for key in sorted(unique)]
    nodes = _objects(ordered, Node)
    services = _objects(ordered, Service)
    given_slices = _objects(ordered, EndpointSlice)

    pods = _run_pods(ordered, nodes, given_slices, warn)
    taken_ips = (ip for service in services for ip in given_cluster_ips(service) if ip != HEADLESS)
    pools = service_pools(taken_ips)
    services = [with_cluster_ips(service, pools) for service in services]
    for service in services:
        if service.spec.type != "ExternalName" and not service.spec.cluster_ips:
            path = f"{service.metadata.namespace}/{service.metadata.name}"
            warn(f"no ClusterIP is left for Service {path}; set one with clusterIP")
    slices = given_slices + _missing_slices(
        services, given_slices, _objects(ordered, Endpoints), pods
    )

    imports = _objects(ordered, ServiceImport)
    made: list[Object] = [*_namespaces(ordered), *services, *slices, *imports]
    # Pods of phase Unknown are not requested from the API server either (CoreDNS 1.14.7 controller.go).
    made += [pod.to_object() for pod in pods if pod.manifest.status.phase != "Unknown"]
    return [_with_version(each) for each in made]


def running_pods(documents: Iterable[Document]) -> list[RunningPod]:
    """The pods in the documents, and those that their workloads would have."""
    unique = _unique(documents, lambda sentence: None)
    ordered = [unique[key] for key in sorted(unique)]
    slices = _objects(ordered, EndpointSlice)
    return _run_pods(ordered, _objects(ordered, Node), slices, lambda sentence: None)


def _unique(
    documents: Iterable[Document], warn: Callable[[str], None]
) -> dict[tuple[str, str, str], Document]:
    unique: dict[tuple[str, str, str], Document] = {}
    for document in documents:
        earlier = unique.get(document.key)
        if earlier is not None and document.object is not None:
            warn(
                f"{document.where}: {document} is already defined at {earlier.where}; this later one is used"
            )
        unique[document.key] = document
    return unique


def _objects(documents: Iterable[Document], kind: type[T]) -> list[T]:
    return [each.object for each in documents if isinstance(each.object, kind)]


def _run_pods(
    documents: list[Document],
    nodes: list[Node],
    slices: list[EndpointSlice],
    warn: Callable[[str], None],
) -> list[RunningPod]:
    manifests = _objects(documents, PodManifest)
    workloads = [
        (each.kind, each.object) for each in documents if isinstance(each.object, Workload)
    ]
    simulated = workload_pods(workloads, manifests, nodes)
    named = {(each.metadata.namespace, each.metadata.name) for each in manifests}
    todo = [(each, is_ready_by_annotation(each.metadata)) for each in manifests]
    # A pod in the input replaces the one of that name that its workload would make.
    todo += [
        each
        for each in simulated
        if (each[0].metadata.namespace, each[0].metadata.name) not in named
    ]
    todo.sort(key=lambda each: (each[0].metadata.namespace, each[0].metadata.name))
    todo = [each for each in todo if each[0].status.phase not in TERMINAL]

    taken = [address for each in manifests for address in status_addresses(each.status)]
    taken += [
        address.address
        for node in nodes
        for address in node.status.addresses or ()
        if address.type == "InternalIP"
    ]
    taken += [
        address
        for each in slices
        if each.address_type != "FQDN"
        for endpoint in each.endpoints or ()
        for address in endpoint.addresses or ()
    ]
    pools = pod_pools(taken)
    by_name = {node.metadata.name: node for node in nodes}
    pods = [run_pod(manifest, ready, pools, by_name) for manifest, ready in todo]
    pending = [pod for pod in pods if not pod.addresses and pod.manifest.status.phase is None]
    if pending:
        warn(
            f"the pod network has no address left for {len(pending)} pods; they stay without one, like pending pods"
        )
    return pods


def _missing_slices(
    services: list[Service],
    given: list[EndpointSlice],
    endpoints: list[Endpoints],
    pods: list[RunningPod],
) -> list[EndpointSlice]:
    has_slices = {
        (each.metadata.namespace, (each.metadata.labels or {}).get(SERVICE_NAME_LABEL))
        for each in given
        if is_made(each)
    }
    taken: defaultdict[str, set[str]] = defaultdict(set)
    for each in given:
        taken[each.metadata.namespace].add(each.metadata.name)
    by_label: defaultdict[tuple[str, str, str], list[RunningPod]] = defaultdict(list)
    for pod in pods:
        for label, value in pod.labels.items():
            by_label[pod.manifest.metadata.namespace, label, value].append(pod)
    by_service = {
        (each.metadata.namespace, each.metadata.name): each
        for each in endpoints
        if is_mirrored(each)
    }

    made: list[EndpointSlice] = []
    for service in services:
        key = namespace, _ = service.metadata.namespace, service.metadata.name
        if key in has_slices or service.spec.type == "ExternalName":
            continue
        selector = service.spec.selector or {}
        chosen: list[RunningPod] = []
        if selector:
            first = next(iter(selector.items()))
            chosen = [
                pod for pod in by_label[namespace, *first] if selector.items() <= pod.labels.items()
            ]
        if chosen:
            made += slices_of(service, chosen, taken[namespace])
        elif key in by_service:
            made += mirrored_slices(by_service[key], taken[namespace])
    return made


def _namespaces(documents: list[Document]) -> list[Namespace]:
    found = {each.metadata.name: each for each in _objects(documents, Namespace)}
    for name in sorted({each.namespace for each in documents} - {""}):
        found.setdefault(name, with_defaults("Namespace", Namespace(ObjectMeta(name=name))))
    return list(found.values())


def _with_version(each: Object) -> Object:
    bare = msgspec.structs.replace(each.metadata, resource_version="")
    content = msgspec.json.encode(msgspec.structs.replace(each, metadata=bare), order="sorted")
    version = blake2b(content, digest_size=8).hexdigest()
    metadata = msgspec.structs.replace(bare, resource_version=version)
    return msgspec.structs.replace(each, metadata=metadata)
