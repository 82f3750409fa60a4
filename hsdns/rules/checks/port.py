"""HS111 to HS114: ports without a name, or whose names or numbers differ in a Service, its containers and its slices.

Path: judging.py -> here.
Source: k8s.io/kubernetes pkg/api/v1/pod FindPort: a named target port is that of a container with this name and
protocol; without one the EndpointSlice lacks the port.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hsdns.cluster.controllers.kinds import ContainerPort, Endpoints
from hsdns.cluster.objects import EndpointSlice, ServicePort
from hsdns.corefile.tree import did_you_mean
from hsdns.rules.check import check
from hsdns.rules.checks.endpoint_slice import endpoints_of, slices_of
from hsdns.rules.finding import Remark
from hsdns.rules.manifest import Manifest
from hsdns.rules.objects import Objects, PodSet, is_headless


@check("HS111")
def target_port(objects: Objects) -> Iterator[Remark]:
    """Named target ports that no container has."""
    for manifest, service in objects.services:
        selector = service.spec.selector
        if not selector or service.spec.type == "ExternalName":
            continue
        pods = objects.selected(manifest, selector)
        if not pods or any(not each.spec.containers for each in pods):
            continue  # a template without containers is incomplete
        ports = service.spec.ports or []
        is_reached = any(_is_there(each, pods) for each in ports)
        for at, port in enumerate(ports):
            name = port.target_port
            if not isinstance(name, str) or _is_there(port, pods):
                continue
            known = {each.name for one in pods for each in _ports(one) if each.name}
            other = next((each for one in pods for each in _ports(one) if each.name == name), None)
            if other is not None:
                protocol = other.protocol or "TCP"
                what = f'the container port "{name}" of {pods[0].manifest} is {protocol}, not {port.protocol}'
            else:
                has = f"; it has {', '.join(sorted(known))}" if known else ", nor any other name"
                what = f'no container of {pods[0].manifest} has a port named "{name}"{did_you_mean(name, known) or has}'
            yield manifest.remark(
                f"spec.ports[{at}].targetPort",
                f"no EndpointSlice has the port, so neither connections nor SRV records lead to it: {what}",
                # If others exist, it may belong to a feature that is turned off.
                level="note"
                if is_reached and not did_you_mean(name, known) and other is None
                else "",
            )


@check("HS112")
def headless_port(objects: Objects) -> Iterator[Remark]:
    """Ports of headless Services on which no pod listens."""
    for manifest, service in objects.services:
        if not is_headless(service) or not service.spec.selector:
            continue
        pods = objects.selected(manifest, service.spec.selector)
        for at, port in enumerate(service.spec.ports or ()):
            number: int | str | None = port.target_port
            if isinstance(number, str):
                found = {_number(each, port) for each in pods} - {None}
                number = found.pop() if len(found) == 1 else None
            if number is None or number in (0, port.port):
                continue
            yield manifest.remark(
                f"spec.ports[{at}].port",
                f"the Service is headless, so clients reach the pods themselves, on port {number} and not {port.port}; "
                f"write port: {number}, or let clients read the port from the SRV record",
            )


@check("HS113")
def port_names(objects: Objects) -> Iterator[Remark]:
    """Services without selector whose ports have other names in their slices."""
    for manifest, service in objects.services:
        if service.spec.selector or service.spec.type == "ExternalName":
            continue
        wanted = {each.name or "" for each in service.spec.ports or ()}
        listed: list[tuple[Manifest, EndpointSlice | Endpoints]] = [*slices_of(objects, manifest)]
        listed += endpoints_of(objects, manifest)
        has = {name for _, found in listed for name in _names(found)}
        if not wanted or not has:
            continue
        for at, port in enumerate(service.spec.ports or ()):
            if (port.name or "") in has:
                continue
            shown = ", ".join(_quoted(each) for each in sorted(has))
            yield manifest.remark(
                f"spec.ports[{at}].name",
                f"the port is {_quoted(port.name or '')} here and {shown} in {listed[0][0]}; they must be the same, or "
                "neither connections nor SRV records lead to it",
                at="" if port.name else f"spec.ports[{at}]",
            )


@check("HS114")
def unnamed_port(objects: Objects) -> Iterator[Remark]:
    """Ports of headless Services that have no name, and so no SRV name."""
    for manifest, service in objects.services:
        if not is_headless(service):
            continue
        for at, port in enumerate(service.spec.ports or ()):
            if not port.name:
                protocol = (port.protocol or "TCP").lower()
                yield manifest.remark(
                    f"spec.ports[{at}].name",
                    f"the port has no name, so no name _NAME._{protocol}.{manifest.name} exists, and clients that ask "
                    "for one get NXDOMAIN; only the Service's own name has SRV records; write a name, such as that of "
                    "the container port",
                    at=f"spec.ports[{at}]",
                )


def _names(found: EndpointSlice | Endpoints) -> Iterator[str]:
    if isinstance(found, EndpointSlice):
        yield from (each.name or "" for each in found.ports or ())
        return
    for subset in found.subsets or ():
        yield from (each.name or "" for each in subset.ports or ())


def _quoted(name: str) -> str:
    return f'"{name}"' if name else "unnamed"


def _ports(pods: PodSet) -> Iterator[ContainerPort]:
    for container in pods.spec.containers or ():
        yield from container.ports or ()
    for container in pods.spec.init_containers or ():
        if container.restart_policy == "Always":
            yield from container.ports or ()


def _is_there(port: ServicePort, pods: Sequence[PodSet]) -> bool:
    """Whether a target port is a number, or the name of a container's port."""
    return not isinstance(port.target_port, str) or any(_number(each, port) for each in pods)


def _number(pods: PodSet, port: ServicePort) -> int | None:
    for each in _ports(pods):
        if each.name == port.target_port and (each.protocol or "TCP") == (port.protocol or "TCP"):
            return each.container_port
    return None
