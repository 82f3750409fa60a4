"""Pods: those in the manifests, and those that workloads would have.

Path: simulation.py -> here -> endpointslice.py and `pods verified`.
Rule 1: a pod with a status is used as it is; one without gets an address, and is ready unless an annotation says
        otherwise.
Rule 2: a workload that owns pods in the input gets no others: the input is a dump of a real cluster.
Rule 3: pods are named as the controllers name them (k8s.io/kubernetes pkg/controller): StatefulSet NAME-ORDINAL,
        Deployment NAME-HASH-XXXXX, ReplicaSet, DaemonSet and Job NAME-XXXXX, indexed Job NAME-INDEX-XXXXX; what is
        before XXXXX is cut to MAX_STEM characters.
Rule 4: a StatefulSet whose name is longer than MAX_SET_NAME has no pods: their label of its revision would be too long.
Rule 5: a workload whose status says that it cannot create pods, or that its Job has ended, has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from hsdns.cluster.controllers.address import FAMILIES, AddressPool, letters
from hsdns.cluster.controllers.document import (
    NOT_READY,
    READY,
    is_ready_by_annotation,
    not_ready_indices,
)
from hsdns.cluster.controllers.kinds import (
    ContainerPort,
    Node,
    OwnedMeta,
    PodManifest,
    PodState,
    Workload,
)
from hsdns.cluster.objects import ObjectMeta, Pod, PodCondition, PodNames, PodStatus

TERMINAL = frozenset({"Succeeded", "Failed"})
NO_PODS = frozenset({"ReplicaFailure", "Complete", "Failed"})  # conditions of workloads and Jobs
MAX_STEM = 58  # characters; with five more it is a DNS label
MAX_SET_NAME = 52  # characters; the revision has "-" and mostly ten digits, and the value of a label 63 characters
GATES = "ReadinessGatesNotReady"  # the kubelet's reason


class RunningPod(msgspec.Struct, frozen=True):
    """A pod with its addresses, its readiness and the topology zone of its node."""

    manifest: PodManifest
    addresses: tuple[str, ...]
    ready: bool
    zone: str | None

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels, for selectors."""
        return self.manifest.metadata.labels or {}

    @property
    def terminating(self) -> bool:
        """Whether the pod is being deleted."""
        return self.manifest.metadata.deletion_timestamp is not None

    @property
    def ports(self) -> Iterator[ContainerPort]:
        """The ports of all containers, including sidecars."""
        spec = self.manifest.spec
        for container in spec.containers or ():
            yield from container.ports or ()
        for container in spec.init_containers or ():
            if container.restart_policy == "Always":
                yield from container.ports or ()

    def to_object(self) -> Pod:
        """The pod with the fields that DNS needs."""
        meta, spec = self.manifest.metadata, self.manifest.spec
        reason = GATES if spec.readiness_gates else f"{READY} or {NOT_READY}"
        made = [] if self.ready else [PodCondition("Ready", "False", reason)]
        return Pod(
            metadata=ObjectMeta(
                name=meta.name,
                namespace=meta.namespace,
                uid=meta.uid,
                labels=meta.labels,
                annotations=meta.annotations,
                deletion_timestamp=meta.deletion_timestamp,
            ),
            status=PodStatus(
                pod_ip=self.addresses[0] if self.addresses else None,
                phase=self.manifest.status.phase or "Running",
                conditions=[
                    PodCondition(each.type, each.status, each.reason)
                    for each in self.manifest.status.conditions or ()
                ]
                or made,
            ),
            spec=PodNames(spec.hostname, spec.subdomain),
        )


def workload_pods(
    workloads: Iterable[tuple[str, Workload]], pods: Iterable[PodManifest], nodes: list[Node]
) -> list[tuple[PodManifest, bool]]:
    """The pods that the workloads (kind and object) would have, and whether each is ready."""
    listed = list(workloads)
    present = {(kind, each.metadata.namespace, each.metadata.name) for kind, each in listed}
    owners = set()
    for pod in pods:
        hash_label = (pod.metadata.labels or {}).get("pod-template-hash")
        for owner in pod.metadata.owner_references or ():
            owners.add((owner.kind, pod.metadata.namespace, owner.name))
            if owner.kind == "ReplicaSet" and hash_label:
                deployment = owner.name.removesuffix(f"-{hash_label}")
                owners.add(("Deployment", pod.metadata.namespace, deployment))
    made: list[tuple[PodManifest, bool]] = []
    for kind, workload in listed:
        namespace = workload.metadata.namespace
        if (kind, namespace, workload.metadata.name) in owners or _is_without_pods(workload):
            continue
        # A ReplicaSet of a Deployment in the input has the same pods as that Deployment.
        if any(
            (owner.kind, namespace, owner.name) in present
            for owner in workload.metadata.owner_references or ()
        ):
            continue
        made.extend(_pods_of(kind, workload, nodes))
    return made


def _is_without_pods(workload: Workload) -> bool:
    """Whether a status, which only a real cluster writes, says that it has none (Rule 5)."""
    listed = workload.status.conditions or ()
    return any(each.type in NO_PODS and each.status == "True" for each in listed)


