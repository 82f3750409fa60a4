"""HS111 to HS114, HS121, HS122, HS141 to HS144, HS151 to HS157: EndpointSlices, Endpoints, ports, readiness.

Path: judging.py -> here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from hsdns.causes.alias import DOMAIN
from hsdns.causes.behind import cause_behind, mirror_mark, not_mirrored, unread_slice
from hsdns.causes.pod import why_unready
from hsdns.causes.ports import (
    differing_ports,
    meant_port,
    ports_of,
    without_ports,
    wrong_target,
)
from hsdns.cluster.controllers.endpointslice import LEADER, SKIP_MIRROR
from hsdns.cluster.controllers.kinds import Endpoints, is_ready
from hsdns.cluster.objects import (
    IMPORT_NAME_LABEL,
    SERVICE_NAME_LABEL,
    TOLERATE,
    EndpointSlice,
    Service,
    ServicePort,
)
from hsdns.corefile.tree import did_you_mean
from hsdns.resolver.musl import MOST_ADDRESSES
from hsdns.rules.objects import (
    Manifest,
    Objects,
    PodSet,
    check,
    is_near,
    mapping_at,
    mappings_at,
    value_at,
)
from hsdns.rules.rule import Remark
from hsdns.wire.encode import MAX_TCP_LEN

# Addresses of a subset, unless kube-controller-manager has another limit.
MOST_MIRRORED: Final = 1000


@check("HS121", needs="services|endpointslices", each="services")
def missing_family(objects: Objects, manifest: Manifest, service: Service) -> Iterator[Remark]:
    """Dual-stack Services without selector whose endpoints have addresses of one family only."""
    families = service.spec.ip_families or []
    if service.spec.selector or len(families) < 2:
        return
    found = {each.address_type for _, each in objects.slices_of(manifest) if each.endpoints}
    missing = [each for each in families if each not in found]
    if found and missing:
        rrtype = "AAAA" if missing[0] == "IPv6" else "A"
        yield manifest.remark(
            "spec.ipFamilies",
            f"no EndpointSlice has {missing[0]} addresses, so the name has no {rrtype} record; "
            f"add a slice with addressType: {missing[0]}, or write one family",
        )


@check("HS122", needs="services|endpointslices", each="services")
def pods_of_one_family(objects: Objects, manifest: Manifest, service: Service) -> Iterator[Remark]:
    """Dual-stack Services some of whose pods have addresses of one family only."""
    families = service.spec.ip_families or []
    if not service.spec.selector or len(families) < 2:
        return
    found: dict[str, set[str]] = {}
    for _, each in objects.slices_of(manifest):
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


@check("HS151", needs="services|endpointslices", each=lambda objects: objects.typed(EndpointSlice))
def orphaned(objects: Objects, manifest: Manifest, found: EndpointSlice) -> Iterator[Remark]:
    """Slices that belong to no Service."""
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
        own = [each for each in without if manifest.name.startswith(f"{each}-")]
        hint = did_you_mean(owner, without) or (f'; did you mean "{own[0]}"?' if own else "")
        if hint or objects.is_whole:
            yield manifest.remark(
                f"metadata.labels[{SERVICE_NAME_LABEL}]",
                f"{unread_slice(owner)}{hint or '; add the Service'}",
            )


@check("HS152", needs="services|endpointslices", each="services")
def slice_without_ports(objects: Objects, service: Manifest, spec: Service) -> Iterator[Remark]:
    """Slices without ports of Services with ports."""
    if not spec.spec.ports or spec.spec.selector:
        return
    for manifest, found in objects.slices_of(service):
        if found.endpoints and not found.ports:
            yield manifest.remark(
                "ports",
                f"{without_ports(str(service), str(manifest))}; add the ports, with the names that the Service has",
                at="addressType",
            )


@check("HS153", needs="files", each="manual")
def unmirrored(objects: Objects, service: Manifest, spec: Service) -> Iterator[Remark]:
    """Endpoints that are not mirrored to EndpointSlices, or only in part."""
    if objects.slices_of(service):
        return
    for manifest, found in objects.endpoints_of(service):
        mark = mirror_mark(found)
        if mark:
            kind, key = ("labels", SKIP_MIRROR) if "label" in mark else ("annotations", LEADER)
            yield manifest.remark(
                f"metadata.{kind}[{key}]",
                f"{not_mirrored(mark)}, so {service} has no addresses; remove it, or add an EndpointSlice",
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


# HS111 to HS114: ports without a name, or whose names or numbers differ in a Service, its containers and its slices.
#
# Source: k8s.io/kubernetes pkg/api/v1/pod FindPort: a named target port is that of a container with this name and
# protocol; without one the EndpointSlice lacks the port.


@check("HS111", needs="services|pods", each="services")
def target_port(objects: Objects, manifest: Manifest, service: Service) -> Iterator[Remark]:
    """Named target ports that no container has."""
    selector = service.spec.selector
    if not selector or service.spec.type == "ExternalName":
        return
    pods = objects.selected(manifest, selector)
    if not pods or any(not each.spec.containers for each in pods):
        return  # a template without containers is incomplete
    if objects.is_patched(manifest, *(each.manifest for each in pods)):
        return
    ports = service.spec.ports or []
    missing = [each for each in ports if not _is_there(each, pods)]
    targets = {each.target_port or each.port for each in ports}
    for at, port in enumerate(ports):
        name = port.target_port
        if not isinstance(name, str) or _is_there(port, pods):
            continue
        every = [each for one in pods for each in ports_of(one.spec)]
        known = {each.name: each for each in every if each.name}
        free = {key: one for key, one in known.items() if not targets & {key, one.container_port}}
        meant = meant_port(port, free)
        hint, other = meant or did_you_mean(name, free), known.get(name)
        whose = f"{pods[0].manifest.kind} {pods[0].manifest.name}"
        field = f"spec.ports[{at}].targetPort"
        # If others exist, it may belong to a feature that is turned off.
        is_clear = (
            hint or other is not None or (len(missing) == len(free) == 1 and port.name != name)
        )
        yield manifest.remark(
            field,
            wrong_target(port, known, meant, whose),
            level="note" if len(missing) < len(ports) and not is_clear else "",
            edit=manifest.replaced(field, meant)
            if meant and name not in (port.name, *known)
            else None,
        )


@check("HS116", needs="files", each="services")
def undeclared_port(objects: Objects, manifest: Manifest, service: Service) -> Iterator[Remark]:
    """A port that leads past the only port of the pods to which no Service leads."""
    selector = service.spec.selector
    if not selector or service.is_headless or "uid" in manifest.metadata:
        return
    pods = objects.selected(manifest, selector)
    declared = [each for one in pods for each in ports_of(one.spec)]
    if objects.is_patched(manifest, *(each.manifest for each in pods)) or not declared:
        return
    numbers = {each.container_port for each in declared}
    missing = [
        (at, each)
        for at, each in enumerate(service.spec.ports or ())
        if not isinstance(each.target_port, str) and (each.target_port or each.port) not in numbers
    ]
    if len(missing) != 1:
        return
    ((at, port),) = missing
    others = [each for one in pods for _, each in objects.services_of(one)]
    # Ports of the same name or number are meant to lead to the same.
    led = {
        each.target_port or each.port
        for other in (service, *others)
        for each in other.spec.ports or ()
        if each.port != port.port and (each.name or "") != port.name
    }
    free = {
        each.container_port for each in declared if led.isdisjoint((each.name, each.container_port))
    }
    if len(free) == 1:
        is_written = "targetPort" in dict(mappings_at(manifest.content, "spec.ports"))[at]
        yield manifest.remark(
            f"spec.ports[{at}].{'targetPort' if is_written else 'port'}",
            f"the pods of {pods[0].manifest} declare no port {port.target_port or port.port}, and nothing leads to "
            f"their port {free.copy().pop()}; write targetPort: {free.pop()}",
        )


@check("HS115", needs="pods", each="templates")
def probe_port(objects: Objects, pods: PodSet) -> Iterator[Remark]:
    """Readiness probes of a port whose name their container does not have."""
    spec = mapping_at(pods.manifest.content, pods.field)
    for at, each in (
        mappings_at(spec, "containers") if not objects.is_patched(pods.manifest) else ()
    ):
        known = {str(one.get("name")) for _, one in mappings_at(each, "ports") if one.get("name")}
        for kind in ("httpGet", "tcpSocket"):
            name = value_at(each, f"readinessProbe.{kind}.port")
            if isinstance(name, str) and not name.isdecimal() and name not in known:
                has = f"it has {', '.join(sorted(known))}" if known else "it has none with a name"
                yield pods.manifest.remark(
                    f"{pods.field}.containers[{at}].readinessProbe.{kind}.port",
                    f'container {each.get("name")} has no port named "{name}", so it never becomes ready, and no name '
                    f"leads to its pods; {did_you_mean(name, known).removeprefix('; ') or has}",
                )


@check("HS112", needs="services", each="headless")
def headless_port(objects: Objects, manifest: Manifest, service: Service) -> Iterator[Remark]:
    """Ports of headless Services on which no pod listens."""
    if not service.spec.selector:
        return
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


@check("HS113", needs="services|endpointslices", each="manual")
def port_names(objects: Objects, manifest: Manifest, service: Service) -> Iterator[Remark]:
    """Services without selector whose ports have other names in their slices."""
    wanted = {each.name or "" for each in service.spec.ports or ()}
    listed: list[tuple[Manifest, EndpointSlice | Endpoints]] = [*objects.slices_of(manifest)]
    listed += objects.endpoints_of(manifest)
    has = {name for _, found in listed for name in _names(found)}
    if not wanted or not has:
        return
    for at, port in enumerate(service.spec.ports or ()):
        if (port.name or "") in has:
            continue
        yield manifest.remark(
            f"spec.ports[{at}].name",
            differing_ports(port, str(manifest), has, str(listed[0][0])),
            at="" if port.name else f"spec.ports[{at}]",
        )


@check("HS114", needs="services", each="headless")
def unnamed_port(objects: Objects, manifest: Manifest, service: Service) -> Iterator[Remark]:
    """Ports of headless Services that have no name, and so no SRV name."""
    for at, port in enumerate(service.spec.ports or ()):
        if not port.name:
            protocol = (port.protocol or "TCP").lower()
            yield manifest.remark(
                f"spec.ports[{at}].name",
                f"the port has no name, so no name _NAME._{protocol}.{manifest.name} exists, and clients that "
                "look one up get NXDOMAIN; only the Service's own name has SRV records; write a name, such as that of "
                "the container port",
                at=f"spec.ports[{at}]",
            )


def _names(found: EndpointSlice | Endpoints) -> Iterator[str]:
    if isinstance(found, EndpointSlice):
        yield from (each.name or "" for each in found.ports or ())
        return
    for subset in found.subsets or ():
        yield from (each.name or "" for each in subset.ports or ())


def _is_there(port: ServicePort, pods: Sequence[PodSet]) -> bool:
    """Whether a target port is a number, or the name of a container's port."""
    return not isinstance(port.target_port, str) or any(_number(each, port) for each in pods)


