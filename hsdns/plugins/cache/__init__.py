"""Caches replies.

Path: step 5, before `hosts`, `kubernetes` and `forward`, after `loadbalance`.
Source: CoreDNS 1.14.7 plugin/cache (setup.go, cache.go, handler.go, item.go); RFC 2308, RFC 8767.
Rule 1: _store() alone decides which replies are stored, and in which half.
Rule 2: all records of a reply have one TTL, the lowest within the floor and the maximum, already in the first reply.
Rule 3: a `fresh` reply (computed from the newest state of the cluster) is counted like others but not stored.  A marker
        is stored instead, and every query goes to `next`, so its TTL does not decrease, a TTL of 0 stays 0, and
        prefetch, serve_stale and keepttl do not apply.
Rule 4: one query at a time refreshes an entry.  The new reply is stored; SERVFAIL, REFUSED or no reply leave the stale
        entry in place.
Rule 5: cacheable: the answer table counts the `fresh` replies that it stores as this plugin would.
Rule 6: the answer table also stores replies from entries (they are lent), until the entry expires or must be refreshed.
        A new entry for the same key invalidates the stored replies.

Entries that are lent:
Rule: they are identified by their counter only.  Entries with the same counter are invalidated together, which costs
      a lookup.

The wait for a refresh, under `serve_stale ... verify TIMEOUT`:
Rule: the waiting side needs no task, so that it works in the chain of any query; the refresh runs in a task and goes
      on after the timeout.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Any, ClassVar, Final, NamedTuple, Self, TypeVar

from hsdns.answer_table.capabilities import Storing
from hsdns.chain import Next, Request
from hsdns.cluster.freshness import COUNT, CachedReply, cached_counter
from hsdns.corefile.keys import zones_from_args
from hsdns.corefile.properties import (
    Property,
    choice,
    duration,
    flag,
    integer,
    one,
    only_once,
    read_properties,
    words,
)
from hsdns.corefile.tree import Directive, Line, Token
from hsdns.plugin import Block, Plugin, Runtime, catch_up
from hsdns.plugins.cache.store import (
    DENIAL,
    MIN_TTL,
    SUCCESS,
    Counts,
    Entry,
    Half,
    Judgement,
    Key,
    Store,
    below,
    for_client,
    judge,
    ttls,
    with_ttl,
)
from hsdns.turns import another_turn
from hsdns.wire.encode import is_big
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Query, Reply
from hsdns.wire.name import ROOT, Name

_NUMBER_LEN: Final = 8


class LentEntries:
    """The time until which the answer table may send an entry, by the entry's counter; monotonic seconds."""

    def __init__(self) -> None:
        # Pages of it take memory when they are written to first, unlike those of a bytearray.
        pages = mmap(-1, COUNT * _NUMBER_LEN, flags=MAP_PRIVATE | MAP_ANONYMOUS)
        self._until = memoryview(pages).cast("d")

    def add(self, counter: int, expires: float) -> None:
        """Record that an entry was lent."""
        self._until[counter] = max(self._until[counter], expires)

    def take(self, counter: int, now: float) -> bool:
        """Whether an entry may still be lent; it counts as returned."""
        until, self._until[counter] = self._until[counter], 0.0
        return until > now


LONGEST_TTL: Final = 2**31 - 1  # RFC 2181 section 8
LONGEST_FAILURE: Final = 300.0  # seconds; RFC 2308 section 7.1, RFC 8767 section 5

read_ttl = integer(1, LONGEST_TTL)


def warn_of_durations(zones: Sequence[Token], warn: Callable[[str], None]) -> None:
    """Warn that `cache 30s` names a zone, which is rarely intended: nothing would be cached."""
    for token in zones:
        if re.fullmatch(r"[0-9]{1,9}[smh]", token.text):
            warn(
                f'{token.position}: "{token.text}" is read as a zone, as in CoreDNS; '
                f'a TTL is the first argument and has no unit, as in "cache {int(duration()(token))}"'
            )


class Bounds(NamedTuple):
    """The capacity of a half, and the maximum and minimum TTL in seconds, None for the default."""

    capacity: int
    maximum: int | None = None
    floor: int | None = None


class Disabled(NamedTuple):
    """Zones for which replies of one kind are not cached."""

    kind: str
    zones: tuple[Name, ...]


