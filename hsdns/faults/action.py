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
from collections.abc import Awaitable, Callable
from ipaddress import ip_network
from random import Random
from typing import ClassVar, Final

from hsdns.faults.selector import UNKNOWN, Asked, Selector
from hsdns.wire import rdata
from hsdns.wire.iana import ADDRESSES, RRType
from hsdns.wire.message import RR, TRANSFERS, Query, Reply
from hsdns.wire.name import Name

MAX_DELAY: Final = 60.0  # seconds
ANSWER_TTL: Final = 30  # seconds
_SRV_TARGET: Final = 6  # octets before the target in RDATA of SRV
_NOBODY: Final = {
    RRType.A: ip_network("198.18.0.0/15"),
    RRType.AAAA: ip_network("2001:db8::/32"),
}


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


def any_query(asked: Asked) -> bool:
    """Fits each query, also of a zone transfer."""
    return True


def no_transfer(asked: Asked) -> bool:
    """Fits each query that gets a single reply."""
    return asked.qtype not in TRANSFERS


class Action:
    """An action; `text` is its syntax, `replaces` says that it discards the plugins' reply.

    `about` is its object: a query in its chain, or the object that another module of this package defines; `times` is
    its default limit of hits, None without a limit.  With `counts_late`, a query is a hit only if its reply is
    different.  `fits` says whether it can be applied to a query.
    """

    about: ClassVar[str] = "query"
    counts_late: ClassVar[bool] = False
    times: int | None = None

    def __init__(
        self, text: str, fits: Callable[[Asked], bool] = no_transfer, *, replaces: bool = False
    ) -> None:
        self.text, self.fits, self.replaces = text, fits, replaces

    @property
    def word(self) -> str:
        """Its first word."""
        return self.text.split()[0]

    @property
    def takes_answer(self) -> bool:
        """Whether a query that it is applied to has no answer."""
        return self.replaces and self.word != "answer"

    def misfit(self, selector: Selector) -> str:
        """Return why it cannot be combined with a selector, "" if it can."""
        return ""

    def draw(self, random: Random) -> float | None:
        """Draw the random value that it needs, None if it needs none."""
        return None

    async def act(self, course: Course, drawn: float | None, seed: int) -> None:
        """Apply it."""
        raise NotImplementedError


class Send(Action):
    """Send a reply in place of the plugins'; with Reply(dropped=True) the query does not reach the plugins."""

    def __init__(
        self, text: str, make: Callable[[Query], Reply], fits: Callable[[Asked], bool] = no_transfer
    ) -> None:
        super().__init__(text, fits, replaces=True)
        self._make = make

    async def act(self, course: Course, drawn: float | None, seed: int) -> None:
        course.reply = self._make(course.query)


class Change(Action):
    """Change the reply; `edit` gets the reply so far, and what was drawn, or else the seed of the rule."""

    def __init__(
        self,
        text: str,
        edit: Callable[[Reply, float], Reply],
        fits: Callable[[Asked], bool] = no_transfer,
        *,
        draws: bool = False,
    ) -> None:
        super().__init__(text, fits)
        self._edit, self._draws = edit, draws

    def draw(self, random: Random) -> float | None:
        return random.getrandbits(32) if self._draws else None

    async def act(self, course: Course, drawn: float | None, seed: int) -> None:
        course.reply = self._edit(await course.answered(), seed if drawn is None else drawn)


class Delay(Action):
    """Delay the reply; `draw_seconds` draws the time."""

    def __init__(self, text: str, draw_seconds: Callable[[Random], float]) -> None:
        super().__init__(text, any_query)
        self._draw_seconds = draw_seconds

    def draw(self, random: Random) -> float:
        return round(min(max(self._draw_seconds(random), 0.0), MAX_DELAY), 6)

    async def act(self, course: Course, drawn: float | None, seed: int) -> None:
        assert drawn is not None, "drawn"
        course.delay += drawn


