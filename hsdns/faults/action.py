"""The actions of rules: drop or delay a reply, or change it.

Path: words.py creates them -> rules.py draws random values for them -> handler.py applies them to the reply.
Rule 1: draw() is called when the query arrives, before any wait, so that the order of replies has no influence.
Rule 2: an action changes a reply after all plugins, including `cache`, so that none of them stores a changed reply.
Rule 3: replies of zone transfers can be dropped, delayed or refused, but not changed.

The actions on connections: TCP, and TLS and HTTPS over TCP:
Rule 1: a rule is evaluated once, when a client connects, so no name or type is known.  Open connections are not
        affected.
Rule 2: `refuse` and `hang` act before a TLS handshake, `slow` and `reset` on replies inside TLS.

The actions on the process: its queue of misses is full, or it is killed and restarted:
Rule 1: of a miss, only its client and listener are known; the query has not been decoded yet.
Rule 2: a rule restarts the process once, at its time, or whenever too many queries are pending.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import ClassVar, Final

from hsdns.faults.selector import UNKNOWN, And, Asked, Period, Selector
from hsdns.wire import rdata
from hsdns.wire.iana import Rcode, RRType, rcode_to_text
from hsdns.wire.message import RR, TRANSFERS, Query, Reply, unwritten
from hsdns.wire.name import Name

MAX_DELAY: Final = 60.0  # seconds
_SRV_TARGET: Final = 6  # octets before the target in RDATA of SRV
_ADDRESSES: Final = (RRType.A, RRType.AAAA)


class Course:
    """A query in progress: its reply so far, and its delay; `ask` gets the plugins' reply to a question."""

    def __init__(self, query: Query, ask: Callable[[Name, int], Awaitable[Reply]]) -> None:
        self.query = query
        self.ask = ask
        self.delay = 0.0  # seconds
        self.reply: Reply | None = None

    async def answered(self) -> Reply:
        """Return the reply so far, which is the plugins' reply if no action has set one."""
        if self.reply is None:
            self.reply = await self.ask(self.query.qname, self.query.qtype)
        return self.reply


class Action:
    """An action; `text` is its syntax, `replaces` says that it discards the plugins' reply.

    `about` is its object: a query in its chain, or the object that another module of this package defines; `times` is
    its default limit of hits, None without a limit.  With `counts_late`, a query is a hit only if its reply is
    different.
    """

    about: ClassVar[str] = "query"
    counts_late: ClassVar[bool] = False
    in_corefile: ClassVar[bool] = True  # whether a server block may have it
    text: str
    times: int | None = None
    replaces = False

    def misfit(self, selector: Selector) -> str:
        """Return why it cannot be combined with a selector, "" if it can."""
        return ""

    def fits(self, asked: Asked) -> bool:
        """Whether it can be applied to a query."""
        return asked.qtype not in TRANSFERS

    def draw(self, random: Random) -> float | None:
        """Draw the random value that it needs, None if it needs none."""
        return None

    async def act(self, course: Course, drawn: float | None, seed: int) -> None:
        """Apply it."""
        raise NotImplementedError


class Drop(Action):
    """Send no reply; the query does not reach the plugins."""

    text = "drop"
    replaces = True

    def fits(self, asked: Asked) -> bool:
        return True

    async def act(self, course: Course, drawn: float | None, seed: int) -> None:
        course.reply = Reply(dropped=True)


class Delay(Action):
    """Delay the reply by a constant, normally distributed or Pareto-distributed time."""

    def __init__(self, text: str, distribution: str, first: float, second: float = 0.0) -> None:
        self.text = text
        self._distribution, self._first, self._second = distribution, first, second

    def fits(self, asked: Asked) -> bool:
        return True

    def draw(self, random: Random) -> float:
        seconds = self._first
        if self._distribution == "normal":
            seconds = random.gauss(self._first, self._second)
        elif self._distribution == "pareto":
            seconds = self._first * random.paretovariate(self._second)
        return round(min(max(seconds, 0.0), MAX_DELAY), 6)

    async def act(self, course: Course, drawn: float | None, seed: int) -> None:
        assert drawn is not None, "drawn"
        course.delay += drawn


class SetRcode(Action):
    """Send a reply with an rcode and nothing else."""

    replaces = True

    def __init__(self, rcode: int) -> None:
        self.rcode = rcode
        self.text = f"rcode {rcode_to_text(rcode)}"

    def fits(self, asked: Asked) -> bool:
        return True

    async def act(self, course: Course, drawn: float | None, seed: int) -> None:
        course.reply = unwritten(self.rcode)