def run_pod(
    manifest: PodManifest, ready: bool, pools: Mapping[str, AddressPool], nodes: Mapping[str, Node]
) -> RunningPod:
    """Set the addresses and readiness of a pod, unless its status has them; `ready` is for pods without status."""
    status = manifest.status
    node = nodes.get(manifest.spec.node_name or "")
    zone = (node.metadata.labels or {}).get("topology.kubernetes.io/zone") if node else None
    observed = status.phase is not None or status.conditions is not None
    if observed:
        ready = any(
            each.type == "Ready" and each.status == "True" for each in status.conditions or ()
        )
    elif manifest.spec.readiness_gates and READY not in (manifest.metadata.annotations or {}):
        ready = False  # what sets their conditions is no controller of Kubernetes
    addresses = status_addresses(status)
    if not addresses and not observed:
        addresses = _node_addresses(node) if manifest.spec.host_network else ()
        if not addresses:
            owner = f"{manifest.metadata.namespace}/{manifest.metadata.name}"
            claimed = [pools[family].allocate(owner) for family in FAMILIES]
            addresses = tuple(address for address in claimed if address is not None)
            if len(addresses) < len(claimed):
                addresses = ()  # a pod stays pending until it has an address of every family
    return RunningPod(manifest, addresses, ready, zone)


def has_ended(found: object) -> bool:
    """Whether an object is a pod that runs no more."""
    return isinstance(found, PodManifest) and found.status.phase in TERMINAL


def status_addresses(status: PodState) -> tuple[str, ...]:
    """The addresses in a status, the primary one first."""
    return tuple(each.ip for each in status.pod_ips or () if each.ip)


def _node_addresses(node: Node | None) -> tuple[str, ...]:
    if node is None:
        return ()
    return tuple(each.address for each in node.status.addresses or () if each.type == "InternalIP")


def _pods_of(
    kind: str, workload: Workload, nodes: list[Node]
) -> Iterator[tuple[PodManifest, bool]]:
    spec, meta = workload.spec, workload.metadata
    seed = f"{meta.namespace}/{meta.name}"
    unready = not_ready_indices(spec.template.metadata, meta)
    ready = is_ready_by_annotation(spec.template.metadata, meta)
    for index, name, labels, hostname in _identities(kind, workload, seed, nodes):
        pod_spec = spec.template.spec
        if kind == "StatefulSet":
            pod_spec = msgspec.structs.replace(pod_spec, subdomain=spec.service_name)
        if hostname is not None:
            pod_spec = msgspec.structs.replace(pod_spec, hostname=hostname)
        if nodes and pod_spec.node_name is None:
            place = nodes[index % len(nodes)].metadata.name
            pod_spec = msgspec.structs.replace(pod_spec, node_name=place)
        template_meta = spec.template.metadata
        metadata = OwnedMeta(
            name=name,
            namespace=meta.namespace,
            labels={**(template_meta.labels or {}), **labels},
            annotations=template_meta.annotations,
        )
        yield PodManifest(metadata, pod_spec), ready and index not in unready


def _identities(
    kind: str, workload: Workload, seed: str, nodes: list[Node]
) -> Iterator[tuple[int, str, dict[str, str], str | None]]:
    """Index (ordinal), name, additional labels and hostname of each pod."""
    spec, base = workload.spec, workload.metadata.name
    replicas = spec.replicas or 0
    if kind == "StatefulSet":
        replicas = 0 if len(base) > MAX_SET_NAME else replicas
        for ordinal in range(spec.ordinals.start, spec.ordinals.start + replicas):
            name = f"{base}-{ordinal}"
            labels = {
                "statefulset.kubernetes.io/pod-name": name,
                "apps.kubernetes.io/pod-index": str(ordinal),
            }
            yield ordinal, name, labels, name
        return
    if kind == "Job":
        parallelism = spec.parallelism or 0
        # Without completions the first pod that succeeds ends the Job, and all run at the same time.
        running = parallelism if spec.completions is None else min(parallelism, spec.completions)
        indexed = spec.completion_mode == "Indexed"
        for index in range(0 if spec.suspend else running):
            labels = {"batch.kubernetes.io/job-name": base, "job-name": base}
            hostname, end = None, "-"
            if indexed:
                labels["batch.kubernetes.io/job-completion-index"] = str(index)
                hostname, end = f"{base}-{index}", f"-{index}-"
            stem = f"{base[: MAX_STEM - len(end)]}{end}"
            yield index, f"{stem}{letters(f'{seed}/{index}', 5)}", labels, hostname
        return
    labels = {}
    if kind == "Deployment":
        template_hash = letters(seed, 10)
        base = f"{base}-{template_hash}"
        labels = {"pod-template-hash": template_hash}
    stem = f"{base}-"[:MAX_STEM]
    if kind == "DaemonSet":
        # Named after its node, so that another node does not change the other pods.
        for index, node in enumerate([each.metadata.name for each in nodes] or [""]):
            yield index, f"{stem}{letters(f'{seed}/{node}', 5)}", labels, None
        return
    for index in range(replicas):
        yield index, f"{stem}{letters(f'{seed}/{index}', 5)}", labels, None
