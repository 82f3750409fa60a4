"""One document of a manifest, and its validation.

Path: sources/manifest_file -> here -> simulation.py.
Rule 1: what the API server would reject and DNS could not handle is rejected here, with a sentence.
Rule 2: an object without a namespace is in `default`, as with kubectl.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import NamedTuple

import msgspec

from hsdns.cluster.controllers.kinds import CLUSTER_SCOPED, Manifest, PodManifest, Workload
from hsdns.cluster.objects import EndpointSlice, ObjectMeta, Service

READY = "hsdns.io/ready"
NOT_READY = "hsdns.io/not-ready"
# The addresses of 10.244.0.0/16 without .0 and .255, one for each replica.
MOST_PODS = 65_024
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_INDICES = re.compile(r"\s*[0-9]{1,9}(\s*,\s*[0-9]{1,9})*\s*")


class Document(NamedTuple):
    """An object with its `file:line`; `object` is None for a kind that only contributes its namespace."""

    kind: str
    namespace: str  # "" for cluster-scoped objects
    name: str
    object: Manifest | None
    where: str

    @property
    def key(self) -> tuple[str, str, str]:
        """Kind, namespace and name: two documents with the same ones are the same object."""
        return self.kind, self.namespace, self.name

    def __str__(self) -> str:
        path = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {path}"


class Refused(Exception):
    """Invalid content of a document, without its `file:line`; `field` is a path such as `spec.ports[0].port`."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field


def check_document(kind: str, manifest: Manifest, where: str) -> Document:
    """Validate a decoded object; raise Refused."""
    metadata = manifest.metadata
    if not metadata.name:
        raise Refused(
            "metadata.name",
            "the name is missing; add one (generateName is not supported)",
        )
    if len(metadata.name) > 253 or not _SUBDOMAIN.fullmatch(metadata.name):
        raise Refused(
            "metadata.name",
            f'"{metadata.name}" is not a valid name; use lower-case letters, digits, "-" and "."',
        )
    if kind in {"Service", "Namespace", "ServiceImport"}:
        _check_label("metadata.name", metadata.name)
    if kind in CLUSTER_SCOPED:
        namespace = ""
    else:
        namespace = metadata.namespace or "default"
        _check_label("metadata.namespace", namespace)
    if metadata.namespace != namespace:
        metadata = msgspec.structs.replace(metadata, namespace=namespace)
        manifest = msgspec.structs.replace(manifest, metadata=metadata)
    if isinstance(manifest, Service):
        _check_service(manifest)
    elif isinstance(manifest, EndpointSlice):
        if not manifest.address_type:
            raise Refused("addressType", "the address type is missing; write IPv4, IPv6 or FQDN")
    elif isinstance(manifest, PodManifest):
        _check_pod(manifest)
    elif isinstance(manifest, Workload):
        _check_workload(kind, manifest)
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


def _check_label(field: str, text: str) -> None:
    if not _LABEL.fullmatch(text):
        raise Refused(
            field,
            f'"{text}" is not a DNS label; use at most 63 lower-case letters, digits and "-", without "-" at the ends',
        )


def _check_service(service: Service) -> None:
    spec = service.spec
    for field, addresses in (
        ("spec.clusterIP", [spec.cluster_ip or ""]),
        ("spec.clusterIPs", spec.cluster_ips or []),
    ):
        for address in addresses:
            if address not in {"", "None"}:
                _check_address(field, address)
    for index, family in enumerate(spec.ip_families or []):
        if family not in {"IPv4", "IPv6"}:
            raise Refused(
                f"spec.ipFamilies[{index}]",
                f'"{family}" is not an address family; write IPv4 or IPv6',
            )
    if spec.type == "ExternalName" and not spec.external_name:
        raise Refused(
            "spec.externalName",
            "a Service of type ExternalName needs a target; add externalName",
        )


def _check_pod(pod: PodManifest) -> None:
    _check_annotations("metadata.annotations", pod.metadata)
    for field, address in [
        ("status.podIP", pod.status.pod_ip or ""),
        *(
            (f"status.podIPs[{index}]", each.ip)
            for index, each in enumerate(pod.status.pod_ips or [])
        ),
    ]:
        if address:
            _check_address(field, address)


def _check_workload(kind: str, workload: Workload) -> None:
    spec = workload.spec
    for field in ("replicas", "parallelism", "completions"):
        count = getattr(spec, field)
        if count is None:
            continue
        if count < 0:
            raise Refused(f"spec.{field}", f"{count} is below zero; write 0 or more")
        # The completions of a Job are not the number of pods that run at the same time.
        if count > MOST_PODS and field != "completions":
            raise Refused(
                f"spec.{field}",
                f"{count} is more than the {MOST_PODS} addresses of the pod network; write a lower number",
            )
    if spec.ordinals.start < 0:
        raise Refused(
            "spec.ordinals.start", f"{spec.ordinals.start} is below zero; write 0 or more"
        )
    if kind == "StatefulSet" and spec.service_name:
        _check_label("spec.serviceName", spec.service_name)
    _check_annotations("metadata.annotations", workload.metadata)
    _check_annotations("spec.template.metadata.annotations", spec.template.metadata)


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


def _check_address(field: str, text: str) -> None:
    try:
        ip_address(text)
    except ValueError:
        raise Refused(
            field, f'"{text}" is not an IP address; write one such as 10.96.0.10'
        ) from None
