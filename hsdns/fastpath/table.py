"""The answer table of one listener: from the octets of a query to the octets of its reply.

Path: step 2; batch.py calls it for datagrams, server/tcp.py calls lookup() for TCP.  Twin of native/src/table.rs.
Rule 1: an entry is a hit only while all counters that it was computed from have the values that they had (versions.py).
Rule 2: an entry takes precedence over a negative zone.  A stale entry counts as missing; it keeps its place until it is
        stored again or evicted.
Rule 3: replies to frequent queries are prepared (prepared_reply.py, prepared_negative_reply.py); others are composed of
        the shared header, the client's question and the records.
Rule 4: memory is bounded: everything counts with Python's overhead, and eviction.py chooses the entries to drop.
Rule 5: replies that depend on counters, and those of negative zones, are misses after the counters' lease has ended.
Rule 6: while another thread applies an event, nothing is stored (versions.py, rule 6).
Rule 7: each hit of a logging block adds a record to the log ring (log.py), over UDP and over TCP.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from hsdns.fastpath import hit_counts
from hsdns.fastpath.control import SOCKADDR_IN_LEN, is_ipv6
from hsdns.fastpath.entry import ALWAYS, FREQUENCY, NEVER, Entry, octets_of, pack_indexes, write
from hsdns.fastpath.eviction import Queues
from hsdns.fastpath.hit_counts import CACHE_HIT, CACHE_MISS, IPV6, LENGTH_SHIFT, TCP, HitCounter
from hsdns.fastpath.key import Form, cut_query, key_of, lower_size, read_query
from hsdns.fastpath.limits import MAX_ERRORS_LEN, refuse_mark, refuse_numbers, refuse_payload
from hsdns.fastpath.log import LogRecord, LogRing
from hsdns.fastpath.negative_zone import NegativeZone
from hsdns.fastpath.negative_zones import NegativeZones
from hsdns.fastpath.peek import Peeked, peek_at
from hsdns.fastpath.prepared_negative_reply import PreparedNegativeReplies
from hsdns.fastpath.prepared_reply import ROOM_TO_PREPARE, SHARE, PreparedReplies, PreparedReply
from hsdns.fastpath.records import read_outline
from hsdns.fastpath.shared_header import TIMED, SharedHeaders, make_key
from hsdns.fastpath.tap import Tap
from hsdns.fastpath.timing import Timing
from hsdns.fastpath.versions import CHANGES, ClusterNames, Versions
from hsdns.wire.decode import HEADER_LEN
from hsdns.wire.edns import MAX_PAYLOAD_SIZE

MAX_DEPENDENCIES: Final = 8
_NOTHING_PREPARED: Final[dict[bytes, PreparedReply]] = {}


class AnswerTable:
    """The replies of one listener; `capacity` in octets.  `tap` gets its hits as those of `source`."""

    def __init__(
        self, versions: Versions, capacity: int, tap: Tap | None = None, source: int = 0
    ) -> None:
        self.tap, self.source = tap, source
        self.hit_counts = HitCounter()
        self.log = LogRing()
        self.logs = False  # whether a hit may have to be logged
        self.hits = self.negative_hits = 0
        self.prepared_replies = PreparedReplies()
        self._versions = versions
        self.set_capacity(capacity)
        self._queues = Queues(self._entry_capacity, versions)
        self._entries = self._queues.entries
        self.negative_replies = PreparedNegativeReplies(self._entries)
        self._shared_headers = SharedHeaders()
        self._negative_zones = NegativeZones()
        self._misses = self._stored = self._refused = self._stale = self._evicted = (
            self._not_plain
        ) = 0

    @property
    def log_drops(self) -> int:
        """The number of hits that were not logged because the log ring was full."""
        return self.log.dropped

    def store(
        self,
        query: bytes,
        reply: bytes,
        dependencies: Sequence[tuple[int, int]],
        group: int,
        *,
        size: int,
        rotate: bool,
        names: ClusterNames | None,
        mark_ttl: int,
        log: bool = False,
        max_payload: int = MAX_PAYLOAD_SIZE,
        timed: tuple[float, int, float] | None = None,
        errors: bytes | None = None,
        renewed: bool = False,
    ) -> bool:
        """Store the reply to a query; False if it cannot be stored.

        `dependencies` are the counters that were read before the reply was computed, as (index, value); `group` is the
        number under which take_counts() counts hits.  `size` is the reply's length without compression and without OPT.
        `rotate`: its addresses rotate.  `names` has the serial of its SOA records.  `mark_ttl` says how `cache` counts
        hits: an entry is marked when it is stored, and a hit counts as a hit of `cache` within this many seconds after
        a mark, else as a miss that marks the entry again; 0: each hit is a miss of `cache`; -1: `cache` counts nothing.
        `log`: hits are added to the log ring.  `max_payload`: larger payload sizes of queries are lowered to it, in the
        reply's OPT and as limit of its length over UDP; 512 to 65,507, or 65,535 for no limit.  `timed`: a reply of
        `cache`, as (when it was stored, its TTL then, when it expires), in monotonic seconds; all records get the
        remaining TTL, or keep theirs if that TTL is 0; AD is set only for clients that ask for it; each hit is a hit of
        `cache`, and `names` and `mark_ttl` do not apply.  `errors`: Extended DNS Errors for the OPT. `renewed`:
        recomputed without a query; it is not marked, and keeps the mark of the reply that it replaces.

        Raise OverflowError for numbers that do not fit, ValueError for another `max_payload`.
        """
        timing = None if timed is None else Timing(*timed)
        refuse_numbers(group, size, timing.ttl if timing is not None else 0)
        refuse_payload(max_payload)
        dependencies = tuple((index % Versions.SIZE, value) for index, value in dependencies)
        plain, changes, values = read_query(query), CHANGES[0], self._versions.values
        if (
            plain is None
            or len(dependencies) > MAX_DEPENDENCIES
            or len(errors or b"") > MAX_ERRORS_LEN
            or any(values[index] != value for index, value in dependencies)
            or self._versions.is_held_elsewhere()
        ):
            return self._refuse()
        outline = read_outline(query[HEADER_LEN : plain.end], reply)
        if outline is None or (outline.serials and names is None and timing is None):
            return self._refuse()
        if timing is not None:
            mark_ttl = TIMED
        shared_key = make_key(
            outline, group=group, size=size, rotate=rotate, names=names, mark_ttl=mark_ttl, log=log,
            max_payload=max_payload, errors=errors or b"",
        )  # fmt: skip
        shared = self._shared_headers.acquire(shared_key)
        now = time.monotonic()
        # The first hit of a timed reply writes the TTL.
        mark = 0.0 if renewed else now + mark_ttl
        marked_until = mark if mark_ttl > 0 else NEVER if timing is None else ALWAYS
        key, indexes = plain.key, pack_indexes([index for index, _ in dependencies])
        entry = Entry(shared, outline.records, indexes, marked_until, timing)
        octets = octets_of(key, entry)
        if octets + shared.octets > self._entry_capacity:
            self._shared_headers.release(shared)
            return self._refuse()
        if (stored := self._entries.get(key)) is None:
            self._make_room(octets)
            self._queues.push(key, entry)
        else:
            self.prepared_replies.forget(stored)
            before, last = octets_of(key, stored), stored.shared
            if mark_ttl > 0 < last.mark_ttl and (renewed or stored.marked_until > now):
                marked_until = stored.marked_until
            stored.update(shared, outline.records, indexes, marked_until, timing)
            if stored.state & FREQUENCY == FREQUENCY:
                stored.state -= 1  # so that a use can be detected
            self._shared_headers.release(last)
            self._queues.resize(stored, octets - before)
            entry = stored
            self._make_room(0)  # may evict this entry
        entry.changes = changes
        self.logs |= log
        self._stored += 1
        room, is_kept = self._room_for_prepared(), self._entries.get(key) is entry
        if is_kept and timing is None and self.prepared_replies.octets + ROOM_TO_PREPARE <= room:
            self._prepare(key, entry, query, plain.end, plain.form, room)
        return True

    def add_negative_zone(
        self, zone: bytes, names: ClusterNames, exclusions: Sequence[bytes], groups: Mapping[int, int],
        mark_ttl: int, log: bool = False, max_payload: int = MAX_PAYLOAD_SIZE, no_edns: bool = False,
    ) -> int:  # fmt: skip
        """Answer absent names below a zone after set_template() was called; return the negative zone's number.

        `zone` and `exclusions` are lower-case wire names; `groups` maps each type that is answered to its group.
        `mark_ttl` is 0 or -1, as in store(); raise ValueError for others.  `log` and `max_payload` as in store().
        `no_edns`: queries with an OPT record go to the chain.
        """
        refuse_mark(mark_ttl)
        for group in groups.values():
            refuse_numbers(group, 0)
        refuse_payload(max_payload)
        added = NegativeZone(zone, names, exclusions, groups, mark_ttl, log, max_payload, no_edns)
        self.logs |= log
        self.negative_replies.clear()
        return self._negative_zones.add(added)

    def set_template(self, negative_zone: int, query: bytes, reply: bytes, size: int) -> bool:
        """Make a template from an NXDOMAIN reply of the chain to a name in a negative zone; False if it cannot be one.

        Raise IndexError if there is no such negative zone.
        """
        refuse_numbers(0, size)
        zone = self._negative_zones[negative_zone]
        plain = read_query(query)
        self.negative_replies.clear()
        return plain is not None and zone.set_template(plain, query, reply, size)

    def set_pod_form(
        self, negative_zone: int, query: bytes, reply: bytes, size: int, group: int, mark_ttl: int
    ) -> bool:
        """Take the form of a reply of the chain about the name of a Pod; False if that is not possible.

        Such names are answered from then on, as every address has one in each namespace.  `size`, `group` and
        `mark_ttl` as in store() and add_negative_zone(), with their errors.
        """
        refuse_mark(mark_ttl)
        refuse_numbers(group, size)
        zone = self._negative_zones[negative_zone]
        plain = read_query(query)
        return plain is not None and zone.set_pod_form(plain, query, reply, size, group, mark_ttl)

    def lookup(self, query: bytes, *, client: bytes, limit: int | None, now: float) -> bytes | None:
        """Answer a query over TCP, in at most `limit` octets; `now` in monotonic seconds, `client` a socket address.

        `limit` None: it arrived over UDP and was a miss before it waited; another miss is not counted.
        """
        begin = time.monotonic_ns()
        counted = self._misses, self._not_plain, self._stale
        prepared = self.prepared_replies.by_form.get(query[2:])
        if (
            prepared is not None
            and limit is not None
            and now < self._versions.lease_end
            and prepared.length <= (limit or 0)
            and (prepared.entry.changes == CHANGES[0] or self.is_still_valid(prepared))
            and prepared.entry.marked_until > now
        ):
            reply = query[:2] + (b"".join(prepared.rotated()) if prepared.step else prepared.body)
            kind = prepared.kind
            self.hits += 1
            prepared.entry.state += prepared.entry.state & FREQUENCY < FREQUENCY
        else:
            found = self.answer(query, limit, now)
            if found is None:
                if limit is None:
                    self._misses, self._not_plain, self._stale = counted
                return None
            reply, kind = found
        kind |= IPV6 if len(client) > SOCKADDR_IN_LEN and is_ipv6(client) else 0
        kind |= TCP if limit is not None else 0
        duration = time.monotonic_ns() - begin
        self.hit_counts.add_one(kind, duration)
        hits = ((query, client, reply[2] << 8 | reply[3]),)
        if self.logs:
            self.log.push(hits, [kind], duration)
        if self.tap is not None and self.tap.mode:
            self.tap.push_hits(hits, [len(reply)], [kind], self.source, begin + duration, duration)
        return reply

    def is_listed(self, query: bytes) -> bool:
        """Whether a query is for the name of an existing Service in a negative zone, or of one of its endpoints."""
        key = key_of(query)
        return key is not None and self._negative_zones.is_listed(key)

    def uses(self, query: bytes) -> int | None:
        """The number of recent uses of a query's entry (0 to 3, below 3 when just replaced); None without entry."""
        plain = read_query(query)
        entry = None if plain is None else self._entries.get(plain.key)
        return None if entry is None else entry.state & FREQUENCY

    def peek(self, query: bytes, *, now: float) -> Peeked | None:
        """The result that lookup() would have for a query, None for a miss; nothing is counted or changed."""
        plain = read_query(query)
        if plain is None:
            return None
        entry = self._entries.get(plain.key)
        found = None if entry is None else peek_at(entry, self._versions, now)
        if found is None and now < self._versions.lease_end:
            return self._negative_zones.peek(plain.key, plain.end)
        return found

    def take_log(self, most: int) -> list[LogRecord]:
        """Remove the oldest records of the log ring, at most this many; raise OverflowError for a negative number."""
        return self.log.take(most)

    def discard_log(self) -> int:
        """Empty the log ring, and return the number of its records."""
        return self.log.discard()

    def set_capacity(self, octets: int) -> None:
        """Limit the octets of entries, beginning with the next one that is stored."""
        self._capacity = octets
        self._entry_capacity = octets - octets // SHARE

    def clear(self) -> None:
        """Drop all entries; negative zones and their templates stay."""
        self.prepared_replies.clear()
        self._queues.clear()
        self._shared_headers.clear()

    def take_counts(self) -> list[hit_counts.Row]:
        """The counts since the last call: (group, whether over TCP, cells); hit_counts.py names the cells."""
        return self.hit_counts.take_counts()

    def statistics(self) -> hit_counts.AnswerTableStatistics:
        """The contents of the table, and its counts so far."""
        octets = self._queues.octets + self._shared_headers.octets + self.prepared_replies.octets
        return hit_counts.AnswerTableStatistics(
            len(self._entries), octets, self.hits, self._misses, self.negative_hits, self._stored,
            self._refused, self._stale, self._evicted, self._not_plain,
        )  # fmt: skip

    def answer(self, query: bytes, limit: int | None, now: float) -> tuple[bytes, int] | None:
        """The reply and its kind over UDP and IPv4, or None; `limit` None: the limit is the query's over UDP."""
        found = cut_query(query)
        if found is None:
            plain = read_query(query)
            if plain is None:
                self._not_plain += 1
                return None
            key, end, form = plain
            entry = self._entries.get(key)
        else:
            cut, form = found
            end = len(query) + cut + 2
            key = query[HEADER_LEN:cut] + form.tail
            entry = self._entries.get(key)
            if entry is None:
                lower = query[HEADER_LEN : cut - 2].lower() + key[-3:]
                if lower != key:
                    key = lower
                    entry = self._entries.get(key)
        is_leased = now < self._versions.lease_end
        if (
            entry is None
            or not (
                (entry.changes == CHANGES[0] and (entry.timing is None or entry.marked_until > now))
                or self._revalidate(entry, now)
            )
            or not (is_leased or not entry.needs_lease)
        ):
            return self._answer_negative(key, query, end, form, limit, is_leased)
        shared = entry.shared
        _, variant, opt, most, do = form
        if most > shared.adapted_above:
            form, opt = shared.adapt(form)
            most = form.limit
        kind = shared.kind | len(query) << LENGTH_SHIFT | do
        state = entry.state
        if state & FREQUENCY:
            self.prepared_replies.countdown -= 1
            if not self.prepared_replies.countdown:
                self._prepare(key, entry, query, end, form, self._room_for_prepared())
        entry.state = state + (state & FREQUENCY < FREQUENCY)
        if shared.mark_ttl > 0:
            if entry.marked_until > now:
                kind |= CACHE_HIT
            else:
                kind |= CACHE_MISS
                entry.marked_until = now + shared.mark_ttl
        self.hits += 1
        self.negative_replies.is_likely = False
        records = entry.rotated() if shared.step else entry.records
        limit = most if limit is None else limit
        if end + len(records) + len(opt) > limit:
            flags = shared.flags_for(variant)
            errors = shared.errors
            return write(query, end, form, limit, flags, shared.counts, records, errors), kind
        parts = query[:2], shared.heads[variant], query[HEADER_LEN:end], records, opt
        return b"".join(parts), kind

    def find_prepared(self, now: float) -> Callable[[bytes], PreparedReply | None]:
        """A function that finds the prepared reply to a form of query in a batch at `now` (monotonic seconds)."""
        if now < self._versions.lease_end:
            return self.prepared_replies.by_form.get
        self.negative_replies.is_likely = False
        return _NOTHING_PREPARED.get

    def answer_normalized(
        self, form: bytes, now: float
    ) -> tuple[tuple[bytes, ...], int, int] | None:
        """PreparedReply.adapted() of the prepared reply to the normalized form of a query; None if there is none."""
        prepared = self.prepared_replies.find_normalized(form)
        if prepared is None or now >= self._versions.lease_end:
            return None
        entry = prepared.entry
        is_valid = entry.changes == CHANGES[0] or self.is_still_valid(prepared)
        if not is_valid or entry.marked_until <= now:
            return None
        entry.state += entry.state & FREQUENCY < FREQUENCY
        self.negative_replies.is_likely = False
        return prepared.adapted(form)

    def is_still_valid(self, prepared: PreparedReply) -> bool:
        """Return whether a prepared reply can be sent after a change; otherwise answer() decides about its entry."""
        entry, changes = prepared.entry, CHANGES[0]
        if entry.has_old_serial() or not entry.is_valid(self._versions):
            return False
        entry.revalidate(changes)
        return True

    def _revalidate(self, entry: Entry, now: float) -> bool:
        """Return whether an entry is still valid after a change or in another second; update its serial or TTL."""
        changes = CHANGES[0]
        is_old = entry.timing is not None and entry.marked_until <= now
        if not entry.is_valid(self._versions) or (is_old and not entry.count_down(now)):
            self._stale += 1
            self.prepared_replies.forget(entry)
            return False
        if is_old:
            self.prepared_replies.update(entry)
        elif entry.has_old_serial():
            self.prepared_replies.forget(entry)
        entry.revalidate(changes)
        return True

    def _answer_negative(
        self, key: bytes, query: bytes, end: int, form: Form, limit: int | None, is_leased: bool
    ) -> tuple[bytes, int] | None:
        changes = CHANGES[0]
        zones = self._negative_zones
        found = zones.find(key) if is_leased else None
        hit = None if found is None else zones.answer(found, key, query, end, form, limit)
        if hit is None:
            # cut_query() does not read the labels, so this may be no valid query.  find() has read them.
            is_plain = found is not None or read_query(query) is not None
            self._misses += is_plain
            self._not_plain += not is_plain
            return None
        reply, kind, form, zone = hit
        self.negative_replies.is_likely = zone is not None
        if zone is None:
            self.hits += 1
        else:
            self.negative_hits += 1
            self.negative_replies.prepare(zone, key, query, end, form, kind, changes)
        return reply, kind

    def _make_room(self, octets: int) -> None:
        while self._queues.octets + self._shared_headers.octets + octets > self._entry_capacity:
            if (gone := self._queues.evict()) is None:
                break
            _, entry = gone
            self._evicted += 1
            self.prepared_replies.forget(entry)
            self._shared_headers.release(entry.shared)
        self.prepared_replies.shrink(self._room_for_prepared() - octets)

    def _prepare(
        self, key: bytes, entry: Entry, query: bytes, end: int, form: Form, room: int
    ) -> None:
        shared = entry.shared
        if shared.errors and form.opt:
            return  # a prepared reply ends with the options of its query
        if form.limit > shared.max_payload:
            form = lower_size(form, shared.max_payload)
        kind = shared.kind | len(query) << LENGTH_SHIFT | form.do
        kind |= CACHE_HIT if shared.mark_ttl > 0 else 0
        self.prepared_replies.prepare(key, entry, query, end, form, kind, room)

    def _room_for_prepared(self) -> int:
        return self._capacity - self._queues.octets - self._shared_headers.octets

    def _refuse(self) -> bool:
        self._refused += 1
        return False
