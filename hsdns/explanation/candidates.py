"""The changes that may make a missing name of a Service, an endpoint or a Pod exist, likely ones first.

Path: explain.py -> here -> scene.py tries them.
Rule: a candidate is a guess from the fields of the objects; scene.py repeats the query to test it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from msgspec import structs

from hsdns.cluster.address import pack_address
from hsdns.cluster.controllers.kinds import is_ready, why_not_ready
from hsdns.cluster.objects import (
    IMPORT_NAME_LABEL,
    SERVICE_NAME_LABEL,
    SOURCE_CLUSTER_LABEL,
    TOLERATE,
    Endpoint,
    EndpointConditions,
    EndpointPort,
    EndpointSlice,
    Namespace,
    ObjectMeta,
    Pod,
    PodStatus,
    Selector,
    Service,
    ServiceImport,
    ServiceImportSpec,
    ServicePort,
    ServiceSpec,
    identity,
    labels_text,
    likeness,
)
from hsdns.cluster.pack import pack_slice, pack_target, source_cluster
from hsdns.cluster.pods import address_in
from hsdns.cluster.question import POD, ParsedName
from hsdns.explanation.nearest import close_words
from hsdns.explanation.scene import Change, ClusterObjects, Replay, Scene, text

# The changes of a scene for candidates, and their words for ports and labels.
#
# Rule: added objects have names and addresses that no cluster has (RFC 5737, RFC 6761).


MADE_ADDRESS: Final = "192.0.2.1"  # of an endpoint that is added (RFC 5737)


def headless_spec(parsed: ParsedName) -> ServiceSpec:
    """The spec of a headless Service with the port of a name."""
    return ServiceSpec(type="ClusterIP", cluster_ip="None", ports=[service_port(parsed)])


def with_spec(of: Service | ServiceImport, scene: Scene, **fields: object) -> Scene:
    """Change fields of an object's spec, in addition to earlier changes."""
    now: Any = scene.objects.get(identity(of), of)
    return scene.with_objects(structs.replace(now, spec=structs.replace(now.spec, **fields)))


