"""Tables of replies, bounded in number and in octets, and the classification of replies: in which table, how long.

Path: plugins/cache calls judge() for every reply of the plugins after it, and has two tables: for positive replies and
for denials.
Source: CoreDNS 1.14.7 plugin/pkg/cache (256 shards of at least 4 entries each), plugin/cache (item.go, cache.go) and
plugin/pkg/dnsutil/ttl.go; RFC 2308.
Rule 1: entries do not expire.  As in CoreDNS an entry stays until its key is stored again or it is evicted;
        otherwise coredns_cache_entries would have another meaning.
Rule 2: if there are too many entries, a random one is evicted, as in CoreDNS.  If they use too much memory, the oldest
        of the biggest ones are evicted: a few hundred replies of 64 KB are stored, and they do not evict ordinary ones.
Rule 3: octets are an estimate of the memory, within the factor of its test: the records are packed, the rest is
        constant.

Records as one bytes value, because many replies are stored:
Rule 1: it contains each owner once and no TTL: unpack() gives all records the same one.
Rule 2: both directions work on columns, because a reply of 64 KB has thousands of records, and a Python statement for
        each of them would hold the loop for milliseconds.  (4,000 addresses: 1 MB as records, 45 KB packed.)  The
        columns are made of some records at a time, because no other thread runs meanwhile.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from functools import lru_cache
from itertools import repeat
from operator import attrgetter
from random import Random
from typing import Final, NamedTuple

import msgspec

from hsdns.chain import Request
from hsdns.metrics import Registry
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import (
    AD,
    RR,
    Outcome,
    Query,
    Reply,
    is_answered,
    make_record,
    make_records,
    outcome,
    pieces,
)
from hsdns.wire.name import Name

SUCCESS: Final = "success"
DENIAL: Final = "denial"
MIN_TTL: Final = 5  # seconds; plugin/pkg/dnsutil MinimalDefaultTTL; also for SERVFAIL and NOTIMP

_LABELS = ("server", "zones", "view")
_OF_KIND = ("server", "type", "zones", "view")
_NOTHING_ELSEWHERE: Final[Mapping[str, int]] = {}


class Counts:
    """CoreDNS's metrics for one cache; `zones` is its label of that name."""

    def __init__(self, metrics: Registry, zones: str) -> None:
        self._zones, counter = zones, metrics.counter
        self.forwarded: dict[str, Mapping[str, int]] = {}  # entries elsewhere, by server and kind
        self._requests = counter("coredns_cache_requests_total", _LABELS)
        self._misses = counter("coredns_cache_misses_total", _LABELS)
        self._hits = counter("coredns_cache_hits_total", _OF_KIND)
        self._evictions = counter("coredns_cache_evictions_total", _OF_KIND)
        self._entries = metrics.gauge("coredns_cache_entries", _OF_KIND)
        self._octets = metrics.gauge("hsdns_cache_bytes", _OF_KIND)
        self._prefetches = metrics.counter("coredns_cache_prefetch_total", _LABELS)
        self._stale = metrics.counter("coredns_cache_served_stale_total", _LABELS)
        # Always 0, because replies to other questions never arrive here; dashboards query it.
        metrics.counter("coredns_cache_drops_total", _LABELS)

    def count_lookup(self, request: Request, kind: str | None) -> None:
        """Count a query and the half that had its answer, None for a miss."""
        labels = self._labels(request)
        self._requests.inc(labels)
        if kind is None:
            self._misses.inc(labels)
        else:
            self._hits.inc((request.server, kind, self._zones, request.view))

    def count_prefetch(self, request: Request) -> None:
        """Count a refresh in the background."""
        self._prefetches.inc(self._labels(request))

    def count_stale(self, request: Request) -> None:
        """Count a stale reply."""
        self._stale.inc(self._labels(request))

    def count_stored(
        self, server: str, view: str, kind: str, evicted: int, success: Store, denial: Store
    ) -> None:
        """Set the size of each half, in entries and octets, and count the evictions from the one of that kind."""
        zones, elsewhere = self._zones, self.forwarded.get(server, _NOTHING_ELSEWHERE)
        if evicted:
            self._evictions.inc((server, kind, zones, view), evicted)
        for name, store in ((SUCCESS, success), (DENIAL, denial)):
            labels = (server, name, zones, view)
            self._entries.values[labels] = len(store) + elsewhere.get(name, 0)
            self._octets.values[labels] = store.octets

    def add(self, server: str, kind: str, hits: int, misses: int) -> None:
        """Count many queries at once, of a block without a view."""
        self._requests.inc((server, self._zones, ""), hits + misses)
        if misses:
            self._misses.inc((server, self._zones, ""), misses)
        if hits:
            self._hits.inc((server, kind, self._zones, ""), hits)

    def _labels(self, request: Request) -> tuple[str, str, str]:
        return request.server, self._zones, request.view


