"""The objects that causes are found in: of a namespace, of a cluster or of files, indexed by what leads to them.

Path: explanation/live.py, rules/objects.py (API objects with their kinds) -> here -> intended.py, behind.py.
Rule 1: namespaces and names are text as in the objects; a key is (namespace, name).
Rule 2: `unknown` has the plurals of kinds that were not read, each with the reason: that there is none of them is no
        cause.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final, NamedTuple

from hsdns.causes.labels import Neighbours
from hsdns.cluster.controllers.kinds import (
    Condition,
    Endpoints,
    Event,
    OwnedMeta,
    PodManifest,
    PodSpec,
    PodState,
    Workload,
)
from hsdns.cluster.objects import SERVICE_NAME_LABEL, EndpointSlice, Pod, Service

PODS: Final = "pods"
SLICES: Final = "endpointslices"
ENDPOINTS: Final = "endpoints"  # used like a plural: the slices of Services without selector, which no controller makes
MOST_OWNERS: Final = 4  # from a pod to what made what made it
Key = tuple[str, str]  # namespace and name


class Controlled(NamedTuple):
    """A workload with its kind, such as "Deployment", which its object does not have."""

    kind: str
    workload: Workload

    @property
    def name(self) -> str:
        """Its name."""
        return self.workload.metadata.name

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of its pods."""
        return self.workload.spec.template.metadata.labels or {}

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class Candidate(NamedTuple):
    """What a selector may mean, with its labels: "Deployment web", or "pod web-1" that belongs to no workload."""

    place: str
    name: str
    labels: Mapping[str, str]


