"""HS109: several headless Services that select the same pods, but have different answers.

Path: judging.py -> here.
Rule: the usual pair of a headless Service and one with a cluster IP is not a finding, and neither are Services that
      differ only in their names: those are aliases.
Source: CoreDNS 1.14.7 plugin/kubernetes/reverse.go: an address has a PTR record for each Service whose ready endpoint
        it is; k8s.io/endpointslice: an endpoint has its pod's hostname only in the Service that is the pod's subdomain.
"""

from __future__ import annotations

from collections.abc import Iterator

from hsdns.cluster.controllers.kinds import Workload
from hsdns.cluster.objects import Service
from hsdns.rules.check import check
from hsdns.rules.finding import Remark
from hsdns.rules.manifest import Manifest
from hsdns.rules.objects import Objects, PodSet, is_headless


@check("HS109")
def shared_pods(objects: Objects) -> Iterator[Remark]:
    """Headless Services that differ from another one with the same pods, each once."""
    told: set[tuple[int, int]] = set()
    for pods in objects.templates:
        chosen = [each for each in objects.services_of(pods) if is_headless(each[1])]
        own = _subdomain(pods)
        # The others are compared with the one that gives the pods their names.
        chosen.sort(key=lambda each: (each[0].name != own, each[0].name))
        for manifest, service in chosen[1:]:
            first, other = chosen[0]
            if manifest.name == first.name:
                continue  # the same Service, from another overlay of the folder
            differing = list(_differing(service, other, first.name))
            if differing and (id(first), id(manifest)) not in told:
                told.add((id(first), id(manifest)))
                sentence = _sentence(pods, manifest, first, differing, own=own)
                yield manifest.remark("spec.selector", sentence)


def _sentence(
    pods: PodSet, manifest: Manifest, first: Manifest, differing: list[str], *, own: str
) -> str:
    if own == first.name:
        names = f"only below {own} have pods names of their own, and SRV records of {manifest.name}"
    else:
        names = "below neither have pods names of their own, and SRV records"
    return (
        f"{first} chooses the same pods, those of {pods.manifest}, but {' and '.join(differing)}: an address has a PTR "
        f"record for each Service in which it is ready, in no order; {names} lead to names made of addresses; "
        "let programs that look for pods by PTR or SRV use one Service"
    )


def _subdomain(pods: PodSet) -> str:
    """The name of the Service below which the pods have names, if they have any."""
    owner = pods.manifest.object
    if isinstance(owner, Workload) and pods.manifest.kind == "StatefulSet":
        return owner.spec.service_name or ""
    return (pods.spec.hostname and pods.spec.subdomain) or ""


def _differing(service: Service, other: Service, name: str) -> Iterator[str]:
    published = [
        "true" if each.spec.publish_not_ready_addresses else "false" for each in (service, other)
    ]
    if published[0] != published[1]:
        yield f"publishNotReadyAddresses is {published[0]} here and {published[1]} in {name}"
    ports = [_ports(each) for each in (service, other)]
    if ports[0] != ports[1]:
        shown = [", ".join(sorted(each)) or "none" for each in ports]
        yield f"the ports are {shown[0]} here and {shown[1]} in {name}"


def _ports(service: Service) -> set[str]:
    """The ports as in SRV records."""
    return {
        f"{each.name or 'unnamed'} {each.target_port or each.port}/{each.protocol or 'TCP'}"
        for each in service.spec.ports or ()
    }
