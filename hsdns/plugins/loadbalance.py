"""Reorders the addresses in replies to distribute load.

Path: step 5, before `cache`: a cached reply is reordered each time it is sent.
Source: CoreDNS 1.14.7 plugin/loadbalance.
Rule 1: with `round_robin`, CNAME records come first in each section, then other types in their original order, then A
        and AAAA shuffled together, then MX shuffled; more than MANY are rotated by a random number instead, as in
        the answer table.  `prefer` then moves addresses in its networks to the front.
Rule 2: with `weighted`, for queries of type A, AAAA and SRV, one address is selected at random by weight and swapped
        with the first.
Rule 3: only replies with rcode NOERROR are changed, zone transfers never.  Random numbers are the runtime's, so a run
        can be repeated with the same seed.
Rule 4: what is computed for each of thousands of addresses is computed in several turns of the loop.
Cacheable: yes, because the answer table rotates the addresses itself.  Not with `weighted` or `prefer`, which it does
        not support.

The weight file of `loadbalance weighted`, read at startup and when its content has changed:
Source: CoreDNS 1.14.7 plugin/loadbalance/weighted.go.

    # a comment
    www.example.org
    192.0.2.1 3
    192.0.2.2 1

Rule: a name is followed by its addresses and their weights, 1 to 255; an address that is not listed has weight 1.
"""

from __future__ import annotations

import asyncio
import logging
import re
from asyncio import sleep
from collections.abc import Callable, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from operator import itemgetter
from random import Random
from typing import Any, ClassVar, Final, NamedTuple, Self

from hsdns.chain import Next, Request
from hsdns.cluster.address import pack_address
from hsdns.corefile.properties import Property, duration, many, one, one_of, read_properties
from hsdns.corefile.tree import Directive, Position, Token
from hsdns.plugin import Block, Plugin, Runtime
from hsdns.turns import listed
from hsdns.wire.iana import ADDRESSES, Rcode, RRType
from hsdns.wire.message import RR, TRANSFERS, Reply
from hsdns.wire.name import Name

DEFAULT: Final = 1
LARGEST: Final = 255

log = logging.getLogger("hsdns.plugin.loadbalance")


class BadWeights(ValueError):
    """An error in the weight file; the message begins with the line number."""


class Weights:
    """Weights by name and address."""

    def __init__(self, text: str = "") -> None:
        """Read the file's content; raise BadWeights."""
        self._weights: dict[bytes, dict[bytes, int]] = {}
        current: dict[bytes, int] | None = None
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if len(words) == 1:
                current = self._weights.setdefault(_name(words[0], number).lower, {})
            elif len(words) == 2:
                address, weight = _address(words[0], number), _weight(words[1], number)
                if current is None:
                    raise BadWeights(
                        f"{number}: no name precedes this address; write one on its own line"
                    )
                current.setdefault(address, weight)  # of two weights the first takes effect
            else:
                raise BadWeights(
                    f"{number}: found {len(words)} words; write a name, or an address and its weight"
                )

    def __len__(self) -> int:
        """Return the number of names."""
        return len(self._weights)

    async def first(self, addresses: Sequence[RR], random: Random) -> int:
        """Select at random which of some A and AAAA records, at least one, comes first."""
        known = self._weights
        weights = await listed(
            known.get(rr.owner.lower, {}).get(rr.rdata, DEFAULT) for rr in addresses
        )
        return random.choices(range(len(addresses)), weights)[0]


