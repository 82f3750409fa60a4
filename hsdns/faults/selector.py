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

import re
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final, NamedTuple

from hsdns.chain import Endpoint, Request
from hsdns.wire.name import ROOT, Name


class ClientPod(NamedTuple):
    """The Pod of a client; `namespace` in lower case, `labels` None if they are not known."""

    namespace: bytes
    name: str
    labels: Mapping[str, str] | None = None


PodOf = Callable[[str], ClientPod | None]  # by address
TRANSPORTS: Final = ("udp", "tcp", "dot", "doh")
UNKNOWN: Final = "?"  # a transport or address that is not known, as in an explanation
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
NO_QUERY: Final = Asked(ROOT, 0, UNKNOWN, Endpoint(UNKNOWN, 0), UNKNOWN, "", lambda address: None)


def transport_of(server: str, protocol: str) -> str:
    """One of TRANSPORTS."""
    return _SCHEMES.get(server.partition(":")[0], protocol)


MAX_REMEMBERED: Final = 65_536


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
    """A condition; `text` is its syntax, `seconds` the age of the rule at which it changes."""

    text: str
    seconds = 0.0

    @property
    def word(self) -> str:
        """Its first word, which says what a single condition is about."""
        return self.text.split()[0]

    def matches(self, asked: Asked, age: float, random: Random) -> bool:
        """Whether a query meets it; to be called once for each query."""
        raise NotImplementedError

    def foresee(self, asked: Asked, age: float) -> bool | None:
        """Whether a query would meet it, None if this is not known in advance; changes nothing."""
        return None

    def note(self, asked: Asked, age: float) -> None:
        """Note a query, before any condition is evaluated."""

    def touches(self, zone: Zone) -> bool:
        """Whether a query in a zone may meet the condition, or must be noted for it."""
        return True

    def parts(self) -> list[Selector]:
        """The single conditions."""
        return [self]


class Fact(Selector):
    """A condition that depends only on the query and the age of the rule; `value` is its argument.

    `holds` returns None if the fact is not known.
    """

    def __init__(
        self,
        text: str,
        value: Any,
        holds: Callable[[Asked, float], bool | None],
        touches: Callable[[Zone], bool] = lambda zone: True,
        seconds: float = 0.0,
    ) -> None:
        self.text, self.value, self.seconds = text, value, seconds
        self._holds, self._touches = holds, touches

    def matches(self, asked: Asked, age: float, random: Random) -> bool:
        return self._holds(asked, age) is True

    def foresee(self, asked: Asked, age: float) -> bool | None:
        return self._holds(asked, age)

    def touches(self, zone: Zone) -> bool:
        return self._touches(zone)


def name_is(name: Name) -> Fact:
    """An exact name, `*` for any single label."""
    labels = name.labels

    def holds(asked: Asked, age: float) -> bool:
        found = asked.qname.labels
        return len(found) == len(labels) and all(
            pattern in (label, b"*") for label, pattern in zip(found, labels, strict=True)
        )

    def touches(zone: Zone) -> bool:
        stars = [at for at, label in enumerate(labels) if label == b"*"]
        if stars:
            return zone.has_any_below(Name.from_labels(labels[stars[-1] + 1 :]))
        return zone.has(name)

    return Fact(f"name {name.to_text()}", (name, False), holds, touches)


def name_below(name: Name) -> Fact:
    """All names at and below one."""
    return Fact(
        f"name below {name.to_text()}",
        (name, True),
        lambda asked, age: asked.qname.is_at_or_below(name),
        lambda zone: zone.has_any_below(name),
    )


def name_like(pattern: str) -> Fact:
    """Names of a form: `?` stands for any character, `*` for any characters, dots too."""
    wanted = pattern.lower().removesuffix(".")
    parts = (re.escape(each).replace(r"\?", ".") for each in wanted.split("*"))
    form = re.compile(".*".join(parts))

    def holds(asked: Asked, age: float) -> bool:
        return form.fullmatch(asked.qname.lowered().to_text().removesuffix(".")) is not None

    return Fact(f"name like {wanted}", (wanted, None), holds)


def of_client(text: str, value: Any, holds: Callable[[Asked], bool | None]) -> Fact:
    """A condition on the client, which an explanation may not know."""
    return Fact(
        text, value, lambda asked, age: None if asked.client.address == UNKNOWN else holds(asked)
    )


def is_known(found: str, wanted: str) -> bool | None:
    """Whether a fact of a query is the wanted one; None if it is not known."""
    return None if found == UNKNOWN else found == wanted


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


class Share(Selector):
    """A share of the queries, chosen at random."""

    def __init__(self, share: float) -> None:
        self.share = share
        self.text = f"share {share:.10g}"

    def matches(self, asked: Asked, age: float, random: Random) -> bool:
        return random.random() < self.share

    def foresee(self, asked: Asked, age: float) -> bool | None:
        return True if self.share == 1 else None


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

    def touches(self, zone: Zone) -> bool:
        sees_all = any(isinstance(each, Flow) for each in self.parts())
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


Key = tuple[str, str, int, str]


class Flow(Selector):
    """A condition on the five-tuple of a query.

    `holds` has the age of the rule now and at the first query of the five-tuple, in seconds, and the number of queries.
    """

    def __init__(
        self, text: str, holds: Callable[[float, float, float], bool], seconds: float = 0.0
    ) -> None:
        self.text, self.seconds, self._holds = text, seconds, holds
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
        return self._holds(age, *self._seen[_key(asked)])


def _key(asked: Asked) -> Key:
    return asked.server + asked.transport, asked.client.address, asked.client.port, asked.local
