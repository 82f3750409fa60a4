"""The changes of endpoints that may make a missing name exist, likely ones first.

Path: candidates.py, for a name with the records of endpoints, and explain.py, for an address -> here.
Rule: loops over endpoints yield None where other work may run, because a Service may have thousands of endpoints.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from functools import partial
from typing import Final

from msgspec import structs

from hsdns.cluster.address import pack_address
from hsdns.cluster.likeness import likeness
from hsdns.cluster.not_ready import why_not_ready
from hsdns.cluster.objects import Endpoint, EndpointSlice
from hsdns.cluster.pack import pack_slice, source_cluster
from hsdns.cluster.question import ParsedName
from hsdns.explanation.changes import Change
from hsdns.explanation.corefile_changes import without_labels
from hsdns.explanation.edits import (
    all_ready,
    asked_port,
    is_ready,
    port_names,
    renamed_ports,
    text,
    with_endpoints,
    with_hostname,
)
from hsdns.explanation.owner import Owner
from hsdns.explanation.scene import ClusterObjects, Replay, Scene
from hsdns.explanation.spelling import close_words

PIECE: Final = 10  # endpoints between two pauses


def of_address(address: bytes, scene: Scene, kept: ClusterObjects) -> Iterator[Change]:
    """The changes that may give an address a name; the scene has the Services of the endpoints with it."""
    for part in scene.slices:
        for endpoint in part.endpoints or ():
            if not is_ready(endpoint) and address in map(pack_address, endpoint.addresses or ()):
                shown = " ".join(endpoint.addresses or ())
                yield Change(
                    _slice_place(part),
                    f"endpoint {shown} of {_slice_place(part)} is not ready{_conditions([(part, endpoint)], kept)}",
                    f"endpoint {shown} is ready",
                    partial(all_ready, [endpoint]),
                )


def of_endpoints(
    parsed: ParsedName, scene: Scene, kept: ClusterObjects, owner: Owner, replay: Replay
) -> Iterator[Change | None]:
    """The changes of the endpoints of a Service or ServiceImport that may make a name exist."""
    place, labels = owner.place, replay.block.state.settings.labels
    hidden = [
        each
        for each in scene.slices
        if labels is not None and not labels.matches(each.metadata.labels)
    ]
    if hidden:
        yield without_labels(_slice_place(hidden[0]))
    listed = [(part, each) for part in scene.slices for each in part.endpoints or ()]
    meant, known = listed, list[tuple[bytes, str]]()
    if parsed.endpoint:
        meant = []
        for number, (part, each) in enumerate(listed):
            if number % PIECE == 0:
                yield None
            cluster, labels_of = _cluster(part, parsed), _labels(part, each, replay)
            known += [(cluster, text(label)) for label in labels_of - {b""}]
            if parsed.endpoint in labels_of and cluster == parsed.cluster:
                meant.append((part, each))
    unready = [pair for pair in meant if not is_ready(pair[1])]
    if unready:
        count = f"{len(meant) - len(unready)} of {len(meant)} endpoints of {place} are ready"
        if parsed.endpoint:
            count = f"endpoint {text(parsed.endpoint)} of {place} is not ready"
        yield Change(
            _slice_place(unready[0][0]),
            f"{count}{_conditions(unready, kept)}; {owner.published}",
            f"an endpoint of {place} is ready"
            + (f", or publishNotReadyAddresses of {place} is true" if owner.is_service else ""),
            partial(all_ready, [each for _, each in unready]),
        )
    if parsed.endpoint and not meant:
        yield from _of_hostname(parsed, listed, kept, owner)
    if parsed.port or parsed.protocol:
        parts = [part for part in scene.slices if part.endpoints]
        if parts:
            own = [each for each in owner.ports if each.name == text(parsed.port)]
            calls = (
                f"the port names differ: {place} has {port_names(own)}"
                if own
                else f"{place} has {port_names(owner.ports)}, but no {asked_port(parsed)}"
            )
            yield Change(
                _slice_place(parts[0]),
                f"{calls}; EndpointSlice {parts[0].metadata.name} has {port_names(parts[0].ports or ())}",
                f"a port of the EndpointSlice is a {asked_port(parsed)}",
                partial(renamed_ports, parsed),
            )
    if parsed.topology_zone and listed:
        yield Change(
            place,
            f"no endpoint of {place} is in topology zone {text(parsed.topology_zone)}",
            "an endpoint is in that topology zone",
            lambda scene: with_endpoints(
                scene, lambda each: structs.replace(each, zone=text(parsed.topology_zone))
            ),
        )
    near = (yield from _near_labels(parsed, known)) if parsed.endpoint else ""
    yield Change(
        place,
        f"{place} has no endpoint named {text(parsed.endpoint)}{near}"
        if parsed.endpoint
        else f"{place} has no endpoints{_why_none(owner, kept, scene)}",
        f"{place} has a ready endpoint"
        + (f" with hostname {text(parsed.endpoint)}" if parsed.endpoint else ""),
        partial(owner.with_endpoint, parsed, labels),
    )


def _slice_place(found: EndpointSlice) -> str:
    return f"EndpointSlice {found.metadata.namespace}/{found.metadata.name}"


def _labels(part: EndpointSlice, endpoint: Endpoint, replay: Replay) -> set[bytes]:
    """The labels that the server would give an endpoint if it were ready."""
    alone = structs.replace(part, endpoints=[structs.replace(endpoint, conditions=None)])
    packed = pack_slice(
        alone,
        pod_names=replay.block.state.settings.pod_names,
        reject=lambda reason, sentence: None,
    )
    return {each.label(index) for each in packed for index in range(each.host_count)}


def _cluster(part: EndpointSlice, parsed: ParsedName) -> bytes:
    """The cluster that endpoints of a ServiceImport are named after; those of a Service are not."""
    return source_cluster(part.metadata) if parsed.cluster else b""


def _near_labels(
    parsed: ParsedName, known: Sequence[tuple[bytes, str]]
) -> Generator[None, None, str]:
    """The endpoint names nearest to the queried one, each with its cluster."""
    own = sorted({label for cluster, label in known if cluster == parsed.cluster})
    elsewhere = {
        f"{label}{_in_cluster(cluster)}" for cluster, label in known if cluster != parsed.cluster
    }
    found = yield from _of_these(text(parsed.endpoint), own or sorted(elsewhere))
    return f"{_in_cluster(parsed.cluster)}{found}"


def _in_cluster(cluster: bytes) -> str:
    return f" in cluster {text(cluster)}" if cluster else ""


def _of_these(asked: str, known: Sequence[str]) -> Generator[None, None, str]:
    if not known:
        return ": it has no endpoints"
    near = ""
    for match in close_words(asked, dict.fromkeys(known), 1):
        if match is None:
            yield None
        else:
            near = match
    shown = ", ".join(known[:3]) + (", …" if len(known) > 3 else "")
    return f'; did you mean "{near}"?' if near else f"; it has {shown}"


def _conditions(unready: list[tuple[EndpointSlice, Endpoint]], kept: ClusterObjects) -> str:
    part, endpoint = unready[0]
    why = why_not_ready(endpoint, kept.pods(part.metadata.namespace.encode().lower()))
    return f" ({why})" if why else ""


def _of_hostname(
    parsed: ParsedName,
    listed: list[tuple[EndpointSlice, Endpoint]],
    kept: ClusterObjects,
    owner: Owner,
) -> Iterator[Change]:
    """Candidates for an endpoint name of an existing Pod that does not have this name below this Service."""
    label, name = text(parsed.endpoint), owner.metadata.name
    pods = {each.metadata.name: each for each in kept.pods(parsed.namespace)}
    for part, endpoint in listed:
        ref = endpoint.target_ref
        pod = pods.get((ref.name if ref else "") or "")
        own = pod.metadata.name if pod is not None else (ref.name if ref else "") or ""
        if label not in (own.lower(), (pod.spec.hostname or "").lower() if pod else ""):
            continue
        place = f"Pod {part.metadata.namespace}/{own}"
        if pod is None or endpoint.hostname:
            shown = f'"{endpoint.hostname}"' if endpoint.hostname else "no"
            cause = f"the endpoint of {place} has {shown} hostname in {_slice_place(part)}"
        elif not pod.spec.hostname:
            has = f"subdomain {pod.spec.subdomain} but no" if pod.spec.subdomain else "neither"
            tail = "hostname" if pod.spec.subdomain else "hostname nor subdomain"
            cause = f"{place} has {has} {tail}, so it has no name of its own"
        elif pod.spec.subdomain != name:
            cause = (
                f"{place} has subdomain {pod.spec.subdomain}, so its name is below Service "
                f"{pod.spec.subdomain}; the Service asked is {name}"
                if pod.spec.subdomain
                else f"{place} has a hostname but no subdomain, so it has no name of its own"
            )
        else:
            cause = f"the endpoint of {place} has no hostname in {_slice_place(part)}"
        yield Change(
            place,
            cause,
            f"{place} has hostname {label} and subdomain {name}, so that its endpoint has the hostname",
            partial(with_hostname, endpoint, label),
        )
        return


def _why_none(owner: Owner, kept: ClusterObjects, scene: Scene) -> str:
    if scene.slices:
        if any(part.endpoints for part in scene.slices):
            return " with a usable address and port"
        if not owner.selector:
            return ": its EndpointSlices are empty"
    selector = owner.selector
    shown = ",".join(f"{key}={value}" for key, value in selector.items())
    if not selector:
        return ": it has no selector and no EndpointSlice"
    pods = kept.pods(owner.metadata.namespace.encode().lower())
    if not pods:
        return f": no pod with labels {shown} is known"
    matched = [each for each in pods if selector.items() <= (each.metadata.labels or {}).items()]
    if matched:
        return f": pod {matched[0].metadata.name}, which its selector matches, has no address"
    near = max(pods, key=lambda each: likeness(selector, each.metadata.labels or {}))
    labels = ",".join(f"{key}={value}" for key, value in sorted((near.metadata.labels or {}).items())[:2])  # fmt: skip
    return f": its selector {shown} matches no pod; pod {near.metadata.name} has {labels or 'no labels'}"
