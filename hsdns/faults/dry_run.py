"""Finds the past queries that a rule would have hit: `hsdns fault add -dry-run`.

Path: server/control/faults.py passes the last queries, in the order in which they came.
Rule 1: the rule is evaluated with its seed as if it had been added right before the first query, with the times,
        clients and five-tuples of the queries.
Rule 2: facts that are not recorded are not guessed; a sentence names them.

Finds rules that can never match, so that the operator gets an error at once instead of no hits:
Rule: a rule is evaluated for generated queries: all combinations of the names, types, transports, clients and listeners
      in the rule, and one of each that is not in the rule.  If any query might match, the rule is accepted.  The
      destination address is the listener's, if it has one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from ipaddress import ip_address
from itertools import product
from typing import Any, Final, NamedTuple

from hsdns.chain import Endpoint
from hsdns.corefile.keys import split_host_port
from hsdns.faults.action import Restart
from hsdns.faults.rules import Bite, Rule, Wanted
from hsdns.faults.selector import (
    TRANSPORTS,
    UNKNOWN,
    Asked,
    Fact,
    Selector,
    Zone,
    transport_of,
)
from hsdns.wire.iana import RRType
from hsdns.wire.name import MAX_NAME_LEN, ROOT, Name

MAX_TRIES: Final = 20_000  # a rule with more combinations is accepted
_BEFORE_NAMES: Final = {"connection": "tcp", "miss": "udp"}  # with the transport of dns:// keys
_EXCLUDE: Final = "its action and its selectors cannot be combined"
# The name of a listener in metrics -> the address that its clients query.
Local = Callable[[str], str]
_OTHER: Final = b"any"  # a label that is in no rule


def never_matches(wanted: Wanted, zones: Sequence[Zone], *, knows_addresses: bool = True) -> str:
    """Return why no query for these zones can match, "" if one can.

    Without `knows_addresses`, clients may use addresses other than the listeners' own.
    """
    local = _local if knows_addresses else lambda server: UNKNOWN
    why, endless = _why_never(wanted, zones, local), wanted._replace(lifetime=None)
    if why and not _why_never(endless, zones, local):
        return 'it ends before it is due; give it a longer time with "for"'
    return why


def _why_never(wanted: Wanted, zones: Sequence[Zone], local: Local) -> str:
    about, parts = wanted.action.about, wanted.selector.parts()
    if about == "process":
        if wanted.times is not None and wanted.times > (wanted.action.times or wanted.times):
            return f"{wanted.action.text} is done once, not {wanted.times} times"
        ends = wanted.lifetime is not None and wanted.selector.seconds >= wanted.lifetime
        return _EXCLUDE if ends else ""
    servers = sorted({zone.server for zone in zones})
    early = _BEFORE_NAMES.get(about)
    apexes = list(dict.fromkeys(zone.apex for zone in zones))
    named = _names(_values(parts, "name"), apexes)
    names = [*named, *apexes]
    served = [name for name in names if any(zone.has(name) for zone in zones)]
    types = {RRType.A, RRType.AAAA, RRType.TXT, RRType.SRV, *_values(parts, "type")}
    transports = TRANSPORTS if _values(parts, "transport") else (UNKNOWN,)
    asked = servers if early or _values(parts, "listener", "asked") else servers[:1]
    clients = ["192.0.2.1", *(str(each.network_address) for each in _values(parts, "client"))]
    owners = [None, *_values(parts, "pod", "labels")]
    questions = product([ROOT], [0], [early]) if early else product(served, types, transports)
    combinations = product(questions, clients, asked, owners)
    for tries, ((name, qtype, over), client, server, owner) in enumerate(combinations):
        transport = transport_of(server, early) if early else over
        pod_of = {client: owner}.get
        query = Asked(name, qtype, transport, Endpoint(client, 0), local(server), server, pod_of)
        if tries >= MAX_TRIES or (wanted.action.fits(query) and _may_match(wanted, query)):
            return ""
    if early:
        shown = ", ".join(f"{transport_of(server, early)} at {server}" for server in servers)
        none = f"{_EXCLUDE}, or there is no such listener; there is {shown}"
        return _foreign_address(parts, zones, local) or none
    if named and not any(name in served for name in named):
        shown = ", ".join(each.to_text() for each in apexes)
        return f"no server block has a zone for its names; the zones are {shown}"
    return _foreign_address(parts, zones, local) or _EXCLUDE


def _local(server: str) -> str:
    """The address that clients of a listener query; UNKNOWN if it listens on all addresses of the host."""
    parts = split_host_port(server.partition("://")[2])
    if parts is None or not parts.host or ip_address(parts.host).is_unspecified:
        return UNKNOWN
    return str(ip_address(parts.host))


def _foreign_address(parts: Sequence[Selector], zones: Sequence[Zone], local: Local) -> str:
    """Return an error if no listener has an address of the rule, "" if each address is, or may be, a listener's."""
    known = list(dict.fromkeys(local(zone.server) for zone in zones))
    foreign = next((each for each in _values(parts, "asked") if each not in known), "")
    if not foreign or UNKNOWN in known:
        return ""
    return f"no listener has the address {foreign}; they have {', '.join(known)}"


def _values(parts: Sequence[Selector], *words: str) -> list[Any]:
    """The arguments of the conditions on these facts."""
    return [each.value for each in parts if isinstance(each, Fact) and each.word in words]


