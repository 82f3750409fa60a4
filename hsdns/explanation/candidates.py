"""The changes that may make a missing name of a Service, an endpoint or a Pod exist, likely ones first.

Path: explain.py -> here -> scene.py tries them.
Rule 1: a candidate is a guess from the fields of the objects; scene.py repeats the query to test it.
Rule 2: added objects have names and addresses that no cluster has (RFC 5737, RFC 6761), and labels that the selectors
        of the block match, so that the block reads them.
Rule 3: loops over endpoints yield None where other work may run, because a Service may have thousands of endpoints.
Source: CoreDNS 1.14.7 plugin/kubernetes; a ServiceImport without ports has no names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from msgspec import structs

from hsdns.causes.alias import service_of
from hsdns.causes.behind import published
from hsdns.causes.cause import Cause
from hsdns.causes.failing import left_out
from hsdns.causes.labels import POD_NAME
from hsdns.causes.pod import why_unready
from hsdns.causes.view import manifest_of
from hsdns.cluster.address import pack_address
from hsdns.cluster.controllers.defaults import PROTOCOLS
from hsdns.cluster.controllers.kinds import is_ready
from hsdns.cluster.objects import (
    IMPORT_NAME_LABEL,
    SERVICE_NAME_LABEL,
    SOURCE_CLUSTER_LABEL,
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
)
from hsdns.cluster.pack import pack_slice, pack_target, source_cluster
from hsdns.cluster.schema import POD, ParsedName
from hsdns.cluster.store import address_in
from hsdns.explanation.scene import Change, ClusterObjects, Replay, Scene
from hsdns.sources.manifests import text
from hsdns.wire import counted

MADE_ADDRESS: Final = "192.0.2.1"  # of an endpoint that is added (RFC 5737)
PIECE: Final = 10  # endpoints between two pauses
Changes = Iterator[Change | None]


class Candidates:
    """The changes for one name below `svc` or `pod`: iterate over it.

    `why` nothing stands behind it, if that is known.
    """

    def __init__(
        self,
        parsed: ParsedName,
        scene: Scene,
        kept: ClusterObjects,
        replay: Replay,
        why: Cause | None = None,
    ) -> None:
        self._parsed, self._scene, self._kept, self._replay = parsed, scene, kept, replay
        self._why = why
        self._options = replay.block.options
        self._namespace, self._name = text(parsed.namespace), text(parsed.name)
        self._endpoint = text(parsed.endpoint)
        port, protocol = text(parsed.port), text(parsed.protocol).upper()
        self._service_port = ServicePort(80, port or None, protocol or "TCP")
        self._has_port = bool(port or protocol)
        of_protocol = f" of protocol {protocol}" if protocol else ""
        self._asked_port = f"port {port}/{protocol or 'any'}" if port else f"port{of_protocol}"
        self._is_import = replay.block.answers.lookup.is_multicluster(replay.zone)
        found: Sequence[Service | ServiceImport] = scene.imports if self._is_import else scene.services  # fmt: skip
        self._is_found = bool(found)
        self._owner = found[0] if found else self._made_owner()
        self._place = f"{type(self._owner).__name__} {self._namespace}/{self._name}"

    def __iter__(self) -> Changes:
        namespace, options = self._namespace, self._options
        by_label = options["namespace_labels"]
        if not self._scene.namespaces:
            made = Namespace(ObjectMeta(name=namespace, labels=selected(by_label)))
            yield Change(
                f"Namespace {namespace}",
                f"there is no namespace {namespace}",
                f"namespace {namespace} exists",
                lambda scene: scene.with_objects(made),
            )
        if options["namespaces"] and namespace not in map(str.lower, options["namespaces"]):
            cause = left_out(namespace).sentence
            yield _option(cause, f"`namespaces` has {namespace}", namespaces=())
        if by_label and not all(
            by_label.matches(each.metadata.labels) for each in self._scene.namespaces
        ):
            yield _without_labels(namespace, "namespace_labels")
        yield from self._of_pod() if self._parsed.kind == POD else self._of_owner()

    def _of_pod(self) -> Changes:
        namespace, pods = self._namespace, self._options["pods"]
        if pods == "disabled":
            yield _option(
                "`pods` of the kubernetes block is disabled, so pods have no names by address",
                "`pods insecure` is in the kubernetes block",
                pods="insecure",
            )
        elif pods == "verified" and address_in(self._parsed.name) is not None:
            label = self._name
            is_ipv4 = label.count("-") == 3 and "--" not in label
            shown = label.replace("-", "." if is_ipv4 else ":")
            labels = selected(self._options["labels"])
            pod = Pod(ObjectMeta("added", namespace, labels=labels), PodStatus(shown, "Running"))
            yield Change(
                f"Namespace {namespace}",
                f"no pod of namespace {namespace} has the address {shown} (`pods verified`)",
                f"a pod has the address {shown}",
                lambda scene: scene.with_objects(pod),
            )

    # The Service or ServiceImport.

    def _made_owner(self) -> Service | ServiceImport:
        """A headless one with the port of the name."""
        selector = "namespace_labels" if self._is_import else "labels"
        meta = ObjectMeta(self._name, self._namespace, labels=selected(self._options[selector]))
        ports = [self._service_port]
        if self._is_import:
            return ServiceImport(meta, ServiceImportSpec("Headless", ports=ports))
        return Service(meta, ServiceSpec(type="ClusterIP", cluster_ip="None", ports=ports))

    def _of_owner(self) -> Changes:
        owner, place, options, is_import = self._owner, self._place, self._options, self._is_import
        selector = "namespace_labels" if is_import else "labels"
        if not self._is_found:
            needs = f", with a ready endpoint {self._endpoint}" if self._endpoint else ""
            if is_import:
                needs += ": a cluster of the clusterset exports the Service"
            elif self._has_port and self._service_port.protocol in PROTOCOLS:
                # Of another name with a search domain behind it, this is no protocol.
                needs += f", with a {self._asked_port}"
            yield self._because(
                place,
                f"there is no {place}",
                f"{place} exists{needs}",
                lambda scene: self._with_endpoint(scene.with_objects(owner)),
            )
        elif options[selector] and not options[selector].matches(owner.metadata.labels):
            yield _without_labels(place, selector)
        if isinstance(owner, ServiceImport):
            is_headless = owner.spec.type == "Headless"
        else:
            is_headless = owner.is_headless
            if options["noendpoints"]:
                cause = "`noendpoints` is in the kubernetes block, so no EndpointSlice is read"
                yield _setting(cause, "`noendpoints` is removed", noendpoints=False)
            if owner.spec.type == "ExternalName":
                yield from self._of_external_name(owner.spec.external_name or "")
                yield from self._of_endpoints()
                return
        if options["ignore"] and not is_headless:
            cause = f"`ignore empty_service` hides {place}, because it has no ready endpoint"
            yield _option(cause, "`ignore empty_service` is removed", ignore=False)
        if self._endpoint or is_headless or self._parsed.topology_zone:
            yield from self._of_endpoints()
        if not is_headless:
            yield from self._of_cluster_ip()

    def _of_external_name(self, given: str) -> Changes:
        place = self._place
        if pack_target(given) is None:
            change = self._with_spec(
                f'externalName "{given}" of {place} is not a host name, and a CNAME record needs one',
                "externalName is a host name, or the Service has no selector and an EndpointSlice "
                "with the address",
                external_name="name.invalid",
            )
            yield self._because(*change[:4])
        change = self._as_headless(f"{place} is of type ExternalName, and no names exist below it")
        if self._endpoint:
            headless = change.make
            change = change._replace(
                needed=f"{change.needed}, with a ready endpoint {self._endpoint}",
                make=lambda scene: self._with_endpoint(headless(scene)),
                todo=f"hsdns explain {self._endpoint}.{given}" if service_of(given) else "",
            )
        yield change

    def _of_cluster_ip(self) -> Changes:
        place, ports = self._place, [self._service_port]
        if self._is_import:
            needed = f"{place} has a {self._asked_port}"
            yield self._with_spec(self._without_port(), needed, ports=ports)
            yield self._with_spec(
                f"{place} has no IP address", f"{place} has one", ips=[MADE_ADDRESS]
            )
            return
        if self._parsed.topology_zone:
            yield self._as_headless(f"{place} has a cluster IP, which is in no topology zone")
        if self._has_port:
            needed = f"{place} has {self._asked_port}"
            todo = self._name_of_port(self._owner.spec.ports or ())
            yield self._with_spec(self._without_port(), needed, todo, ports=ports)
        yield self._with_spec(
            f"{place} has neither a cluster IP nor a port",
            f"{place} has a cluster IP",
            cluster_ip=MADE_ADDRESS,
            cluster_ips=[MADE_ADDRESS],
        )

    def _name_of_port(self, served: Sequence[ServicePort | EndpointPort]) -> str:
        """What to do for a port name that the Service does not have; `served` are the ports that have names."""
        port, own = text(self._parsed.port), self._owner.spec.ports or ()
        if len(own) == 1 and not own[0].name:
            return f"set name: {port} for port {own[0].port} of {self._place}"
        found = next((each for each in served if each.name), None)
        if found is None or not port or any(each.name == port for each in own):
            return ""
        zone, protocol = self._replay.zone.to_text(), (found.protocol or "TCP").lower()
        use = f"_{found.name}._{protocol}.{self._name}.{self._namespace}.svc.{zone}"
        return f"use {use.removesuffix('.')}, or add a port named {port} to {self._place}"

    def _without_port(self) -> str:
        ports = self._owner.spec.ports or ()
        other = f", but no {self._asked_port}" if ports else ""
        return f"{self._place} has {_port_names(ports)}{other}"

    def _with_spec(self, cause: str, needed: str, todo: str = "", **fields: object) -> Change:
        """Change fields of the owner's spec, in addition to earlier changes."""
        owner = self._owner

        def make(scene: Scene) -> Scene:
            now: Any = scene.objects.get(identity(owner), owner)
            return scene.with_objects(
                structs.replace(now, spec=structs.replace(now.spec, **fields))
            )

        return Change(self._place, cause, needed, make, todo)

    def _as_headless(self, cause: str) -> Change:
        fields: dict[str, Any] = {"type": "ClusterIP", "cluster_ip": "None", "cluster_ips": None}
        return self._with_spec(cause, f"{self._place} is headless", external_name=None, **fields)

    def _with_endpoint(self, scene: Scene) -> Scene:
        """Add a slice with a ready endpoint that has the label, port and cluster of the name."""
        meta, port = self._owner.metadata, self._service_port
        own = {IMPORT_NAME_LABEL if self._is_import else SERVICE_NAME_LABEL: meta.name}
        if self._parsed.cluster:
            own[SOURCE_CLUSTER_LABEL] = text(self._parsed.cluster)
        labels = selected(self._options["labels"], own)
        return scene.with_objects(
            EndpointSlice(
                ObjectMeta(f"{meta.name}-added", meta.namespace, labels=labels),
                "IPv4",
                [Endpoint([MADE_ADDRESS], hostname=self._endpoint or None)],
                [EndpointPort(port.name, port.protocol, 80)],
            )
        )  # fmt: skip

    # Its endpoints.

    def _of_endpoints(self) -> Changes:
        place, slices, asked = self._place, self._scene.slices, self._endpoint
        selector = self._options["labels"]
        hidden = [
            each for each in slices if selector and not selector.matches(each.metadata.labels)
        ]
        if hidden:
            yield _without_labels(_slice_place(hidden[0]))
        listed = [(part, each) for part in slices for each in part.endpoints or ()]
        meant, known = listed, list[tuple[bytes, str]]()
        if asked:
            meant = []
            for number, (part, each) in enumerate(listed):
                if number % PIECE == 0:
                    yield None
                # Those of a Service are not named after a cluster.
                cluster = source_cluster(part.metadata) if self._parsed.cluster else b""
                labels = self._labels(part, each)
                known += [(cluster, text(label)) for label in labels - {b""}]
                if self._parsed.endpoint in labels and cluster == self._parsed.cluster:
                    meant.append((part, each))
        unready = [pair for pair in meant if not is_ready(pair[1])]
        if unready:
            count = f"{len(meant) - len(unready)} of {len(meant)} endpoints of {place} are ready"
            if asked:
                count = f"endpoint {asked} of {place} is not ready"
            publishing, flag = "", "a ServiceImport has ready endpoints only"
            if isinstance(self._owner, Service):
                publishing = f", or publishNotReadyAddresses of {place} is true"
                flag = published(self._owner)
            yield self._because(
                _slice_place(unready[0][0]),
                f"{count}{_conditions(*unready[0], self._kept)}; {flag}",
                f"an endpoint of {place} is ready{publishing}",
                partial(_all_ready, [each for _, each in unready]),
            )
        if asked and not meant:
            yield from self._of_hostname(listed)
        filled = [part for part in slices if part.endpoints]
        if self._has_port and filled:
            served, name = filled[0].ports or (), filled[0].metadata.name
            yield self._because(
                _slice_place(filled[0]),
                f"{self._without_port()}; EndpointSlice {name} has {_port_names(served)}",
                f"the EndpointSlice has {self._asked_port}",
                self._with_ports,
                self._name_of_port(served),
            )
        hostname = todo = ""
        if asked:
            near, todo = self._near_labels(known)
            cause, hostname = f"no endpoint named {asked}{near}", f" with hostname {asked}"
        else:
            cause = f"no endpoints{self._why_none()}"
        where = place if self._why is None else self._why.place
        needed = f"{place} has a ready endpoint{hostname}"
        yield self._because(where, f"{place} has {cause}", needed, self._with_endpoint, todo)

    def _because(
        self, place: str, cause: str, needed: str, make: Callable[[Scene], Scene], todo: str = ""
    ) -> Change:
        """A change for the cause that nothing stands behind the Service, if that is known."""
        if self._why is None:
            return Change(place, cause, needed, make, todo)
        return Change(place, self._why.sentence, needed, make, self._why.todo)

    def _labels(self, part: EndpointSlice, endpoint: Endpoint) -> set[bytes]:
        """The labels that the server would give an endpoint if it were ready."""
        alone = structs.replace(part, endpoints=[structs.replace(endpoint, conditions=None)])
        settings = self._replay.block.state.settings
        packed = pack_slice(alone, settings, lambda reason, sentence: None)
        return {label for each in packed for _, label in each.places}

    def _near_labels(self, known: Sequence[tuple[bytes, str]]) -> tuple[str, str]:
        """The endpoint names that there are instead, each with its cluster, and what to do."""
        cluster = self._parsed.cluster
        labels = sorted({label for each, label in known if each == cluster}) or sorted(
            {f"{label}{_in_cluster(each)}" for each, label in known if each != cluster}
        )
        if not labels:
            return f"{_in_cluster(cluster)}: it has no endpoints", ""
        base, dash, number = self._endpoint.rpartition("-")
        ordinals = [
            int(label.removeprefix(f"{base}-"))
            for label in labels
            if re.fullmatch(rf"{re.escape(base)}-\d{{1,9}}", label)
        ]
        if not (dash and number.isdigit() and ordinals):
            shown = ", ".join(labels[:3]) + (", …" if len(labels) > 3 else "")
            return f"{_in_cluster(cluster)}; it has {shown}", ""
        first, last = f"{base}-{min(ordinals)}", f"{base}-{max(ordinals)}"
        shown = f"{first} to {last}" if first != last else first
        pods = {each.metadata.name for each in self._kept.pods(self._parsed.namespace)}
        if first in pods and len(ordinals) == max(ordinals) - min(ordinals) + 1:
            count = int(number) - min(ordinals) + 1
            todo = f"kubectl -n {self._namespace} scale statefulset {base} --replicas={count}"
            if count <= 0:
                todo = f"use a name from {first} to {last}"
            return f"; StatefulSet {base} has {counted(len(ordinals), 'replica')}: {shown}", todo
        return f"{_in_cluster(cluster)}; it has {shown}", ""

    def _of_hostname(self, listed: Sequence[tuple[EndpointSlice, Endpoint]]) -> Iterator[Change]:
        """The change for an endpoint name of an existing Pod that does not have this name below this Service."""
        label, name = self._endpoint, self._owner.metadata.name
        pods = {each.metadata.name: each for each in self._kept.pods(self._parsed.namespace)}
        for part, endpoint in listed:
            own = (endpoint.target_ref.name if endpoint.target_ref else "") or ""
            pod = pods.get(own)
            hostname, subdomain = (pod.spec.hostname, pod.spec.subdomain) if pod else (None, None)
            if label not in (own.lower(), (hostname or "").lower()):
                continue
            place = f"Pod {part.metadata.namespace}/{own}"
            wrong = [] if hostname == label else [f"spec.hostname of {place} to {label}"]
            wrong += [] if subdomain == name else [f"spec.subdomain of {place} to {name}"]
            if pod is not None and POD_NAME in (pod.metadata.labels or {}):
                stem = own.rpartition("-")[0]
                wrong = [f"serviceName of StatefulSet {part.metadata.namespace}/{stem} to {name}"]
            if pod is None or endpoint.hostname or (hostname and subdomain == name):
                shown = f'hostname "{endpoint.hostname}"' if endpoint.hostname else "no hostname"
                cause = f"the endpoint of {place} has {shown} in {_slice_place(part)}"
            elif hostname and subdomain:
                key = self._parsed.namespace, subdomain.lower().encode()
                below = f"so its name is below Service {subdomain}"
                if key not in self._replay.block.store.services.values:
                    below = "and there is no such Service"
                cause = f"{place} has subdomain {subdomain}, {below}; the queried Service is {name}"
            else:
                has = (
                    "a hostname but no subdomain" if hostname else "neither hostname nor subdomain"
                )
                if subdomain:
                    has = f"subdomain {subdomain} but no hostname"
                cause = f"{place} has {has}, so it has no DNS name"
            yield Change(
                place,
                cause,
                f"{place} has hostname {label} and subdomain {name}, so that its endpoint has the hostname",
                partial(_with_hostname, endpoint.addresses, label),
                f"set {' and '.join(wrong)}" if wrong else "",
            )
            return

    def _why_none(self) -> str:
        slices = self._scene.slices
        if any(part.endpoints for part in slices):
            return " with a usable address and port"
        return ": its EndpointSlices are empty" if slices else ": it has no EndpointSlice"

    def _with_ports(self, scene: Scene) -> Scene:
        """Give the first port of each slice the name and protocol of the question."""
        name, protocol = text(self._parsed.port), text(self._parsed.protocol).upper()

        def renamed(ports: Sequence[EndpointPort]) -> list[EndpointPort]:
            first = ports[0] if ports else EndpointPort(port=80)
            name_, protocol_ = name or first.name, protocol or first.protocol
            return [structs.replace(first, name=name_, protocol=protocol_), *ports[1:]]

        return scene.with_objects(
            *(structs.replace(part, ports=renamed(part.ports or ())) for part in scene.slices)
        )


