"""All objects that are checked together, and their relations.

Path: reading.py -> here -> checks/.
Rule 1: an object without a namespace may be in any: Helm and kustomize set it later.  So it is near all others.
Rule 2: without `is_whole` there may be unknown objects; a check has no findings that these could refute.
Rule 3: labels that controllers or programs set on pods are in no manifest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from hsdns.cluster.controllers.kinds import PodManifest, PodSpec, PodTemplate, Workload
from hsdns.cluster.objects import SERVICE_NAME_LABEL, Service
from hsdns.rules.corefile import CorefileText
from hsdns.rules.manifest import Manifest

T = TypeVar("T")

# Labels of pods that no template has.
MADE_LABELS: Final = frozenset(
    "statefulset.kubernetes.io/pod-name apps.kubernetes.io/pod-index pod-template-hash controller-revision-hash "
    "pod-template-generation batch.kubernetes.io/job-name job-name batch.kubernetes.io/controller-uid controller-uid "
    "batch.kubernetes.io/job-completion-index".split()
)
_TEMPLATES: Final = ("spec.template", "spec.jobTemplate.spec.template")


class Found(NamedTuple):
    """A manifest with its object, of one kind."""

    manifest: Manifest
    object: Any


class PodSet(NamedTuple):
    """The pods of a workload, or one Pod; `field` is the path of their spec, `replicas` None if it is not set."""

    manifest: Manifest
    labels: Mapping[str, str]
    spec: PodSpec
    field: str
    replicas: int | None

    def matches(self, selector: Mapping[str, str]) -> bool:
        """Whether a selector matches the labels of the pods in the manifest."""
        return all(
            self.labels.get(key) == value or key in MADE_LABELS for key, value in selector.items()
        )


class Objects:
    """The objects of some files; `is_whole` if the cluster has no others."""

    def __init__(
        self,
        manifests: Sequence[Manifest],
        corefiles: Sequence[CorefileText] = (),
        *,
        is_whole: bool = False,
    ) -> None:
        self.manifests = manifests
        self.corefiles = corefiles
        self.is_whole = is_whole

    def of(self, kind: str) -> list[Manifest]:
        """The valid manifests of a kind."""
        return [each for each in self._by_kind.get(kind, ()) if each.object is not None]

    @cached_property
    def _by_kind(self) -> dict[str, list[Manifest]]:
        found: defaultdict[str, list[Manifest]] = defaultdict(list)
        for each in self.manifests:
            found[each.kind].append(each)
        return found

    def written(self, kind: str) -> list[Manifest]:
        """All manifests of a kind, whether they are checked or not."""
        return self._by_kind.get(kind, [])

    @cached_property
    def services(self) -> list[tuple[Manifest, Service]]:
        """The Services."""
        return [
            (each, each.object) for each in self.of("Service") if isinstance(each.object, Service)
        ]

    @cached_property
    def service_names(self) -> dict[str, list[tuple[Manifest, Service]]]:
        """The Services by name, in any namespace."""
        found: defaultdict[str, list[tuple[Manifest, Service]]] = defaultdict(list)
        for manifest, service in self.services:
            found[manifest.name].append((manifest, service))
        return found

    def named(self, name: str, near: Manifest) -> list[tuple[Manifest, Service]]:
        """The Services with a name that may be in the namespace of an object."""
        return [each for each in self.service_names.get(name, ()) if is_near(each[0], near)]

    @cached_property
    def slices(self) -> dict[str, list[Manifest]]:
        """The EndpointSlices by the name of their Service, in any namespace."""
        found: defaultdict[str, list[Manifest]] = defaultdict(list)
        for each in self.of("EndpointSlice"):
            assert each.object is not None, "as valid ones have"
            found[(each.object.metadata.labels or {}).get(SERVICE_NAME_LABEL, "")].append(each)
        return found

    @cached_property
    def endpoints(self) -> dict[str, list[Manifest]]:
        """The Endpoints by name, in any namespace."""
        found: defaultdict[str, list[Manifest]] = defaultdict(list)
        for each in self.of("Endpoints"):
            found[each.name].append(each)
        return found

    @cached_property
    def pods(self) -> dict[str, list[Manifest]]:
        """The Pods by name, in any namespace."""
        found: defaultdict[str, list[Manifest]] = defaultdict(list)
        for each in self.of("Pod"):
            found[each.name].append(each)
        return found

    @cached_property
    def pod_sets(self) -> list[PodSet]:
        """The pods of all workloads, including kinds that are not checked but have a template."""
        return [each for manifest in self.manifests for each in _pods_of(manifest)]

    @cached_property
    def templates(self) -> list[PodSet]:
        """The pods as written: for pods made by a controller, its workload, or one of them."""
        present = {(each.kind, each.namespace, each.name) for each in self.manifests}
        found: dict[object, PodSet] = {}
        for pods in self.pod_sets:
            manifest, owned = pods.manifest, pods.manifest.object
            key: object = id(pods)
            if isinstance(owned, PodManifest | Workload) and owned.metadata.owner_references:
                owner = owned.metadata.owner_references[0]
                key = (owner.kind, manifest.namespace, owner.name)
                if key in present:
                    continue
            found.setdefault(key, pods)
        return list(found.values())

    @cached_property
    def _by_namespace(self) -> dict[str, list[int]]:
        """The positions of pod_sets."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        for position, pods in enumerate(self.pod_sets):
            found[pods.manifest.namespace].append(position)
        return found

    def near_pods(self, manifest: Manifest) -> list[tuple[str, list[int]]]:
        """The namespaces that an object may be in, with the positions of their pods among pod_sets."""
        own = manifest.namespace
        names = dict.fromkeys((own, "")) if own else self._by_namespace
        return [(each, self._by_namespace[each]) for each in names if each in self._by_namespace]

    @cached_property
    def _by_label(self) -> dict[tuple[str, str, str], list[int]]:
        """The positions of pod_sets by namespace and label, and by "*" and label in all namespaces."""
        found: defaultdict[tuple[str, str, str], list[int]] = defaultdict(list)
        for position, pods in enumerate(self.pod_sets):
            for label in pods.labels.items():
                found[pods.manifest.namespace, *label].append(position)
                found["*", *label].append(position)
        return found

    def selected(self, manifest: Manifest, selector: Mapping[str, str]) -> list[PodSet]:
        """The pods that the selector of a Service matches."""
        written = [each for each in selector.items() if each[0] not in MADE_LABELS]
        if not written:
            return [each for each in self.pod_sets if selector and is_near(each.manifest, manifest)]
        names = (manifest.namespace, "") if manifest.namespace else ("*",)
        fewest = min(
            ([self._by_label.get((name, *each), []) for name in names] for each in written),
            key=lambda parts: sum(map(len, parts)),
        )
        near = (self.pod_sets[each] for each in sorted(chain(*fewest)))
        return [each for each in near if each.matches(selector)]

    def services_of(self, pods: PodSet) -> Iterator[tuple[Manifest, Service]]:
        """The Services that select these pods."""
        for manifest, service in self._by_selector(pods):
            selector = service.spec.selector
            if selector and pods.matches(selector):
                yield manifest, service

    def _by_selector(self, pods: PodSet) -> Iterator[tuple[Manifest, Service]]:
        own = pods.manifest.namespace
        names = (own, "") if own else ("*",)
        for label in (*pods.labels.items(), ("", "")):
            parts = [self._by_first.get((name, *label), []) for name in names]
            yield from (self.services[each] for each in sorted(chain(*parts)))

    @cached_property
    def _by_first(self) -> dict[tuple[str, str, str], list[int]]:
        """The positions of Services as in _by_label, by the first label of their selector that is in templates."""
        found: defaultdict[tuple[str, str, str], list[int]] = defaultdict(list)
        for position, (manifest, service) in enumerate(self.services):
            selector = service.spec.selector or {}
            first = next(
                (item for item in selector.items() if item[0] not in MADE_LABELS), ("", "")
            )
            found[manifest.namespace, *first].append(position)
            found["*", *first].append(position)
        return found


