"""HS141 to HS144: endpoints that are in answers although not ready, or are missing although that is not intended.

Path: judging.py -> here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hsdns.cluster.controllers.kinds import PodManifest
from hsdns.cluster.not_ready import pod_of, why_not_ready
from hsdns.cluster.objects import TOLERATE, Endpoint
from hsdns.rules.check import check
from hsdns.rules.checks.endpoint_slice import slices_of
from hsdns.rules.finding import Remark
from hsdns.rules.manifest import Manifest
from hsdns.rules.objects import Objects, is_headless, is_near


@check("HS141")
def published(objects: Objects) -> Iterator[Remark]:
    """Services with a cluster IP that send traffic to pods that are not ready."""
    for manifest, service in objects.services:
        spec = service.spec
        if spec.publish_not_ready_addresses and spec.selector and not is_headless(service):
            yield manifest.remark(
                "spec.publishNotReadyAddresses",
                "the Service has a cluster IP, so connections are also sent to pods that are not ready; "
                "set it on a headless Service of its own, for the pods to find each other",
            )


@check("HS142")
def tolerated(objects: Objects) -> Iterator[Remark]:
    """The annotation that publishNotReadyAddresses has replaced."""
    for manifest, service in objects.services:
        annotations = service.metadata.annotations or {}
        if annotations.get(TOLERATE) == "true" and not service.spec.publish_not_ready_addresses:
            yield manifest.remark(
                f"metadata.annotations[{TOLERATE}]",
                "the annotation has no effect on EndpointSlices, so pods that are not ready have no names; "
                "write publishNotReadyAddresses: true, or remove the annotation",
            )


@check("HS143")
def none_ready(objects: Objects) -> Iterator[Remark]:
    """Services with endpoints of which none is ready."""
    for manifest, service in objects.services:
        listed = [
            (part, each)
            for part, found in slices_of(objects, manifest)
            for each in found.endpoints or ()
        ]
        if not listed or any(_is_ready(each) for _, each in listed):
            continue
        part, first = listed[0]
        why = _why(objects, manifest, first)
        follows = "the name does not exist" if is_headless(service) else "connections are refused"
        flag = "; publishNotReadyAddresses is false" if is_headless(service) else ""
        yield part.remark(
            "endpoints",
            f"0 of {len(listed)} endpoints of {manifest} are ready{f' ({why})' if why else ''}, so {follows}{flag}: "
            "see why the readiness probe fails",
        )


@check("HS144")
def answered_unready(objects: Objects) -> Iterator[Remark]:
    """Endpoints that are in answers only because of publishNotReadyAddresses."""
    for manifest, service in objects.services:
        if not service.spec.publish_not_ready_addresses or not is_headless(service):
            continue
        for part, found in slices_of(objects, manifest):
            endpoints = found.endpoints or []
            unready = [
                each
                for each in endpoints
                if _is_ready(each)
                and each.conditions is not None
                and each.conditions.serving is False
            ]
            if unready:
                why = _why(objects, manifest, unready[0])
                yield part.remark(
                    "endpoints",
                    f"{len(unready)} of {len(endpoints)} endpoints are answered though they do not serve"
                    f"{f' ({why})' if why else ''}, because of publishNotReadyAddresses of {manifest}; "
                    "clients have to try the next address, or use a Service without the flag",
                )


def _is_ready(endpoint: Endpoint) -> bool:
    return endpoint.conditions is None or endpoint.conditions.ready is not False


def _why(objects: Objects, service: Manifest, endpoint: Endpoint) -> str:
    name = endpoint.target_ref.name if endpoint.target_ref is not None else None
    pods = [each for each in objects.pods.get(name or "", ()) if is_near(each, service)]
    found = [each.object for each in pods if isinstance(each.object, PodManifest)]
    why = why_not_ready(endpoint, found)
    if pod_of(endpoint, found) is None:
        return why
    return "; ".join(filter(None, [f"pod {name}", why, containers_not_ready(pods[0].content)]))


def containers_not_ready(content: Any) -> str:
    """Why the first unready container of a Pod is not ready: what it waits for, or its readiness probe."""
    status, spec = content.get("status"), content.get("spec")
    listed = status.get("containerStatuses") if isinstance(status, dict) else None
    for each in listed if isinstance(listed, list) else ():
        if not isinstance(each, dict) or each.get("ready") is not False:
            continue
        name, state = each.get("name"), each.get("state")
        waiting = state.get("waiting") if isinstance(state, dict) else None
        if isinstance(waiting, dict) and waiting.get("reason"):
            return f"container {name} waits: {waiting['reason']}"
        containers = spec.get("containers") if isinstance(spec, dict) else None
        for one in containers if isinstance(containers, list) else ():
            if (
                isinstance(one, dict)
                and one.get("name") == name
                and isinstance(one.get("readinessProbe"), dict)
            ):
                return f"container {name}: {_probe(one['readinessProbe'])}"
        return f"container {name} is not ready"
    return ""


def _probe(probe: dict[str, Any]) -> str:
    for kind, fields in (
        ("httpGet", ("path", "port")),
        ("tcpSocket", ("port",)),
        ("grpc", ("port",)),
    ):
        action = probe.get(kind)
        if isinstance(action, dict):
            return f"readinessProbe {kind} " + " ".join(
                str(action[field]) for field in fields if field in action
            )
    return "readinessProbe exec"