class View:
    """Objects, each with its kind; those of other kinds are passed over.

    `is_live` if they are those of a cluster, which kubectl can change.
    """

    def __init__(
        self,
        objects: Iterable[tuple[str, object]] = (),
        unknown: Mapping[str, str] | None = None,
        *,
        is_live: bool = False,
    ) -> None:
        self.unknown, self.is_live = dict(unknown or {}), is_live
        self.domain = "cluster.local"  # of the cluster: kubeadm's default, as in most
        # The only namespaces that the server serves; all without any.
        self.exposed: Collection[str] = ()
        self.services: dict[Key, Service] = {}
        self.endpoints: dict[Key, Endpoints] = {}
        self._slices: defaultdict[Key, dict[str, EndpointSlice]] = defaultdict(dict)
        self._pods: defaultdict[str, list[PodManifest]] = defaultdict(list)
        self._workloads: defaultdict[str, list[Controlled]] = defaultdict(list)
        self._labelled: dict[str, Neighbours[Candidate]] = {}
        self.failures: dict[tuple[str, str, str], Event] = {}  # to create pods
        self.add(objects)

    def add(self, objects: Iterable[tuple[str, object]]) -> None:
        """Add objects, before any cause is looked for."""
        for kind, each in objects:
            if isinstance(each, Service):
                self.services[each.key] = each
            elif isinstance(each, EndpointSlice):
                owner = (each.metadata.labels or {}).get(SERVICE_NAME_LABEL)
                if owner is not None:
                    self._slices[each.metadata.namespace, owner][each.metadata.name] = each
            elif isinstance(each, Endpoints):
                self.endpoints[each.metadata.namespace, each.metadata.name] = each
            elif isinstance(each, PodManifest):
                self._pods[each.metadata.namespace].append(each)
            elif isinstance(each, Pod):
                self._pods[each.metadata.namespace].append(manifest_of(each))
            elif isinstance(each, Workload):
                self._workloads[each.metadata.namespace].append(Controlled(kind, each))
            elif isinstance(each, Event):
                about = each.involved_object
                self.failures[each.metadata.namespace, about.kind or "", about.name or ""] = each

    def slices(self, key: Key) -> list[EndpointSlice]:
        """The EndpointSlices of a Service."""
        return [*self._slices.get(key, {}).values()]

    def stray_slices(self) -> Iterator[EndpointSlice]:
        """The slices of Services that are not there."""
        for key, found in self._slices.items():
            if key not in self.services:
                yield from found.values()

    def pods(self, namespace: str) -> list[PodManifest]:
        """The pods of a namespace."""
        return self._pods.get(namespace, [])

    def workloads(self, namespace: str) -> list[Controlled]:
        """The workloads of a namespace."""
        return self._workloads.get(namespace, [])

    @property
    def namespaces(self) -> set[str]:
        """The namespaces with workloads or pods."""
        return {*self._workloads, *self._pods}

    def selected(self, namespace: str, selector: Mapping[str, str]) -> list[PodManifest]:
        """The pods that a selector matches; none if it is empty."""
        if not selector:
            return []
        near = min(
            (self._by_label.get((namespace, *pair), []) for pair in selector.items()), key=len
        )
        return [each for each in near if selector.items() <= (each.metadata.labels or {}).items()]

    def pod(self, namespace: str, name: str) -> PodManifest | None:
        """The pod of that name."""
        return self._by_name.get((namespace, name))

    def templates(self, namespace: str, selector: Mapping[str, str]) -> list[Controlled]:
        """The workloads whose pods a selector matches, those of another workload left out."""
        if not selector:
            return []
        near = (self._by_template.get((namespace, *pair), []) for pair in selector.items())
        return [each for each in min(near, key=len) if selector.items() <= each.labels.items()]

    def workload(self, namespace: str, kind: str, name: str) -> Controlled | None:
        """The workload of that kind and name."""
        return self._by_kind.get((namespace, kind, name))

    def labelled(self, namespace: str) -> Neighbours[Candidate]:
        """What a selector may mean: the workloads of a namespace, and its pods that belong to none of them."""
        if namespace not in self._labelled:
            self._labelled[namespace] = Neighbours(self._candidates(namespace))
        return self._labelled[namespace]

    def _candidates(self, namespace: str) -> Iterator[Candidate]:
        for found in self.workloads(namespace):
            if not found.workload.metadata.owner_references:
                yield Candidate(str(found), found.name, found.labels)
        for each in self.pods(namespace):
            if self.owner(each) is None:
                name = each.metadata.name
                yield Candidate(f"pod {name}", name, each.metadata.labels or {})

    def elsewhere(
        self, namespace: str, selector: Mapping[str, str]
    ) -> Iterator[tuple[str, Candidate]]:
        """What a selector matches in other namespaces."""
        for other, each in self._everywhere.get(next(iter(selector.items())), ()):
            if other != namespace and selector.items() <= each.labels.items():
                yield other, each

    def owner(self, pod: PodManifest) -> Controlled | None:
        """The workload that a pod belongs to: of a ReplicaSet the Deployment."""
        kind, name, namespace = "", "", pod.metadata.namespace
        owners = pod.metadata.owner_references
        for _ in range(MOST_OWNERS):
            if not owners:
                break
            kind, name = owners[0].kind, owners[0].name
            found = self._by_kind.get((namespace, kind, name))
            if found is None:
                break
            owners = found.workload.metadata.owner_references
        if kind == "ReplicaSet" and (namespace, kind, name) not in self._by_kind:
            hashed = (pod.metadata.labels or {}).get("pod-template-hash", "")
            kind, name = "Deployment", name.removesuffix(f"-{hashed}")
        return self._by_kind.get((namespace, kind, name))

    @cached_property
    def _by_label(self) -> dict[tuple[str, str, str], list[PodManifest]]:
        found: defaultdict[tuple[str, str, str], list[PodManifest]] = defaultdict(list)
        for namespace, pods in self._pods.items():
            for pod in pods:
                for pair in (pod.metadata.labels or {}).items():
                    found[namespace, *pair].append(pod)
        return found

    @cached_property
    def _by_template(self) -> dict[tuple[str, str, str], list[Controlled]]:
        found: defaultdict[tuple[str, str, str], list[Controlled]] = defaultdict(list)
        for namespace, listed in self._workloads.items():
            for each in listed:
                for pair in (
                    each.labels.items() if not each.workload.metadata.owner_references else ()
                ):
                    found[namespace, *pair].append(each)
        return found

    @cached_property
    def _everywhere(self) -> dict[tuple[str, str], list[tuple[str, Candidate]]]:
        """What selectors may mean by a label, with its namespace."""
        found: defaultdict[tuple[str, str], list[tuple[str, Candidate]]] = defaultdict(list)
        for namespace in sorted(self.namespaces):
            for each in self._candidates(namespace):
                for pair in each.labels.items():
                    found[pair].append((namespace, each))
        return found

    @cached_property
    def _by_name(self) -> dict[Key, PodManifest]:
        return {
            (namespace, each.metadata.name): each
            for namespace, pods in self._pods.items()
            for each in pods
        }

    @cached_property
    def _by_kind(self) -> dict[tuple[str, str, str], Controlled]:
        return {
            (namespace, each.kind, each.name): each
            for namespace, listed in self._workloads.items()
            for each in listed
        }


def manifest_of(pod: Pod) -> PodManifest:
    """A pod of which only what DNS needs is known."""
    meta, status = pod.metadata, pod.status
    conditions = [
        Condition(each.type, each.status, each.reason) for each in status.conditions or ()
    ]
    return PodManifest(
        OwnedMeta(
            meta.name,
            meta.namespace,
            labels=meta.labels,
            annotations=meta.annotations,
            deletion_timestamp=meta.deletion_timestamp,
        ),
        PodSpec(pod.spec.hostname, pod.spec.subdomain),
        PodState(status.phase, pod_ip=status.pod_ip, conditions=conditions),
    )
