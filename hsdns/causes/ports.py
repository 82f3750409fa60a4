"""Ports of a Service that no endpoint has: the target port that no container has, and slices with other ports or none.

Path: behind.py (a cluster), rules/checks/endpoints.py (files) -> here -> the sentences, and the port that is meant.
Source: k8s.io/kubernetes pkg/api/v1/pod FindPort: a named target port is that of a container with this name and
protocol; without one the EndpointSlice lacks the port.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hsdns.causes.labels import is_misspelt
from hsdns.cluster.controllers.kinds import ContainerPort, PodSpec
from hsdns.cluster.objects import ServicePort
from hsdns.corefile.tree import did_you_mean


def ports_of(spec: PodSpec) -> Iterable[ContainerPort]:
    """The ports of the containers that run as long as the pod."""
    for container in spec.containers or ():
        yield from container.ports or ()
    for container in spec.init_containers or ():
        if container.restart_policy == "Always":
            yield from container.ports or ()


def meant_port(port: ServicePort, free: Mapping[str, ContainerPort]) -> str:
    """The container port that a target port means, of those that no other leads to: by spelling, name or number."""
    name = str(port.target_port)
    near = [each for each in free if is_misspelt(name, each)]
    if len(near) == 1:
        return near[0]
    if port.name in free:
        return str(port.name)
    return next((key for key, each in free.items() if each.container_port == port.port), "")


def wrong_target(
    port: ServicePort, known: Mapping[str, ContainerPort], meant: str, pods: str
) -> str:
    """Why no endpoint has a port with a named target port; `pods` are such as "Deployment web"."""
    name, other = str(port.target_port), known.get(str(port.target_port))
    if other is not None:
        protocols = f"{other.protocol or 'TCP'}, not {port.protocol or 'TCP'}"
        return (
            f'no endpoint has {named(port)}: the container port "{name}" of {pods} is {protocols}'
        )
    has = f"; it has {', '.join(sorted(known))}" if known else ", nor any other name"
    hint = f'; did you mean "{meant}"?' if meant else did_you_mean(name, known) or has
    return f'no endpoint has {named(port)}: no container of {pods} has a port named "{name}"{hint}'


def without_ports(service: str, where: str) -> str:
    """What follows from slices without ports."""
    return f"{where} has no ports and {service} has, so it has no SRV records, and a cluster IP leads nowhere"


def differing_ports(port: ServicePort, service: str, has: Iterable[str], where: str) -> str:
    """What is wrong if a slice has ports of other names."""
    shown = ", ".join(quoted(each) for each in sorted(set(has)))
    return (
        f"the port is {quoted(port.name or '')} in {service} and {shown} in {where}; "
        "they must have the same name"
    )


def named(port: ServicePort) -> str:
    """A port in sentences."""
    return f'port "{port.name}"' if port.name else f"port {port.port}"


def quoted(name: str) -> str:
    """The name of a port in sentences."""
    return f'"{name}"' if name else "unnamed"


def choices(known: Sequence[ContainerPort]) -> str:
    """The ports that a Service may lead to."""
    return " or ".join(dict.fromkeys(each.name or str(each.container_port) for each in known))
