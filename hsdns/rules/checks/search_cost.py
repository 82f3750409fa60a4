"""HS176: queries caused by the search list, for names in recorded queries.

Path: judging.py -> here <- the object RecordedQueries that cli/doctor_recording.py adds to a dump.
Rule 1: clients are grouped by the workload of their Pod; those whose address is not a Pod's are one group.
Rule 2: the proposed ndots is not lower than any name that was found with a search domain allows: musl tries no search
        domain for a name with that many dots.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, Final

from hsdns.cluster.controllers.kinds import PodManifest, Workload
from hsdns.rules.check import check
from hsdns.rules.finding import Remark
from hsdns.rules.manifest import Manifest
from hsdns.rules.objects import Objects

RECORDED: Final = "RecordedQueries"  # as in sources/cluster_dump.py, which lint does not import
DEFAULT: Final = 5  # ndots of a pod
LEAST: Final = 10  # failed queries from which on there is a finding
SHARE: Final = 4  # at least one of so many queries fails
_NOBODY: Final = ""


@check("HS176")
def costly(objects: Objects) -> Iterator[Remark]:
    """Workloads that query many names with search domains first."""
    for manifest in objects.written(RECORDED):
        owners = _owners(objects)
        found: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        for client in _mappings(manifest.content.get("clients")):
            found[owners.get(str(client.get("address")), _NOBODY)].append(client)
        for place, clients in sorted(found.items()):
            queries = sum(_number(each, "queries") for each in clients)
            names = [one for each in clients for one in _mappings(each.get("names"))]
            extra = sum(_number(each, "extra") for each in names)
            if extra >= LEAST and extra * SHARE >= queries:
                who = "" if place else f" of {_listed(clients)}, no address of a known Pod,"
                yield Remark(
                    manifest.at("clients"),
                    place,
                    "",
                    f"{extra} of {queries} recorded queries{who} asked with a search domain in vain, most of them for "
                    f"{_most(names)}; {_remedy(names, extra)}",
                )


def _most(names: list[dict[str, Any]]) -> str:
    extra, lookups = Counter[str](), Counter[str]()
    for each in names:
        extra[str(each.get("name"))] += _number(each, "extra")
        lookups[str(each.get("name"))] += _number(each, "lookups")
    name, count = extra.most_common(1)[0]
    return f"{name} ({count}, before {lookups[name]} answers)"


def _remedy(names: list[dict[str, Any]], extra: int) -> str:
    dots = [str(each.get("name")).count(".") for each in names if each.get("searched") is True]
    ndots = max(2, *(each + 1 for each in dots)) if dots else 2
    dot = "write whole names with a dot at the end"
    saved = sum(
        _number(each, "extra") for each in names if str(each.get("name")).count(".") >= ndots
    )
    if ndots >= DEFAULT or not saved:
        return dot
    return (
        f"{dot}, or ndots:{ndots} in dnsConfig.options, which would have saved {saved} of {extra}"
    )


def _owners(objects: Objects) -> dict[str, str]:
    """The workloads by the addresses of their Pods; Pods on the network of a node share its address."""
    known = {
        (each.kind, each.namespace, each.name): each
        for each in objects.manifests
        if isinstance(each.object, Workload)
    }
    found = {}
    for manifest in objects.of("Pod"):
        if not isinstance(manifest.object, PodManifest) or manifest.object.spec.host_network:
            continue
        owner, above = manifest, _owner(manifest)
        while above is not None and (above[0], manifest.namespace, above[1]) in known:
            owner = known[above[0], manifest.namespace, above[1]]
            above = _owner(owner)
        status = manifest.content.get("status")
        if isinstance(status, dict):
            listed = [each.get("ip") for each in _mappings(status.get("podIPs"))]
            for address in (status.get("podIP"), *listed):
                found[str(address)] = str(owner)
    return found


def _owner(manifest: Manifest) -> tuple[str, str] | None:
    """Kind and name of the owner of an object."""
    if isinstance(manifest.object, PodManifest | Workload):
        for each in manifest.object.metadata.owner_references or ():
            return each.kind, each.name
    return None


def _listed(clients: list[dict[str, Any]]) -> str:
    first = ", ".join(str(each.get("address")) for each in clients[:3])
    return first + (f" and {len(clients) - 3} more" if len(clients) > 3 else "")


def _mappings(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _number(value: dict[str, Any], key: str) -> int:
    found = value.get(key)
    return found if isinstance(found, int) else 0