def of_address(address: bytes, scene: Scene, kept: ClusterObjects) -> Iterator[Change]:
    """The changes that may give an address a name; the scene has the Services of the endpoints with it."""
    for part in scene.slices:
        for endpoint in part.endpoints or ():
            if not is_ready(endpoint) and address in map(pack_address, endpoint.addresses or ()):
                shown, place = " ".join(endpoint.addresses or ()), _slice_place(part)
                yield Change(
                    place,
                    f"endpoint {shown} of {place} is not ready{_conditions(part, endpoint, kept)}",
                    f"endpoint {shown} is ready",
                    partial(_all_ready, [endpoint]),
                )


def selected(selector: Selector | None, labels: Mapping[str, str] | None = None) -> dict[str, str]:
    """Labels, extended so that a selector matches them."""
    found = dict(labels or {})
    for each in selector.requirements if selector is not None else ():
        if each.wanted and not each.matches(found):
            found[each.key] = min(each.values) if each.values else "true"
    return found


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


def _with_endpoints(scene: Scene, when: Callable[[Endpoint], bool], **fields: object) -> Scene:
    """Change fields of the endpoints that are meant, in all slices."""

    def changed(part: EndpointSlice) -> EndpointSlice:
        found = part.endpoints or ()
        made = [structs.replace(each, **fields) if when(each) else each for each in found]
        return structs.replace(part, endpoints=made)

    return scene.with_objects(*map(changed, scene.slices))


