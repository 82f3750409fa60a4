"""The owner of the endpoints of a name: a Service or a ServiceImport.

Path: candidates.py and import_candidates.py -> here -> endpoint_candidates.py.
Rule: objects added to a scene have labels that the selectors of the block match, so that the block reads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hsdns.cluster.objects import (
    IMPORT_NAME_LABEL,
    SERVICE_NAME_LABEL,
    SOURCE_CLUSTER_LABEL,
    TOLERATE,
    Endpoint,
    EndpointPort,
    EndpointSlice,
    ObjectMeta,
    Service,
    ServiceImport,
    ServicePort,
)
from hsdns.cluster.question import ParsedName
from hsdns.cluster.selector import Selector
from hsdns.explanation.edits import MADE_ADDRESS, text
from hsdns.explanation.scene import Scene


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