def _number(pods: PodSet, port: ServicePort) -> int | None:
    for each in ports_of(pods.spec):
        if each.name == port.target_port and (each.protocol or "TCP") == (port.protocol or "TCP"):
            return each.container_port
    return None


# HS155 to HS157: so many endpoints that resolvers repeat lookups, a slice is full, or an answer is truncated.
#
# Rule: the computed size of an answer is its minimum, so an answer that is reported as truncated is.


REPEATS: Final = 28  # A records from which on glibc repeats the lookup
OVER_TCP: Final = 30  # about the number that fits into 512 octets
MOST_OF_A_SLICE: Final = 1000  # endpoints, the limit of the API server
_HEAD: Final = 12 + 4  # octets: the header, and type and class of the question
_RECORD: Final = 12  # octets: a pointer as owner, type, class, TTL, length of RDATA
_SHORTEST: Final = len("10-0-0-1")  # name of an endpoint with an unknown address
_OCTETS: Final = {"IPv4": 4, "IPv6": 16}


@check("HS155", needs="services|endpointslices|pods|statefulsets", each="headless")
def many(objects: Objects, manifest: Manifest, service: Service) -> Iterator[Remark]:
    """Headless Services with many endpoints."""
    counts = _counts(objects, manifest, service)
    count, addresses = max(counts, default=0), sum(counts)
    if count < REPEATS and addresses <= MOST_ADDRESSES:
        return
    what = f"{count} endpoints" + (", with two addresses each" if len(counts) > 1 else "")
    costs = "glibc looks the name up twice"
    if count > OVER_TCP:
        costs = (
            "an answer over UDP without EDNS is cut off, and glibc looks the name up again over TCP"
        )
    if addresses <= MOST_ADDRESSES:
        yield manifest.remark(
            "spec.clusterIP", f"with {what}, {costs}; a cluster IP is one address"
        )
    else:
        yield manifest.remark(
            "spec.clusterIP",
            f"with {what}, programs in Alpine images see {MOST_ADDRESSES} of the {addresses} addresses, and "
            f"{costs}; let those clients use a Service with a cluster IP, or the names of single pods",
            level="warning",
        )


