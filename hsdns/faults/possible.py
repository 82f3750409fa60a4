"""Finds rules that can never match, so that the operator hears of it at once and not from a count of 0.

Path: rules.py asks before a rule stands.
Rule: a rule is tried on made-up queries: each name, type, transport, client and listener that it names, with one that
      it does not name, in all combinations.  A query that might match is enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Final

from hsdns.chain import Endpoint
from hsdns.faults.asked import TRANSPORTS, UNKNOWN, Asked, transport_of
from hsdns.faults.process import due_at
from hsdns.faults.rule import Wanted
from hsdns.faults.selector import (
    ClientIs,
    ListenerIs,
    NameIs,
    PodIs,
    Selector,
    TransportIs,
    TypeIs,
    Zone,
)
from hsdns.wire.iana import RRType
from hsdns.wire.name import MAX_NAME_LEN, ROOT, Name

MAX_TRIES: Final = 20_000  # a rule with more combinations is taken as it is
_BEFORE_NAMES: Final = {"connection": "tcp", "miss": "udp"}  # with the transport of dns:// keys
_OTHER: Final = b"any"  # a label for any that no rule names


def never_matches(wanted: Wanted, zones: Sequence[Zone]) -> str:
    """Return why no query that comes to these zones can match, empty if one can."""
    about = wanted.action.about
    if about in _BEFORE_NAMES:
        return _never_comes(wanted, zones)
    if about == "process":
        if wanted.times is not None and wanted.times > (wanted.action.times or wanted.times):
            return f"{wanted.action.text} is done once, not {wanted.times} times"
        ends = wanted.lifetime is not None and due_at(wanted.selector) >= wanted.lifetime
        return "it ends before it is due" if ends else ""
    if about not in ("query", "watch"):
        return ""
    parts = wanted.selector.parts()
    named = _names(part for part in parts if isinstance(part, NameIs))
    names = [*named, *dict.fromkeys(zone.apex for zone in zones)]
    served = [name for name in names if any(zone.has(name) for zone in zones)]
    types = {RRType.A, RRType.AAAA, RRType.TXT, RRType.SRV}
    types |= {each.qtype for each in parts if isinstance(each, TypeIs)}
    transports = TRANSPORTS if any(isinstance(each, TransportIs) for each in parts) else (UNKNOWN,)
    clients, owners = _clients(parts), _owners(parts)
    servers = sorted({zone.server for zone in zones})
    if not any(isinstance(each, ListenerIs) for each in parts):
        servers = servers[:1]
    combinations = product(served, types, transports, clients, servers, owners)
    for tries, (name, qtype, transport, client, server, owner) in enumerate(combinations):
        end, pod_of = Endpoint(client, 0), {client: owner}.get
        asked = Asked(name, qtype, transport, end, UNKNOWN, server, pod_of)
        if tries >= MAX_TRIES or (wanted.action.fits(asked) and _may_match(wanted, asked)):
            return ""
    if named and not any(name in served for name in named):
        shown = ", ".join(dict.fromkeys(zone.apex.to_text() for zone in zones))
        return f"no server block has a zone for its names; the zones are {shown}"
    return "its action and its selectors exclude each other"


def _never_comes(wanted: Wanted, zones: Sequence[Zone]) -> str:
    """The same for what is decided before a name is known, at the listeners of these zones."""
    parts, transport = wanted.selector.parts(), _BEFORE_NAMES[wanted.action.about]
    servers = sorted({zone.server for zone in zones})
    combinations = product(servers, _clients(parts), _owners(parts))
    for tries, (server, client, owner) in enumerate(combinations):
        over, pod_of = transport_of(server, transport), {client: owner}.get
        asked = Asked(ROOT, 0, over, Endpoint(client, 0), UNKNOWN, server, pod_of)
        if tries >= MAX_TRIES or (wanted.action.fits(asked) and _may_match(wanted, asked)):
            return ""
    shown = ", ".join(f"{transport_of(server, transport)} at {server}" for server in servers)
    return f"its action and its selectors exclude each other, or there is no such listener; there is {shown}"


def _clients(parts: Sequence[Selector]) -> list[str]:
    """One that no rule names, and one of each that is named."""
    networks = [each.network for each in parts if isinstance(each, ClientIs)]
    return ["192.0.2.1", *(str(network.network_address) for network in networks)]


def _owners(parts: Sequence[Selector]) -> list[tuple[bytes, str] | None]:
    """Pods of the clients: none, and each that is named."""
    pods = [each for each in parts if isinstance(each, PodIs)]
    return [None, *((pod.namespace, pod.name) for pod in pods)]


def _may_match(wanted: Wanted, asked: Asked) -> bool:
    """Whether a query may match at one of the ages at which a rule may begin to, or may end."""
    ages = {0.0}
    for part in wanted.selector.parts():
        seconds = getattr(part, "seconds", None)
        if isinstance(seconds, float):
            ages.add(seconds)
    lifetime = wanted.lifetime
    return any(
        wanted.selector.foresee(asked, age) is not False
        for age in ages
        if lifetime is None or age < lifetime
    )


def _names(parts: Iterable[Selector]) -> list[Name]:
    """Names that the conditions are about: themselves, one below, one with a label for each `*`."""
    found: dict[Name, None] = {}
    for part in parts:
        assert isinstance(part, NameIs), "given such alone"
        labels = [_OTHER if label == b"*" else label for label in part.name.labels]
        found[Name.from_labels(labels)] = None
        if part.below and len(part.name.wire) + 1 + len(_OTHER) <= MAX_NAME_LEN:
            found[Name.from_labels([_OTHER, *labels])] = None
    return list(found)
