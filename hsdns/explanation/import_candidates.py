"""The changes that may make a missing name of a ServiceImport exist, likely ones first.

Path: candidates.py, for a name in a zone of `multicluster` -> here, endpoint_candidates.py.
Source: CoreDNS 1.14.7 plugin/kubernetes; a ServiceImport without ports has no names.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from msgspec import structs

from hsdns.cluster.objects import ObjectMeta, ServiceImport, ServiceImportSpec
from hsdns.cluster.question import ParsedName
from hsdns.explanation.changes import Change
from hsdns.explanation.corefile_changes import without_ignore, without_namespace_labels
from hsdns.explanation.edits import MADE_ADDRESS, asked_port, port_names, service_port, text
from hsdns.explanation.endpoint_candidates import of_endpoints
from hsdns.explanation.owner import Owner, selected
from hsdns.explanation.scene import ClusterObjects, Replay, Scene


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
        yield without_namespace_labels(place)
    owner, spec = Owner.of_import(found), found.spec
    is_headless = spec.type == "Headless"
    if options["ignore"] and not is_headless:
        yield without_ignore(place)
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
            partial(_with_fields, found, ports=[service_port(parsed)]),
        )
        yield Change(
            place,
            f"{place} has no IP address",
            f"{place} has one",
            partial(_with_fields, found, ips=[MADE_ADDRESS]),
        )


def _with_added(found: ServiceImport, parsed: ParsedName, replay: Replay, scene: Scene) -> Scene:
    labels = replay.block.options["labels"]
    return Owner.of_import(found).with_endpoint(parsed, labels, scene.with_objects(found))


def _with_fields(found: ServiceImport, scene: Scene, **fields: object) -> Scene:
    """Change fields of a ServiceImport's spec, in addition to earlier changes."""
    now = next((each for each in scene.imports if each.metadata == found.metadata), found)
    return scene.with_objects(structs.replace(now, spec=structs.replace(now.spec, **fields)))
