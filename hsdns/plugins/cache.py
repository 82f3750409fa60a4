"""Keep the replies of slower sources for as long as their TTL says.

Path: step 5, above `hosts`, `kubernetes` and `forward`, below `loadbalance`.
Source: CoreDNS 1.14.7 plugin/cache (cache.go, handler.go, item.go) and plugin/pkg/dnsutil/ttl.go; RFC 2308.
Rule 1: what is kept, and in which half, is decided in _remember() and nowhere else.
Rule 2: all records of a reply show one TTL, the least of them held between floor and maximum, from the first reply on.
Rule 3: a `fresh` reply (computed from the newest state of the cluster) is counted like any other but never kept: a mark
        takes its place, and `next` is asked every time.  So its TTL never goes down, and a TTL of 0 stays 0.
Rule 4: cacheable: the fast path keeps `fresh` replies alone, and counts them as they would count here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NamedTuple, Self

from hsdns.chain import Block, Handler, Next, Request, Runtime
from hsdns.corefile.keys import zones_from_args
from hsdns.corefile.properties import Property, choice, integer, only_once, read_properties
from hsdns.corefile.tree import CorefileError, Directive, Line
from hsdns.plugins.cache_store import Entry, Key, Store, with_ttl
from hsdns.wire.alias import is_answered
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import AD, Query, Reply
from hsdns.wire.name import ROOT, Name
from hsdns.wire.outcome import Outcome, outcome

MAX_TTL: Final = 3600  # plugin/pkg/dnsutil MaximumDefaultTTL
MAX_DENIAL_TTL: Final = MAX_TTL // 2
MIN_TTL: Final = 5  # plugin/pkg/dnsutil MinimalDefaultTTL; SERVFAIL and NOTIMP are kept as long
DEFAULT_CAPACITY: Final = 10_000
LONGEST_TTL: Final = 2**31 - 1  # RFC 2181 section 8

SUCCESS: Final = "success"
DENIAL: Final = "denial"
_DENIALS: Final = frozenset({Outcome.NXDOMAIN, Outcome.NODATA, Outcome.SERVER_ERROR})
_NEVER_KEPT: Final = frozenset({Outcome.META, Outcome.OTHER_ERROR})
_WITH_TTL: Final = frozenset({Outcome.POSITIVE, Outcome.NXDOMAIN, Outcome.NODATA})

_read_ttl = integer(1, LONGEST_TTL)


class Bounds(NamedTuple):
    """How many replies of a kind are kept, and how long at most and at least, in seconds; None says nothing."""

    capacity: int
    maximum: int | None = None
    floor: int | None = None


class Disabled(NamedTuple):
    """Zones for which one kind is not kept."""

    kind: str
    zones: tuple[Name, ...]


@dataclass
class Half:
    """One of the two halves: what was found (`success`) or what was not (`denial`)."""

    name: str
    capacity: int
    maximum: int
    floor: int
    disabled: tuple[Name, ...] = ()
    store: Store = field(init=False)

    def shown_ttl(self, reply: Reply, kind: Outcome) -> int:
        """The TTL of all of a reply's records, in seconds."""
        if kind == Outcome.SERVER_ERROR:
            return MIN_TTL
        ttl = MIN_TTL
        if kind in _WITH_TTL:
            ttl = min(_ttls(reply), default=MIN_TTL)
        return min(max(ttl, self.floor), self.maximum)


class Counts:
    """The metrics of CoreDNS, with the labels of one listener made once."""

    __slots__ = ("_entries", "_evictions", "_hits", "_misses", "_requests", "_zones")

    def __init__(self, runtime: Runtime, zones: str) -> None:
        metrics = runtime.metrics
        labels, of_kind = ("server", "zones", "view"), ("server", "type", "zones", "view")
        self._zones = zones
        self._requests = metrics.counter(
            "coredns_cache_requests_total", "The count of cache requests.", labels
        )
        self._misses = metrics.counter(
            "coredns_cache_misses_total",
            "The count of cache misses. Deprecated, derive misses from cache hits/requests counters.",
            labels,
        )
        self._hits = metrics.counter(
            "coredns_cache_hits_total", "The count of cache hits.", of_kind
        )
        self._evictions = metrics.counter(
            "coredns_cache_evictions_total", "The count of cache evictions.", of_kind
        )
        self._entries = metrics.gauge(
            "coredns_cache_entries", "The number of elements in the cache.", of_kind
        )

    def count_lookup(self, server: str, kind: str | None) -> None:
        """Count a question and the half that knew its answer."""
        self._requests.inc((server, self._zones, ""))
        if kind is None:
            self._misses.inc((server, self._zones, ""))
        else:
            self._hits.inc((server, kind, self._zones, ""))

    def add(self, server: str, kind: str, hits: int, misses: int) -> None:
        """Count many questions at once."""
        self._requests.inc((server, self._zones, ""), hits + misses)
        if misses:
            self._misses.inc((server, self._zones, ""), misses)
        if hits:
            self._hits.inc((server, kind, self._zones, ""), hits)

    def count_stored(self, server: str, evicted_from: str | None, halves: Sequence[Half]) -> None:
        """Count what is in the stores now, and what had to go."""
        if evicted_from is not None:
            self._evictions.inc((server, evicted_from, self._zones, ""))
        for half in halves:
            self._entries.set(len(half.store), (server, half.name, self._zones, ""))


