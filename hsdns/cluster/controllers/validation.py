"""Validation of an object: refuses what the API server refuses, in the fields that the answers depend on.

Path: document.py (an object with its defaults) -> here -> Refused, or nothing.
Source: k8s.io/kubernetes 1.36 pkg/apis/{core,discovery,apps}/validation/validation.go.
Rule 1: fields that DNS and the simulated controllers do not read are not checked, and fields that they do not need may
        be missing: containers, images, selectors of workloads, the ports of a Service.
Rule 2: stricter than the API server in one point: a port that no SRV record can hold is refused in every kind; the API
        server stores any number in an EndpointSlice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from hsdns.cluster.controllers.address import FAMILIES, family_of
from hsdns.cluster.controllers.defaults import (
    PROTOCOLS,
    Refused,
    check_address,
    check_choice,
    check_domain,
    check_endpoint_address,
    check_label,
    check_labels,
    check_port,
    check_port_name,
    check_unique,
)
from hsdns.cluster.controllers.kinds import Endpoints, Manifest, PodManifest, PodSpec, Workload
from hsdns.cluster.objects import (
    EndpointPort,
    EndpointSlice,
    Service,
    ServiceImport,
    ServicePort,
    ServiceSpec,
)

# The number of addresses in 10.244.0.0/16 without .0 and .255: each replica needs one.
MOST_PODS: Final = 65_024
_HEADLESS: Final = "None"
_SERVICE_TYPES: Final = ("ClusterIP", "NodePort", "LoadBalancer", "ExternalName")
_POLICIES: Final = ("SingleStack", "PreferDualStack", "RequireDualStack")
_CLUSTER_IP: Final = "write one such as 10.96.0.10, or None for a headless Service"


def validate(kind: str, found: Manifest) -> None:
    """Raise Refused for the first invalid value of an object."""
    check_labels("metadata.labels", found.metadata.labels)
    if isinstance(found, Service):
        _check_service(found)
    elif isinstance(found, EndpointSlice):
        _check_slice(found)
    elif isinstance(found, Endpoints):
        _check_endpoints(found)
    elif isinstance(found, ServiceImport):
        _check_import(found)
    elif isinstance(found, PodManifest):
        _check_pod(found)
    elif isinstance(found, Workload):
        _check_workload(kind, found)


# Service


def _check_service(service: Service) -> None:
    spec = service.spec
    check_choice("spec.type", spec.type or "", "a type of Service", _SERVICE_TYPES)
    if spec.type == "ExternalName":
        _check_external_name(spec)
    else:
        _check_cluster_ips(spec)
    _check_service_ports(spec.ports or ())
    check_labels("spec.selector", spec.selector)
    for index, address in enumerate(spec.external_ips or ()):
        check_endpoint_address(f"spec.externalIPs[{index}]", address)
    balancer = service.status.load_balancer if service.status else None
    for index, ingress in enumerate((balancer.ingress if balancer else None) or ()):
        field = f"status.loadBalancer.ingress[{index}]"
        if ingress.ip:
            check_address(f"{field}.ip", ingress.ip)
        if ingress.hostname:
            check_domain(f"{field}.hostname", ingress.hostname)


def _check_external_name(spec: ServiceSpec) -> None:
    if not spec.external_name or spec.external_name == ".":
        raise Refused(
            "spec.externalName",
            "a Service of type ExternalName needs a target; add externalName",
        )
    check_domain("spec.externalName", spec.external_name)
    for field, value in (
        ("clusterIP" if spec.cluster_ip else "clusterIPs", spec.cluster_ips),
        ("ipFamilies", spec.ip_families),
        ("ipFamilyPolicy", spec.ip_family_policy),
    ):
        if value:
            raise Refused(f"spec.{field}", "a Service of type ExternalName has none; remove it")


def _check_cluster_ips(spec: ServiceSpec) -> None:
    listed, families = spec.cluster_ips or [], spec.ip_families or []
    if listed and listed[0] != (spec.cluster_ip or ""):
        raise Refused(
            "spec.clusterIPs" if spec.cluster_ip else "spec",
            f'clusterIPs begins with "{listed[0]}", clusterIP is "{spec.cluster_ip or ""}"; write the same in both',
        )
    for index, address in enumerate(listed):
        field = f"spec.clusterIPs[{index}]" if len(listed) > 1 else "spec.clusterIP"
        if address == _HEADLESS and len(listed) == 1:
            if spec.type != "ClusterIP":
                raise Refused(
                    field, f"None is for Services of type ClusterIP, not {spec.type}; remove it"
                )
        else:
            check_address(field, address, _CLUSTER_IP)
    for index, family in enumerate(families):
        field = f"spec.ipFamilies[{index}]"
        check_choice(field, family, "an address family", FAMILIES)
        check_unique(field, family, families[:index], "the address family")
    policy = spec.ip_family_policy or ""
    check_choice("spec.ipFamilyPolicy", policy, "a policy for address families", _POLICIES)
    found = [] if listed == [_HEADLESS] else [family_of(address) for address in listed]
    if len(found) > len(FAMILIES) or len(set(found)) < len(found):
        raise Refused("spec.clusterIPs", "there may be one address of each family; remove one")
    for index, (actual, wanted) in enumerate(zip(found, families, strict=False)):
        if actual != wanted:
            raise Refused(
                f"spec.clusterIPs[{index}]",
                f'"{listed[index]}" is not of ipFamilies[{index}], {wanted}; correct one of them',
            )
    if policy == "SingleStack" and max(len(found), len(families)) > 1:
        raise Refused(
            "spec.ipFamilyPolicy",
            "a Service with two address families is not SingleStack; write ipFamilyPolicy: PreferDualStack",
        )


def _check_service_ports(ports: Iterable[ServicePort]) -> None:
    listed = list(ports)
    names: set[str] = set()
    numbers: set[tuple[str | None, int]] = set()
    for index, port in enumerate(listed):
        field = f"spec.ports[{index}]"
        _check_name_of_port(field, port.name, names, needed=len(listed) > 1)
        check_port(f"{field}.port", port.port)
        check_choice(f"{field}.protocol", port.protocol or "", "a protocol", PROTOCOLS)
        if isinstance(port.target_port, str):
            check_port_name(f"{field}.targetPort", port.target_port)
        elif port.target_port is not None:
            check_port(f"{field}.targetPort", port.target_port)
        if (port.protocol, port.port) in numbers:
            raise Refused(
                f"{field}.port", f"port {port.port}/{port.protocol} is listed twice; remove one"
            )
        numbers.add((port.protocol, port.port))


def _check_name_of_port(field: str, name: str | None, before: set[str], needed: bool) -> None:
    if name:
        check_label(f"{field}.name", name)
        check_unique(f"{field}.name", name, before, "the name")
        before.add(name)
    elif needed:
        raise Refused(f"{field}.name", "each of several ports needs a name; add one")


# EndpointSlice, Endpoints and ServiceImport


def _check_slice(found: EndpointSlice) -> None:
    if not found.address_type:
        raise Refused("addressType", "the address type is missing; write IPv4, IPv6 or FQDN")
    check_choice("addressType", found.address_type, "an address type", (*FAMILIES, "FQDN"))
    for index, endpoint in enumerate(found.endpoints or ()):
        field = f"endpoints[{index}]"
        if not endpoint.addresses:
            raise Refused(f"{field}.addresses", "an endpoint needs an address; add one")
        for at, address in enumerate(endpoint.addresses):
            if found.address_type == "FQDN":
                check_domain(f"{field}.addresses[{at}]", address)
            else:
                check_endpoint_address(f"{field}.addresses[{at}]", address, found.address_type)
        if endpoint.hostname is not None:
            check_label(f"{field}.hostname", endpoint.hostname)
    names: set[str] = set()
    for index, port in enumerate(found.ports or ()):
        field = f"ports[{index}]"
        if not port.name and "" in names:
            raise Refused(f"{field}.name", "two ports have no name; add one")
        _check_name_of_port(field, port.name, names, needed=False)
        names.add(port.name or "")
        _check_endpoint_port(field, port, lowest=0)


def _check_endpoints(found: Endpoints) -> None:
    for index, subset in enumerate(found.subsets or ()):
        of = f"subsets[{index}]"
        listed = {"addresses": subset.addresses, "notReadyAddresses": subset.not_ready_addresses}
        for name, addresses in listed.items():
            for at, address in enumerate(addresses or ()):
                check_endpoint_address(f"{of}.{name}[{at}].ip", address.ip)
                if address.hostname:
                    check_label(f"{of}.{name}[{at}].hostname", address.hostname)
        ports = subset.ports or []
        for at, port in enumerate(ports):
            _check_name_of_port(f"{of}.ports[{at}]", port.name, set(), needed=len(ports) > 1)
            _check_endpoint_port(f"{of}.ports[{at}]", port, lowest=1)


def _check_endpoint_port(field: str, port: EndpointPort, lowest: int) -> None:
    if port.port is not None:
        check_port(f"{field}.port", port.port, lowest)
    check_choice(f"{field}.protocol", port.protocol or "", "a protocol", PROTOCOLS)


def _check_import(found: ServiceImport) -> None:
    if found.spec.type is not None:
        check_choice(
            "spec.type", found.spec.type, "a type of ServiceImport", ("ClusterSetIP", "Headless")
        )
    for index, port in enumerate(found.spec.ports or ()):
        check_port(f"spec.ports[{index}].port", port.port, 0)


# Pod and the workloads


def _check_pod(pod: PodManifest) -> None:
    _check_pod_spec("spec", pod.spec, has_hostname=True)
    status = pod.status
    if status.pod_ip:
        check_address("status.podIP", status.pod_ip)
    for index, each in enumerate(status.pod_ips or ()):
        if each.ip:
            check_address(f"status.podIPs[{index}]", each.ip)


def _check_pod_spec(field: str, spec: PodSpec, has_hostname: bool) -> None:
    if has_hostname:
        for name, label in (("hostname", spec.hostname), ("subdomain", spec.subdomain)):
            if label:
                check_label(f"{field}.{name}", label)
    for containers, listed in (
        ("containers", spec.containers),
        ("initContainers", spec.init_containers),
    ):
        for index, container in enumerate(listed or ()):
            names: set[str] = set()
            for at, port in enumerate(container.ports or ()):
                of = f"{field}.{containers}[{index}].ports[{at}]"
                if port.name:
                    check_port_name(f"{of}.name", port.name)
                    check_unique(f"{of}.name", port.name, names, "the name")
                    names.add(port.name)
                check_port(f"{of}.containerPort", port.container_port)
                check_choice(f"{of}.protocol", port.protocol or "", "a protocol", PROTOCOLS)


def _check_workload(kind: str, workload: Workload) -> None:
    spec = workload.spec
    for field, count in _counts(workload):
        if count < 0:
            raise Refused(field, f"{count} is below zero; write 0 or more")
        # The completions of a Job are not the number of pods that run at the same time.
        if count > MOST_PODS and field in {"spec.replicas", "spec.parallelism"}:
            raise Refused(
                field,
                f"{count} is more than the {MOST_PODS} addresses of the pod network; write a lower number",
            )
    is_set = kind == "StatefulSet"
    if is_set and spec.service_name:
        check_label("spec.serviceName", spec.service_name)
    check_labels("spec.template.metadata.labels", spec.template.metadata.labels)
    # The controller of StatefulSets replaces both names.
    _check_pod_spec("spec.template.spec", spec.template.spec, has_hostname=not is_set)


def _counts(workload: Workload) -> Iterator[tuple[str, int]]:
    spec = workload.spec
    for field, count in (
        ("spec.replicas", spec.replicas),
        ("spec.parallelism", spec.parallelism),
        ("spec.completions", spec.completions),
        ("spec.ordinals.start", spec.ordinals.start),
    ):
        if count is not None:
            yield field, count
