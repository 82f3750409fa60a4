"""A pod from manifests, or one that a workload in them would have, and the NetworkPolicies that select it.

Path: manifests.py, for read_pod() -> here -> cluster/controllers/.
Rule: the files are read again: a source of manifests keeps only what DNS needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Final

from hsdns.cluster.controllers.dns_service import KNOWN, USUAL, pod_ports
from hsdns.cluster.controllers.document import Document
from hsdns.cluster.controllers.kinds import NetworkPolicy
from hsdns.cluster.controllers.network_policy import NAME_LABEL, Peer, denied
from hsdns.cluster.controllers.simulation import running_pods
from hsdns.cluster.controllers.workload import RunningPod
from hsdns.cluster.objects import Namespace, Service, ServiceSpec
from hsdns.cluster.pod_reading import PodReading, PodUnreadable
from hsdns.corefile.tree import did_you_mean
from hsdns.sources.manifest_file import MAX_FILE_LEN, read_manifest_file
from hsdns.sources.manifest_folder import STANDARD_INPUT, manifest_paths
from hsdns.sources.standard_input import standard_input

USUAL_DNS: Final = "10.96.0.10"  # the cluster's DNS if no Service has its address


def read_pod(paths: Sequence[str], namespace: str, name: str) -> PodReading:
    """Find a pod in files and folders; raise PodUnreadable."""
    try:
        documents = _documents(paths)
    except OSError as error:
        raise PodUnreadable(f"{error.filename}: cannot be read: {error.strerror}") from None
    pods = {
        f"{pod.manifest.metadata.namespace}/{pod.manifest.metadata.name}": pod
        for pod in running_pods(documents)
    }
    path = f"{namespace}/{name}"
    if path not in pods:
        raise PodUnreadable(f"the source has no pod {path}{did_you_mean(path, pods)}")
    found = pods[path]
    return PodReading(
        found.manifest.spec,
        tuple(found.addresses),
        _denied(documents, found, list(pods.values())),
    )


def _denied(
    documents: Sequence[Document], pod: RunningPod, pods: Sequence[RunningPod]
) -> dict[str, str]:
    """What NetworkPolicies deny; if there is no Service for DNS, its Pods are assumed to be those of kube-dns."""
    objects = [each.object for each in documents]
    policies = [each for each in objects if isinstance(each, NetworkPolicy)]
    namespaces = [each.metadata for each in objects if isinstance(each, Namespace)]
    labels = {each.name: each.labels or {} for each in namespaces}

    def peer(
        namespace: str,
        own: Mapping[str, str],
        addresses: Sequence[str],
        ports: frozenset[int] = frozenset(),
    ) -> Peer:
        of_namespace = {NAME_LABEL: namespace, **labels.get(namespace, {})}
        return Peer(namespace, own, of_namespace, addresses, ports)

    kind, spec = USUAL, ServiceSpec()
    services = [each for each in objects if isinstance(each, Service)]
    for known, service in product(KNOWN, services):
        if known.is_named(service):
            kind, spec = known, service.spec
            break
    selector, address = spec.selector or kind.labels, spec.cluster_ip or USUAL_DNS
    found = [
        each
        for each in pods
        if each.manifest.metadata.namespace == kind.namespace
        and selector.items() <= each.labels.items()
    ]
    ports = pod_ports(spec, [port for each in found for port in each.ports], kind)
    servers = [
        peer(kind.namespace, each.labels, (*each.addresses, address), ports) for each in found
    ] or [peer(kind.namespace, selector, (address,), ports)]
    return denied(
        policies, peer(pod.manifest.metadata.namespace, pod.labels, pod.addresses), servers
    )


def _documents(paths: Sequence[str]) -> list[Document]:
    """All documents without errors; the source itself reports the errors of the others."""
    documents: list[Document] = []
    for path in manifest_paths(paths):
        if path == STANDARD_INPUT:
            given = standard_input()
            documents += given.documents if given is not None else []
            continue
        with open(path, "rb") as file:
            documents += read_manifest_file(file.read(MAX_FILE_LEN + 1), path).documents
    return documents
