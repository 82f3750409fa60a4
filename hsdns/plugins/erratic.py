"""Returns faulty replies for testing clients: drops, delays or truncates some, and answers all others alike.

Path: step 5, near the end of ORDER: it answers every query, so no plugin after it is reached.
Source: CoreDNS 1.14.7 plugin/erratic; RFC 5737 and RFC 3849 (addresses for documentation).
Rule 1: the number of a query since the start decides whether it is dropped, delayed or truncated, not chance.
Rule 2: ready only after the third and fourth query, for tests of readiness probes.
Rule 3: its clients have the same search list, for tests of `autopath`.
Cacheable: no, every query must be counted.
"""

from __future__ import annotations

from asyncio import sleep
from collections.abc import Sequence
from typing import Any, ClassVar, Final, NamedTuple, Self

from hsdns.chain import Next, Request
from hsdns.corefile.keys import zones_from_args
from hsdns.corefile.properties import (
    Property,
    duration,
    flag,
    integer,
    optional,
    read_properties,
    words,
)
from hsdns.corefile.tree import Directive
from hsdns.plugin import Block, Plugin
from hsdns.wire import rdata
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import RR, Reply, unwritten
from hsdns.wire.name import MAX_NAME_LEN, ROOT, Name

_MAX: Final = 2**31 - 1
_ADDRESSES: Final = {
    RRType.A: rdata.address("192.0.2.53"),
    RRType.AAAA: rdata.address("2001:db8::53"),
}
LARGE: Final = 30  # records of a large reply
# The content of a zone transfer: an SOA record, and two name servers with their addresses.
_NS, _MAILBOX = Name.from_text("sns.dns.icann.org."), Name.from_text("noc.dns.icann.org.")
_SOA: Final = rdata.soa(_NS, _MAILBOX, 2018050825, 7200, 3600, 1209600, 3600)
_SERVERS: Final = (
    (b"\1b", rdata.address("2001:500::54")),
    (b"\1a", rdata.address("2001:bd8::53")),
)
# The search list of every client.
_SEARCH: Final = (Name.from_text("a.example.org."), Name.from_text("b.example.org."), ROOT)


class Delay(NamedTuple):
    """Every `amount`th query is delayed by `seconds`; 0 delays none."""

    amount: int = 2
    seconds: float = 0.1


_AMOUNT: Final = integer(0, _MAX)
_NO_DELAY: Final = Delay(0)


class Erratic(Plugin):
    """Answers queries, with the configured faults."""

    waits: ClassVar[bool] = True
    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {
        "drop": Property(optional(_AMOUNT, 2), syntax="[AMOUNT]"),
        "truncate": Property(optional(_AMOUNT, 2), default=0, syntax="[AMOUNT]"),
        "delay": words(
            Delay, _AMOUNT, duration(), syntax="[AMOUNT [DURATION]]", least=0, default=_NO_DELAY
        ),
        "large": Property(flag, default=False, reads=0, stops=True),
    }

    def __init__(
        self, drop: int = 2, truncate: int = 0, delay: Delay = _NO_DELAY, *, large: bool = False
    ) -> None:
        self._drop = drop
        self._truncate = truncate
        self._delay = delay
        self._large = large
        self._queries = 0

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Parse `erratic [ZONE...]` and its options; without options every second query is dropped.

        As in CoreDNS, zones do not restrict what is answered; a zone that looks as if it did causes a warning.
        """
        for directive in directives:
            zones = zones_from_args(directive.args)
            if zones and any(own.longest_of(zones) is None for own in block.zones):
                block.warn(
                    f"{directive.args[0].position}: the zones of erratic have no effect, as in CoreDNS 1.14.7: "
                    "it answers all names of the server block"
                )
        options = read_properties(directives, cls.PROPERTIES)
        drop: int | None = options["drop"]
        if drop is None:
            drop = 0 if options["truncate"] or options["delay"].amount else 2
        return cls(drop, options["truncate"], options["delay"], large=options["large"])

    def search_path(self, request: Request) -> tuple[Name, ...]:
        """The search list of any client, for `autopath`."""
        return _SEARCH

    def ready(self) -> bool:
        """Ready while it has received three or four queries."""
        return 3 <= self._queries < 5

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Answer A, AAAA and AXFR; SERVFAIL for all other types."""
        number, self._queries = self._queries, self._queries + 1
        if self._drop and number % self._drop == 0:
            return Reply(dropped=True)
        if self._delay.amount and number % self._delay.amount == 0:
            await sleep(self._delay.seconds)
        # A bitwise "and" where a remainder is meant, as in CoreDNS, so that clients under test see the same replies.
        truncates = bool(self._truncate) and number & self._truncate == 0
        query = request.query
        if query.qtype == RRType.AXFR:
            return _transfer(query.qname, is_complete=not truncates)
        packed = _ADDRESSES.get(query.qtype)
        if packed is None:
            return unwritten(Rcode.SERVFAIL)
        record = RR(query.qname, query.qtype, 0, packed)
        count = LARGE if self._large and query.qtype == RRType.A else 1
        return Reply(answer=(record,) * count, aa=True, tc=truncates)


def _transfer(qname: Name, *, is_complete: bool) -> Reply:
    """A transfer of a small zone, without its end if it is truncated."""
    soa = RR(qname, RRType.SOA, 0, _SOA)
    if len(qname.wire) + 2 > MAX_NAME_LEN:
        return unwritten(Rcode.SERVFAIL, f"no name fits below {qname.to_text()}")
    names = [Name(label + qname.wire) for label, _ in _SERVERS]
    servers = [RR(qname, RRType.NS, 0, name.wire) for name in names]
    addresses = [
        RR(name, RRType.AAAA, 0, packed) for name, (_, packed) in zip(names, _SERVERS, strict=True)
    ][::-1]
    end = (soa,) if is_complete else ()
    return Reply(answer=(soa, *servers, *addresses, *end), aa=True)