@check("HS156", needs="endpointslices", each=lambda objects: objects.typed(EndpointSlice))
def full(objects: Objects, manifest: Manifest, found: EndpointSlice) -> Iterator[Remark]:
    """Slices with as many endpoints as the API server accepts, or more."""
    count = len(found.endpoints or ())
    if count > MOST_OF_A_SLICE:
        yield manifest.remark(
            "endpoints",
            f"the slice has {count} endpoints, and the API server allows {MOST_OF_A_SLICE} at most, so it refuses "
            "the slice; write the others into a second one with the same label",
            level="error",
        )
    elif count == MOST_OF_A_SLICE:
        yield manifest.remark(
            "endpoints",
            f"the slice has {count} endpoints and is full, and with each change of one of them every DNS server "
            "and every node is sent all of them; slices of 100, as the control plane makes them, cost less",
        )


@check("HS157", needs="services|endpointslices|pods|statefulsets", each="headless")
def cut_off(objects: Objects, manifest: Manifest, service: Service) -> Iterator[Remark]:
    """Headless Services whose answers are longer than the maximum of a DNS message."""
    families = _families(objects, manifest, service)
    owner = len(f".{manifest.name}.{manifest.namespace or 'default'}.svc.{DOMAIN}.")
    for family, count in families.items():
        fits = (MAX_TCP_LEN - _HEAD - owner) // (_RECORD + _OCTETS[family])
        if count > fits:
            yield manifest.remark(
                "spec.clusterIP",
                f"an answer with the {family} addresses of {count} endpoints is longer than a DNS message can be, "
                f"which is {MAX_TCP_LEN} octets, so {count - fits} of them are in no answer, also over TCP; use "
                "several Services, or one with a cluster IP",
                level="error",
            )
            break
    else:
        ports = len(service.spec.ports or ())
        count = max(families.values(), default=0)
        answer = count * ports * (_RECORD + 6 + 1 + _SHORTEST + owner)
        additional = sum(each * (_RECORD + _OCTETS[family]) for family, each in families.items())
        if _HEAD + owner + answer + additional > MAX_TCP_LEN:
            what = f"the SRV records of {count} endpoints" + (
                f" with {ports} ports each" if ports > 1 else ""
            )
            lost = "some of the records" if answer > MAX_TCP_LEN else "some of the addresses"
            yield manifest.remark(
                "spec.ports",
                f"{what} and their addresses are more than the {MAX_TCP_LEN} octets of a DNS message, so the "
                f"answer is cut off even over TCP, and {lost} are not in it; let clients query addresses, or use "
                "several Services",
            )


