"""Put the addresses of a reply in another order, so that clients that take the first spread over all.

Path: step 5, above `cache`: a cached answer is put in a new order each time it is served.
Source: CoreDNS 1.14.7 plugin/loadbalance.
Rule 1: with `round_robin`, in each section CNAMEs come first, then all other types as they stood, then A and AAAA
        shuffled together, then MX shuffled.  `prefer` then moves the addresses of networks to the front.
Rule 2: with `weighted`, for questions of type A, AAAA and SRV, one address is drawn by its weight and changes places
        with the first.
Rule 3: only replies with rcode NOERROR are touched, zone transfers never.  Chance is the runtime's, so a seed replays a
        run.
Cacheable: yes, the answer table begins with another address each time instead.  Not with `weighted` or `prefer`: the
        table's turns would know nothing of weights and networks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from random import Random
from typing import Any, ClassVar, Final, NamedTuple, Self

from hsdns.chain import Next, Request
from hsdns.corefile.properties import (
    Property,
    duration,
    many,
    one,
    one_of,
    read_properties,
)
from hsdns.corefile.tree import CorefileError, Directive, Token, did_you_mean
from hsdns.plugin import Block, Plugin, Runtime
from hsdns.plugins.loadbalance.weights import Weights, WeightsFile
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import RR, Reply

ROUND_ROBIN: Final = "round_robin"
WEIGHTED: Final = "weighted"
_ADDRESSES: Final = frozenset({RRType.A, RRType.AAAA})
_WEIGHED: Final = frozenset({RRType.A, RRType.AAAA, RRType.SRV})
_TRANSFERS: Final = frozenset({RRType.AXFR, RRType.IXFR})
_POLICIES: Final = (ROUND_ROBIN, WEIGHTED)
# Which policy a property belongs to.
_POLICY_OF: Final = {"prefer": ROUND_ROBIN, "reload": WEIGHTED}

Network = IPv4Network | IPv6Network


def read_network(token: Token) -> Network:
    """Read an address and a prefix length."""
    address, slash, length = token.text.partition("/")
    try:
        if not slash or not length.isdecimal():
            raise ValueError(token.text)
        return ip_network(f"{ip_address(address)}/{length}", strict=False)
    except ValueError:
        raise CorefileError(
            token.position, f'"{token.text}" is no network; write one like 10.0.0.0/8'
        ) from None


class _Sorted(NamedTuple):
    """A section by what is done with its records."""

    aliases: list[RR]
    others: list[RR]
    addresses: list[RR]
    exchanges: list[RR]


class Loadbalance(Plugin):
    """Orders A, AAAA and MX records."""

    name: ClassVar[str] = "loadbalance"
    cacheable = True
    rotates_addresses = True
    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {
        "reload": Property(one(duration()), default=30.0, syntax="DURATION"),
        "prefer": Property(many(read_network), repeat="collect", syntax="CIDR..."),
    }

    def __init__(self, networks: Sequence[Network] = (), file: WeightsFile | None = None) -> None:
        """Take what `prefer` says, or the file of `weighted`."""
        self._networks = tuple(networks)
        self._file = file
        self._random = Random()  # until start() brings the runtime's
        self.cacheable = not networks and file is None

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read `loadbalance [round_robin]` or `loadbalance weighted FILE`; of several the last one and `prefer`."""
        counting = _counting(directives, block.warn)
        policy, file = _policy(counting[-1])
        for line in (line for each in counting for line in each.lines):
            belongs = _POLICY_OF.get(line.name.text, policy)
            if belongs != policy:
                raise CorefileError(
                    line.name.position,
                    f'property "{line.name.text}" of loadbalance belongs to policy "{belongs}", not to "{policy}"',
                )
        options = read_properties(counting, cls.PROPERTIES)
        if file is None:
            return cls([network for line in options["prefer"] for network in line])
        return cls((), WeightsFile(block.path(file.text), options["reload"], file.position))

    async def start(self, runtime: Runtime) -> None:
        """Take the runtime's chance; read the weights, and begin to look whether they have changed."""
        self._random = runtime.random
        if self._file is not None:
            await self._file.start(runtime)

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Order what comes from below."""
        reply = await next(request)
        qtype = request.query.qtype
        if reply.rcode != Rcode.NOERROR or qtype in _TRANSFERS or not reply.written:
            return reply
        answer, authority, additional = reply.answer, reply.authority, reply.additional
        if len(answer) < 2 and len(authority) < 2 and len(additional) < 2:
            return reply
        if self._file is not None:
            if qtype not in _WEIGHED:
                return reply
            weights = self._file.weights
            return reply.replace(
                answer=weigh(answer, weights, self._random),
                additional=weigh(additional, weights, self._random),
            )
        answer, additional = shuffle(answer, self._random), shuffle(additional, self._random)
        if self._networks:
            answer, additional = prefer(answer, self._networks), prefer(additional, self._networks)
        return reply.replace(
            answer=answer, authority=shuffle(authority, self._random), additional=additional
        )


def shuffle(records: tuple[RR, ...], random: Random) -> tuple[RR, ...]:
    """Put one section's records in their new order."""
    if len(records) < 2:
        return records
    found = _sort(records)
    random.shuffle(found.addresses)
    random.shuffle(found.exchanges)
    return (*found.aliases, *found.others, *found.addresses, *found.exchanges)


