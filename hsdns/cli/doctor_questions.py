"""The questions of `hsdns doctor` to DNS servers: a name that every cluster has, names of its target, and a few others.

Path: the kubernetes block of doctor_servers.py -> here -> cluster/answer_set.py.
Rule 1: all names of a Service are queried, of a Pod those with one of its addresses, up to MOST names.
Rule 2: a Service without records is queried too: that its name has none is an answer.
Rule 3: up to WITNESSES other Services are queried: only a server of this cluster knows their addresses.  Those of the
        API server and of the DNS are the same in many clusters, and so are names in SRV and CNAME records.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from ipaddress import ip_address
from itertools import islice
from typing import Final

from hsdns.cluster.answer_set import AnswerSet, RRset
from hsdns.cluster.controllers.dns_service import KNOWN
from hsdns.cluster.question import SVC
from hsdns.cluster.value import Key, ServiceValue
from hsdns.load.questions import Question
from hsdns.wire.iana import RRType
from hsdns.wire.name import Name

MOST: Final = 32  # names
WITNESSES: Final = 3  # Services
KUBERNETES: Final = (b"default", b"kubernetes")  # the API server; in every cluster
OWN: Final = "own"  # the group of questions whose right answer only this cluster's DNS knows
COMMON: Final = "common"  # of all others
_ADDRESSES: Final = (RRType.A, RRType.AAAA)
_IN_ALL: Final = frozenset(
    {KUBERNETES, *((each.namespace.encode(), each.name.encode()) for each in KNOWN)}
)


def doctor_questions(
    answer_set: AnswerSet,
    target: str,
    addresses: Collection[str],
    of_dns: Collection[tuple[str, str]] = (),
) -> list[Question]:
    """The questions; `target` is NAMESPACE[/NAME] or empty, `addresses` are those of the Pod with that name.

    `of_dns` are more Services of the DNS, by namespace and name.
    """
    if not answer_set.forward_zones:
        return []
    zone = answer_set.forward_zones[0]
    values = answer_set.exposed(zone)
    namespace, _, name = target.lower().partition("/")
    chosen = (namespace.encode(), name.encode())
    in_all = _IN_ALL | {(one.encode(), other.encode()) for one, other in of_dns}
    found: dict[tuple[Name, int], str] = {}
    for key in (KUBERNETES, *([chosen] if chosen in values else [])):
        owner = Name.from_labels((key[1], key[0], SVC, *zone.labels))
        own = [] if key not in values else list(answer_set.of_service(zone, key, values[key]))
        if key == KUBERNETES:
            own = [each for each in own if each[0].owner == owner and each[0].rrtype != RRType.SRV]
        if not any(each[0].owner == owner for each in own):
            found[owner, RRType.A] = COMMON
        found |= _grouped(own, COMMON if key in in_all else OWN)
    packed = {ip_address(each).packed for each in addresses}
    for key, value in values.items():
        if packed and key[0] == chosen[0] and _has(value, packed):
            rrsets = _with(answer_set, zone, key, value, packed)
            found |= _grouped(rrsets, COMMON if key in in_all else OWN)
    others = {key: value for key, value in values.items() if key not in {*in_all, chosen}}
    witnesses = _grouped(islice(_witnesses(answer_set, zone, others), WITNESSES), OWN)
    listed = [each for each in found.items() if not _is_port(*each[0]) and each[0] not in witnesses]
    listed[MOST - len(witnesses) :] = witnesses.items()
    return [Question(*question, group) for question, group in listed]


def _grouped(rrsets: Iterable[RRset], group: str) -> dict[tuple[Name, int], str]:
    return {
        (each[0].owner, each[0].rrtype): group if each[0].rrtype in _ADDRESSES else COMMON
        for each in rrsets
    }


def _witnesses(
    answer_set: AnswerSet, zone: Name, values: Mapping[Key, ServiceValue]
) -> Iterator[RRset]:
    """The addresses of Services, first of those with a cluster IP: they seldom change."""
    for key in sorted(values, key=lambda each: (not values[each].cluster_ips, each)):
        owner = Name.from_labels((key[1], key[0], SVC, *zone.labels))
        for rrset in answer_set.of_service(zone, key, values[key]):
            if rrset[0].owner == owner and rrset[0].rrtype in _ADDRESSES:
                yield rrset
                break


def _is_port(owner: Name, rrtype: int) -> bool:
    """Whether it is the address at a name for SRV, which no client queries."""
    return owner.labels[0].startswith(b"_") and rrtype != RRType.SRV


def _has(value: ServiceValue, packed: Collection[bytes]) -> bool:
    return any(address in packed for part in value.slices for address in part.separate)


def _with(
    answer_set: AnswerSet, zone: Name, key: Key, value: ServiceValue, packed: Collection[bytes]
) -> Iterator[RRset]:
    """The RRsets of a Service with one of these addresses."""
    for rrset in answer_set.of_service(zone, key, value):
        if any(record.rdata in packed for record in rrset):
            yield rrset