def _counts(objects: Objects, manifest: Manifest, service: Service) -> list[int]:
    """The number of endpoints of each address family."""
    return list(_families(objects, manifest, service).values())


def _families(objects: Objects, manifest: Manifest, service: Service) -> dict[str, int]:
    """The number of endpoints by address family, from the slices, or from the replicas of the workloads."""
    families = Counter[str]()
    for _, found in objects.slices_of(manifest):
        if found.address_type in _OCTETS:
            families[found.address_type] += len(found.endpoints or ())
    if families or not service.spec.selector:
        return families
    count = sum(each.replicas or 0 for each in objects.selected(manifest, service.spec.selector))
    return dict.fromkeys(service.spec.ip_families or ("IPv4",), count)


# HS141 to HS144: endpoints that are in answers although not ready, or are missing although that is not intended.


@check("HS141", needs="services", each="services")
def published(objects: Objects, manifest: Manifest, service: Service) -> Iterator[Remark]:
    """Services with a cluster IP that send traffic to pods that are not ready."""
    spec = service.spec
    if spec.publish_not_ready_addresses and spec.selector and not service.is_headless:
        yield manifest.remark(
            "spec.publishNotReadyAddresses",
            "the Service has a cluster IP, so connections are also sent to pods that are not ready; "
            "set it on a separate headless Service, for the pods to find each other",
        )


