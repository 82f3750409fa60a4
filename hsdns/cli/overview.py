"""The overview of a cluster that `hsdns serve` shows at the start: its Services, at most a screen, and queries to try.

Path: cli/serve.py, once the server has started -> here; the names and answers are those of cluster/answer_set.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from heapq import nsmallest
from itertools import islice
from typing import Final, NamedTuple

from hsdns.cluster.address import dashed
from hsdns.cluster.answer_set import AnswerSet, port_labels
from hsdns.cluster.schema import SVC, ParsedName, target_name
from hsdns.cluster.value import EXTERNAL_NAME, HEADLESS, Key, ServiceValue
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.wire.iana import ADDRESSES, RRType, type_to_text
from hsdns.wire.name import Name
from hsdns.wire.rdata import address_to_text
from hsdns.wire.text import rdata_to_text

WIDTH: Final = 79  # columns
MOST_LINES: Final = 16  # for the Services of all blocks
MOST_ANSWERS: Final = 4  # lines for each query
MOST_LOOKED_AT: Final = 200  # Services searched for queries to try


class Example(NamedTuple):
    """A query to try, and its answer as `dig +short` prints it, sorted."""

    qname: str
    rrtype: str
    answer: list[str]


def overview(blocks: Sequence[Kubernetes], command: str) -> list[str]:
    """The size of each cluster and its Services; `command` lists all names."""
    lines: list[str] = []
    for block in blocks:
        lines += [*([""] if lines else []), size(block)]
        lines += services(block.answer_set(), command, max(4, MOST_LINES // len(blocks)))
    return lines


def size(block: Kubernetes) -> str:
    """The numbers of Services, endpoints and namespaces of a block."""
    store = block.store
    values = list(store.services.values.values())
    endpoints = sum(part.host_count for value in values for part in value.slices)
    zones = " ".join(zone.to_text() for zone in block.zones)
    return (
        f"kubernetes {zones}: {count(len(values), 'Service')}, "
        f"{count(endpoints, 'endpoint address', 'es')}, {count(len(store.namespaces), 'namespace')}"
    )


def services(answer_set: AnswerSet, command: str, most: int) -> Iterator[str]:
    """One or two lines for each Service that has names, at most `most` lines, and the number of the others."""
    left = [
        (owner, value)
        for zone in answer_set.forward_zones
        for (namespace, name), value in _ordered(answer_set, zone)
        if value.kind is not None
        if (owner := target_name(None, ParsedName(SVC, namespace, name), zone)) is not None
    ]
    shown = 0
    for number, (owner, value) in enumerate(left):
        lines = _service(owner, value)
        if shown + len(lines) > most - (number + 1 < len(left)):
            yield f"  … and {len(left) - number} more, {command} lists all"
            return
        shown += len(lines)
        yield from lines


def examples(answer_set: AnswerSet) -> list[Example]:
    """Queries for a Service, one of its ports and one of its endpoints, for the Service with the most of these."""
    best: list[Example] = []
    for zone in answer_set.forward_zones:
        for key, value in _ordered(answer_set, zone, MOST_LOOKED_AT):
            some = _examples(answer_set, zone, key, value)
            if len(some) > len(best):
                best = some
    return best


def count(number: int, noun: str, ending: str = "s") -> str:
    """A number and a noun, in the plural unless it is 1."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}{ending}"


def _ordered(
    answer_set: AnswerSet, zone: Name, most: int | None = None
) -> list[tuple[Key, ServiceValue]]:
    """The Services, or the first `most`; small namespaces come first, so that a screen shows many namespaces."""
    found = answer_set.exposed(zone)
    sizes = Counter(namespace for namespace, _ in found)
    listed = found.items()
    return nsmallest(
        len(listed) if most is None else most, listed, key=lambda each: (sizes[each[0][0]], each[0])
    )


def _service(owner: Name, value: ServiceValue) -> list[str]:
    what = f"  {owner.to_text().removesuffix('.')}: {_kind(value)}"
    ports = _ports(value)
    if not ports:
        return [what]
    line = f"{what}, SRV {' '.join(ports)}"
    if len(line) <= WIDTH:
        return [line]
    shown = len(ports)
    while shown > 1 and len(_srv_line(ports, shown)) > WIDTH:
        shown -= 1
    return [f"{what},", _srv_line(ports, shown)]


def _srv_line(ports: Sequence[str], shown: int) -> str:
    more = f" and {len(ports) - shown} more" if shown < len(ports) else ""
    return f"    SRV {' '.join(ports[:shown])}{more}"


def _kind(value: ServiceValue) -> str:
    if value.external_name is not None:
        return f"CNAME {value.external_name.to_text()}"
    families = [
        sum(part.host_count for part in value.slices if part.width == width) for width in (0, 4, 16)
    ]
    endpoints = count(families[0] + max(families[1:]), "endpoint")
    if value.kind == HEADLESS:
        return (
            f"headless, {endpoints}"
            if value.has_endpoints
            else "headless, no ready endpoint, NXDOMAIN"
        )
    return f"{' '.join(map(address_to_text, value.cluster_ips)) or 'no address'}, {endpoints}"


def _ports(value: ServiceValue) -> list[str]:
    """The names of its ports, as `_http._tcp`."""
    if value.kind == EXTERNAL_NAME:
        return []
    return [Name.from_labels(labels).to_text().removesuffix(".") for labels in port_labels(value)]


def _examples(answer_set: AnswerSet, zone: Name, key: Key, value: ServiceValue) -> list[Example]:
    """Examples for one Service: its addresses, the SRV records of a port, an endpoint with a hostname."""
    found: dict[str, Example] = {}
    for rrset in islice(answer_set.of_service(zone, key, value), MOST_LOOKED_AT):
        owner, rrtype = rrset[0].owner, rrset[0].rrtype
        label, is_address = owner.labels[0], rrtype in ADDRESSES
        if len(owner.below(zone)) == 3 and (is_address or rrtype == RRType.CNAME):
            role = "service"
        elif len(owner.below(zone)) == 5 and rrtype == RRType.SRV:
            role = "port"
        elif len(owner.below(zone)) == 4 and is_address and label != dashed(rrset[0].rdata):
            role = "endpoint"
        else:
            continue
        answer = sorted(rdata_to_text(rrtype, record.rdata) for record in rrset)
        found.setdefault(
            role, Example(owner.to_text().removesuffix("."), type_to_text(rrtype), answer)
        )
    return list(found.values())