def weigh(records: tuple[RR, ...], weights: Weights, random: Random) -> tuple[RR, ...]:
    """Put one section's records in their new order, if there are addresses among them."""
    found = _sort(records)
    addresses = found.addresses
    if not addresses:
        return records
    first = weights.first(addresses, random)
    addresses[0], addresses[first] = addresses[first], addresses[0]
    return (*found.aliases, *found.others, *addresses, *found.exchanges)


def prefer(records: tuple[RR, ...], networks: Sequence[Network]) -> tuple[RR, ...]:
    """Move the addresses in networks to the front, those in the first network first; the others stay in order."""
    if len(records) < 2:
        return records
    found = _sort(records)
    ranks = {rr: _rank(rr, networks) for rr in found.addresses}
    found.addresses.sort(key=lambda rr: ranks[rr])
    return (*found.aliases, *found.addresses, *found.exchanges, *found.others)


def _rank(rr: RR, networks: Sequence[Network]) -> int:
    address = ip_address(rr.rdata)
    for rank, network in enumerate(networks):
        if address in network:
            return rank
    return len(networks)


def _sort(records: Sequence[RR]) -> _Sorted:
    found = _Sorted([], [], [], [])
    for rr in records:
        if rr.rrtype in _ADDRESSES:
            found.addresses.append(rr)
        elif rr.rrtype == RRType.CNAME:
            found.aliases.append(rr)
        elif rr.rrtype == RRType.MX:
            found.exchanges.append(rr)
        else:
            found.others.append(rr)
    return found


def _counting(directives: Sequence[Directive], warn: Callable[[str], None]) -> list[Directive]:
    """The last one, behind those whose networks count too: of `round_robin`, and no `weighted` follows."""
    *others, last = directives
    counting, idle = [last], [last]
    networks_count = _policy(last)[0] == ROUND_ROBIN
    for each in reversed(others):
        networks_count = _policy(each)[0] == ROUND_ROBIN and networks_count
        (counting if networks_count and each.lines else idle).insert(0, each)
    one_of(idle, warn, last=True)
    return counting


def _policy(directive: Directive) -> tuple[str, Token | None]:
    """The policy, and for `weighted` the word that names its file."""
    if not directive.args:
        return ROUND_ROBIN, None
    policy, *rest = directive.args
    if policy.text not in _POLICIES:
        raise CorefileError(
            policy.position,
            f'unknown policy "{policy.text}" of loadbalance'
            + (did_you_mean(policy.text, _POLICIES) or f"; there are {ROUND_ROBIN} and {WEIGHTED}"),
        )
    if policy.text == WEIGHTED:
        if not rest:
            raise CorefileError(policy.position, 'policy "weighted" needs the file of the weights')
        if len(rest) > 1:
            raise CorefileError(
                rest[1].position, f'policy "weighted" takes one file, found "{rest[1].text}" too'
            )
        return WEIGHTED, rest[0]
    if rest:
        raise CorefileError(
            rest[0].position, f'policy "round_robin" takes no argument, found "{rest[0].text}"'
        )
    return ROUND_ROBIN, None