class Prefetch(NamedTuple):
    """Refresh an entry after `amount` hits less than `gap` seconds apart, when `percent` of its TTL is left."""

    amount: int = 0
    gap: float = 60.0
    percent: int = 10


class Stale(NamedTuple):
    """Serve stale replies for `up_to` seconds after they expire; 0 for never.

    `verify` tries to refresh first, for `timeout` seconds, 0 for no limit.  `ttl` is the TTL of stale replies; after a
    failed refresh the next one is tried after `recheck` seconds.
    """

    up_to: int = 0
    verify: bool = False
    timeout: float = 0.0
    ttl: int = 0
    recheck: float = 0.0


def _read_disabled(line: Line) -> Disabled:
    """Parse `success|denial [ZONE...]`; without a zone all."""
    if not line.args:
        raise line.error(
            'property "disable" takes "success" or "denial" and then zones, found nothing'
        )
    kind = choice(SUCCESS, DENIAL)(line.args[0])
    return Disabled(kind, zones_from_args(line.args[1:]) or (ROOT,))


def _read_percent(token: Token) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,9}%", token.text) or not 10 <= int(token.text[:-1]) <= 90:
        raise token.error(f'"{token.text}" is not a percentage from 10% to 90%')
    return int(token.text[:-1])


def _read_stale(line: Line) -> Stale:
    """Parse `[DURATION] [immediate [TTL [RECHECK]] | verify [TIMEOUT [TTL [RECHECK]]]]`."""
    args = list(line.args)
    found = Stale(up_to=int(duration()(args.pop(0))) if args else 3600)
    if args:
        mode = args.pop(0)
        word = choice("immediate", "verify")(mode._replace(text=mode.text.lower()))
        found = found._replace(verify=word == "verify")
    if args and found.verify:
        found = found._replace(timeout=duration()(args.pop(0)))
    if args:
        found = found._replace(ttl=_read_stale_ttl(args.pop(0)))
    if args:
        found = found._replace(recheck=duration(0.0, LONGEST_FAILURE)(args.pop(0)))
    if args:
        raise args[0].error(f'serve_stale has too many arguments: "{args[0].text}"')
    return found


def _read_stale_ttl(token: Token) -> int:
    seconds = duration(0.0, LONGEST_TTL)(token)
    if seconds != int(seconds):
        raise token.error(f'a TTL must be a whole number of seconds, found "{token.text}"')
    return int(seconds)


def _read_policy(token: Token) -> str:
    return choice("prefer_positive")(token._replace(text=token.text.lower()))


_BOUNDS: Final = replace(
    words(Bounds, integer(0), read_ttl, integer(0, LONGEST_TTL), syntax="CAPACITY [TTL] [MINTTL]"),
    reads=3,
)
PROPERTIES: Final[dict[str, Property[Any]]] = {
    SUCCESS: _BOUNDS,
    DENIAL: _BOUNDS,
    "prefetch": words(
        Prefetch,
        integer(0),
        duration(),
        _read_percent,
        syntax="AMOUNT [DURATION [PERCENTAGE%]]",
        default=Prefetch(),
    ),
    "serve_stale": Property(
        _read_stale,
        syntax="[DURATION] [immediate [TTL [RECHECK]] | verify [TIMEOUT [TTL [RECHECK]]]]",
    ),
    "serve_stale_policy": Property(
        one(_read_policy), default="", syntax="prefer_positive", repeat="once"
    ),
    "servfail": Property(
        one(duration(0.0, LONGEST_FAILURE)), default=float(MIN_TTL), syntax="DURATION"
    ),
    "disable": Property(_read_disabled, syntax="success|denial [ZONE...]", repeat="collect"),
    "keepttl": Property(flag, default=False),
}


MAX_TTL: Final = 3600  # plugin/pkg/dnsutil MaximumDefaultTTL
MAX_DENIAL_TTL: Final = MAX_TTL // 2
DEFAULT_CAPACITY: Final = 10_000
WILDCARD: Final = "zone/wildcard"  # metadata of a plugin that answers from a wildcard


def _key(query: Query) -> Key:
    return query.qname.lower, query.qtype, query.qclass, query.do, query.cd


