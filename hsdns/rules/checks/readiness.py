"""HS141, HS142: endpoints that are answered though they are not ready, or are not though that was meant.

Path: judging.py -> here.
"""

from __future__ import annotations

from collections.abc import Iterator

from hsdns.cluster.objects import TOLERATE
from hsdns.rules.check import check
from hsdns.rules.finding import Remark
from hsdns.rules.objects import Objects, is_headless


@check("HS141")
def published(objects: Objects) -> Iterator[Remark]:
    """Services with a cluster IP that lead to pods which are not ready."""
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
