"""EndpointSlices of a Service with a selector, as the EndpointSlice controller makes them.

Path: simulation.py (a Service and the pods of its namespace) -> here -> the store.
Source: k8s.io/kubernetes pkg/controller/endpointslice, k8s.io/endpointslice.
Rule 1: a slice has one address family and at most 100 endpoints; pods with different port numbers are in different
        slices.
Rule 2: a named targetPort is looked up in each pod by name and protocol; a pod without it lacks that port.
Rule 3: an endpoint has a hostname only if the pod has one and the pod's subdomain is this Service.
Rule 4: an endpoint is ready if publishNotReadyAddresses is set, or the pod is ready and not terminating.

EndpointSlices from Endpoints objects:
Source: k8s.io/kubernetes pkg/controller/endpointslicemirroring, which does this for Services without a selector; hsdns
also does it for dumps that contain Endpoints but no slices or pods.  pkg/api/v1/endpoints/util.go, by which the API
server packs subsets anew.
Rule 5: an address that two subsets have is the first of them in both, and for a port that one of them has among the
        addresses that are not ready, it is not ready.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from hsdns.cluster.controllers.address import FAMILIES, family_of, letters
from hsdns.cluster.controllers.kinds import EndpointAddress, Endpoints
from hsdns.cluster.controllers.workload import RunningPod
from hsdns.cluster.objects import (
    SERVICE_NAME_LABEL,
    Endpoint,
    EndpointConditions,
    EndpointPort,
    EndpointSlice,
    ObjectMeta,
    ObjectReference,
    Service,
    ServicePort,
)

MOST_ENDPOINTS = 100  # kube-controller-manager's --max-endpoints-per-slice
MANAGED_BY_LABEL = "endpointslice.kubernetes.io/managed-by"
HEADLESS_LABEL = "service.kubernetes.io/headless"
MIRRORING = "endpointslicemirroring-controller.k8s.io"
MADE_BY = {"endpointslice-controller.k8s.io", MIRRORING}
NO_ADDRESSES = "addressType FQDN has no defined meaning, and kube-proxy skips the slice"
SKIP_MIRROR = "endpointslice.kubernetes.io/skip-mirror"
LEADER = "control-plane.alpha.kubernetes.io/leader"  # of Endpoints that are a lock
_Ports = tuple[tuple[str, str, int], ...]  # name, protocol, number


def slices_of(service: Service, pods: Iterable[RunningPod], taken: set[str]) -> list[EndpointSlice]:
    """The slices of the selected pods; `taken` are the names of slices in the namespace."""
    families = service.spec.ip_families or [FAMILIES[0]]
    ordered = sorted(pods, key=lambda pod: _natural(pod.manifest.metadata.name))
    labels = dict(service.metadata.labels or {})
    if service.is_headless:
        labels[HEADLESS_LABEL] = ""
    made: list[EndpointSlice] = []
    for family in FAMILIES:
        if family not in families:
            continue
        groups: dict[_Ports, list[Endpoint]] = {}
        for pod in ordered:
            addresses = [each for each in pod.addresses if family_of(each) == family]
            if addresses:
                endpoint = _endpoint(service, pod, addresses)
                groups.setdefault(_ports(service, pod), []).append(endpoint)
        made += named_slices(
            service.metadata.namespace,
            service.metadata.name,
            {**labels, MANAGED_BY_LABEL: "endpointslice-controller.k8s.io"},
            family,
            [([EndpointPort(*each) for each in ports], of) for ports, of in sorted(groups.items())],
            taken,
        )
    return made


def named_slices(
    namespace: str,
    service: str,
    labels: dict[str, str],
    family: str,
    groups: Sequence[tuple[list[EndpointPort], list[Endpoint]]],
    taken: set[str],
) -> Iterator[EndpointSlice]:
    """Divide groups of endpoints into slices with names that are the same at every start."""
    for group, (ports, endpoints) in enumerate(groups):
        for at in range(0, len(endpoints), MOST_ENDPOINTS):
            seed = f"{namespace}/{service}/{family}/{group}/{at}"
            name = f"{service}-{letters(seed, 5)}"
            while name in taken:
                seed += "+"
                name = f"{service}-{letters(seed, 5)}"
            taken.add(name)
            yield EndpointSlice(
                metadata=ObjectMeta(
                    name=name, namespace=namespace, labels={**labels, SERVICE_NAME_LABEL: service}
                ),
                address_type=family,
                endpoints=endpoints[at : at + MOST_ENDPOINTS],
                ports=ports,
            )


def _endpoint(service: Service, pod: RunningPod, addresses: list[str]) -> Endpoint:
    meta, spec = pod.manifest.metadata, pod.manifest.spec
    published = bool(service.spec.publish_not_ready_addresses)
    has_hostname = bool(spec.hostname) and spec.subdomain == service.metadata.name
    return Endpoint(
        addresses=addresses,
        conditions=EndpointConditions(
            ready=published or (pod.ready and not pod.terminating),
            serving=pod.ready,
            terminating=pod.terminating,
        ),
        hostname=spec.hostname if has_hostname else None,
        target_ref=ObjectReference(kind="Pod", name=meta.name, namespace=meta.namespace),
        zone=pod.zone,
    )


def _ports(service: Service, pod: RunningPod) -> _Ports:
    found = []
    for port in service.spec.ports or ():
        number = _target_number(port, pod)
        if number is not None:
            found.append((port.name or "", port.protocol or "", number))
    return tuple(found)


def _target_number(port: ServicePort, pod: RunningPod) -> int | None:
    target = port.target_port
    if not isinstance(target, str):
        return target
    for each in pod.ports:
        if each.name == target and each.protocol == port.protocol:
            return each.container_port
    return None


def _natural(name: str) -> tuple[str, int, str]:
    """Order web-2 before web-10."""
    match = re.fullmatch(r"(.*-)([0-9]{1,9})", name)
    return (match[1], int(match[2]), name) if match else (name, -1, name)


def is_made(found: EndpointSlice) -> bool:
    """Whether a controller may have made a slice: its label names no other manager."""
    return (found.metadata.labels or {}).get(MANAGED_BY_LABEL, MIRRORING) in MADE_BY


def is_mirrored(endpoints: Endpoints) -> bool:
    """Whether the controller makes slices of an Endpoints object."""
    meta = endpoints.metadata
    return (meta.labels or {}).get(SKIP_MIRROR) != "true" and LEADER not in (meta.annotations or {})


def mirrored_slices(endpoints: Endpoints, taken: set[str]) -> list[EndpointSlice]:
    """The slices of an Endpoints object; `taken` are the names of slices in the namespace."""
    meta = endpoints.metadata
    labels = {**(meta.labels or {}), MANAGED_BY_LABEL: MIRRORING}
    packed = list(_packed(endpoints))
    made: list[EndpointSlice] = []
    for family in FAMILIES:
        groups = [
            (
                [EndpointPort(port.name or "", port.protocol, port.port) for port in ports],
                [_mirrored_endpoint(address, ready) for address, ready in listed],
            )
            for ports, found in packed
            if (listed := [each for each in found if family_of(each[0].ip) == family])
        ]
        made += named_slices(meta.namespace, meta.name, labels, family, groups, taken)
    return made


_Readiness = list[tuple[EndpointAddress, bool]]


def _packed(endpoints: Endpoints) -> Iterator[tuple[list[EndpointPort], _Readiness]]:
    """The ports that have the same addresses, with these and whether each is ready (Rule 5)."""
    first: dict[str, EndpointAddress] = {}
    by_port: dict[EndpointPort | None, dict[str, bool]] = {}
    for subset in endpoints.subsets or ():
        for port in subset.ports or (None,):
            found = by_port.setdefault(port, {})
            for listed, ready in ((subset.addresses, True), (subset.not_ready_addresses, False)):
                for address in listed or ():
                    first.setdefault(address.ip, address)
                    found[address.ip] = ready and found.get(address.ip, True)
    by_addresses: dict[tuple[tuple[str, bool], ...], list[EndpointPort]] = {}
    for port, found in by_port.items():
        ports = by_addresses.setdefault(tuple(found.items()), [])
        ports += [] if port is None else [port]
    for addresses, ports in by_addresses.items():
        yield ports, [(first[ip], ready) for ip, ready in addresses]


def _mirrored_endpoint(address: EndpointAddress, ready: bool) -> Endpoint:
    return Endpoint(
        addresses=[address.ip],
        conditions=EndpointConditions(ready=ready),
        hostname=address.hostname or None,
        target_ref=address.target_ref,
    )