SHARDS: Final = 256
MIN_PER_SHARD: Final = 4
OCTETS_PER_ENTRY: Final = 3360  # 32 MiB for the default capacity
# Octets of an entry with its key beside its packed records and its name.
ENTRY_OCTETS: Final = 600
# A reply whose packed records have at most this many octets, a handful of addresses, is also stored unpacked when it is
# queried again; unpacked, it takes SHOWN_FACTOR times the memory.
SMALL: Final = 100
SHOWN_FACTOR: Final = 10
# Entries of at least this size in octets are evicted by size and age, smaller ones at random.
BIG: Final = 4096

Key = tuple[bytes, int, int, bool, bool]  # lower-case qname, qtype, qclass, DO, CD


@dataclass(slots=True, eq=False)
class Entry:
    """A reply, or None as the marker of a `fresh` one, and its TTL; times in seconds.

    `frame` is the reply without its records, error and RD; AA is always set, for old resolvers that drop replies
    without it (item.go).  `is_positive` tells whether it is a positive answer; otherwise `last_good` is the positive
    answer that it has replaced (`prefer_positive`).  `wildcard` is the value of the metadata of that name.  `counters`
    are the counters of the cluster's state that `still_holds` depends on, None if they are not known.
    """

    reply: InitVar[Reply | None]
    full_ttl: int
    stored: float
    is_servfail: bool = False
    frame: Reply | None = field(init=False)
    is_positive: bool = False
    last_good: Entry | None = None
    wildcard: str = ""
    counters: tuple[int, ...] | None = ()
    hits: int = 0
    _packed: bytes = field(init=False)
    _shown: Reply | None = None
    _shown_ttl: int = -1
    _last_hit: float = -1e18
    _is_refreshing: bool = False
    _retry_after: float = -1e18

    def __post_init__(self, reply: Reply | None) -> None:
        self.frame = None if reply is None else _frame(reply)
        self._packed = b"" if reply is None else pack(reply)

    @property
    def octets(self) -> int:
        """The memory of the entry with its key, without the name in the key."""
        packed = len(self._packed)
        found = ENTRY_OCTETS + packed * (1 + SHOWN_FACTOR * (packed <= SMALL))
        return found if self.last_good is None else found + self.last_good.octets

    @property
    def is_marker(self) -> bool:
        """Whether it is the marker of a `fresh` reply, which is not stored."""
        return self.frame is None

    def ttl(self, now: float) -> int:
        """The remaining seconds, rounded up; 0 or less after it has expired."""
        return self.full_ttl - int(now - self.stored)

    def is_usable(self, now: float, stale: int = 0) -> bool:
        """Whether it may be served: an entry, but not a marker, for `stale` more seconds after it expires."""
        ttl = self.ttl(now)
        return ttl > 0 or (self.frame is not None and -ttl < stale)

    @property
    def is_held(self) -> bool:
        """Whether it may be served only as long as the name does not exist in the cluster."""
        return self.frame is not None and self.frame.still_holds is not None

    @property
    def is_outdated(self) -> bool:
        """Whether the name now exists in the cluster, but did not when the reply was computed."""
        frame = self.frame
        return frame is not None and frame.still_holds is not None and not frame.still_holds()

    def show(self, ttl: int) -> Reply | None:
        """The reply with a TTL; a small reply is rebuilt only if the TTL differs from the last one."""
        if self.frame is None:
            return None
        if self._shown is not None and self._shown_ttl == ttl:
            return self._shown
        shown = unpack(self._packed, ttl, self.frame)
        if len(self._packed) <= SMALL:
            self._shown, self._shown_ttl = shown, ttl
        return shown

    def is_popular(self, now: float, amount: int, gap: float, percent: int) -> bool:
        """Count a hit; return whether the entry must be prefetched: many hits, and little of its TTL is left."""
        left = math.ceil(self.full_ttl * percent / 100)
        return self.hit(now, gap) >= amount and self.ttl(now) <= left

    def hit(self, now: float, gap: float) -> int:
        """Count a hit; return `hits`, the number of hits less than `gap` seconds apart."""
        self.hits = 1 if self._last_hit < now - gap else self.hits + 1
        self._last_hit = now
        return self.hits

    def take_hits(self, other: Entry, now: float) -> None:
        """Continue with the hits of the entry that this one replaces."""
        self.hits, self._last_hit = other.hits, now

    def begin_refresh(self, now: float, recheck: float = 0.0) -> bool:
        """Begin a refresh, unless one is running or has failed less than `recheck` seconds ago; tell whether."""
        if self._is_refreshing or (recheck and now < self._retry_after):
            return False
        self._is_refreshing = True
        return True

    def end_refresh(self, now: float, recheck: float, *, refreshed: bool) -> None:
        """End a refresh, with its result."""
        self._is_refreshing = False
        self._retry_after = -1e18 if refreshed else now + recheck


