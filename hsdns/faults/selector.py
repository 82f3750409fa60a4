"""The selectors of a rule: conditions on queries, and their combinations.

Path: words.py creates them -> rules.py evaluates them for each query of the blocks that they may match.
Rule 1: conditions are evaluated from left to right until one is not met: `type AAAA share 0.5` matches half of the AAAA
        queries.  Conditions on five-tuples (selector.py) see every query.
Rule 2: time is the age of the rule in seconds, randomness its Random; both are arguments.
Rule 3: a condition remembers a limited number of names; the oldest is forgotten first.

The facts that a rule evaluates: a query and its origin:
Rule: for a connection, and for a query that has not been decoded, the name is the root and the type is 0.

Conditions on five-tuples: the transport, and address and port of both sides:
Rule 1: queries answered from the answer table are not noted, so a rule knows five-tuples only since it was added.
Rule 2: at most MAX_REMEMBERED five-tuples are remembered; the oldest is forgotten first.
Source: netfilter's connection tracking, where two first datagrams of one five-tuple race for one entry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address
from random import Random
from typing import Final, NamedTuple

from hsdns.chain import Endpoint, Request
from hsdns.wire.iana import type_to_text
from hsdns.wire.name import ROOT, Name

PodOf = Callable[[str], tuple[bytes, str] | None]  # address -> namespace in lower case, and name
TRANSPORTS: Final = ("udp", "tcp", "dot", "doh")
UNKNOWN: Final = (
    "?"  # a transport or destination address that is not known, for example in an explanation
)
_SCHEMES: Final = {"tls": "dot", "https": "doh"}


class Asked(NamedTuple):
    """A query; `local` is its destination address, `server` the listener in the form of metric labels."""

    qname: Name
    qtype: int
    transport: str
    client: Endpoint
    local: str
    server: str
    pod_of: PodOf

    @classmethod
    def unread(
        cls, server: str, protocol: str, client: Endpoint, local: Endpoint, pod_of: PodOf
    ) -> Asked:
        """Return the facts that are known before a query is decoded; the protocol is udp or tcp."""
        over = transport_of(server, protocol)
        return cls(ROOT, 0, over, client, local.address, server, pod_of)

    @classmethod
    def of(cls, request: Request, pod_of: PodOf) -> Asked:
        """Return the facts of a request."""
        query = request.query
        return cls(
            query.qname,
            query.qtype,
            transport_of(request.server, request.protocol),
            request.client,
            request.local.address,
            request.server,
            pod_of,
        )


# Stands for a query where conditions need none.
NO_QUERY: Final = Asked(ROOT, 0, UNKNOWN, Endpoint("", 0), UNKNOWN, "", lambda address: None)


def transport_of(server: str, protocol: str) -> str:
    """One of TRANSPORTS."""
    return _SCHEMES.get(server.partition(":")[0], protocol)


MAX_REMEMBERED: Final = 65_536
Network = IPv4Network | IPv6Network


class Zone:
    """A zone of a listener; `deeper` are the zones of other blocks below it, which answer for their names."""

    def __init__(self, server: str, apex: Name, deeper: Sequence[Name]) -> None:
        self.server, self.apex, self.deeper = server, apex, deeper

    def has(self, name: Name) -> bool:
        """Whether this zone answers queries for a name, including DS queries for the apex of a deeper zone."""
        return name.is_at_or_below(self.apex) and not any(
            name.is_at_or_below(zone) and name != zone for zone in self.deeper
        )

    def has_any_below(self, name: Name) -> bool:
        """Whether this zone may answer queries for any name at or below `name`."""
        return self.apex.is_at_or_below(name) or self.has(name)


class Selector:
    """A condition; `text` is its syntax."""

    text: str

    def matches(self, asked: Asked, age: float, random: Random) -> bool:
        """Whether a query meets it; to be called once for each query."""
        raise NotImplementedError

    def foresee(self, asked: Asked, age: float) -> bool | None:
        """Whether a query would meet it, None if this is not known in advance; changes nothing."""
        raise NotImplementedError

    def note(self, asked: Asked, age: float) -> None:
        """Note a query, before any condition is evaluated."""

    def touches(self, zone: Zone) -> bool:
        """Whether a query in a zone may meet the condition, or must be noted for it."""
        return True

    def parts(self) -> list[Selector]:
        """The single conditions."""
        return [self]


class _Fact(Selector):
    """A condition that depends only on the query and the age of the rule."""

    def matches(self, asked: Asked, age: float, random: Random) -> bool:
        return self.foresee(asked, age) is True


class NameIs(_Fact):
    """An exact name, `*` for any single label; or all names at and below one."""

    def __init__(self, name: Name, *, below: bool = False) -> None:
        self.name, self.below = name, below
        self.text = f"name {'below ' if below else ''}{name.to_text()}"
        self._labels = name.labels

    def foresee(self, asked: Asked, age: float) -> bool | None:
        if self.below:
            return asked.qname.is_at_or_below(self.name)
        found = asked.qname.labels
        return len(found) == len(self._labels) and all(
            pattern in (label, b"*") for label, pattern in zip(found, self._labels, strict=True)
        )

    def touches(self, zone: Zone) -> bool:
        if self.below:
            return zone.has_any_below(self.name)
        stars = [at for at, label in enumerate(self._labels) if label == b"*"]
        if stars:
            fixed = self._labels[stars[-1] + 1 :]
            return zone.has_any_below(Name.from_labels(fixed))
        return zone.has(self.name)


class TypeIs(_Fact):
    """A record type."""

    def __init__(self, qtype: int) -> None:
        self.qtype = qtype
        self.text = f"type {type_to_text(qtype)}"

    def foresee(self, asked: Asked, age: float) -> bool | None:
        return asked.qtype == self.qtype


class TransportIs(_Fact):
    """UDP, TCP, DNS over TLS or DNS over HTTPS."""

    def __init__(self, transport: str) -> None:
        self.transport = transport
        self.text = f"transport {transport}"

    def foresee(self, asked: Asked, age: float) -> bool | None:
        return None if asked.transport == UNKNOWN else asked.transport == self.transport


class ClientIs(_Fact):
    """The client's address, or the network that contains it."""

    def __init__(self, network: Network) -> None:
        self.network = network
        single = network.num_addresses == 1
        self.text = f"client {network.network_address if single else network}"

    def foresee(self, asked: Asked, age: float) -> bool | None:
        return ip_address(asked.client.address.partition("%")[0]) in self.network


