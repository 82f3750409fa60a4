"""HS155 to HS157: so many endpoints that resolvers repeat lookups, a slice is full, or an answer is truncated.

Path: judging.py -> here; docs/resolve.md has measurements of the resolvers.
Rule: the computed size of an answer is its minimum, so an answer that is reported as truncated is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from hsdns.cluster.objects import EndpointSlice, Service
from hsdns.resolver.musl import MOST_ADDRESSES
from hsdns.rules.check import check
from hsdns.rules.checks.endpoint_slice import slices_of
from hsdns.rules.checks.external_name import DOMAIN
from hsdns.rules.finding import Remark
from hsdns.rules.manifest import Manifest
from hsdns.rules.objects import Objects, is_headless
from hsdns.wire.encode import MAX_TCP_LEN

REPEATS: Final = 28  # A records from which on glibc repeats the lookup
OVER_TCP: Final = 30  # about the number that fits into 512 octets
MOST_OF_A_SLICE: Final = 1000  # endpoints, the limit of the API server
_HEAD: Final = 12 + 4  # octets: the header, and type and class of the question
_RECORD: Final = 12  # octets: a pointer as owner, type, class, TTL, length of RDATA
_SHORTEST: Final = len("10-0-0-1")  # name of an endpoint with an unknown address
_OCTETS: Final = {"IPv4": 4, "IPv6": 16}


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


@check("HS156")
def full(objects: Objects) -> Iterator[Remark]:
    """Slices with as many endpoints as the API server accepts, or more."""
    for manifest in objects.of("EndpointSlice"):
        found = manifest.object
        count = len(found.endpoints or ()) if isinstance(found, EndpointSlice) else 0
        if count > MOST_OF_A_SLICE:
            yield manifest.remark(
                "endpoints",
                f"the slice has {count} endpoints, and the API server takes {MOST_OF_A_SLICE} at most, so it refuses "
                "the slice; write the others into a second one with the same label",
                level="error",
            )
        elif count == MOST_OF_A_SLICE:
            yield manifest.remark(
                "endpoints",
                f"the slice has {count} endpoints and is full, and with each change of one of them every DNS server "
                "and every node is sent all of them; slices of 100, as the control plane makes them, cost less",
            )


@check("HS157")
def cut_off(objects: Objects) -> Iterator[Remark]:
    """Headless Services whose answers are longer than the maximum of a DNS message."""
    for manifest, service in objects.services:
        if not is_headless(service):
            continue
        families = _families(objects, manifest, service)
        owner = len(f".{manifest.name}.{manifest.namespace or 'default'}.svc.{DOMAIN}.")
        for family, count in families.items():
            fits = (MAX_TCP_LEN - _HEAD - owner) // (_RECORD + _OCTETS[family])
            if count > fits:
                yield manifest.remark(
                    "spec.clusterIP",
                    f"an answer with the {family} addresses of {count} endpoints is longer than a DNS message can be, "
                    f"which is {MAX_TCP_LEN} octets, so {count - fits} of them are in no answer, also over TCP; use "
                    "several Services, or one with a cluster IP",
                    level="error",
                )
                break
        else:
            ports = len(service.spec.ports or ())
            count = max(families.values(), default=0)
            answer = count * ports * (_RECORD + 6 + 1 + _SHORTEST + owner)
            additional = sum(
                each * (_RECORD + _OCTETS[family]) for family, each in families.items()
            )
            if _HEAD + owner + answer + additional > MAX_TCP_LEN:
                what = f"the SRV records of {count} endpoints" + (
                    f" with {ports} ports each" if ports > 1 else ""
                )
                lost = "some of the records" if answer > MAX_TCP_LEN else "some of the addresses"
                yield manifest.remark(
                    "spec.ports",
                    f"{what} and their addresses are more than the {MAX_TCP_LEN} octets of a DNS message, so the "
                    f"answer is cut off even over TCP, and {lost} are not in it; let clients ask for addresses, or use "
                    "several Services",
                )


def _counts(objects: Objects, manifest: Manifest, service: Service) -> list[int]:
    """The number of endpoints of each address family."""
    return list(_families(objects, manifest, service).values())


def _families(objects: Objects, manifest: Manifest, service: Service) -> dict[str, int]:
    """The number of endpoints by address family, from the slices, or from the replicas of the workloads."""
    families = Counter[str]()
    for _, found in slices_of(objects, manifest):
        if found.address_type in _OCTETS:
            families[found.address_type] += len(found.endpoints or ())
    if families or not service.spec.selector:
        return families
    count = sum(each.replicas or 0 for each in objects.selected(manifest, service.spec.selector))
    return dict.fromkeys(service.spec.ip_families or ("IPv4",), count)