class Deny(Action):
    """Send NODATA or NXDOMAIN, with the SOA record of the zone."""

    def __init__(self, text: str, rcode: int) -> None:
        super().__init__(text, replaces=True)
        self.rcode = rcode

    async def act(self, course: Course, drawn: float | None, seed: int) -> None:
        reply = await course.answered()
        soa = _soa_of(reply)
        if not soa:
            soa = _soa_of(await course.ask(course.query.qname, RRType.SOA))
        course.reply = Reply(rcode=self.rcode, authority=soa, aa=True, ra=reply.ra)


class AnswerName(Action):
    """Send the records of another name, with the queried name as their owner."""

    def __init__(self, name: Name) -> None:
        super().__init__(f"answer {name.to_text()}", replaces=True)
        self.name = name

    async def act(self, course: Course, drawn: float | None, seed: int) -> None:
        qname = course.query.qname
        reply = await course.ask(self.name, course.query.qtype)
        answer = tuple(
            rr._replace(owner=qname) if rr.owner == self.name else rr for rr in reply.answer
        )
        course.reply = reply.replace(answer=answer)


def answer_address(address: str) -> Action:
    """Send a given address."""
    wire = rdata.address(address)
    qtype = RRType.A if len(wire) == 4 else RRType.AAAA
    return Send(
        f"answer {rdata.address_to_text(wire)}",
        lambda query: Reply(answer=(RR(query.qname, qtype, ANSWER_TTL, wire),), aa=True),
        lambda asked: asked.qtype == qtype,
    )


class AnswerRandom(Action):
    """Send another address for each hit, of networks where no host is: those of RFC 2544 and RFC 3849."""

    def __init__(self) -> None:
        super().__init__("answer random", lambda asked: asked.qtype in ADDRESSES, replaces=True)

    def draw(self, random: Random) -> float:
        return random.getrandbits(17)

    async def act(self, course: Course, drawn: float | None, seed: int) -> None:
        assert drawn is not None, "drawn"
        query = course.query
        network = _NOBODY[query.qtype]
        wire = rdata.address(str(network[int(drawn)]))
        answer = (RR(query.qname, query.qtype, ANSWER_TTL, wire),)
        course.reply = Reply(answer=answer, aa=True)


def truncate(records: int) -> Action:
    """Send TC with the first records of the answer, over UDP."""
    return Change(
        f"truncate {records}",
        lambda reply, _: reply.replace(
            answer=reply.answer[:records], authority=(), additional=(), tc=True
        ),
        lambda asked: no_transfer(asked) and asked.transport in ("udp", UNKNOWN),
    )


def set_ttl(ttl: int) -> Action:
    """Set the TTL of all records."""

    def edit(reply: Reply, _: float) -> Reply:
        sections = {each: getattr(reply, each) for each in ("answer", "authority", "additional")}
        return reply.replace(
            **{each: tuple(rr._replace(ttl=ttl) for rr in sections[each]) for each in sections}
        )

    return Change(f"ttl {ttl}", edit)


def shuffle() -> Action:
    """Shuffle the records of each RRset of the answer."""

    def edit(reply: Reply, drawn: float) -> Reply:
        random, answer = Random(drawn), []
        for rrset in _rrsets(reply.answer):
            random.shuffle(rrset)
            answer += rrset
        return reply.replace(answer=tuple(answer))

    return Change("shuffle", edit, draws=True)


def cut(records: int) -> Action:
    """Send the first records of each RRset of the answer only."""

    def edit(reply: Reply, _: float) -> Reply:
        return reply.replace(
            answer=tuple(rr for rrset in _rrsets(reply.answer) for rr in rrset[:records])
        )

    return Change(f"cut {records}", edit)