class Cache(Plugin):
    """Answers from stored replies and stores new ones."""

    cacheable = True
    skips_forwarded = True
    PROPERTIES: ClassVar[dict[str, Property[Any]]] = PROPERTIES

    def __init__(
        self, zones: tuple[Name, ...], halves: list[Half], options: dict[str, Any]
    ) -> None:
        self.zones, (self.success, self.denial) = zones, halves
        self.prefetch: Prefetch = options["prefetch"]
        self.stale: Stale = options["serve_stale"] or Stale()
        self.prefers_positive = bool(options["serve_stale_policy"]) and self.stale.up_to > 0
        self.keeps_ttl: bool = options["keepttl"]
        self._all_zones = ROOT in zones
        self._lent = LentEntries()
        self._counts: Counts

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Parse `cache [TTL] [ZONE...]` and its properties."""
        directive = only_once(directives)
        args, ttl = directive.args, None
        if args and re.fullmatch(r"[+-]?[0-9]+", args[0].text):
            ttl, args = read_ttl(args[0]), args[1:]
        warn_of_durations(args, block.warn)
        options = read_properties(directives, cls.PROPERTIES)
        if options["serve_stale_policy"] and options["serve_stale"] is None:
            line = next(each for each in directive.lines if each.name.text == "serve_stale_policy")
            raise line.error(
                "serve_stale_policy has no effect without serve_stale; add serve_stale"
            )
        # The last line for a kind counts, as in CoreDNS.
        disabled: dict[str, tuple[Name, ...]] = {
            each.kind: each.zones for each in options["disable"]
        }
        halves = []
        for name, maximum in ((SUCCESS, MAX_TTL), (DENIAL, MAX_DENIAL_TTL)):
            bounds: Bounds = options[name] or Bounds(DEFAULT_CAPACITY)
            halves.append(
                Half(
                    name,
                    bounds.capacity,
                    bounds.maximum or ttl or maximum,
                    MIN_TTL if bounds.floor is None else bounds.floor,
                    int(options["servfail"]),
                    disabled.get(name, ()),
                )
            )
        return cls(zones_from_args(args) or block.zones, halves, options)

    async def start(self, runtime: Runtime) -> None:
        """Create empty stores and the metrics."""
        for half in (self.success, self.denial):
            half.store = Store(half.capacity, runtime.random)
        self._runtime = runtime
        self._counts = Counts(runtime.metrics, ",".join(zone.to_text() for zone in self.zones))

    def stored_octets(self) -> int:
        """The memory of both halves."""
        return self.success.store.octets + self.denial.store.octets

    def mark(self, query: Query, reply: Reply) -> tuple[str, int] | None:
        """How a `fresh` reply is counted: its kind, and for how many seconds it is a hit; None if it is not."""
        if not self._covers(query.qname):
            return None
        return self._mark(query, reply, judge(query, reply, self._runtime.wall))

    def _mark(self, query: Query, reply: Reply, judgement: Judgement) -> tuple[str, int]:
        return self._half(judgement).mark(query, reply, judgement.kind)

    def denial_kind(self, zone: Name) -> str | None:
        """The kind under which it counts nonexistent names of a zone; None if it does not cache the zone."""
        return DENIAL if self._covers(zone) else None

    def names_answered_first(self, zone: Name) -> tuple[Name, ...] | None:
        """The names in a zone that it counts individually: all names if it stores denials of the zone."""
        if self._covers(zone):
            return () if self.denial.is_disabled(zone) else None
        return tuple(own for own in self.zones if own.is_at_or_below(zone))

    def count_cache_hits(self, server: str, kind: str, hits: int, misses: int) -> None:
        """Add the counts of the answer table."""
        self._counts.add(server, kind, hits, misses)

    def count_forwarded(self, server: str, entries: Mapping[str, int]) -> None:
        """Set the number of entries of each kind that the answer table has from compiled code."""
        self._counts.forwarded[server] = entries
        self._counts.count_stored(server, "", SUCCESS, 0, self.success.store, self.denial.store)

    def note_made(self, server: str, kind: str, ttl: int, key: Key, now: float) -> None:
        """Store a marker for a reply about the cluster that did not come through handle(), if there is none."""
        if self._lookup(key, now) is None:
            half = self.denial if kind == self.denial.name else self.success
            self._put(server, "", half, key, Entry(None, ttl, now, False))

    def storing(self, zone: Name) -> Storing | None:
        """How it stores replies for a zone; None if it does more than to store them."""
        success, denial = self.success, self.denial
        does_more = self.keeps_ttl or self.stale.up_to or self.prefetch.amount
        if does_more or not self._covers(zone):
            return None
        return Storing(
            (success.floor, success.maximum),
            (denial.floor, denial.maximum),
            (*success.disabled, *denial.disabled),
        )

    def treats_alike(self, zone: Name) -> bool:
        """Whether it has all names of a zone or none of them, and a new entry has nothing to do with older ones."""
        borders = (*self.zones, *self.success.disabled, *self.denial.disabled)
        is_divided = any(each.is_at_or_below(zone) and each != zone for each in borders)
        return not (is_divided or self.stale.up_to or self.prefetch.amount)

    def _covers(self, name: Name) -> bool:
        return self._all_zones or any(name.is_at_or_below(zone) for zone in self.zones)

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Answer from the store, or pass on and store the reply."""
        query, now = request.query, request.now
        if not self._covers(query.qname):
            return await next(request)
        key = _key(query)
        found = self._lookup(key, now)
        if found is not None and found[1].is_held and await catch_up(self._runtime, now):
            found = self._lookup(key, now)
        if found is not None and (found[1].is_outdated or (found[1].is_held and request.earlier)):
            found = None  # it depends on the newest state of the cluster
        self._counts.count_lookup(request, found[0] if found else None)
        if found is not None and not found[1].is_marker:
            reply = await self._serve(request, key, *found, next)
            if reply.fresh and request.dependencies is not None:
                request.dependencies.mark = self.mark(query, reply)
        else:
            reply = await next(below(request))
            if not reply.written or reply.dropped:
                # The server writes the header for the query of the client, not for one that a later plugin has changed.
                return reply if reply.rd is None else reply.replace(rd=None)
            if request.earlier is not None and reply.still_holds is not None:
                # Its validity depends on the newest state of the cluster, not on the state that it was computed from.
                return for_client(self._judged(query, reply), query)
            if is_big(reply):  # an upstream's reply has just been decoded
                await another_turn()
            judgement = judge(query, reply, self._runtime.wall)
            reply, _ = self._store(request, key, reply, judgement, has_marker=found is not None)
            if reply.fresh and request.dependencies is not None:
                request.dependencies.mark = self._mark(query, reply, judgement)
        return for_client(reply, query)

    async def recompute(self, request: Request, next: Next) -> Reply:  # noqa: A002 - as above
        """Return the cluster's reply as handle() would return it, without counting or storing."""
        query = request.query
        if not self._covers(query.qname):
            return await next(request)
        reply = await next(below(request))
        if not reply.fresh:
            return reply
        judgement = judge(query, reply, self._runtime.wall)
        reply, _ = self._with_ttl(reply, judgement)
        if request.dependencies is not None:
            request.dependencies.mark = self._mark(query, reply, judgement)
        return for_client(reply, query)

    async def look(self, request: Request, next: Next) -> tuple[Reply, str]:  # noqa: A002 - as above
        """The reply of handle(), and a phrase if it is from an entry; does not count, store or refresh."""
        query, now = request.query, request.now
        if not self._covers(query.qname):
            return await next(request), ""
        found = self._lookup(_key(query), now)
        if found is not None and not found[1].is_outdated and not found[1].is_marker:
            half, entry = found
            ttl = entry.ttl(now)
            left = f"{ttl} s left" if ttl > 0 else "stale"
            told = f"answered from its half {half}: stored {now - entry.stored:.0f} s ago, {left}"
            return for_client(self._show(entry, ttl), query), told
        reply = await next(below(request))
        if reply.written and not reply.dropped:
            reply = self._judged(query, reply)
        return for_client(reply, query), ""

    def _lookup(self, key: Key, now: float) -> tuple[str, Entry] | None:
        """Find the entry of a key and its half; a SERVFAIL does not hide an answer that may still be served."""
        up_to = self.stale.up_to
        if self.prefers_positive:
            good = self._last_good(key)
            if good is not None and good.is_usable(now, up_to):
                return SUCCESS, good
        denied = self.denial.store.lookup(key, now, up_to)
        if denied is not None and not denied.is_servfail:
            return DENIAL, denied
        answered = self.success.store.lookup(key, now, up_to)
        if answered is not None:
            return SUCCESS, answered
        return (DENIAL, denied) if denied is not None else None

    def _last_good(self, key: Key) -> Entry | None:
        """The newest positive answer to a question, of any age."""
        entry = self.success.store.find(key)
        return entry if entry is None or entry.is_positive else entry.last_good

    async def _serve(
        self, request: Request, key: Key, half: str, entry: Entry, following: Next
    ) -> Reply:
        """Answer with an entry, and refresh it if it is popular or stale."""
        now, stale = request.now, self.stale
        ttl = entry.ttl(now)
        if ttl > 0:
            if self.prefetch.amount and entry.is_popular(now, *self.prefetch):
                self._refresh_in_background(request, key, entry, following)
            self._lend(request, key, half, entry)
        else:
            if stale.verify:
                verified = await self._verify(request, key, entry, following)
                if verified is not None:
                    return verified
            else:
                self._refresh_in_background(request, key, entry, following)
            self._counts.count_stale(request)
        if entry.wildcard and request.metadata is not None:
            request.metadata[WILDCARD] = lambda: entry.wildcard
        return self._show(entry, ttl)

    def _show(self, entry: Entry, ttl: int) -> Reply:
        """The reply of an entry with this many seconds left."""
        if ttl <= 0 and self.stale.ttl:
            ttl = self.stale.ttl
        elif self.keeps_ttl:
            ttl = entry.full_ttl
        shown = entry.show(max(ttl, 0))
        assert shown is not None, "a marker is not served"
        return shown

    def _lend(self, request: Request, key: Key, half: str, entry: Entry) -> None:
        """Let the answer table send a reply until the entry expires or must be refreshed."""
        frame, dependencies, now = entry.frame, request.dependencies, request.now
        if dependencies is None or frame is None or entry.counters is None:
            return
        amount, gap, percent = self.prefetch
        expires = entry.stored + entry.full_ttl
        if amount:
            if entry.hits < amount:
                return
            # This plugin must see hits often enough to know whether they are less than `gap` apart.
            expires = min(
                expires - math.ceil(entry.full_ttl * percent / 100), now + min(1.0, gap / 2)
            )
        if expires > now:
            ttl = 0 if self.keeps_ttl else entry.full_ttl
            for counter in (cached_counter(key), *entry.counters):
                dependencies.add(counter)
            if entry.is_outdated:  # by an event after it was found
                return
            self._lent.add(cached_counter(key), expires)
            dependencies.cached = CachedReply(half, (entry.stored, ttl, expires), frame.ad)

    def _refresh_in_background(
        self, request: Request, key: Key, entry: Entry, following: Next
    ) -> None:
        """Refresh an entry in a task of its own, unless a refresh is running or has just failed."""
        runtime, is_stale = self._runtime, entry.ttl(request.now) <= 0
        recheck = self.stale.recheck if is_stale else 0.0
        if not entry.begin_refresh(runtime.clock(), recheck):
            return
        self._counts.count_prefetch(request)
        # Over TCP, as in CoreDNS, so that no upstream truncates the reply; with dependencies and metadata of its own.
        metadata = None if request.metadata is None else {**request.metadata}
        found = request.dependencies and request.dependencies.again()
        background = request.replace(protocol="tcp", dependencies=found, metadata=metadata)

        async def refresh() -> None:
            found = None
            try:
                found = await self._refresh(background, key, entry, following, is_stale)
            finally:
                refreshed = found is not None or not is_stale
                entry.end_refresh(runtime.clock(), recheck, refreshed=refreshed)

        runtime.spawn(refresh(), f"cache: refresh of {request.query.qname.to_text()}")

    async def _verify(
        self, request: Request, key: Key, entry: Entry, following: Next
    ) -> Reply | None:
        """Refresh a stale entry before it is served; None if there is no better reply in time."""
        clock, recheck, seconds = self._runtime.clock, self.stale.recheck, self.stale.timeout
        if recheck and not entry.begin_refresh(request.now, recheck):
            return None

        async def verify() -> Reply | None:
            verified = None
            try:
                verified = await self._refresh(request, key, entry, following, True)
            finally:
                if recheck:
                    entry.end_refresh(clock(), recheck, refreshed=verified is not None)
            if verified is None:
                return None
            shown, stored = verified
            # As in CoreDNS, with a timeout the reply is returned as stored, with AA.
            if seconds and stored is not None and not stored.is_marker:
                return stored.show(stored.full_ttl)
            return shown

        if not seconds:
            return await verify()
        name = f"cache: check of {request.query.qname.to_text()}"
        return await wait_for(verify(), seconds, self._runtime.spawn, name)

    async def _refresh(
        self, request: Request, key: Key, entry: Entry, following: Next, is_stale: bool
    ) -> tuple[Reply, Entry | None] | None:
        """Pass on and store the reply; return both, None if the reply does not replace the entry."""
        reply = await following(below(request))
        if not reply.written or reply.dropped:
            return None
        judgement = judge(request.query, reply, self._runtime.wall)
        is_replacement = not is_stale or judgement.replaces_stale(reply)
        if is_stale and self.prefers_positive:
            # Other replies are stored along with the positive answer, which is still served.
            is_replacement = judgement.is_positive
        elif not is_replacement:
            return None
        shown, stored = self._store(request, key, reply, judgement)
        if stored is not None and is_replacement:
            stored.take_hits(entry, request.now)
        return (shown, stored) if is_replacement else None

    def _half(self, judgement: Judgement) -> Half:
        return self.denial if judgement.is_denial else self.success

    def _store(
        self,
        request: Request,
        key: Key,
        reply: Reply,
        judgement: Judgement,
        *,
        has_marker: bool = False,
    ) -> tuple[Reply, Entry | None]:
        """Set the TTL of a reply and store it if it may be; `has_marker`: a marker for it is still valid."""
        half = self._half(judgement)
        shown, ttl = self._with_ttl(reply, judgement)
        if not judgement.is_storable or ttl <= 0 or (reply.fresh and has_marker):
            return shown, None
        if self._lent.take(cached_counter(key), request.now):
            self._runtime.counters.bump(cached_counter(key))
        entry = None
        if not half.is_disabled(request.query.qname):
            now = max(request.now, self._runtime.clock())  # the reply may have taken long
            entry = Entry(None if reply.fresh else shown, ttl, now, reply.rcode == Rcode.SERVFAIL)
            self._set_origin(request, key, entry, judgement)
        self._put(request.server, request.view, half, key, entry)
        return shown, entry

    def _put(self, server: str, view: str, half: Half, key: Key, entry: Entry | None) -> None:
        evicted = 0 if entry is None else half.store.store(key, entry)
        stores = self.success.store, self.denial.store
        self._counts.count_stored(server, view, half.name, evicted, *stores)

    def _with_ttl(self, reply: Reply, judgement: Judgement) -> tuple[Reply, int]:
        """A reply with its TTL set, and the TTL under which it may be stored."""
        found_ttls = set(ttls(reply))
        ttl = self._half(judgement).shown_ttl(found_ttls, judgement.kind)
        shown_ttl = 0 if reply.fresh and 0 in found_ttls else ttl
        is_as_shown = found_ttls <= {shown_ttl}  # replies of the cluster usually have it already
        if not is_as_shown or reply.edns_options is not None or reply.edns is not None:
            reply = with_ttl(reply, shown_ttl)
        return reply, ttl

    def _judged(self, query: Query, reply: Reply) -> Reply:
        """A reply with its TTL set."""
        return self._with_ttl(reply, judge(query, reply, self._runtime.wall))[0]

    def _set_origin(self, request: Request, key: Key, entry: Entry, judgement: Judgement) -> None:
        """Record what a new entry depends on, its wildcard, and the positive answer that it replaces."""
        entry.is_positive = judgement.is_positive
        if entry.is_held:
            found = request.dependencies  # after an event, those of a state that is not the entry's
            is_known = found is not None and found.is_cacheable and found.hold
            entry.counters = found.counters if found is not None and is_known else None
        wildcard = (request.metadata or {}).get(WILDCARD)
        entry.wildcard = wildcard() if wildcard is not None else ""
        if judgement.is_denial:
            return
        if self.prefers_positive and not entry.is_positive:
            entry.last_good = self._last_good(key)
        elif self.stale.up_to or self.prefetch.amount:
            self.denial.store.remove(key)  # a stale denial would hide the new entry


T = TypeVar("T")


async def wait_for(
    work: Coroutine[Any, Any, T | None],
    seconds: float,
    spawn: Callable[[Coroutine[Any, Any, Any], str], Awaitable[Any]],
    name: str,
) -> T | None:
    """Spawn a coroutine and wait for its result; return None after the timeout, or if it fails."""
    running = asyncio.ensure_future(spawn(work, name))
    done, _ = await asyncio.wait([running], timeout=seconds)
    is_found = done and not running.cancelled() and running.exception() is None
    return running.result() if is_found else None
