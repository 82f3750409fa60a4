"""What changed in DNS between two states of a cluster, as lines for the operator.

Path: plugins/kubernetes/watch.py, after each batch of a source -> lines() -> `hsdns serve` prints them.

    + 10.244.0.7 web.shop.svc.cluster.local
    - 10.244.0.6 web.shop.svc.cluster.local
    + port 80 _http._tcp.web.shop.svc.cluster.local
    + CNAME db.example.org mail.shop.svc.cluster.local

Rule 1: a line for each fact, not for each record: what follows from other lines is left out.  That is names made of
        the address of a headless Service's endpoint, reverse names, the targets and weights of SRV records, and
        addresses at the names of ports.
Rule 2: values are never changed, only replaced, so two states are compared by identity and only the Services that
        differ are written out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hsdns.cluster.address import dashed
from hsdns.cluster.answer_set import AnswerSet
from hsdns.cluster.value import HEADLESS, Key, ServiceValue
from hsdns.wire.iana import RRType
from hsdns.wire.message import RR
from hsdns.wire.name import Name
from hsdns.wire.rdata import address_to_text

MOST: Final = 20  # lines for one change
_ADDRESSES: Final = (RRType.A, RRType.AAAA)


class Changes:
    """Compares the state of a cluster with that of the call before."""

    def __init__(self, answer_set: AnswerSet) -> None:
        self._answer_set = answer_set
        self._states = self._look()

    def lines(self) -> list[str]:
        """What is no longer answered and what is new, Service by Service; at most MOST lines."""
        before, self._states = self._states, self._look()
        found = [
            line
            for (zone, old), new in zip(before.items(), self._states.values(), strict=True)
            for line in self._compare(zone, old, new)
        ]
        if len(found) > MOST:
            found[MOST - 1 :] = [f"… and {len(found) - MOST + 1} more changes"]
        return found

    def _look(self) -> dict[Name, dict[Key, ServiceValue]]:
        answer_set = self._answer_set
        return {zone: answer_set.exposed(zone) for zone in answer_set.forward_zones}

    def _compare(
        self, zone: Name, old: dict[Key, ServiceValue], new: dict[Key, ServiceValue]
    ) -> Iterator[str]:
        for key in sorted(key for key in {**old, **new} if old.get(key) is not new.get(key)):
            gone, come = self._facts(zone, key, old.get(key)), self._facts(zone, key, new.get(key))
            yield from (f"- {fact}" for fact in gone if fact not in come)
            yield from (f"+ {fact}" for fact in come if fact not in gone)

    def _facts(self, zone: Name, key: Key, value: ServiceValue | None) -> dict[str, None]:
        if value is None:
            return {}
        headless = value.kind == HEADLESS
        rrsets = self._answer_set.of_service(zone, key, value)
        found = (_fact(record, headless) for rrset in rrsets for record in rrset)
        return dict.fromkeys(fact for fact in found if fact is not None)


def _fact(record: RR, headless: bool) -> str | None:
    """What a record of a Service tells, None if other records tell it."""
    label, owner = record.owner.labels[0], record.owner.to_text().removesuffix(".")
    is_port = label.startswith(b"_")
    if record.rrtype in _ADDRESSES:
        if is_port or (headless and label == dashed(record.rdata)):
            return None
        return f"{address_to_text(record.rdata)} {owner}"
    if record.rrtype == RRType.SRV and is_port:
        return f"port {int.from_bytes(record.rdata[4:6], 'big')} {owner}"
    if record.rrtype == RRType.CNAME and not is_port:
        return f"CNAME {Name(record.rdata).to_text().removesuffix('.')} {owner}"
    return None