class WeightsFile:
    """The file, read again every `reload` seconds (0: never); `position` is that of its name in the Corefile."""

    def __init__(self, path: str, reload: float, position: Position) -> None:
        self.weights = Weights()
        self._path = path
        self._reload = reload
        self._position = position
        self._text: str | None = None

    async def start(self, runtime: Runtime) -> None:
        """Read the file, and start checking it; raise CorefileError, but not for a missing file that is read again."""
        try:
            self._use(self._read())
        except OSError as error:
            if not self._reload:
                raise self._position.error(self._unreadable(error)) from error
            log.warning(
                "plugin/loadbalance: %s; trying again every %g seconds",
                self._unreadable(error),
                self._reload,
            )
        except BadWeights as error:
            raise self._position.error(f"{self._path}:{error}") from error
        if self._reload:
            runtime.spawn(self._watch(), "loadbalance")

    async def _watch(self) -> None:
        while True:
            await sleep(self._reload)
            try:
                self._use(await asyncio.to_thread(self._read))
            except OSError as error:
                log.error("plugin/loadbalance: %s", self._unreadable(error))
            except BadWeights as error:
                log.error(
                    "plugin/loadbalance: %s:%s; still using the previous weights", self._path, error
                )

    def _read(self) -> tuple[str, Weights] | None:
        """Return the content and its weights, None if unchanged.  Called in a thread; changes no state."""
        with open(self._path, encoding="utf-8", errors="replace") as file:
            text = file.read()
        return None if text == self._text else (text, Weights(text))

    def _use(self, found: tuple[str, Weights] | None) -> None:
        if found is not None:
            self._text, self.weights = found
            log.info("plugin/loadbalance: Successfully reloaded weight file %s", self._path)

    def _unreadable(self, error: OSError) -> str:
        return f'cannot read weight file "{self._path}": {error.strerror}'


def _name(word: str, number: int) -> Name:
    if pack_address(word) is not None:
        raise BadWeights(f'{number}: "{word}" is an address without a weight; add one')
    try:
        return Name.from_text(word)
    except ValueError as error:
        raise BadWeights(f'{number}: "{word}" is not a name: {error}') from None


def _address(word: str, number: int) -> bytes:
    address = pack_address(word)
    if address is None:
        raise BadWeights(f'{number}: "{word}" is not an address')
    return address


def _weight(word: str, number: int) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", word) or not 1 <= int(word) <= LARGEST:
        raise BadWeights(f'{number}: "{word}" is not a weight; write a number from 1 to {LARGEST}')
    return int(word)


ROUND_ROBIN: Final = "round_robin"
WEIGHTED: Final = "weighted"
_WEIGHED: Final = frozenset({RRType.A, RRType.AAAA, RRType.SRV})
MANY: Final = 256  # records; with more, a random number for each of them would block the loop
_type: Final = itemgetter(1)
_POLICIES: Final = (ROUND_ROBIN, WEIGHTED)
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
        raise token.error(
            f'"{token.text}" is not a network; write one such as 10.0.0.0/8'
        ) from None


class _Sorted(NamedTuple):
    """The records of a section by type."""

    aliases: list[RR]
    others: list[RR]
    addresses: list[RR]
    exchanges: list[RR]


_OTHERS: Final = 1
_GROUPS: Final[dict[int, int]] = {RRType.CNAME: 0, RRType.A: 2, RRType.AAAA: 2, RRType.MX: 3}


