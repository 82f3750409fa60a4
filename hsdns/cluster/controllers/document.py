"""One document of a manifest: its identity, its defaults and its validation.

Path: sources/manifest_file -> here (defaults.py, validation.py) -> simulation.py.
Rule 1: what the API server would refuse and the answers depend on is refused here, with a sentence; but what an API
        server has kept, such as a value of an old version, is only noted, and the store leaves out what it cannot use.
Rule 2: an object without a namespace is in `default`, as with kubectl.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from hsdns.cluster.controllers.defaults import Refused, check_label, check_name, with_defaults
from hsdns.cluster.controllers.kinds import CLUSTER_SCOPED, Manifest, PodManifest, Workload
from hsdns.cluster.controllers.validation import validate
from hsdns.cluster.objects import ObjectMeta

READY = "hsdns.io/ready"
NOT_READY = "hsdns.io/not-ready"
_ONE_LABEL = frozenset({"Service", "Namespace", "ServiceImport"})
_INDICES = re.compile(r"\s*[0-9]{1,9}(\s*,\s*[0-9]{1,9})*\s*")


class Document(NamedTuple):
    """An object with its `file:line`; `object` is None for a kind of which only the namespace is used."""

    kind: str
    namespace: str  # "" for cluster-scoped objects
    name: str
    object: Manifest | None
    where: str

    @property
    def key(self) -> tuple[str, str, str]:
        """Kind, namespace and name: two documents with the same key describe the same object."""
        return self.kind, self.namespace, self.name

    def __str__(self) -> str:
        path = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {path}"


def two_clusters(namespaces: Iterable[tuple[str, str, str]]) -> str:
    """The sentence about Namespaces of two clusters, "" if there are none; each has a name, a uid and a place.

    One that is never made anew has another uid in each.
    """
    firsts: dict[str, tuple[str, str]] = {}
    for name, uid, where in namespaces:
        if name not in ("kube-system", "default") or not uid:
            continue
        first, place = firsts.setdefault(name, (uid, where))
        if first != uid:
            return f"{place} and {where} are of two clusters, as Namespace {name} has another uid in each; name one"
    return ""


def check_document(
    kind: str, manifest: Manifest, where: str, keep: Callable[[Refused], object] | None = None
) -> Document:
    """Complete and validate a decoded object; raise Refused, or for a value of an API server's object call `keep`."""
    metadata = manifest.metadata
    if not metadata.name:
        raise Refused(
            "metadata.name",
            "the name is missing; add one (generateName is not supported)",
        )
    if kind in _ONE_LABEL:
        check_label("metadata.name", metadata.name)
    else:
        check_name("metadata.name", metadata.name)
    if kind in CLUSTER_SCOPED:
        namespace = ""
    else:
        namespace = metadata.namespace or "default"
        check_label("metadata.namespace", namespace)
    if metadata.namespace != namespace:
        metadata = msgspec.structs.replace(metadata, namespace=namespace)
        manifest = msgspec.structs.replace(manifest, metadata=metadata)
    manifest = with_defaults(kind, manifest)
    try:
        validate(kind, manifest)
    except Refused as fault:
        if keep is None:
            raise
        keep(fault)
    if isinstance(manifest, PodManifest | Workload):
        _check_annotations("metadata.annotations", metadata)
    if isinstance(manifest, Workload):
        _check_annotations("spec.template.metadata.annotations", manifest.spec.template.metadata)
    return Document(kind, namespace, metadata.name, manifest, where)


def not_ready_indices(*metadata: ObjectMeta) -> frozenset[int]:
    """The ordinals in the annotation; the first metadata that has it counts."""
    text = _annotation(NOT_READY, metadata)
    return frozenset(int(word) for word in text.split(",")) if text else frozenset()


def is_ready_by_annotation(*metadata: ObjectMeta) -> bool:
    """False if the annotation makes pods not ready; the first metadata that has it counts."""
    return _annotation(READY, metadata) != "false"


def _annotation(name: str, metadata: tuple[ObjectMeta, ...]) -> str:
    for each in metadata:
        if each.annotations and name in each.annotations:
            return each.annotations[name]
    return ""


def _check_annotations(field: str, metadata: ObjectMeta) -> None:
    annotations = metadata.annotations or {}
    ready = annotations.get(READY, "true")
    if ready not in {"true", "false"}:
        raise Refused(field, f'{READY} is "{ready}"; write "true" or "false"')
    indices = annotations.get(NOT_READY)
    if indices is not None and not _INDICES.fullmatch(indices):
        raise Refused(
            field, f'{NOT_READY} is "{indices}"; write the indices of pods, such as "1,2"'
        )