class Store:
    """A bounded table; see the rules of the module for what is evicted."""

    def __init__(self, capacity: int, random: Random) -> None:
        """Take the capacity of the Corefile; it is rounded down to whole shards, at least 1,024."""
        self._room = max(capacity // SHARDS, MIN_PER_SHARD) * SHARDS
        self._most_octets = self._room * OCTETS_PER_ENTRY
        self.octets = 0  # the memory of all entries
        self._random = random
        self._entries: dict[
            Key, tuple[Entry, int, int]
        ] = {}  # with its octets, and its key's place
        # A random key of a dict would take linear time; the list and the places of keys in it make it constant.
        self._keys: list[Key] = []
        # The keys of big entries by the bit length of their octets, each the oldest first.
        self._big: dict[int, OrderedDict[Key, None]] = {}

    def __len__(self) -> int:
        """The number of entries, including expired ones."""
        return len(self._entries)

    def find(self, key: Key) -> Entry | None:
        """The entry of a key, even if it has expired."""
        found = self._entries.get(key)
        return found[0] if found is not None else None

    def lookup(self, key: Key, now: float, stale: int = 0) -> Entry | None:
        """The entry of a key if it may be served, up to `stale` seconds after it expires."""
        entry = self.find(key)
        return entry if entry is not None and entry.is_usable(now, stale) else None

    def store(self, key: Key, entry: Entry) -> int:
        """Store an entry; return how many others were evicted."""
        octets, evicted, keys = entry.octets + len(key[0]), 0, self._keys
        if key in self._entries:
            place = self._forget_size(key)
        elif len(keys) < self._room:
            place = len(keys)
            keys.append(key)
        else:
            evicted, gone = 1, self._any_key()
            place = self._forget_size(gone)
            del self._entries[gone]
            keys[place] = key
        self._entries[key] = entry, octets, place
        self.octets += octets
        if octets >= BIG:
            self._big.setdefault(octets.bit_length(), OrderedDict())[key] = None
        while self.octets > self._most_octets:
            self.remove(next(iter(self._big[max(self._big)])) if self._big else self._any_key())
            evicted += 1
        return evicted

    def remove(self, key: Key) -> None:
        """Remove a key; the last key of the list moves to its place."""
        if key not in self._entries:
            return
        place, last = self._forget_size(key), self._keys.pop()
        del self._entries[key]
        if last != key:
            self._keys[place] = last
            self._entries[last] = *self._entries[last][:2], place

    def _any_key(self) -> Key:
        return self._keys[int(self._random.random() * len(self._keys))]

    def _forget_size(self, key: Key) -> int:
        """Subtract the octets of a key; return its place."""
        _, octets, place = self._entries[key]
        self.octets -= octets
        if octets >= BIG:
            length = octets.bit_length()
            del self._big[length][key]
            if not self._big[length]:
                del self._big[length]
        return place


def _frame(reply: Reply) -> Reply:
    """A reply without its records; one object for all replies that do not differ in anything else."""
    frame = _shared(reply.rcode, reply.ra, reply.ad)
    holds = reply.still_holds
    return frame if holds is None else frame.replace(still_holds=holds)


@lru_cache(256)
def _shared(rcode: int, ra: bool, ad: bool) -> Reply:
    return Reply(rcode, aa=True, ra=ra, ad=ad)


# Tuples, because the hash of an Enum is a Python call.
_DENIALS: Final = (Outcome.NXDOMAIN, Outcome.NODATA, Outcome.SERVER_ERROR)
_NEVER_STORED: Final = (Outcome.META, Outcome.OTHER_ERROR)
_WITH_TTL: Final = (Outcome.POSITIVE, Outcome.NXDOMAIN, Outcome.NODATA)


class Judgement(NamedTuple):
    """The classification of a reply; `is_positive` is a complete positive answer to its question."""

    kind: Outcome
    is_storable: bool
    is_positive: bool

    @property
    def is_denial(self) -> bool:
        """Whether it belongs to the half `denial`."""
        return self.kind in _DENIALS

    def replaces_stale(self, reply: Reply) -> bool:
        """Whether it replaces a stale entry (RFC 8767 section 4): NOERROR or NXDOMAIN, not truncated."""
        return (
            reply.written
            and not reply.dropped
            and not reply.tc
            and self.kind not in _NEVER_STORED
            and reply.rcode in (Rcode.NOERROR, Rcode.NXDOMAIN)
        )


def judge(query: Query, reply: Reply, wall: Callable[[], float]) -> Judgement:
    """Classify a reply; in CoreDNS signatures count if the reply has an OPT record here, which upstreams give it."""
    kind = outcome(query, reply, None if reply.edns_options is None else wall)
    is_storable = not reply.tc and kind not in _NEVER_STORED
    if reply.still_holds is not None and not reply.fresh:
        is_storable = is_storable and reply.still_holds()  # never for one client subnet
    is_positive = False
    if kind == Outcome.POSITIVE and reply.answer:
        is_positive = is_answered(query, reply.answer)
        if not is_positive:
            # A CNAME chain without data at its end is NODATA (RFC 2308 section 2.2).  Without an SOA record it has no
            # negative TTL (section 5), as NXDOMAIN.
            has_soa = _has_soa(reply)
            kind = Outcome.NODATA if has_soa else kind
            is_storable = is_storable and has_soa
    elif kind == Outcome.NXDOMAIN:
        is_storable = is_storable and _has_soa(reply)
    return Judgement(kind, is_storable, is_positive and not reply.tc)


def ttls(reply: Reply) -> list[int]:
    """The TTLs of all records."""
    return [rr.ttl for rr in (*reply.answer, *reply.authority, *reply.additional)]


@dataclass
class Half:
    """One of the two halves, `success` or `denial`; times in seconds."""

    name: str
    capacity: int
    maximum: int
    floor: int
    failure: int = MIN_TTL  # for SERVFAIL and NOTIMP
    disabled: tuple[Name, ...] = ()
    store: Store = field(init=False)

    def shown_ttl(self, found: Iterable[int], kind: Outcome) -> int:
        """The TTL in seconds for all records of a reply that has these records."""
        if kind is Outcome.SERVER_ERROR:
            return self.failure
        ttl = min(found, default=MIN_TTL) if kind in _WITH_TTL else MIN_TTL
        return min(max(ttl, self.floor), self.maximum)

    def is_disabled(self, name: Name) -> bool:
        """Whether caching is disabled for a name and all names below it."""
        return any(name.is_at_or_below(zone) for zone in self.disabled)

    def mark(self, query: Query, reply: Reply, kind: Outcome) -> tuple[str, int]:
        """The name of this half, and for how many seconds a reply counts as a hit."""
        is_counted = kind not in _NEVER_STORED and not self.is_disabled(query.qname)
        return self.name, self.shown_ttl(ttls(reply), kind) if is_counted else 0


def _has_soa(reply: Reply) -> bool:
    return any(rr.rrtype == RRType.SOA for rr in reply.authority)


def below(request: Request) -> Request:
    """The request to pass on: with AD set, the upstream tells whether the data are authentic (RFC 6840 section 5.7)."""
    query = request.query
    return request.replace(query=query.replace(flags=query.flags | AD))


def for_client(reply: Reply, query: Query) -> Reply:
    """Clear AD for a client that did not ask for it by DO or AD (RFC 6840 sections 5.7 and 5.8)."""
    return reply.replace(ad=False) if reply.ad and not query.do and not query.flags & AD else reply


# The number of each record's owner, the types, the RDATA and the classes.
_Section = tuple[Sequence[int], Sequence[int], Sequence[bytes], Sequence[int]]
_Packed = tuple[tuple[bytes, ...], _Section, _Section, _Section]

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Packed).decode
_wire: Final = attrgetter("wire")
_NOTHING: Final[_Section] = ((), (), (), ())