def endpoints(count: int) -> Action:
    """Send only some of the endpoints, always the same ones in A, AAAA and SRV records."""

    def edit(reply: Reply, seed: float) -> Reply:
        addresses = {rr.owner: rr.rdata for rr in reply.additional if rr.rrtype in ADDRESSES}
        endpoints: dict[bytes, bytes] = {}  # RDATA -> address, or the RDATA itself
        for rr in reply.answer:
            if rr.rrtype in ADDRESSES:
                endpoints[rr.rdata] = rr.rdata
            elif rr.rrtype == RRType.SRV:
                endpoints[rr.rdata] = addresses.get(Name(rr.rdata[_SRV_TARGET:]), rr.rdata)
        key = int(seed).to_bytes(8, "big")
        ranked = sorted(
            set(endpoints.values()),
            key=lambda address: hashlib.blake2b(address, key=key, digest_size=8).digest(),
        )
        left = {*ranked[:count], b""}
        answer = tuple(rr for rr in reply.answer if endpoints.get(rr.rdata, b"") in left)
        targets = {Name(rr.rdata[_SRV_TARGET:]) for rr in answer if rr.rrtype == RRType.SRV}
        additional = tuple(
            rr for rr in reply.additional if rr.rrtype not in ADDRESSES or rr.owner in targets
        )
        return reply.replace(answer=answer, additional=additional)

    return Change(f"endpoints {count}", edit, lambda asked: asked.qtype in (*ADDRESSES, RRType.SRV))


def _soa_of(reply: Reply) -> tuple[RR, ...]:
    return tuple(rr for rr in (*reply.authority, *reply.answer) if rr.rrtype == RRType.SOA)[:1]


def _rrsets(records: tuple[RR, ...]) -> list[list[RR]]:
    found: dict[tuple[Name, int], list[RR]] = {}
    for rr in records:
        found.setdefault((rr.owner, rr.rrtype), []).append(rr)
    return list(found.values())


STREAMS: Final = ("tcp", "dot", "doh")


class Early(Action):
    """An action that is decided before a query is read, so that few selectors are known."""

    when: ClassVar[str]
    known: ClassVar[tuple[str, ...]] = (
        "client", "pod", "labels", "asked", "listener", "share", "nth", "after", "before",
    )  # fmt: skip

    def misfit(self, selector: Selector) -> str:
        words = [part.word for part in selector.parts()]
        foreign = next((word for word in words if word not in self.known), "")
        if not foreign:
            return ""
        known = ", ".join(self.known)
        return f'"{self.word}" is decided {self.when}, so it has no "{foreign}"; it has {known}'


class ConnectionAction(Early):
    """An action on connections: refuse, hang, slow OCTETS or reset [OCTETS].

    `refuse` resets the connection as soon as it is accepted; `hang` never sends anything; `slow` limits replies to a
    number of octets a second; `reset` resets it after a number of octets of replies, None: half of the first data.
    """

    about: ClassVar[str] = "connection"
    when: ClassVar[str] = "when a client connects"
    known: ClassVar[tuple[str, ...]] = (
        "client", "pod", "labels", "asked", "listener", "transport", "share", "nth", "after", "before",
    )  # fmt: skip

    def __init__(self, word: str, octets: int | None = None) -> None:
        text = word if octets is None else f"{word} {octets}"
        fits = (*STREAMS, UNKNOWN)
        super().__init__(text, lambda asked: asked.transport in fits, replaces=word != "slow")
        self.octets = octets


class QueueFull(Early):
    """Drop the UDP queries that are misses of the answer table."""

    about: ClassVar[str] = "miss"
    when: ClassVar[str] = "before a query is read"

    def __init__(self) -> None:
        super().__init__(
            "queue-full", lambda asked: asked.transport in ("udp", UNKNOWN), replaces=True
        )


class Restart(Action):
    """Kill the process, and restart it after `dead` seconds; with `pending`, whenever this number of queries wait.

    It is due at the age of the rule that its selector has as `seconds`.
    """

    about: ClassVar[str] = "process"

    def __init__(self, text: str, dead: float = 0.0, pending: int | None = None) -> None:
        super().__init__(text, replaces=True)
        self.dead, self.pending = dead, pending
        self.times = 1 if pending is None else None

    def misfit(self, selector: Selector) -> str:
        parts = selector.parts()
        if not parts or (parts == [selector] and selector.word == "after"):
            return ""
        return f'"{self.word}" is about the process, so "after TIME" is the only selector that it has, once'