def _read_bounds(line: Line) -> Bounds:
    """Read `CAPACITY [TTL] [MINTTL]`."""
    args = line.args
    if not 1 <= len(args) <= 3:
        raise CorefileError(
            line.name.position,
            f'property "{line.name.text}" takes 1 to 3 arguments (capacity, ttl, least ttl), found {len(args)}',
        )
    return Bounds(
        integer(0)(args[0]),
        _read_ttl(args[1]) if len(args) > 1 else None,
        integer(0, LONGEST_TTL)(args[2]) if len(args) > 2 else None,
    )


def _read_disabled(line: Line) -> Disabled:
    """Read `success|denial [ZONE...]`; no zone means all."""
    if not line.args:
        raise CorefileError(
            line.name.position,
            'property "disable" takes "success" or "denial" and then zones, found nothing',
        )
    kind = choice(SUCCESS, DENIAL)(line.args[0])
    return Disabled(kind, zones_from_args(line.args[1:]) or (ROOT,))


class Cache(Handler):
    """Answers again what was answered a short time ago."""

    name: ClassVar[str] = "cache"
    cacheable = True
    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {
        "success": Property(_read_bounds, syntax="CAPACITY [TTL] [MINTTL]"),
        "denial": Property(_read_bounds, syntax="CAPACITY [TTL] [MINTTL]"),
        "disable": Property(_read_disabled, syntax="success|denial [ZONE...]", repeat="collect"),
    }
    NOT_YET: ClassVar[frozenset[str]] = frozenset(
        {"prefetch", "serve_stale", "serve_stale_policy", "servfail", "keepttl"}
    )

    def __init__(self, zones: tuple[Name, ...], success: Half, denial: Half) -> None:
        self.zones, self.success, self.denial = zones, success, denial
        self._all_zones = ROOT in zones
        self._counts: Counts
        self._runtime: Runtime

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read `cache [TTL] [ZONE...]` and its properties."""
        directive = only_once(directives)
        args, ttl = directive.args, None
        if args and re.fullmatch(r"[+-]?[0-9]+", args[0].text):
            ttl, args = _read_ttl(args[0]), args[1:]
        options = read_properties(directives, cls.PROPERTIES, not_yet=cls.NOT_YET)
        halves = []
        for name, maximum in ((SUCCESS, MAX_TTL), (DENIAL, MAX_DENIAL_TTL)):
            bounds: Bounds = options[name] or Bounds(DEFAULT_CAPACITY)
            disabled: tuple[Name, ...] = ()
            for line in options["disable"]:
                if (
                    line.kind == name
                ):  # of several lines for one kind the last one counts, as in CoreDNS
                    disabled = line.zones
            halves.append(
                Half(
                    name,
                    bounds.capacity,
                    bounds.maximum or ttl or maximum,
                    MIN_TTL if bounds.floor is None else bounds.floor,
                    disabled,
                )
            )
        return cls(zones_from_args(args) or block.zones, *halves)

    async def start(self, runtime: Runtime) -> None:
        """Make the stores, empty, and the metrics."""
        for half in (self.success, self.denial):
            half.store = Store(half.capacity, runtime.random)
        self._runtime = runtime
        self._counts = Counts(runtime, ",".join(zone.to_text() for zone in self.zones))

    def mark(self, query: Query, reply: Reply) -> tuple[str, int] | None:
        """How a `fresh` reply counts when it is given again: as which kind, and for how many seconds it is a hit.

        None where the cache does not count it at all.
        """
        qname = query.qname
        if not any(qname.is_at_or_below(zone) for zone in self.zones):
            return None
        kind = outcome(query, reply, self._runtime.wall)
        half = self.denial if kind in _DENIALS else self.success
        if kind in _NEVER_KEPT or any(qname.is_at_or_below(zone) for zone in half.disabled):
            return half.name, 0
        return half.name, half.shown_ttl(reply, kind)

    def is_disabled(self, kind: str, zone: Name) -> bool:
        """Whether nothing of a kind is kept for a zone and all below it."""
        half = self.denial if kind == DENIAL else self.success
        return any(zone.is_at_or_below(disabled) for disabled in half.disabled)

    def fold(self, server: str, kind: str, hits: int, misses: int) -> None:
        """Add what the fast path has counted."""
        self._counts.add(server, kind, hits, misses)

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Answer from the store, or ask below and store what comes."""
        query, now = request.query, request.now
        qname = query.qname
        if not self._all_zones and not any(qname.is_at_or_below(zone) for zone in self.zones):
            return await next(request)
        key = (qname.lower, query.qtype, query.qclass, query.do, query.cd)
        found = self._lookup(key, now)
        if found is not None and found[1].is_overtaken:
            found = None
        self._counts.count_lookup(request.server, found[0] if found else None)
        shown = found[1].show(now) if found else None
        if shown is not None:
            return _for_client(shown, query)
        # With AD set an upstream says whether the data are authentic, whoever asks later (RFC 6840 section 5.7).
        below = request.replace(query=query.replace(flags=query.flags | AD))
        reply = await next(below)
        if not reply.written or reply.dropped:
            return reply
        reply = self._remember(request, key, reply, is_marked=found is not None)
        return _for_client(reply, query)

    def _lookup(self, key: Key, now: float) -> tuple[str, Entry] | None:
        """Find what is known of a key; a SERVFAIL does not hide an answer that is still good."""
        denied = self.denial.store.lookup(key, now)
        if denied is not None and not denied.is_servfail:
            return DENIAL, denied
        answered = self.success.store.lookup(key, now)
        if answered is not None:
            return SUCCESS, answered
        return (DENIAL, denied) if denied is not None else None

    def _remember(self, request: Request, key: Key, reply: Reply, *, is_marked: bool) -> Reply:
        """Give a reply its TTL and store it where it may be kept; `is_marked`: a mark for it is still good."""
        query = request.query
        kind = outcome(query, reply, self._runtime.wall)
        is_kept = not reply.tc and kind not in _NEVER_KEPT
        has_soa = any(rr.rrtype == RRType.SOA for rr in reply.authority)
        if kind == Outcome.POSITIVE and reply.answer and not is_answered(query, reply.answer):
            # A CNAME chain without data at its end is NODATA (RFC 2308 section 2.2).  Without an SOA nothing says how
            # long something is not there (section 5), as for NXDOMAIN.
            kind = Outcome.NODATA if has_soa else kind
            is_kept = is_kept and has_soa
        elif kind == Outcome.NXDOMAIN:
            is_kept = is_kept and has_soa
        half = self.denial if kind in _DENIALS else self.success
        ttl = half.shown_ttl(reply, kind)
        shown = reply if reply.edns_options is None else reply.replace(edns_options=None)
        ttls = set(_ttls(reply))
        shown_ttl = 0 if reply.fresh and 0 in ttls else ttl
        if ttls - {shown_ttl}:  # what the cluster answers has it already, most of the time
            shown = with_ttl(shown, shown_ttl)
        if is_kept and ttl > 0 and not (reply.fresh and is_marked):
            evicted = False
            if not any(query.qname.is_at_or_below(zone) for zone in half.disabled):
                # AA is always set, for old resolvers that throw away what is not authoritative (item.go).
                kept = None if reply.fresh else shown.replace(aa=True, error=None)
                entry = Entry(kept, ttl, request.now, reply.rcode == Rcode.SERVFAIL)
                evicted = half.store.remember(key, entry)
            self._counts.count_stored(
                request.server, half.name if evicted else None, (self.success, self.denial)
            )
        return shown


def _for_client(reply: Reply, query: Query) -> Reply:
    """Clear AD for a client that asked for nothing of DNSSEC (RFC 6840 sections 5.7 and 5.8)."""
    return reply.replace(ad=False) if reply.ad and not query.do and not query.flags & AD else reply


def _ttls(reply: Reply) -> list[int]:
    return [
        rr.ttl for section in (reply.answer, reply.authority, reply.additional) for rr in section
    ]