def _all_ready(unready: Sequence[Endpoint], scene: Scene) -> Scene:
    """Make endpoints ready."""
    chosen = {tuple(each.addresses or ()) for each in unready}

    def when(each: Endpoint) -> bool:
        return not is_ready(each) and tuple(each.addresses or ()) in chosen

    return _with_endpoints(scene, when, conditions=EndpointConditions(ready=True))


def _with_hostname(addresses: Sequence[str] | None, label: str, scene: Scene) -> Scene:
    """Give an endpoint a hostname."""
    return _with_endpoints(scene, lambda each: each.addresses == addresses, hostname=label)


def _conditions(part: EndpointSlice, endpoint: Endpoint, kept: ClusterObjects) -> str:
    pods = kept.pods(part.metadata.namespace.encode().lower())
    why = why_unready(endpoint, {each.metadata.name: manifest_of(each) for each in pods})
    return f" ({why})" if why else ""


def _slice_place(found: EndpointSlice) -> str:
    return f"EndpointSlice {found.metadata.namespace}/{found.metadata.name}"


def _in_cluster(cluster: bytes) -> str:
    return f" in cluster {text(cluster)}" if cluster else ""


def _port_names(ports: Sequence[ServicePort | EndpointPort]) -> str:
    """The names and protocols of ports, in words."""
    if not ports:
        return "no ports"
    return ", ".join(f"port {each.name or '(unnamed)'}/{each.protocol or 'TCP'}" for each in ports)