class Empty(Action):
    """Send NOERROR without any record, not even the SOA record that negative caching needs."""

    text = "empty"
    replaces = True

    async def act(self, course: Course, drawn: float | None, seed: int) -> None:
        course.reply = Reply(aa=True)


class Deny(Action):
    """Send NODATA or NXDOMAIN, with the SOA record of the zone."""

    replaces = True

    def __init__(self, rcode: int) -> None:
        self.rcode = rcode
        self.text = "nxdomain" if rcode == Rcode.NXDOMAIN else "nodata"

    async def act(self, course: Course, drawn: float | None, seed: int) -> None:
        reply = await course.answered()
        soa = _soa_of(reply)
        if not soa:
            soa = _soa_of(await course.ask(course.query.qname, RRType.SOA))
        course.reply = Reply(rcode=self.rcode, authority=soa, aa=True, ra=reply.ra)


class Truncate(Action):
    """Send TC with the first records of the answer, over UDP."""

    def __init__(self, records: int) -> None:
        self.records = records
        self.text = f"truncate {records}"

    def fits(self, asked: Asked) -> bool:
        return super().fits(asked) and asked.transport in ("udp", "?")

    async def act(self, course: Course, drawn: float | None, seed: int) -> None:
        reply = await course.answered()
        course.reply = reply.replace(
            answer=reply.answer[: self.records], authority=(), additional=(), tc=True
        )


class SetTtl(Action):
    """Set the TTL of all records."""

    def __init__(self, ttl: int) -> None:
        self.ttl = ttl
        self.text = f"ttl {ttl}"

    async def act(self, course: Course, drawn: float | None, seed: int) -> None:
        reply = await course.answered()
        changed = {
            name: tuple(rr._replace(ttl=self.ttl) for rr in getattr(reply, name))
            for name in ("answer", "authority", "additional")
        }
        course.reply = reply.replace(**changed)


class Shuffle(Action):
    """Shuffle the records of each RRset of the answer."""

    text = "shuffle"

    def draw(self, random: Random) -> float:
        return random.getrandbits(32)

    async def act(self, course: Course, drawn: float | None, seed: int) -> None:
        reply = await course.answered()
        random, answer = Random(drawn), []
        for rrset in _rrsets(reply.answer):
            random.shuffle(rrset)
            answer += rrset
        course.reply = reply.replace(answer=tuple(answer))


class Cut(Action):
    """Send the first records of each RRset of the answer only."""

    def __init__(self, records: int) -> None:
        self.records = records
        self.text = f"cut {records}"

    async def act(self, course: Course, drawn: float | None, seed: int) -> None:
        reply = await course.answered()
        answer = [rr for rrset in _rrsets(reply.answer) for rr in rrset[: self.records]]
        course.reply = reply.replace(answer=tuple(answer))