def _may_match(wanted: Wanted, asked: Asked) -> bool:
    """Whether a query may match at age 0 or at one of the ages at which a condition changes."""
    ages = {0.0, *(part.seconds for part in wanted.selector.parts())}
    lifetime = wanted.lifetime
    return any(
        wanted.selector.foresee(asked, age) is not False
        for age in ages
        if lifetime is None or age < lifetime
    )


def _names(asked: Iterable[tuple[Any, bool | None]], apexes: Sequence[Name]) -> list[Name]:
    """Names that match the conditions: the names themselves, one below each, and one with a label for each `*`.

    For a pattern, which has None in place of the bool, one that it matches; in each zone if it ends with `*`.
    """
    found: dict[Name, None] = {}
    for name, is_below in asked:
        if is_below is None:
            zones = apexes if name.endswith("*") else ()
            ends = [f".{each.to_text()}".replace("..", ".") for each in zones] or [""]
            shown = name.replace("*", _OTHER.decode()).replace("?", "x")
            with suppress(ValueError):
                found |= dict.fromkeys(Name.from_text(shown + end) for end in ends)
            continue
        labels = [_OTHER if label == b"*" else label for label in name.labels]
        found[Name.from_labels(labels)] = None
        if is_below and len(name.wire) + 1 + len(_OTHER) <= MAX_NAME_LEN:
            found[Name.from_labels([_OTHER, *labels])] = None
    return list(found)


BESIDE: Final = {
    "connection": "connections are known by their queries alone, and one that was open before counts as new",
    "miss": "the answer table is assumed to have had the same answers",
}


class Past(NamedTuple):
    """A query at `time`, in seconds since some time; `is_hit` says that the answer table had its reply."""

    time: float
    asked: Asked
    is_hit: bool


class DryRun:
    """A rule that is not active, applied to queries; `may` counts the queries that it may hit, which is not known."""

    def __init__(self, rule: Rule, *, is_drawn: bool) -> None:
        self.rule = rule
        self.may = 0
        self._is_drawn = is_drawn  # the seed
        self._has_begun = False
        self._is_open = False  # a destination address is not known
        self._connections: dict[tuple[str, str, int], Bite | None] = {}
        self._killed: Bite | None = None

    def see(self, past: Past) -> Bite | None:
        """Evaluate the rule for the next query."""
        if not self._has_begun:
            self._has_begun, self.rule.begun = True, past.time
        decide = _DECIDE.get(self.rule.action.about)
        if decide is None or self._stays_open(past):
            return None
        bite = decide(self, past)
        if bite is not None and self.rule.action.counts_late:
            self.may += 1
            return None
        return bite

    def unforeseen(self) -> Iterator[str]:
        """Yield a sentence for each fact that is not known."""
        action = self.rule.action
        words = {part.word for part in self.rule.selector.parts()}
        if action.about not in _DECIDE:
            yield f'"{action.text}" is not about queries, so none is hit'
        if isinstance(action, Restart):
            if action.pending is not None:
                yield "the number of waiting queries is unknown, so no query counts as hit"
            else:
                yield "the duration of the start is unknown, so it counts as zero"
        if action.counts_late:
            yield "the replies are unknown, so every query that matches may be hit"
        if action.about in BESIDE:
            yield BESIDE[action.about]
        if self._is_open:
            yield 'the destination address of a query is unknown, so "asked" is not checked'
        if "flow" in words:
            yield "a five-tuple that was used before the first of these queries counts as new"
        if "nth" in words:
            yield 'the first of these queries are the first that "nth" counts'
        if self._is_drawn and "share" in words:
            yield f"another seed than {self.rule.seed} hits others; without one it is drawn anew"

    def _stays_open(self, past: Past) -> bool:
        rule, asked = self.rule, past.asked
        if asked.local != UNKNOWN or not _values(rule.selector.parts(), "asked"):
            return False
        may = rule.foresee(asked, past.time) is not False
        self.may += may
        self._is_open |= may
        return True

    def _query(self, past: Past) -> Bite | None:
        return self.rule.decide(past.asked, past.time)

    def _connection(self, past: Past) -> Bite | None:
        asked = past.asked
        if asked.transport == "udp":
            return None
        key = (asked.server, asked.client.address, asked.client.port)
        if key not in self._connections:
            self._connections[key] = self.rule.decide(_unread(asked), past.time)
        return self._connections[key]

    def _miss(self, past: Past) -> Bite | None:
        if past.is_hit or past.asked.transport != "udp":
            return None
        return self.rule.decide(_unread(past.asked), past.time)

    def _process(self, past: Past) -> Bite | None:
        action, selector = self.rule.action, self.rule.selector
        assert isinstance(action, Restart), "about the process"
        dead = past.time - self.rule.begun - selector.seconds
        if action.pending is not None or not 0 <= dead < action.dead:
            return None
        if self._killed is None:
            self._killed = self.rule.strike()
        return self._killed


_DECIDE: Final[dict[str, Callable[[DryRun, Past], Bite | None]]] = {
    "query": DryRun._query,
    "connection": DryRun._connection,
    "miss": DryRun._miss,
    "process": DryRun._process,
}


def _unread(asked: Asked) -> Asked:
    return asked._replace(qname=ROOT, qtype=0)