class Loadbalance(Plugin):
    """Reorders the records of replies."""

    skips_recompute = True
    cacheable = True
    rotates_addresses = True
    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {
        "reload": Property(one(duration()), default=30.0, syntax="DURATION"),
        "prefer": Property(many(read_network), repeat="extend", syntax="CIDR..."),
    }

    def __init__(self, networks: Sequence[Network] = (), file: WeightsFile | None = None) -> None:
        """Take the networks of `prefer`, or the file of `weighted`."""
        self._networks = tuple(networks)
        self._file = file
        self._random = Random()  # replaced by the runtime's in start()
        self.cacheable = self.skips_forwarded = not networks and file is None

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read `loadbalance [round_robin]` or `loadbalance weighted FILE`; _effective() says which of several apply."""
        effective = _effective(directives, block.warn)
        policy, file = _policy(effective[-1])
        for line in (line for each in effective for line in each.lines):
            allowed = _POLICY_OF.get(line.name.text, policy)
            if allowed != policy:
                raise line.error(
                    f'property "{line.name.text}" of loadbalance belongs to policy "{allowed}", not to "{policy}"'
                )
        options = read_properties(effective, cls.PROPERTIES)
        if file is None:
            return cls(options["prefer"])
        return cls((), WeightsFile(block.path(file.text), options["reload"], file.position))

    async def start(self, runtime: Runtime) -> None:
        """Take the runtime's random numbers; read the weights, and start checking the file for changes."""
        self._random = runtime.random
        if self._file is not None:
            await self._file.start(runtime)

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Pass the query on, and reorder the records of the reply."""
        reply = await next(request)
        qtype = request.query.qtype
        if reply.rcode != Rcode.NOERROR or qtype in TRANSFERS or not reply.written:
            return reply
        answer, authority, additional = reply.answer, reply.authority, reply.additional
        if len(answer) < 2 and len(authority) < 2 and len(additional) < 2:
            return reply
        if self._file is not None:
            if qtype not in _WEIGHED:
                return reply
            weights = self._file.weights
            return reply.replace(
                answer=await weigh(answer, weights, self._random),
                additional=await weigh(additional, weights, self._random),
            )
        answer, additional = shuffle(answer, self._random), shuffle(additional, self._random)
        if self._networks:
            answer = await prefer(answer, self._networks)
            additional = await prefer(additional, self._networks)
        return reply.replace(
            answer=answer, authority=shuffle(authority, self._random), additional=additional
        )


def shuffle(records: tuple[RR, ...], random: Random) -> tuple[RR, ...]:
    """Reorder the records of a section for `round_robin`."""
    if len(records) < 2:
        return records
    found = _sort(records)
    _mix(found.addresses, random)
    _mix(found.exchanges, random)
    return (*found.aliases, *found.others, *found.addresses, *found.exchanges)


def _mix(records: list[RR], random: Random) -> None:
    """Shuffle records, or rotate them if there are many."""
    if len(records) <= MANY:
        random.shuffle(records)
    else:
        first = random.randrange(len(records))
        records[:] = records[first:] + records[:first]


async def weigh(records: tuple[RR, ...], weights: Weights, random: Random) -> tuple[RR, ...]:
    """Reorder the records of a section for `weighted`, if it has addresses."""
    found = _sort(records)
    addresses = found.addresses
    if not addresses:
        return records
    first = await weights.first(addresses, random)
    addresses[0], addresses[first] = addresses[first], addresses[0]
    return (*found.aliases, *found.others, *addresses, *found.exchanges)


async def prefer(records: tuple[RR, ...], networks: Sequence[Network]) -> tuple[RR, ...]:
    """Move the addresses in networks to the front, those in the first network first; others keep their order."""
    if len(records) < 2:
        return records
    found = _sort(records)
    ranges = [
        (network.network_address.packed, network.broadcast_address.packed) for network in networks
    ]
    ranks = await listed(_rank(rr.rdata, ranges) for rr in found.addresses)
    order = sorted(range(len(ranks)), key=ranks.__getitem__)
    addresses = map(found.addresses.__getitem__, order)
    return (*found.aliases, *addresses, *found.exchanges, *found.others)


def _rank(address: bytes, ranges: Sequence[tuple[bytes, bytes]]) -> int:
    """The number of the first range that contains an address, or of all if none does."""
    for rank, (lowest, highest) in enumerate(ranges):
        if lowest <= address <= highest and len(address) == len(lowest):
            return rank
    return len(ranges)


def _sort(records: Sequence[RR]) -> _Sorted:
    if {*map(_type, records)} <= {*ADDRESSES}:
        return _Sorted([], [], [*records], [])
    found = _Sorted([], [], [], [])
    for rr in records:
        found[_GROUPS.get(rr.rrtype, _OTHERS)].append(rr)
    return found


def _effective(directives: Sequence[Directive], warn: Callable[[str], None]) -> list[Directive]:
    """Return the last directive, preceded by those with `prefer` that apply too: back to the last `weighted`."""
    *others, last = directives
    effective, ineffective = [last], [last]
    has_networks = _policy(last)[0] == ROUND_ROBIN
    for each in reversed(others):
        has_networks = _policy(each)[0] == ROUND_ROBIN and has_networks
        (effective if has_networks and each.lines else ineffective).insert(0, each)
    one_of(ineffective, warn, last=True)
    return effective


def _policy(directive: Directive) -> tuple[str, Token | None]:
    """Return the policy, and the file of `weighted`."""
    if not directive.args:
        return ROUND_ROBIN, None
    policy, *rest = directive.args
    if policy.one_of(_POLICIES) == WEIGHTED:
        if not rest:
            raise policy.error('policy "weighted" needs a weight file')
        if len(rest) > 1:
            raise rest[1].error(f'policy "weighted" takes one file, also found "{rest[1].text}"')
        return WEIGHTED, rest[0]
    if rest:
        raise rest[0].error(f'policy "round_robin" takes no argument, found "{rest[0].text}"')
    return ROUND_ROBIN, None
