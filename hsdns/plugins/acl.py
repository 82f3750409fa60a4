"""Blocks, filters or drops queries by client network and query type.

Path: step 5, after `rewrite` and before `cache`, which only sees the allowed queries.
Source: CoreDNS 1.14.7 plugin/acl; RFC 8914 (extended DNS errors), RFC 4632 (CIDR).
Rule 1: the first action of an `acl` that matches a query applies; if none does, the next `acl` for the zone is tried.
        A query that matches none is allowed.
Rule 2: blocked and filtered replies have an extended DNS error in an OPT record, even if the query has no OPT record;
        as in CoreDNS the DO bit is set.
Rule 3: not cacheable: it depends on the client, and every query is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, ClassVar, Final, NamedTuple, Self, TypeVar

from hsdns.chain import Next, Request
from hsdns.corefile.keys import zones_from_args
from hsdns.corefile.properties import Property, read_properties
from hsdns.corefile.tree import Directive, Line, Token, did_you_mean
from hsdns.metrics import Counter
from hsdns.plugin import Block, Plugin, Runtime
from hsdns.wire.iana import Rcode, type_from_text
from hsdns.wire.message import Reply, with_extended_error
from hsdns.wire.name import Name

BLOCKED: Final = 15  # RFC 8914 section 4.16
FILTERED: Final = 17  # section 4.18
_SECTIONS: Final = ("type", "net")
T = TypeVar("T")


ALLOW: Final = "allow"
# The actions and their metrics; the word after `acl` stands in the help too.
_METRICS: Final = {
    ALLOW: "coredns_acl_allowed_requests_total",
    "block": "coredns_acl_blocked_requests_total",
    "filter": "coredns_acl_filtered_requests_total",
    "drop": "coredns_acl_dropped_requests_total",
}


class Network(NamedTuple):
    """A network: the addresses that equal `prefix` when shifted right by `shift` bits."""

    version: int
    prefix: int
    shift: int

    def contains(self, address: IPv4Address | IPv6Address) -> bool:
        """Whether an address is in the network."""
        return address.version == self.version and int(address) >> self.shift == self.prefix


class Policy(NamedTuple):
    """An action and the queries that it applies to; None means any type or network."""

    action: str
    types: frozenset[int] | None
    networks: tuple[Network, ...] | None

    def matches(self, qtype: int, address: IPv4Address | IPv6Address) -> bool:
        """Whether it applies to a query."""
        if self.types is not None and qtype not in self.types:
            return False
        return self.networks is None or any(network.contains(address) for network in self.networks)


class Rule(NamedTuple):
    """One `acl` of a server block."""

    zones: tuple[Name, ...]
    policies: tuple[Policy, ...]


def read_policy(line: Line) -> Policy:
    """Parse `ACTION [type TYPE...] [net NETWORK...]`; `*` means any, and ends its list, as in CoreDNS."""
    found: dict[str, list[Token]] = {}
    section: Token | None = None
    is_any = False
    for at, token in enumerate(line.args):
        word = token.text.lower()
        if word in _SECTIONS:
            if at + 1 == len(line.args) or line.args[at + 1].text.lower() in _SECTIONS:
                raise token.error(f'"{word}" needs at least one argument; * means any')
            section, is_any = token, False
        elif section is None:
            raise token.error(
                f'expected "type" or "net" before "{token.text}"{did_you_mean(word, _SECTIONS)}'
            )
        elif not is_any:
            found.setdefault(section.text.lower(), []).append(token)
            is_any = token.text == "*"
    types = _read(found.get("type", ()), lambda token: token.parse(type_from_text))
    networks = _read(found.get("net", ()), _network)
    return Policy(line.name.text, frozenset(types) if types else None, networks)


def _read(tokens: Sequence[Token], read: Callable[[Token], T]) -> tuple[T, ...] | None:
    """Read the words of a section; None for any."""
    found = tuple(read(token) for token in tokens if token.text != "*")
    return found if found and len(found) == len(tokens) else None


def _network(token: Token) -> Network:
    text, slash, digits = token.text.partition("/")
    try:
        address: IPv4Address | IPv6Address = IPv6Address(text) if ":" in text else IPv4Address(text)
        bits = int(digits) if slash else address.max_prefixlen
        is_plain = not slash or (digits.isascii() and digits.isdigit() and len(digits) <= 3)
        if not is_plain or bits > address.max_prefixlen or "%" in text:
            raise ValueError(text)
    except ValueError:
        raise token.error(
            f'"{token.text}" is not a network; write for example 192.0.2.0/24, 192.0.2.1, 2001:db8::/32 or *'
        ) from None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    if mapped is not None and bits >= 96:
        address, bits = mapped, bits - 96
    shift = address.max_prefixlen - bits
    return Network(address.version, int(address) >> shift, shift)


class Acl(Plugin):
    """Passes on the allowed queries and answers or drops the others."""

    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {
        action: Property(read_policy, syntax="[type TYPE...] [net NETWORK...]", repeat="collect")
        for action in _METRICS
    }

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = tuple(rules)
        self._counters: dict[str, Counter] = {}

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Parse all `acl [ZONES...]` of a server block."""
        rules = []
        for directive in directives:
            policies: list[Policy] = []
            for line in directive.lines:  # one by one, to keep their order
                named = Line(line.name._replace(text=line.name.text.lower()), line.args)
                values = read_properties([directive._replace(body=(named,))], cls.PROPERTIES)
                policies += [each for found in values.values() for each in found]
            rules.append(Rule(zones_from_args(directive.args) or block.zones, tuple(policies)))
        return cls(rules)

    async def start(self, runtime: Runtime) -> None:
        """Create the metrics."""
        for action, name in _METRICS.items():
            labels = ("server", "view") if action == ALLOW else ("server", "zone", "view")
            self._counters[action] = runtime.metrics.counter(name, labels)

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Pass on allowed queries; refuse, empty or drop the others."""
        action, zone = self._decide(request)
        if action == ALLOW or zone is None:
            self._counters[ALLOW].inc((request.server, request.view))
            return await next(request)
        self._counters[action].inc((request.server, zone.to_text(), request.view))
        if action == "block":
            return with_extended_error(request.query, Reply(rcode=Rcode.REFUSED), BLOCKED)
        if action == "filter":
            return with_extended_error(request.query, Reply(), FILTERED)
        return Reply(dropped=True)

    def _decide(self, request: Request) -> tuple[str, Name | None]:
        query = request.query
        address: IPv4Address | IPv6Address | None = None
        for rule in self._rules:
            zone = query.qname.longest_of(rule.zones)
            if zone is None:
                continue
            if address is None:
                address = ip_address(request.client.address.partition("%")[0])
            for policy in rule.policies:
                if policy.matches(query.qtype, address):
                    return policy.action, zone
        return ALLOW, None
