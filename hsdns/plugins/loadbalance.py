"""Shuffle the addresses of a reply, so that clients that take the first spread over all.

Path: step 5, above `cache`: a cached answer is shuffled each time it is served.
Source: CoreDNS 1.14.7 plugin/loadbalance.
Rule 1: in each section CNAMEs come first, then all other types as they stood, then A and AAAA shuffled together, then
        MX shuffled.  Only replies with rcode NOERROR are touched, zone transfers never.
Rule 2: chance is the runtime's, so a seed replays a run.
Rule 3: cacheable: the fast path begins with another address each time instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import ClassVar, Final, Self

from hsdns.chain import Block, Handler, Next, Request, Runtime
from hsdns.corefile.properties import only_once, read_properties
from hsdns.corefile.tree import CorefileError, Directive, did_you_mean
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import RR, Reply

_ADDRESSES: Final = frozenset({RRType.A, RRType.AAAA})
_TRANSFERS: Final = frozenset({RRType.AXFR, RRType.IXFR})
_POLICIES: Final = ("round_robin",)


class Loadbalance(Handler):
    """Shuffles A, AAAA and MX records."""

    name: ClassVar[str] = "loadbalance"
    cacheable = True
    rotates: ClassVar[bool] = True
    NOT_YET: ClassVar[frozenset[str]] = frozenset({"reload", "prefer"})

    def __init__(self) -> None:
        self._random = Random()  # until start() brings the runtime's

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read `loadbalance [round_robin]`."""
        directive = only_once(directives)
        if directive.args:
            policy = directive.args[0]
            if policy.text == "weighted":
                raise CorefileError(
                    policy.position,
                    'policy "weighted" of loadbalance exists in CoreDNS but not in hsdns yet; '
                    'remove the word or write "round_robin"',
                )
            if policy.text not in _POLICIES:
                raise CorefileError(
                    policy.position,
                    f'unknown policy "{policy.text}" of loadbalance'
                    + (did_you_mean(policy.text, _POLICIES) or '; the only one is "round_robin"'),
                )
            if len(directive.args) > 1:
                extra = directive.args[1]
                raise CorefileError(
                    extra.position, f'policy "round_robin" takes no argument, found "{extra.text}"'
                )
        read_properties(directives, cls.PROPERTIES, not_yet=cls.NOT_YET)
        return cls()

    async def start(self, runtime: Runtime) -> None:
        """Take the runtime's chance."""
        self._random = runtime.random

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Shuffle what comes from below."""
        reply = await next(request)
        if reply.rcode != Rcode.NOERROR or request.query.qtype in _TRANSFERS or not reply.written:
            return reply
        answer, authority, additional = reply.answer, reply.authority, reply.additional
        if len(answer) < 2 and len(authority) < 2 and len(additional) < 2:
            return reply
        return reply.replace(
            answer=shuffle(answer, self._random),
            authority=shuffle(authority, self._random),
            additional=shuffle(additional, self._random),
        )


def shuffle(records: tuple[RR, ...], random: Random) -> tuple[RR, ...]:
    """Put one section's records in their new order."""
    if len(records) < 2:
        return records
    aliases: list[RR] = []
    addresses: list[RR] = []
    exchanges: list[RR] = []
    others: list[RR] = []
    for rr in records:
        if rr.rrtype in _ADDRESSES:
            addresses.append(rr)
        elif rr.rrtype == RRType.CNAME:
            aliases.append(rr)
        elif rr.rrtype == RRType.MX:
            exchanges.append(rr)
        else:
            others.append(rr)
    random.shuffle(addresses)
    random.shuffle(exchanges)
    return (*aliases, *others, *addresses, *exchanges)
