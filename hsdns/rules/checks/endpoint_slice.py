"""HS121, HS122, HS151 to HS153: missing parts of EndpointSlices and Endpoints.

Path: judging.py -> here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hsdns.cluster.controllers.kinds import Endpoints
from hsdns.cluster.objects import IMPORT_NAME_LABEL, SERVICE_NAME_LABEL, EndpointSlice
from hsdns.corefile.tree import did_you_mean
from hsdns.rules.check import check
from hsdns.rules.finding import Remark
from hsdns.rules.manifest import Manifest
from hsdns.rules.objects import Objects, is_near

SKIP_MIRROR: Final = "endpointslice.kubernetes.io/skip-mirror"
LEADER: Final = "control-plane.alpha.kubernetes.io/leader"
MOST_MIRRORED: Final = (
    1000  # addresses of a subset, unless kube-controller-manager has another limit
)


def slices_of(objects: Objects, service: Manifest) -> Iterator[tuple[Manifest, EndpointSlice]]:
    """The slices of a Service."""
    for manifest in objects.slices.get(service.name, ()):
        if isinstance(manifest.object, EndpointSlice) and is_near(manifest, service):
            yield manifest, manifest.object


def endpoints_of(objects: Objects, service: Manifest) -> Iterator[tuple[Manifest, Endpoints]]:
    """The Endpoints of a Service."""
    for manifest in objects.endpoints.get(service.name, ()):
        if isinstance(manifest.object, Endpoints) and is_near(manifest, service):
            yield manifest, manifest.object


@check("HS121")
def missing_family(objects: Objects) -> Iterator[Remark]:
    """Dual-stack Services without selector whose endpoints have addresses of one family only."""
    for manifest, service in objects.services:
        families = service.spec.ip_families or []
        if service.spec.selector or len(families) < 2:
            continue
        found = {each.address_type for _, each in slices_of(objects, manifest) if each.endpoints}
        missing = [each for each in families if each not in found]
        if found and missing:
            rrtype = "AAAA" if missing[0] == "IPv6" else "A"
            yield manifest.remark(
                "spec.ipFamilies",
                f"no EndpointSlice has {missing[0]} addresses, so the name has no {rrtype} record; "
                f"add a slice with addressType: {missing[0]}, or write one family",
            )


@check("HS122")
def pods_of_one_family(objects: Objects) -> Iterator[Remark]:
    """Dual-stack Services some of whose pods have addresses of one family only."""
    for manifest, service in objects.services:
        families = service.spec.ip_families or []
        if not service.spec.selector or len(families) < 2:
            continue
        found: dict[str, set[str]] = {}
        for _, each in slices_of(objects, manifest):
            found.setdefault(each.address_type, set()).update(
                endpoint.target_ref.name
                for endpoint in each.endpoints or ()
                if endpoint.target_ref is not None and endpoint.target_ref.name
            )
        everyone = set[str]().union(*found.values())
        for family in families:
            lacking = sorted(everyone - found.get(family, set()))
            if lacking:
                rrtype = "AAAA" if family == "IPv6" else "A"
                more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
                yield manifest.remark(
                    "spec.ipFamilies",
                    f"{len(lacking)} of {len(everyone)} pods have no {family} address ({lacking[0]}{more}), so the "
                    f"{rrtype} records lack them; see whether their nodes are dual-stack, and replace pods from before",
                )
                break


@check("HS151")
def orphaned(objects: Objects) -> Iterator[Remark]:
    """Slices that belong to no Service."""
    for manifest in objects.of("EndpointSlice"):
        found = manifest.object
        if not isinstance(found, EndpointSlice):
            continue
        labels = found.metadata.labels or {}
        owner = labels.get(SERVICE_NAME_LABEL)
        if owner is None:
            if IMPORT_NAME_LABEL not in labels:
                yield manifest.remark(
                    "metadata.labels",
                    f"without the label {SERVICE_NAME_LABEL} the slice belongs to no Service, and nothing reads it; "
                    "add the label with the Service's name",
                    at="metadata.labels" if labels else "metadata.name",
                )
        elif not objects.named(owner, manifest):
            without = [
                each.name
                for each, service in objects.services
                if is_near(each, manifest)
                and not service.spec.selector
                and service.spec.type != "ExternalName"
            ]
            hint = did_you_mean(owner, without)
            if hint or objects.is_whole:
                yield manifest.remark(
                    f"metadata.labels[{SERVICE_NAME_LABEL}]",
                    f"there is no Service {owner}, so nothing reads the slice{hint or '; add the Service'}",
                )


@check("HS152")
def without_ports(objects: Objects) -> Iterator[Remark]:
    """Slices without ports of Services with ports."""
    for service, spec in objects.services:
        if not spec.spec.ports or spec.spec.selector:
            continue
        for manifest, found in slices_of(objects, service):
            if found.endpoints and not found.ports:
                yield manifest.remark(
                    "ports",
                    f"the slice has no ports and {service} has, so it has no SRV records, and a cluster IP leads "
                    "nowhere; add the ports, with the names that the Service has",
                    at="addressType",
                )


@check("HS153")
def not_mirrored(objects: Objects) -> Iterator[Remark]:
    """Endpoints that are not mirrored to EndpointSlices, or only in part."""
    for service, spec in objects.services:
        if spec.spec.selector or spec.spec.type == "ExternalName":
            continue
        if next(slices_of(objects, service), None) is not None:
            continue
        for manifest, found in endpoints_of(objects, service):
            labels, annotations = found.metadata.labels or {}, manifest.annotations
            field = ""
            if labels.get(SKIP_MIRROR) == "true":
                field = f"metadata.labels[{SKIP_MIRROR}]"
            elif LEADER in annotations:
                field = f"metadata.annotations[{LEADER}]"
            if field:
                what = "label" if "labels" in field else "annotation"
                yield manifest.remark(
                    field,
                    f"with this {what} no EndpointSlice is made of the Endpoints, and DNS reads slices only, so "
                    f"{service} has no addresses; remove it, or add an EndpointSlice",
                )
                continue
            for at, subset in enumerate(found.subsets or ()):
                count = len(subset.addresses or ()) + len(subset.not_ready_addresses or ())
                if count > MOST_MIRRORED:
                    yield manifest.remark(
                        f"subsets[{at}].addresses",
                        f"{MOST_MIRRORED} of the {count} addresses are mirrored into EndpointSlices, and the others "
                        "are not in DNS; write EndpointSlices instead of Endpoints",
                    )
