"""The changes of a scene for candidates, and their words for ports and labels.

Path: candidates.py and endpoint_candidates.py -> here -> Scene.
Rule: added objects have names and addresses that no cluster has (RFC 5737, RFC 6761).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import structs

from hsdns.cluster.objects import (
    Endpoint,
    EndpointConditions,
    EndpointPort,
    Service,
    ServicePort,
    ServiceSpec,
)
from hsdns.cluster.question import ParsedName
from hsdns.explanation.scene import Scene

MADE_ADDRESS: Final = "192.0.2.1"  # of an endpoint that is added (RFC 5737)


def text(label: bytes) -> str:
    """A label as text."""
    return label.decode("utf-8", "replace")


def is_ready(endpoint: Endpoint) -> bool:
    """Whether an endpoint is ready; one without the condition is."""
    return endpoint.conditions is None or endpoint.conditions.ready is not False


def headless_spec(parsed: ParsedName) -> ServiceSpec:
    """The spec of a headless Service with the port of a name."""
    return ServiceSpec(type="ClusterIP", cluster_ip="None", ports=[service_port(parsed)])


def with_service(service: Service, scene: Scene, **fields: object) -> Scene:
    """Change fields of a Service's spec, in addition to earlier changes."""
    now = next((each for each in scene.services if each.metadata == service.metadata), service)
    return scene.with_objects(structs.replace(now, spec=structs.replace(now.spec, **fields)))


def as_headless(service: Service, scene: Scene) -> Scene:
    """Make a Service headless."""
    return with_service(
        service, scene, type="ClusterIP", cluster_ip="None", cluster_ips=None, external_name=None
    )


def service_port(parsed: ParsedName) -> ServicePort:
    """The port in a name, as a port of a Service."""
    return ServicePort(80, text(parsed.port) or None, text(parsed.protocol).upper() or "TCP")


def asked_port(parsed: ParsedName) -> str:
    """The port in a name, in words."""
    port = f"port named {text(parsed.port)}" if parsed.port else "port"
    return port + (f" of protocol {text(parsed.protocol).upper()}" if parsed.protocol else "")


def port_names(ports: Sequence[ServicePort | EndpointPort]) -> str:
    """The names and protocols of ports, in words."""
    if not ports:
        return "no ports"
    return ", ".join(f"port {each.name or '(unnamed)'}/{each.protocol or 'TCP'}" for each in ports)


def with_endpoints(scene: Scene, change: Callable[[Endpoint], Endpoint]) -> Scene:
    """Change every endpoint of the scene."""
    return scene.with_objects(
        *(
            structs.replace(part, endpoints=[change(each) for each in part.endpoints or ()])
            for part in scene.slices
        )
    )


def all_ready(unready: list[Endpoint], scene: Scene) -> Scene:
    """Make endpoints ready."""
    chosen = {tuple(each.addresses or ()) for each in unready}
    return with_endpoints(
        scene,
        lambda each: (
            structs.replace(each, conditions=EndpointConditions(ready=True))
            if not is_ready(each) and tuple(each.addresses or ()) in chosen
            else each
        ),
    )


def with_hostname(named: Endpoint, label: str, scene: Scene) -> Scene:
    """Give an endpoint a hostname."""
    return with_endpoints(
        scene,
        lambda each: (
            structs.replace(each, hostname=label) if each.addresses == named.addresses else each
        ),
    )


def renamed_ports(parsed: ParsedName, scene: Scene) -> Scene:
    """Give the first port of each slice the name and protocol of a question."""

    def renamed(ports: Sequence[EndpointPort]) -> list[EndpointPort]:
        first = ports[0] if ports else EndpointPort(port=80)
        name, protocol = text(parsed.port), text(parsed.protocol).upper()
        changed = structs.replace(first, name=name or first.name, protocol=protocol or first.protocol)  # fmt: skip
        return [changed, *ports[1:]]

    return scene.with_objects(
        *(structs.replace(part, ports=renamed(part.ports or ())) for part in scene.slices)
    )
