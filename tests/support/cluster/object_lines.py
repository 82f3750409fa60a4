"""Objects as lines of text, so that a table of expected ones can be read.

Namespace shop
Service shop/web ClusterIP 10.96.0.80
EndpointSlice shop/web-* IPv4 http=8080/TCP : web-0@10.244.0.5 (web-0), -@10.244.0.6 (web-1) not ready
Pod shop/web-0 10.244.0.5 Running
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from hsdns.cluster.controllers.simulation import simulate
from hsdns.cluster.objects import SERVICE_NAME_LABEL, Endpoint, EndpointSlice, Object, Pod, Service
from hsdns.sources.manifest_file import read_manifest_file


def simulated(*files: str) -> list[Object]:
    """Read the files, simulate; every one of them must be good."""
    documents = []
    for number, text in enumerate(files, 1):
        found = read_manifest_file(text.encode(), f"{number}.yaml")
        assert found.problems == []
        documents += found.documents
    return simulate(documents)


def object_lines(objects: Iterable[Object], *kinds: str) -> list[str]:
    """Write objects of these kinds (of all, without any)."""
    return [object_line(each) for each in objects if not kinds or type(each).__name__ in kinds]


def object_line(each: Object) -> str:
    """Write one object."""
    meta = each.metadata
    path = f"{type(each).__name__} {meta.namespace}/{meta.name}".replace(" /", " ")
    if isinstance(each, Service):
        addresses = " ".join(each.spec.cluster_ips or [each.spec.external_name or "-"])
        families = (
            f" ({' '.join(each.spec.ip_families)})"
            if addresses == "None" and each.spec.ip_families
            else ""
        )
        return f"{path} {each.spec.type} {addresses}{families}"
    if isinstance(each, EndpointSlice):
        owner = (meta.labels or {})[SERVICE_NAME_LABEL]
        path = re.sub(rf"/{owner}-[a-z0-9]{{5}}$", f"/{owner}-*", path)
        ports = " ".join(
            f"{port.name or ''}={port.port}/{port.protocol}" for port in each.ports or ()
        )
        return f"{path} {each.address_type} {ports or '-'} : {', '.join(map(_endpoint, each.endpoints or ()))}"
    if isinstance(each, Pod):
        return f"{path} {each.status.pod_ip or '-'} {each.status.phase}"
    return path


def _endpoint(each: Endpoint) -> str:
    zone = [f"in {each.zone}"] if each.zone else []
    target = each.target_ref.name if each.target_ref else "-"
    conditions = each.conditions
    words = []
    if conditions is not None:
        words = ["not ready"] * (conditions.ready is False) + ["terminating"] * bool(
            conditions.terminating
        )
    return " ".join(
        [f"{each.hostname or '-'}@{'+'.join(each.addresses or ())}", f"({target})", *zone, *words]
    )