class PodIs(_Fact):
    """The Pod that has the client's address; `*` for any Pod of the namespace."""

    def __init__(self, namespace: str, name: str) -> None:
        self.namespace, self.name = namespace.lower().encode(), name
        self.text = f"pod {namespace}/{name}"

    def foresee(self, asked: Asked, age: float) -> bool | None:
        found = asked.pod_of(asked.client.address)
        return found is not None and found[0] == self.namespace and self.name in (found[1], "*")


class AskedIs(_Fact):
    """The destination address of the query, for example of one replica."""

    def __init__(self, address: str) -> None:
        self.address = str(ip_address(address))
        self.text = f"asked {self.address}"

    def foresee(self, asked: Asked, age: float) -> bool | None:
        return None if asked.local == UNKNOWN else asked.local == self.address


class ListenerIs(_Fact):
    """The listener, as metrics name it."""

    def __init__(self, server: str) -> None:
        self.server = server
        self.text = f"listener {server}"

    def foresee(self, asked: Asked, age: float) -> bool | None:
        return asked.server == self.server

    def touches(self, zone: Zone) -> bool:
        return zone.server == self.server


class Nth(Selector):
    """The query number N with the same name and type, counted from 1."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.text = f"nth {number}"
        self._counts: dict[tuple[bytes, int], int] = {}

    def matches(self, asked: Asked, age: float, random: Random) -> bool:
        key = asked.qname.lower, asked.qtype
        count = self._counts.get(key, 0) + 1
        if count == 1 and len(self._counts) >= MAX_REMEMBERED:
            del self._counts[next(iter(self._counts))]
        self._counts[key] = count
        return count == self.number

    def foresee(self, asked: Asked, age: float) -> bool | None:
        return None


class Share(Selector):
    """A share of the queries, chosen at random."""

    def __init__(self, share: float) -> None:
        self.share = share
        self.text = f"share {share:.10g}"

    def matches(self, asked: Asked, age: float, random: Random) -> bool:
        return random.random() < self.share

    def foresee(self, asked: Asked, age: float) -> bool | None:
        return True if self.share == 1 else None


class Period(_Fact):
    """The time after, or before, the rule has been active for some seconds."""

    def __init__(self, word: str, seconds: float, shown: str) -> None:
        self.word, self.seconds = word, seconds
        self.text = f"{word} {shown}"

    def foresee(self, asked: Asked, age: float) -> bool | None:
        return age >= self.seconds if self.word == "after" else age < self.seconds


class Not(Selector):
    """The negation of a condition."""

    def __init__(self, inside: Selector) -> None:
        self.inside = inside
        self.text = f"not {_enclosed(inside, (And, Or))}"

    def matches(self, asked: Asked, age: float, random: Random) -> bool:
        return not self.inside.matches(asked, age, random)

    def foresee(self, asked: Asked, age: float) -> bool | None:
        found = self.inside.foresee(asked, age)
        return None if found is None else not found

    def note(self, asked: Asked, age: float) -> None:
        self.inside.note(asked, age)

    def parts(self) -> list[Selector]:
        return self.inside.parts()


class _Joined(Selector):
    """Several conditions; the first one that is `decisive` decides."""

    decisive: bool

    def __init__(self, inside: Sequence[Selector]) -> None:
        self.inside = tuple(inside)

    def matches(self, asked: Asked, age: float, random: Random) -> bool:
        for each in self.inside:
            if each.matches(asked, age, random) is self.decisive:
                return self.decisive
        return not self.decisive

    def foresee(self, asked: Asked, age: float) -> bool | None:
        found = {each.foresee(asked, age) for each in self.inside}
        if self.decisive in found:
            return self.decisive
        return None if None in found else not self.decisive

    def note(self, asked: Asked, age: float) -> None:
        for each in self.inside:
            each.note(asked, age)

    def touches(self, zone: Zone) -> bool:
        sees_all = any(type(each).note is not Selector.note for each in self.parts())
        found = {each.touches(zone) for each in self.inside}
        return sees_all or (True in found if self.decisive else False not in found)

    def parts(self) -> list[Selector]:
        return [part for each in self.inside for part in each.parts()]


class And(_Joined):
    """All of the conditions; without conditions, any query."""

    decisive = False

    def __init__(self, inside: Sequence[Selector]) -> None:
        super().__init__(inside)
        self.text = " ".join(_enclosed(each, (Or,)) for each in self.inside)


class Or(_Joined):
    """Any of the conditions."""

    decisive = True

    def __init__(self, inside: Sequence[Selector]) -> None:
        super().__init__(inside)
        self.text = " or ".join(each.text for each in self.inside)


def _enclosed(selector: Selector, kinds: tuple[type[Selector], ...]) -> str:
    return f"( {selector.text} )" if isinstance(selector, kinds) else selector.text


# Types of zone transfers, whose replies are streams of records.


Key = tuple[str, str, int, str]


class Flow(Selector):
    """A condition on the five-tuple of a query."""

    def __init__(self) -> None:
        self._seen: dict[Key, list[float]] = {}  # first time, number of queries

    def note(self, asked: Asked, age: float) -> None:
        """Count the query for its five-tuple."""
        key = _key(asked)
        found = self._seen.get(key)
        if found is not None:
            found[1] += 1
            return
        if len(self._seen) >= MAX_REMEMBERED:
            del self._seen[next(iter(self._seen))]
        self._seen[key] = [age, 1]

    def matches(self, asked: Asked, age: float, random: Random) -> bool:
        """Whether the five-tuple of a noted query meets the condition."""
        began, count = self._seen[_key(asked)]
        return self.holds(age, began, count)

    def foresee(self, asked: Asked, age: float) -> bool | None:
        """Return None, because the result depends on earlier queries."""
        return None

    def holds(self, age: float, began: float, count: float) -> bool:
        """Whether a five-tuple meets the condition; `began` is the age of the rule at its first query, in seconds."""
        raise NotImplementedError


class FirstOfFlow(Flow):
    """The first query of a five-tuple."""

    text = "flow first"

    def holds(self, age: float, began: float, count: float) -> bool:
        """Whether it is the first."""
        return count == 1


class SecondOfFlow(Flow):
    """The second query of a five-tuple, if it comes soon after the first."""

    def __init__(self, seconds: float, shown: str) -> None:
        super().__init__()
        self.seconds = seconds
        self.text = f"flow second {shown}"

    def holds(self, age: float, began: float, count: float) -> bool:
        """Whether it is the second, in time."""
        return count == 2 and age - began <= self.seconds


class FlowSince(Flow):
    """From a given age of the rule on, the queries of five-tuples that were seen before it, or of all others."""

    def __init__(self, word: str, seconds: float, shown: str) -> None:
        super().__init__()
        self.word, self.seconds = word, seconds
        self.text = f"flow {word} {shown}"

    def holds(self, age: float, began: float, count: float) -> bool:
        """Whether the rule is old enough, and the five-tuple was, or was not, seen before."""
        return age >= self.seconds and (began < self.seconds) == (self.word == "existing")


def _key(asked: Asked) -> Key:
    return asked.server + asked.transport, asked.client.address, asked.client.port, asked.local
