"""What changed in DNS between two states of a cluster, as lines for the operator.

Path: plugins/kubernetes/watch.py, after each batch of a source -> lines() -> `hsdns serve` prints them;
server/control/changes.py, between queries -> pieces().

    + 10.244.0.7 web.shop.svc.cluster.local
    - 10.244.0.6 web.shop.svc.cluster.local
    + port 80 _http._tcp.web.shop.svc.cluster.local
    + CNAME db.example.org mail.shop.svc.cluster.local

Rule 1: a line for each fact, not for each record: what follows from other lines is omitted, namely names made of the
        address of a headless Service's endpoint, reverse names, the targets and weights of SRV records, and addresses
        at the names of ports.
Rule 2: values are never changed, only replaced, so two states are compared by identity and only the Services that
        differ are written out.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple

from hsdns.cluster.address import dashed
from hsdns.cluster.answer_set import AnswerSet, in_order
from hsdns.cluster.value import HEADLESS, Key, ServiceValue
from hsdns.wire.iana import RRType
from hsdns.wire.message import RR
from hsdns.wire.name import Name
from hsdns.wire.rdata import address_to_text

MOST: Final = 20  # lines for each change
PIECE: Final = 2000  # Services compared at a time
RECORDS: Final = 200  # records written at a time
_ADDRESSES: Final = (RRType.A, RRType.AAAA)


class _State(NamedTuple):
    """The content of a zone at one moment."""

    namespaces: frozenset[bytes]
    values: dict[Key, ServiceValue]

    def get(self, key: Key) -> ServiceValue | None:
        """The value of a Service whose names exist."""
        return self.values.get(key) if key[0] in self.namespaces else None


class Changes:
    """Compares the state of a cluster with that of the previous call."""

    def __init__(self, answer_set: AnswerSet) -> None:
        self._answer_set = answer_set
        self._states = self._look()

    def follow(self, answer_set: AnswerSet) -> None:
        """From now on, use the state of another configuration with the same zones."""
        self._answer_set = answer_set

    def lines(self) -> list[str]:
        """The removed and the new facts, Service by Service; at most MOST lines."""
        found = [line for piece in self.pieces() for _, line in piece]
        if len(found) > MOST:
            found[MOST - 1 :] = [f"… and {len(found) - MOST + 1} more changes"]
        return found

    def pieces(self) -> Iterator[list[tuple[Name, str]]]:
        """All lines with their zones, in pieces, some of them empty; other tasks may run between two pieces."""
        before, self._states = self._states, self._look()
        for (zone, old), new in zip(before.items(), self._states.values(), strict=True):
            for lines in self._compare(zone, old, new):
                yield [(zone, line) for line in lines]

    def _look(self) -> dict[Name, _State]:
        """The state now.  Whole dicts are copied: this is the only step that takes all Services at once."""
        answer_set = self._answer_set
        namespaces = answer_set.exposed_namespaces()
        return {
            zone: _State(namespaces, dict(answer_set.lookup.values(zone)))
            for zone in answer_set.forward_zones
        }

    def _compare(self, zone: Name, old: _State, new: _State) -> Iterator[list[str]]:
        differ = []
        added = (key for key in new.values if key not in old.values)
        for number, key in enumerate(chain(old.values, added), 1):
            if old.get(key) is not new.get(key):
                differ.append(key)
            if number % PIECE == 0:
                yield []
        for each in in_order(differ):
            if each is None:
                yield []
                continue
            gone: dict[str, None] = {}
            come: dict[str, None] = {}
            for value, facts in ((old.get(each), gone), (new.get(each), come)):
                for _ in self._find_facts(zone, each, value, facts):
                    yield []
            yield [
                *(f"- {fact}" for fact in gone if fact not in come),
                *(f"+ {fact}" for fact in come if fact not in gone),
            ]

    def _find_facts(
        self, zone: Name, key: Key, value: ServiceValue | None, facts: dict[str, None]
    ) -> Iterator[None]:
        """Add the facts of a Service to `facts`; yield after some of them."""
        if value is None:
            return
        headless = value.kind == HEADLESS
        for rrset in self._answer_set.pieces_of_service(zone, key, value):
            yield
            for number, record in enumerate(rrset, 1):
                fact = _fact(record, headless)
                if fact is not None:
                    facts[fact] = None
                if number % RECORDS == 0:
                    yield


def _fact(record: RR, headless: bool) -> str | None:
    """The fact that a record of a Service shows; None if other records show it."""
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
