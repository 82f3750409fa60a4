"""The answer table of one listener: from the octets of a query to the octets of its reply.

Path: step 2; batch.py calls it for datagrams, server/transport/tcp.py calls answer_framed() for TCP.  Twin of
native/src/table.rs.
Rule 1: an entry is a hit only while all counters that it was computed from have the values that they had (versions.py).
Rule 2: an entry takes precedence over a negative zone.  A stale entry counts as missing; it keeps its place until it is
        stored again or evicted.
Rule 3: memory is bounded: everything counts with Python's overhead.  The oldest entry is evicted, unless it was used:
        each use puts one eviction off, so a flood of names that are queried once evicts none that are in use.
Rule 4: replies that depend on counters, and those of negative zones, are misses after the counters' lease has ended.
Rule 5: while another thread applies an event, nothing is stored (versions.py, rule 6).
Rule 6: each hit of a logging block adds a record to the log ring (hit_records.py), over UDP and over TCP.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from hsdns.fastpath import hit_counts
from hsdns.fastpath.control import SOCKADDR_IN_LEN, is_ipv6
from hsdns.fastpath.entry import MAX_USES, Entry, Terms, Timing, octets_of, write
from hsdns.fastpath.hit_counts import CACHE_HIT, CACHE_MISS, IPV6, LENGTH_SHIFT, TCP, HitCounter
from hsdns.fastpath.hit_records import LogRecord, LogRing, Tap
from hsdns.fastpath.key import cut_query, end_of_question, key_of, lower_size, read_query
from hsdns.fastpath.negative_zone import NOT_BELOW, NegativeZone
from hsdns.fastpath.records import read_outline
from hsdns.fastpath.versions import CHANGES, ClusterNames, Versions
from hsdns.wire.decode import HEADER_LEN
from hsdns.wire.edns import MAX_PAYLOAD_SIZE, with_options
from hsdns.wire.encode import MAX_TCP_LEN, MAX_UDP_LEN, MIN_UDP_LEN
from hsdns.wire.framing import frame

MAX_DEPENDENCIES: Final = 8
MAX_ERRORS_LEN: Final = 1024  # octets of the Extended DNS Errors of an entry
MAX_ROUNDS: Final = (
    64  # entries in use that one eviction steps over, because no query is answered meanwhile
)
_32_BITS: Final = (1 << 32) - 1


class Peeked(NamedTuple):
    """A hit; `is_denial` of a name that does not exist, as others in its negative zone.

    For a reply of `cache` it has the times when it was stored and when it expires; in monotonic seconds.
    """

    is_denial: bool
    stored: float | None
    expires: float | None


class AnswerTable:
    """The replies of one listener; `capacity` in octets.  `tap` gets its hits as those of `source`."""

    def __init__(
        self, versions: Versions, capacity: int, tap: Tap | None = None, source: int = 0
    ) -> None:
        self.tap, self.source = tap, source
        self.hit_counts = HitCounter()
        self.log = LogRing()
        self.logs = False  # whether a hit may have to be logged
        self._versions = versions
        self._capacity = capacity
        self._entries: dict[bytes, Entry] = {}
        self._oldest: deque[bytes] = deque()  # their keys
        self._octets = 0
        self._terms: dict[Terms, Terms] = {}  # one object for all replies of a kind
        self._zones: list[NegativeZone] = []  # by number
        self._longest_zones: list[NegativeZone] = []  # the longest first
        self._hits = self._negative_hits = self._misses = self._not_plain = 0
        self._stored = self._refused = self._stale = self._evicted = 0

    @property
    def log_drops(self) -> int:
        """The number of hits that were not logged because the log ring was full."""
        return self.log.dropped

    def store(
        self,
        query: bytes,
        reply: bytes,
        dependencies: Sequence[tuple[int, int]],
        terms: Terms,
        *,
        size: int,
        timed: tuple[float, int, float] | None = None,
        errors: bytes | None = None,
        renewed: bool = False,
    ) -> bool:
        """Store the reply to a query; False if it cannot be stored.

        `dependencies` are the counters that were read before the reply was computed, as (index, value).  `size` is the
        reply's length without compression and without OPT.  `timed`: a reply of `cache`, as (when it was stored, its
        TTL then, when it expires), in monotonic seconds; all records get the remaining TTL, or keep theirs if that TTL
        is 0; AD is set only for clients that ask for it; each hit is a hit of `cache`, and `names` and `mark_ttl` of
        the terms do not apply.  `errors`: Extended DNS Errors for the OPT.  `renewed`: recomputed without a query; it
        is not marked, and keeps the mark of the reply that it replaces.

        Raise OverflowError for numbers that do not fit, ValueError for a wrong `max_payload`.
        """
        errors, timing = errors or b"", None if timed is None else Timing(*timed)
        _refuse_numbers(terms.group, size, timing.ttl if timing is not None else 0)
        _refuse_payload(terms.max_payload)
        if timing is not None:
            terms = terms._replace(mark_ttl=-1)
        terms = self._terms.setdefault(terms, terms)
        dependencies = tuple((index % Versions.SIZE, value) for index, value in dependencies)
        plain, changes, values = read_query(query), CHANGES[0], self._versions.values
        outline = None if plain is None else read_outline(query[HEADER_LEN : plain.end], reply)
        if (
            plain is None
            or outline is None
            or (outline.serials and terms.names is None and timing is None)
            or len(dependencies) > MAX_DEPENDENCIES
            or len(errors) > MAX_ERRORS_LEN
            or any(values[index] != value for index, value in dependencies)
            or self._versions.is_held_elsewhere()
        ):
            return self._refuse()
        key, indexes = plain.key, tuple(index for index, _ in dependencies)
        entry = Entry(outline, terms, indexes, size=size, timing=timing, errors=errors)
        octets = octets_of(key, entry)
        if octets > self._capacity:
            return self._refuse()
        now, last = time.monotonic(), self._entries.get(key)
        if terms.mark_ttl > 0:
            entry.until = 0.0 if renewed else now + terms.mark_ttl
        if last is not None:
            if terms.mark_ttl > 0 < last.terms.mark_ttl and (renewed or last.until > now):
                entry.until = last.until
            entry.turn = last.turn
            entry.uses = min(last.uses, MAX_USES - 1)  # so that a use can be detected
            self._octets -= octets_of(key, last)
        else:
            self._oldest.append(key)
        entry.changes = changes
        self._entries[key] = entry
        self._octets += octets
        self._make_room()  # may evict this entry
        self.logs |= terms.log
        self._stored += 1
        return True

    def add_negative_zone(
        self, zone: bytes, names: ClusterNames, exclusions: Sequence[bytes], groups: Mapping[int, int],
        mark_ttl: int, log: bool = False, max_payload: int = MAX_PAYLOAD_SIZE, no_edns: bool = False,
    ) -> int:  # fmt: skip
        """Answer absent names below a zone after set_template() was called; return the negative zone's number.

        `zone` and `exclusions` are lower-case wire names; `groups` maps each type that is answered to its group.
        `mark_ttl` is 0 or -1, as in Terms; raise ValueError for others.  `log` and `max_payload` as in Terms.
        `no_edns`: queries with an OPT record go to the chain.
        """
        if mark_ttl not in (0, -1):
            raise ValueError(f"mark_ttl of a negative zone is 0 or -1, not {mark_ttl}")
        _refuse_numbers(*groups.values())
        _refuse_payload(max_payload)
        added = NegativeZone(zone, names, exclusions, groups, mark_ttl, log, max_payload, no_edns)
        self.logs |= log
        self._zones.append(added)
        self._longest_zones = sorted(self._zones, key=lambda each: -len(each.zone))
        return len(self._zones) - 1

    def set_template(self, negative_zone: int, query: bytes, reply: bytes, size: int) -> bool:
        """Make a template from an NXDOMAIN reply of the chain to a name in a negative zone; False if it cannot be one.

        Raise IndexError if there is no such negative zone.
        """
        _refuse_numbers(size)
        if not 0 <= negative_zone < len(self._zones):
            raise IndexError("the table has no such negative zone")
        plain = read_query(query)
        zone = self._zones[negative_zone]
        return plain is not None and zone.set_template(plain, query, reply, size)

    def set_form(
        self, negative_zone: int, query: bytes, reply: bytes, size: int, group: int, mark_ttl: int
    ) -> bool:
        """Take the form of a reply of the chain about a name without number: only the compiled twin does, so False."""
        return False

    def lookup(self, query: bytes, *, client: bytes, limit: int | None, now: float) -> bytes | None:
        """Answer a query over TCP, in at most `limit` octets; `now` in monotonic seconds, `client` a socket address.

        `limit` None: it arrived over UDP and was a miss before it waited; another miss is not counted.
        """
        begin, stale = time.monotonic_ns(), self._stale
        found = self.answer(query, limit, now, again=limit is None)
        if found is None:
            self._stale = stale if limit is None else self._stale
            return None
        reply, kind = found
        kind |= IPV6 if len(client) > SOCKADDR_IN_LEN and is_ipv6(client) else 0
        kind |= TCP if limit is not None else 0
        duration = time.monotonic_ns() - begin
        self.hit_counts.add((kind,), duration)
        self.note_hits([(query, client, reply)], [kind], begin + duration, duration)
        return reply

    def answer_framed(
        self, data: bytes, at: int, client: bytes, most: int, limit: int, now: float
    ) -> tuple[bytes, int, int, bool]:
        """Answer the messages of a stream, each behind its length, from a place on; parameters as of lookup().

        It ends before a message that is incomplete or a miss, after the reply with which there are `limit` octets, and
        after `most` messages.  Return the replies, each behind its length, where the next message begins, how many
        messages were answered, and whether the next one is a miss.
        """
        replies, count = bytearray(), 0
        while count < most and len(replies) < limit and at + 2 <= len(data):
            end = at + 2 + int.from_bytes(data[at : at + 2])
            if end > len(data):
                break
            reply = self.lookup(data[at + 2 : end], client=client, limit=MAX_TCP_LEN, now=now)
            if reply is None:
                return bytes(replies), at, count, True
            replies += frame(reply)
            at, count = end, count + 1
        return bytes(replies), at, count, False

    def note_hits(
        self,
        hits: Sequence[tuple[bytes, bytes, bytes]],
        kinds: Sequence[int],
        end: int,
        duration: int,
    ) -> None:
        """Add hits of a batch to the log ring and the tap: query, address and reply of each; times in nanoseconds."""
        if self.logs:
            self.log.push(hits, kinds, duration)
        if self.tap is not None and self.tap.mode:
            self.tap.push_hits(hits, kinds, self.source, end, duration)

    def is_listed(self, query: bytes) -> bool:
        """Whether a query is for the name of an existing Service in a negative zone, or of one of its endpoints."""
        lower = query.lower()
        zones = [each for each in self._zones if each.services in lower]
        key = key_of(query) if zones else None
        return key is not None and any(each.is_listed(key) for each in zones)

    def uses(self, query: bytes) -> int | None:
        """The number of recent uses of a query's entry (0 to 3, below 3 when just replaced); None without entry."""
        plain = read_query(query)
        entry = None if plain is None else self._entries.get(plain.key)
        return None if entry is None else entry.uses

    def peek(self, query: bytes, *, now: float) -> Peeked | None:
        """The result that lookup() would have for a query, None for a miss; nothing is counted or changed."""
        plain = read_query(query)
        if plain is None:
            return None
        entry, is_leased = self._entries.get(plain.key), now < self._versions.lease_end
        if (
            entry is not None
            and entry.is_valid(self._versions)
            and (is_leased or not entry.needs_lease)
        ):
            timing = entry.timing
            if timing is None:
                return Peeked(False, None, None)
            if timing.left(now) is not None:
                return Peeked(False, timing.stored, timing.expires)
        is_absent = is_leased and self._find_absent(plain.key)[1] >= 0
        return Peeked(True, None, None) if is_absent else None

    def take_log(self, most: int) -> list[LogRecord]:
        """Remove the oldest records of the log ring, at most this many; raise OverflowError for a negative number."""
        return self.log.take(most)

    def discard_log(self) -> int:
        """Empty the log ring, and return the number of its records."""
        return self.log.discard()

    def set_capacity(self, octets: int) -> None:
        """Limit the octets of entries, beginning with the next one that is stored."""
        self._capacity = octets

    def clear(self) -> None:
        """Drop all entries; negative zones and their templates stay."""
        self._entries.clear()
        self._oldest.clear()
        self._octets = 0

    def take_counts(self) -> list[hit_counts.Row]:
        """The counts since the last call: (group, whether over TCP, cells); hit_counts.py names the cells."""
        return self.hit_counts.take_counts()

    def statistics(self) -> hit_counts.AnswerTableStatistics:
        """The contents of the table, and its counts so far."""
        return hit_counts.AnswerTableStatistics(
            len(self._entries), self._octets, self._hits, self._misses, self._negative_hits, self._stored,
            self._refused, self._stale, self._evicted, self._not_plain, [],
        )  # fmt: skip

    def answer(
        self, query: bytes, limit: int | None, now: float, *, again: bool = False
    ) -> tuple[bytes, int] | None:
        """The reply and its kind over UDP and IPv4, or None; `limit` None: the limit is the query's over UDP.

        `again`: a miss has been counted.
        """
        found = cut_query(query)
        is_parsed = found is None
        if found is None:
            plain = read_query(query)
            if plain is None:
                self._not_plain += not again
                return None
            key, end, form = plain
            entry = self._entries.get(key)
        else:
            cut, form = found
            end = len(query) + cut + 2
            key = query[HEADER_LEN:cut] + form.tail
            entry = self._entries.get(key)
            if entry is None:
                key = query[HEADER_LEN : cut - 2].lower() + key[-3:]
                entry = self._entries.get(key)
        is_leased = now < self._versions.lease_end
        if (
            entry is None
            or not (entry.changes == CHANGES[0] or self._revalidate(entry))
            or not (entry.timing is None or entry.until > now or self._count_down(entry, now))
            or not (is_leased or not entry.needs_lease)
        ):
            zone, kind = self._find_absent(key) if is_leased else (None, NOT_BELOW)
            if zone is not None and kind >= 0:
                self._negative_hits += 1
                return zone.answer(kind, query, end, form, limit)
            # cut_query() does not read the labels, so this may be no valid query.  A zone has read them.
            if not again:
                is_plain = is_parsed or zone is not None or end_of_question(query) == end
                is_miss = is_plain or read_query(query) is not None
                self._misses += is_miss
                self._not_plain += not is_miss
            return None
        terms, errors = entry.terms, entry.errors
        if form.limit > terms.max_payload:
            form = lower_size(form, terms.max_payload)
        _, variant, opt, most, do = form
        if errors and opt:
            opt = with_options(opt, errors)
        kind = entry.kind | len(query) << LENGTH_SHIFT | do
        if entry.uses < MAX_USES:
            entry.uses += 1
        if terms.mark_ttl > 0:
            if entry.until > now:
                kind |= CACHE_HIT
            else:
                kind |= CACHE_MISS
                entry.until = now + terms.mark_ttl
        self._hits += 1
        records = entry.rotated() if entry.rotation[0] else entry.records
        limit = most if limit is None else limit
        if end + len(records) + len(opt) > limit:
            return write(query, end, form, limit, entry.header, records, errors), kind
        head = entry.header.heads[variant]
        return b"".join((query[:2], head, query[HEADER_LEN:end], records, opt)), kind

    def _revalidate(self, entry: Entry) -> bool:
        """Return whether an entry is still valid after a change; update its serial."""
        changes = CHANGES[0]
        if entry.is_valid(self._versions):
            entry.revalidate(changes)
            return True
        self._stale += 1
        return False

    def _count_down(self, entry: Entry, now: float) -> bool:
        """Return whether a timed entry has not expired; update its TTL."""
        is_fresh = entry.count_down(now)
        self._stale += not is_fresh
        return is_fresh

    def _find_absent(self, key: bytes) -> tuple[NegativeZone | None, int]:
        """The longest negative zone above a name, and the kind of its reply, negative if it has none."""
        for zone in self._longest_zones:
            kind = zone.find(key)
            if kind != NOT_BELOW:
                return zone, kind
        return None, NOT_BELOW

    def _make_room(self) -> None:
        rounds = 0
        while self._octets > self._capacity:
            key = self._oldest.popleft()
            entry = self._entries[key]
            if entry.uses and rounds < MAX_ROUNDS and entry.is_valid(self._versions):
                rounds += 1
                entry.uses -= 1
                self._oldest.append(key)
                continue
            del self._entries[key]
            self._octets -= octets_of(key, entry)
            self._evicted += 1

    def _refuse(self) -> bool:
        self._refused += 1
        return False


def _refuse_numbers(*numbers: int) -> None:
    """Raise OverflowError for groups, sizes and TTLs that do not fit the compiled twin."""
    for number in numbers:
        if not 0 <= number <= _32_BITS:
            raise OverflowError(f"groups, sizes and TTLs have 32 bits, {number} does not fit")


def _refuse_payload(max_payload: int) -> None:
    """Raise OverflowError or ValueError for an invalid limit of payload sizes."""
    if not 0 <= max_payload <= MAX_PAYLOAD_SIZE:
        raise OverflowError(f"a payload size has 16 bits, {max_payload} does not fit")
    if not MIN_UDP_LEN <= max_payload <= MAX_UDP_LEN and max_payload != MAX_PAYLOAD_SIZE:
        raise ValueError(
            f"max_payload is {MIN_UDP_LEN} to {MAX_UDP_LEN}, or {MAX_PAYLOAD_SIZE} where none is lowered,"
            f" not {max_payload}"
        )