@check("HS142", needs="services", each="services")
def tolerated(objects: Objects, manifest: Manifest, service: Service) -> Iterator[Remark]:
    """The annotation that publishNotReadyAddresses has replaced."""
    annotations = service.metadata.annotations or {}
    if annotations.get(TOLERATE) == "true" and not service.spec.publish_not_ready_addresses:
        yield manifest.remark(
            f"metadata.annotations[{TOLERATE}]",
            "the annotation has no effect on EndpointSlices, so pods that are not ready have no names; "
            "write publishNotReadyAddresses: true, or remove the annotation",
        )


@check("HS143", needs="services|endpointslices|pods|pods that run", each="services")
def none_ready(objects: Objects, manifest: Manifest, service: Service) -> Iterator[Remark]:
    """Services with endpoints of which none is ready."""
    cause = cause_behind(objects.view, service)
    listed = [part for part, found in objects.slices_of(manifest) if found.endpoints]
    if cause is not None and cause.code in ("HS142", "HS143") and listed:
        yield listed[0].caused("endpoints", cause)


@check("HS144", needs="services|endpointslices", each="headless")
def answered_unready(objects: Objects, manifest: Manifest, service: Service) -> Iterator[Remark]:
    """Endpoints that are in answers only because of publishNotReadyAddresses."""
    if not service.spec.publish_not_ready_addresses:
        return
    for part, found in objects.slices_of(manifest):
        endpoints = found.endpoints or []
        unready = [
            each
            for each in endpoints
            if is_ready(each) and each.conditions is not None and each.conditions.serving is False
        ]
        if unready:
            ref, pods = unready[0].target_ref, objects.view.pods(part.namespace)
            why = why_unready(unready[0], {each.metadata.name: each for each in pods})
            why = f"pod {ref.name}: {why}" if why and ref is not None else why
            yield part.remark(
                "endpoints",
                f"{len(unready)} of {len(endpoints)} endpoints are answered though they do not serve"
                f"{f' ({why})' if why else ''}, because of publishNotReadyAddresses of {manifest}; "
                "clients have to try the next address, or use a Service without the flag",
            )
