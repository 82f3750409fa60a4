"""What `hsdns doctor` asks DNS servers for: a name that every cluster has, and those of the Service or Pod it was told.

Path: the kubernetes block of doctor_servers.py -> here -> cluster/answer_set.py.
Rule 1: a Service is asked for under all its names, a Pod under those that have one of its addresses, up to MOST names.
Rule 2: a Service without records is asked for too: that its name has none is an answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from ipaddress import ip_address
from typing import Final

from hsdns.cluster.answer_set import AnswerSet, RRset
from hsdns.cluster.question import SVC
from hsdns.cluster.value import Key, ServiceValue
from hsdns.load.questions import Question
from hsdns.wire.iana import RRType
from hsdns.wire.name import Name

MOST: Final = 32  # names
KUBERNETES: Final = (b"default", b"kubernetes")  # the API server, as which every cluster has it
_GROUP: Final = "doctor"


def doctor_questions(
    answer_set: AnswerSet, target: str, addresses: Collection[str]
) -> list[Question]:
    """The questions; `target` is NAMESPACE/NAME or less, `addresses` are those of the Pod of that name."""
    if not answer_set.forward_zones:
        return []
    zone = answer_set.forward_zones[0]
    values = answer_set.exposed(zone)
    namespace, _, name = target.lower().partition("/")
    chosen = (namespace.encode(), name.encode())
    found: dict[tuple[Name, int], None] = {}
    for key in (KUBERNETES, *([chosen] if chosen in values else [])):
        owner = Name.from_labels((key[1], key[0], SVC, *zone.labels))
        own = [] if key not in values else list(answer_set.of_service(zone, key, values[key]))
        if key == KUBERNETES:
            own = [each for each in own if each[0].owner == owner and each[0].rrtype != RRType.SRV]
        if not any(each[0].owner == owner for each in own):
            found[owner, RRType.A] = None
        found |= dict.fromkeys((each[0].owner, each[0].rrtype) for each in own)
    packed = {ip_address(each).packed for each in addresses}
    for key, value in values.items():
        if packed and key[0] == chosen[0] and _has(value, packed):
            rrsets = _with(answer_set, zone, key, value, packed)
            found |= dict.fromkeys((each[0].owner, each[0].rrtype) for each in rrsets)
    listed = [(owner, rrtype) for owner, rrtype in found if not _is_port(owner, rrtype)]
    return [Question(owner, rrtype, _GROUP) for owner, rrtype in listed[:MOST]]


def _is_port(owner: Name, rrtype: int) -> bool:
    """Whether it is the address below a name for SRV, which nobody asks for."""
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
