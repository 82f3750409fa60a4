"""HS155: so many endpoints that resolvers ask again, over TCP, or lose some.

Path: judging.py -> here; docs/resolve.md has what the resolvers were measured to do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from hsdns.cluster.objects import Service
from hsdns.resolver.musl import MOST_ADDRESSES
from hsdns.rules.check import check
from hsdns.rules.checks.endpoint_slice import slices_of
from hsdns.rules.finding import Remark
from hsdns.rules.manifest import Manifest
from hsdns.rules.objects import Objects, is_headless

REPEATS: Final = 28  # A records from which on glibc repeats the lookup
OVER_TCP: Final = 30  # about so many fit into 512 octets


@check("HS155")
def many(objects: Objects) -> Iterator[Remark]:
    """Headless Services with many endpoints."""
    for manifest, service in objects.services:
        if not is_headless(service):
            continue
        counts = _counts(objects, manifest, service)
        count, addresses = max(counts, default=0), sum(counts)
        if count < REPEATS and addresses <= MOST_ADDRESSES:
            continue
        what = f"{count} endpoints" + (", with two addresses each" if len(counts) > 1 else "")
        costs = "glibc looks the name up twice"
        if count > OVER_TCP:
            costs = "an answer over UDP without EDNS is cut off, and glibc looks the name up again over TCP"
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


def _counts(objects: Objects, manifest: Manifest, service: Service) -> list[int]:
    """The number of endpoints of each address family, by the slices, or the replicas of the workloads."""
    families = Counter[str]()
    for _, found in slices_of(objects, manifest):
        families[found.address_type] += len(found.endpoints or ())
    if families or not service.spec.selector:
        return list(families.values())
    count = sum(each.replicas or 0 for each in objects.selected(manifest, service.spec.selector))
    return [count] * max(1, len(service.spec.ip_families or ()))