def as_headless(service: Service, scene: Scene) -> Scene:
    """Make a Service headless."""
    return with_spec(
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


# The owner of the endpoints of a name: a Service or a ServiceImport.
#
# Rule: objects added to a scene have labels that the selectors of the block match, so that the block reads them.


class Owner(NamedTuple):
    """A Service or ServiceImport; `published` names the field that puts endpoints that are not ready into answers."""

    metadata: ObjectMeta
    place: str
    ports: Sequence[ServicePort]
    selector: Mapping[str, str]
    owner_label: str
    published: str

    @classmethod
    def of_service(cls, found: Service) -> Owner:
        """That of a Service."""
        meta, spec = found.metadata, found.spec
        flag = str(bool(spec.publish_not_ready_addresses)).lower()
        published = f"publishNotReadyAddresses is {flag}"
        if (meta.annotations or {}).get(TOLERATE) == "true":
            published = (
                f"the annotation {TOLERATE.rpartition('/')[2]} has no effect on EndpointSlices, "
                "publishNotReadyAddresses has"
            )
        place = f"Service {meta.namespace}/{meta.name}"
        return cls(
            meta, place, spec.ports or (), spec.selector or {}, SERVICE_NAME_LABEL, published
        )

    @classmethod
    def of_import(cls, found: ServiceImport) -> Owner:
        """That of a ServiceImport."""
        meta = found.metadata
        place = f"ServiceImport {meta.namespace}/{meta.name}"
        published = "a ServiceImport has ready endpoints only"
        return cls(meta, place, found.spec.ports or (), {}, IMPORT_NAME_LABEL, published)

    @property
    def is_service(self) -> bool:
        """Whether it is a Service."""
        return self.owner_label == SERVICE_NAME_LABEL

    def with_endpoint(self, parsed: ParsedName, labels: Selector | None, scene: Scene) -> Scene:
        """Add a slice with a ready endpoint that has the label, port, cluster and topology zone of a name."""
        meta = self.metadata
        own = {self.owner_label: meta.name}
        if parsed.cluster:
            own[SOURCE_CLUSTER_LABEL] = text(parsed.cluster)
        hostname, zone = text(parsed.endpoint) or None, text(parsed.topology_zone) or None
        return scene.with_objects(
            EndpointSlice(
                ObjectMeta(f"{meta.name}-added", meta.namespace, labels=selected(labels, own)),
                "IPv4",
                [Endpoint([MADE_ADDRESS], hostname=hostname, zone=zone)],
                [EndpointPort(text(parsed.port) or None, text(parsed.protocol).upper() or "TCP", 80)],
            )
        )  # fmt: skip


def selected(selector: Selector | None, labels: Mapping[str, str] | None = None) -> dict[str, str]:
    """Labels, extended so that a selector matches them."""
    found = dict(labels or {})
    for each in selector.requirements if selector is not None else ():
        if each.wanted and not each.matches(found):
            found[each.key] = min(each.values) if each.values else "true"
    return found


# Changes of options of the kubernetes block that exclude objects of more than one kind.


def _option(cause: str, needed: str, **options: object) -> Change:
    """Change options of the kubernetes block."""
    return Change("Corefile", cause, needed, lambda scene: scene.with_options(**options))


def _setting(cause: str, needed: str, **settings: object) -> Change:
    """Change what the kubernetes block selects."""
    return Change("Corefile", cause, needed, lambda scene: scene.with_settings(**settings))


def _without_labels(place: str, name: str = "labels") -> Change:
    """Remove the restriction by `labels` or `namespace_labels`."""
    cause = f"`{name}` of the kubernetes block leaves out {place}"
    return _setting(cause, f"`{name}` matches its labels", **{name: None})


def _without_ignore(place: str) -> Change:
    """Remove `ignore`, so that Services without a ready endpoint exist."""
    cause = f"`ignore empty_service` hides {place}, because it has no ready endpoint"
    return _option(cause, "`ignore empty_service` is removed", ignore=False)


# The changes of endpoints that may make a missing name exist, likely ones first.
#
# Rule: loops over endpoints yield None where other work may run, because a Service may have thousands of endpoints.


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
        yield _without_labels(_slice_place(hidden[0]))
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
    shown = labels_text(selector)
    if not selector:
        return ": it has no selector and no EndpointSlice"
    pods = kept.pods(owner.metadata.namespace.encode().lower())
    if not pods:
        return f": no pod with labels {shown} is known"
    matched = [each for each in pods if selector.items() <= (each.metadata.labels or {}).items()]
    if matched:
        return f": pod {matched[0].metadata.name}, which its selector matches, has no address"
    near = max(pods, key=lambda each: likeness(selector, each.metadata.labels or {}))
    labels = labels_text(dict(sorted((near.metadata.labels or {}).items())[:2]))
    return f": its selector {shown} matches no pod; pod {near.metadata.name} has {labels or 'no labels'}"


# The changes that may make a missing name of a ServiceImport exist, likely ones first.
#
# Source: CoreDNS 1.14.7 plugin/kubernetes; a ServiceImport without ports has no names.


def of_import(
    parsed: ParsedName, scene: Scene, kept: ClusterObjects, replay: Replay
) -> Iterator[Change | None]:
    """The changes that may make a name below a ServiceImport exist."""
    namespace, name = text(parsed.namespace), text(parsed.name)
    place = f"ServiceImport {namespace}/{name}"
    options = replay.block.options
    by_label = options["namespace_labels"]
    found = scene.imports[0] if scene.imports else None
    if found is None:
        labels = selected(by_label)
        spec = ServiceImportSpec("Headless", ports=[service_port(parsed)])
        found = ServiceImport(ObjectMeta(name, namespace, labels=labels), spec)
        needs = f", with a ready endpoint {text(parsed.endpoint)}" if parsed.endpoint else ""
        yield Change(
            place,
            f"there is no {place}",
            f"{place} exists{needs}: a cluster of the clusterset exports the Service",
            partial(_with_added, found, parsed, replay),
        )
    elif by_label and not by_label.matches(found.metadata.labels):
        yield _without_labels(place, "namespace_labels")
    owner, spec = Owner.of_import(found), found.spec
    is_headless = spec.type == "Headless"
    if options["ignore"] and not is_headless:
        yield _without_ignore(place)
    if parsed.endpoint or is_headless:
        yield from of_endpoints(parsed, scene, kept, owner, replay)
    if not is_headless:
        asked = asked_port(parsed) if parsed.port or parsed.protocol else "port"
        yield Change(
            place,
            f"{place} has {port_names(spec.ports or ())}, but no {asked}"
            if spec.ports
            else f"{place} has no ports",
            f"{place} has a {asked}",
            partial(with_spec, found, ports=[service_port(parsed)]),
        )
        yield Change(
            place,
            f"{place} has no IP address",
            f"{place} has one",
            partial(with_spec, found, ips=[MADE_ADDRESS]),
        )


def _with_added(found: ServiceImport, parsed: ParsedName, replay: Replay, scene: Scene) -> Scene:
    labels = replay.block.options["labels"]
    return Owner.of_import(found).with_endpoint(parsed, labels, scene.with_objects(found))


def candidates(
    parsed: ParsedName, scene: Scene, kept: ClusterObjects, replay: Replay
) -> Iterator[Change | None]:
    """The changes that may make a name below `svc` or `pod` exist."""
    namespace = text(parsed.namespace)
    options = replay.block.options
    if not scene.namespaces:
        yield Change(
            f"Namespace {namespace}",
            f"there is no namespace {namespace}",
            f"namespace {namespace} exists",
            lambda scene: scene.with_objects(
                Namespace(ObjectMeta(name=namespace, labels=selected(options["namespace_labels"])))
            ),
        )
    if options["namespaces"] and namespace not in {each.lower() for each in options["namespaces"]}:
        cause = f"`namespaces` of the kubernetes block leaves out {namespace}"
        yield _option(cause, f"`namespaces` has {namespace}", namespaces=())
    by_label = options["namespace_labels"]
    if by_label and not all(by_label.matches(each.metadata.labels) for each in scene.namespaces):
        yield _without_labels(namespace, "namespace_labels")
    if parsed.kind == POD:
        yield from _of_pod(parsed, namespace, replay)
    elif replay.block.answers.lookup.is_multicluster(replay.zone):
        yield from of_import(parsed, scene, kept, replay)
    else:
        yield from _of_service(parsed, scene, kept, replay)


def _of_pod(parsed: ParsedName, namespace: str, replay: Replay) -> Iterator[Change]:
    pods = replay.block.options["pods"]
    address = address_in(parsed.name)
    if pods == "disabled":
        yield _option(
            "`pods` of the kubernetes block is disabled, so pods have no names by address",
            "`pods insecure` is in the kubernetes block",
            pods="insecure",
        )
    elif pods == "verified" and address is not None:
        shown = _address(text(parsed.name))
        labels = selected(replay.block.options["labels"])
        pod = Pod(ObjectMeta("added", namespace, labels=labels), PodStatus(shown, "Running"))
        yield Change(
            f"Namespace {namespace}",
            f"no pod of namespace {namespace} has the address {shown} (`pods verified`)",
            f"a pod has the address {shown}",
            lambda scene: scene.with_objects(pod),
        )


def _address(label: str) -> str:
    return label.replace("-", "." if label.count("-") == 3 and "--" not in label else ":")


def _of_service(
    parsed: ParsedName, scene: Scene, kept: ClusterObjects, replay: Replay
) -> Iterator[Change | None]:
    namespace, name = text(parsed.namespace), text(parsed.name)
    place = f"Service {namespace}/{name}"
    options = replay.block.options
    found = scene.services[0] if scene.services else None
    if found is None:
        added = Service(
            ObjectMeta(name, namespace, labels=selected(options["labels"])), headless_spec(parsed)
        )
        needs = f", with a ready endpoint {text(parsed.endpoint)}" if parsed.endpoint else ""
        needs += f", with a {asked_port(parsed)}" if parsed.port or parsed.protocol else ""
        yield Change(
            place,
            f"there is no {place}",
            f"{place} exists{needs}",
            lambda scene: Owner.of_service(added).with_endpoint(
                parsed, options["labels"], scene.with_objects(added)
            ),
        )
        service = added
    else:
        service = found
    if found is not None and options["labels"] and not options["labels"].matches(service.metadata.labels):  # fmt: skip
        yield _without_labels(place)
    if options["noendpoints"]:
        cause = "`noendpoints` is in the kubernetes block, so no EndpointSlice is read"
        yield _setting(cause, "`noendpoints` is removed", endpoints=True)
    spec = service.spec
    if spec.type == "ExternalName":
        given = spec.external_name or ""
        if pack_target(given) is None:
            what = "is an IP address" if pack_address(given) else "is not a host name"
            yield Change(
                place,
                f'externalName "{given}" of {place} {what}, and a CNAME record needs a host name',
                "externalName is a host name, or the Service has no selector and an EndpointSlice "
                "with the address",
                partial(with_spec, service, external_name="name.invalid"),
            )
        yield Change(
            place,
            f"{place} is of type ExternalName, which has a name of its own only",
            f"{place} is headless",
            partial(as_headless, service),
        )
        yield from of_endpoints(parsed, scene, kept, Owner.of_service(service), replay)
        return
    is_headless = (spec.cluster_ips or [spec.cluster_ip or ""])[0] == "None"
    if options["ignore"] and not is_headless:
        yield _without_ignore(place)
    if parsed.endpoint or is_headless or parsed.topology_zone:
        yield from of_endpoints(parsed, scene, kept, Owner.of_service(service), replay)
    if not is_headless:
        if parsed.topology_zone:
            yield Change(
                place,
                f"{place} has a cluster IP, which is in no topology zone",
                f"{place} is headless",
                partial(as_headless, service),
            )
        if parsed.port or parsed.protocol:
            yield Change(
                place,
                f"{place} has {port_names(spec.ports or ())}, but no {asked_port(parsed)}",
                f"{place} has {asked_port(parsed)}",
                partial(with_spec, service, ports=[service_port(parsed)]),
            )
        yield Change(
            place,
            f"{place} has neither a cluster IP nor a port",
            f"{place} has a cluster IP",
            partial(with_spec, service, cluster_ip=MADE_ADDRESS, cluster_ips=[MADE_ADDRESS]),
        )