class Endpoints(Action):
    """Send only some of the endpoints, always the same ones in A, AAAA and SRV records."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.text = f"endpoints {count}"

    def fits(self, asked: Asked) -> bool:
        return asked.qtype in (*_ADDRESSES, RRType.SRV)

    async def act(self, course: Course, drawn: float | None, seed: int) -> None:
        reply = await course.answered()
        addresses = {rr.owner: rr.rdata for rr in reply.additional if rr.rrtype in _ADDRESSES}
        endpoints: dict[bytes, bytes] = {}  # RDATA -> address, or the RDATA itself
        for rr in reply.answer:
            if rr.rrtype in _ADDRESSES:
                endpoints[rr.rdata] = rr.rdata
            elif rr.rrtype == RRType.SRV:
                endpoints[rr.rdata] = addresses.get(Name(rr.rdata[_SRV_TARGET:]), rr.rdata)
        ranked = sorted(set(endpoints.values()), key=lambda address: _rank(seed, address))
        left = set(ranked[: self.count])
        answer = tuple(rr for rr in reply.answer if endpoints.get(rr.rdata, b"") in {*left, b""})
        targets = {Name(rr.rdata[_SRV_TARGET:]) for rr in answer if rr.rrtype == RRType.SRV}
        additional = tuple(
            rr for rr in reply.additional if rr.rrtype not in _ADDRESSES or rr.owner in targets
        )
        course.reply = reply.replace(answer=answer, additional=additional)


class AnswerAddress(Action):
    """Send a given address."""

    replaces = True

    def __init__(self, address: str, ttl: int = 30) -> None:
        self._rdata, self._ttl = rdata.address(address), ttl
        self._qtype = RRType.A if len(self._rdata) == 4 else RRType.AAAA
        self.text = f"answer {rdata.address_to_text(self._rdata)}"

    def fits(self, asked: Asked) -> bool:
        return asked.qtype == self._qtype

    async def act(self, course: Course, drawn: float | None, seed: int) -> None:
        record = RR(course.query.qname, self._qtype, self._ttl, self._rdata)
        course.reply = Reply(answer=(record,), aa=True)


class AnswerName(Action):
    """Send the records of another name, with the queried name as their owner."""

    replaces = True

    def __init__(self, name: Name) -> None:
        self.name = name
        self.text = f"answer {name.to_text()}"

    async def act(self, course: Course, drawn: float | None, seed: int) -> None:
        qname = course.query.qname
        reply = await course.ask(self.name, course.query.qtype)
        answer = tuple(
            rr._replace(owner=qname) if rr.owner == self.name else rr for rr in reply.answer
        )
        course.reply = reply.replace(answer=answer)


def _soa_of(reply: Reply) -> tuple[RR, ...]:
    return tuple(rr for rr in (*reply.authority, *reply.answer) if rr.rrtype == RRType.SOA)[:1]


def _rrsets(records: tuple[RR, ...]) -> list[list[RR]]:
    found: dict[tuple[Name, int], list[RR]] = {}
    for rr in records:
        found.setdefault((rr.owner, rr.rrtype), []).append(rr)
    return list(found.values())


def _rank(seed: int, address: bytes) -> bytes:
    return hashlib.blake2b(address, key=seed.to_bytes(8, "big"), digest_size=8).digest()


STREAMS: Final = ("tcp", "dot", "doh")
_OF_CONNECTIONS: Final = (
    "client", "pod", "asked", "listener", "transport", "share", "nth", "after", "before",
)  # fmt: skip


class ConnectionAction(Action):
    """An action on connections."""

    about: ClassVar[str] = "connection"
    in_corefile: ClassVar[bool] = False

    def fits(self, asked: Asked) -> bool:
        return asked.transport in (*STREAMS, UNKNOWN)

    def misfit(self, selector: Selector) -> str:
        return foreign_selector(self.text, "when a client connects", selector, _OF_CONNECTIONS)


class Refuse(ConnectionAction):
    """Reset the connection as soon as it is accepted."""

    text = "refuse"
    replaces = True


class Hang(ConnectionAction):
    """Accept the connection and never send anything."""

    text = "hang"
    replaces = True


class Slow(ConnectionAction):
    """Limit replies to a number of octets a second."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self.text = f"slow {rate}"


class Reset(ConnectionAction):
    """Reset the connection after a number of octets of replies; None: after half of the first data that is sent."""

    replaces = True

    def __init__(self, octets: int | None) -> None:
        self.octets = octets
        self.text = "reset" if octets is None else f"reset {octets}"


def foreign_selector(text: str, when: str, selector: Selector, known: Sequence[str]) -> str:
    """Return an error if a selector cannot be used with an action, "" if all parts can."""
    words = [part.text.split()[0] for part in selector.parts()]
    foreign = next((word for word in words if word not in known), "")
    if not foreign:
        return ""
    return f'"{text.split()[0]}" is decided {when}, so it has no "{foreign}"; it has {", ".join(known)}'


_OF_PROCESS: Final = ("client", "pod", "asked", "listener", "share", "nth", "after", "before")


class QueueFull(Action):
    """Drop the UDP queries that are misses of the answer table."""

    about: ClassVar[str] = "miss"
    in_corefile: ClassVar[bool] = False
    text = "queue-full"
    replaces = True

    def fits(self, asked: Asked) -> bool:
        return asked.transport in ("udp", UNKNOWN)

    def misfit(self, selector: Selector) -> str:
        return foreign_selector(self.text, "before a query is read", selector, _OF_PROCESS)


class Restart(Action):
    """Kill the process, and restart it after `dead` seconds; with `pending`, whenever this number of queries wait."""

    about: ClassVar[str] = "process"
    in_corefile: ClassVar[bool] = False
    replaces = True

    def __init__(self, text: str, dead: float = 0.0, pending: int | None = None) -> None:
        self.text, self.dead, self.pending = text, dead, pending
        self.times = 1 if pending is None else None

    def misfit(self, selector: Selector) -> str:
        if isinstance(selector, And) and not selector.inside:
            return ""
        if isinstance(selector, Period) and selector.word == "after":
            return ""
        word = self.text.split()[0]
        return (
            f'"{word}" is about the process, so "after TIME" is the only selector that it has, once'
        )


def due_at(selector: Selector) -> float:
    """The age of the rule, in seconds, at which a Restart is due."""
    return selector.seconds if isinstance(selector, Period) else 0.0