def pack(reply: Reply) -> bytes:
    """The records of a reply, without their TTLs."""
    owners: dict[bytes, int] = {}
    answer, authority, additional = reply.answer, reply.authority, reply.additional
    sections = (
        _pack(answer, owners) if answer else _NOTHING,
        _pack(authority, owners) if authority else _NOTHING,
        _pack(additional, owners) if additional else _NOTHING,
    )
    # The encoder's own value keeps room for half as much again.
    return bytes(memoryview(_encode((tuple(owners), *sections))))


def unpack(packed: bytes, ttl: int, reply: Reply) -> Reply:
    """A reply with packed records, all with this TTL in seconds."""
    wires, *sections = _decode(packed)
    owners = [Name(wire) for wire in wires]
    answer, authority, additional = (_unpack(each, owners, ttl) for each in sections)
    return reply.replace(answer=answer, authority=authority, additional=additional)


def with_ttl(reply: Reply, ttl: int) -> Reply:
    """The reply with one TTL for all records, and without EDNS of its own."""
    return reply.replace(
        edns_options=None,
        edns=None,
        answer=_with_ttl(reply.answer, ttl),
        authority=_with_ttl(reply.authority, ttl),
        additional=_with_ttl(reply.additional, ttl),
    )


def _pack(records: tuple[RR, ...], owners: dict[bytes, int]) -> _Section:
    if len(records) == 1:  # without the columns, in half of the time
        ((owner, rrtype, _, rdata, rrclass),) = records
        return (owners.setdefault(owner.wire, len(owners)),), (rrtype,), (rdata,), (rrclass,)
    numbers: list[int] = []
    types: list[int] = []
    data: list[bytes] = []
    classes: list[int] = []
    for piece in pieces(records):
        of_names, of_types, _, of_data, of_classes = zip(*piece, strict=True)
        numbers += [owners.setdefault(wire, len(owners)) for wire in map(_wire, of_names)]
        types += of_types
        data += of_data
        classes += of_classes
    return numbers, types, data, classes


def _unpack(section: _Section, owners: list[Name], ttl: int) -> tuple[RR, ...]:
    numbers, types, rdata, classes = section
    names = map(owners.__getitem__, numbers)
    # The TTL repeats without end; the other columns have the same length.
    return tuple(make_records(names, types, repeat(ttl), rdata, classes))


def _with_ttl(records: tuple[RR, ...], ttl: int) -> tuple[RR, ...]:
    if not records:
        return ()
    if len(records) == 1:
        ((owner, rrtype, _, data, rrclass),) = records
        return (make_record((owner, rrtype, ttl, data, rrclass)),)
    made: list[RR] = []
    for piece in pieces(records):
        names, types, _, rdata, classes = zip(*piece, strict=True)
        made += make_records(names, types, repeat(ttl), rdata, classes)
    return tuple(made)
