"""The changes that may make a missing name of a Service, an endpoint or a Pod exist, likely ones first.

Path: explain.py -> here -> changes.py tries them.
Rule: a candidate is a guess from the fields of the objects; changes.py repeats the query to test it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from hsdns.cluster.address import pack_address
from hsdns.cluster.objects import Namespace, ObjectMeta, Pod, PodStatus, Service
from hsdns.cluster.pack import pack_target
from hsdns.cluster.pods import address_in
from hsdns.cluster.question import POD, ParsedName
from hsdns.explanation.changes import Change
from hsdns.explanation.corefile_changes import (
    without_ignore,
    without_labels,
    without_namespace_labels,
)
from hsdns.explanation.edits import (
    MADE_ADDRESS,
    as_headless,
    asked_port,
    headless_spec,
    port_names,
    service_port,
    text,
    with_service,
)
from hsdns.explanation.endpoint_candidates import of_endpoints
from hsdns.explanation.import_candidates import of_import
from hsdns.explanation.owner import Owner, selected
from hsdns.explanation.scene import ClusterObjects, Replay, Scene


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
        yield Change(
            "Corefile",
            f"`namespaces` of the kubernetes block leaves out {namespace}",
            f"`namespaces` has {namespace}",
            lambda scene: scene.with_options(namespaces=()),
        )
    by_label = options["namespace_labels"]
    if by_label and not all(by_label.matches(each.metadata.labels) for each in scene.namespaces):
        yield without_namespace_labels(namespace)
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
        yield Change(
            "Corefile",
            "`pods` of the kubernetes block is disabled, so pods have no names by address",
            "`pods insecure` is in the kubernetes block",
            lambda scene: scene.with_options(pods="insecure"),
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
        yield without_labels(place)
    if options["noendpoints"]:
        yield Change(
            "Corefile",
            "`noendpoints` is in the kubernetes block, so no EndpointSlice is read",
            "`noendpoints` is removed",
            lambda scene: scene.with_settings(endpoints=True),
        )
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
                partial(with_service, service, external_name="name.invalid"),
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
        yield without_ignore(place)
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
                partial(with_service, service, ports=[service_port(parsed)]),
            )
        yield Change(
            place,
            f"{place} has neither a cluster IP nor a port",
            f"{place} has a cluster IP",
            partial(with_service, service, cluster_ip=MADE_ADDRESS, cluster_ips=[MADE_ADDRESS]),
        )