def is_near(one: Manifest, other: Manifest) -> bool:
    """Whether two objects may be in the same namespace."""
    return one.namespace == other.namespace or not one.namespace or not other.namespace


def is_headless(service: Service) -> bool:
    """Whether a Service is headless."""
    return service.spec.type != "ExternalName" and service.spec.cluster_ip == "None"


def _pods_of(manifest: Manifest) -> Iterator[PodSet]:
    found = manifest.object
    if isinstance(found, PodManifest):
        yield PodSet(manifest, found.metadata.labels or {}, found.spec, "spec", 1)
    elif isinstance(found, Workload):
        template = found.spec.template
        replicas = found.spec.replicas if manifest.kind != "DaemonSet" else None
        yield PodSet(
            manifest, template.metadata.labels or {}, template.spec, "spec.template.spec", replicas
        )
    elif (
        found is None and manifest.refused is None and manifest.kind not in ("ConfigMap", "Secret")
    ):
        yield from _pods_of_others(manifest)


def _pods_of_others(manifest: Manifest) -> Iterator[PodSet]:
    for field in _TEMPLATES:
        value: Any = manifest.content
        for step in field.split("."):
            value = value.get(step) if isinstance(value, dict) else None
        if not isinstance(value, dict):
            continue
        try:
            template = msgspec.convert(value, PodTemplate)
        except msgspec.ValidationError:
            continue
        yield PodSet(manifest, template.metadata.labels or {}, template.spec, f"{field}.spec", None)
