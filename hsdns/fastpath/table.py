"""The answer table: question bytes to finished reply bytes.

Path: step 2.  Two doors, one table: batch.py asks for datagrams, server/tcp.py calls lookup() for frames.  Pure twin
of native/src/table.rs.
Rule 1: an entry is a hit only while every counter that it was computed from stands where it stood (versions.py).
Rule 2: order: entry, region, nothing.  An entry that is no longer true counts as absent; it stays in its place until
        it is learned anew or evicted.
Rule 3: what is asked often is prepared whole (plan.py), the rest is put together from what is kept once: the header
        of its shape, the client's own question, the records.
Rule 4: memory is bounded: what is kept counts with all that Python adds to it, and eviction.py says what goes.
Rule 5: what is to be logged has a record in the log ring (log.py), whatever it came over.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from hsdns.fastpath.absence import Absences
from hsdns.fastpath.control import SOCKADDR_IN_LEN, is_ipv6
from hsdns.fastpath.entry import (
    FREQUENCY,
    NEVER,
    Entry,
    octets_of,
    pack_indexes,
    write,
)
from hsdns.fastpath.eviction import Queues
from hsdns.fastpath.key import Form, cut_query, lower_size, read_query
from hsdns.fastpath.log import LogRecord, LogRing
from hsdns.fastpath.plan import Plan, Plans
from hsdns.fastpath.records import read_outline
from hsdns.fastpath.region import COUNTS, LEFT_TO_THE_CHAIN, Region
from hsdns.fastpath.shape import Shapes, key_of
from hsdns.fastpath.tally import (
    CACHE_HIT,
    CACHE_MISS,
    IPV6,
    LENGTH_SHIFT,
    TCP,
    Row,
    Tallies,
)
from hsdns.fastpath.versions import CHANGES, ClusterNames, Versions
from hsdns.wire.decode import HEADER_LEN
from hsdns.wire.edns import MAX_PAYLOAD_SIZE
from hsdns.wire.encode import MAX_UDP_LEN, MIN_UDP_LEN

MAX_PAIRS: Final = 8
_MAX_SIZE: Final = (1 << 32) - 1
_MOST_OF_A_PLAN: Final = (
    1024  # octets; where so many are free, a reply is prepared as soon as it is learned
)
_PLANS_SHARE: Final = 16  # one part of so many is for what is prepared alone


class AnswerTableStatistics(NamedTuple):
    """What a table holds and what it has done so far.

    `misses` are plain queries that neither an entry nor a negative zone answered, `not_plain` those not looked up.
    """

    entries: int
    octets: int
    hits: int
    misses: int
    negative_hits: int
    stored: int
    refused: int
    stale: int
    evicted: int
    not_plain: int


class AnswerTable:
    """The answers of one listener; `capacity` in octets."""

    def __init__(self, versions: Versions, capacity: int) -> None:
        self.tallies = Tallies()
        self.log = LogRing()
        self.logs = False  # whether a hit may have to be logged
        self.hits = self.negative_hits = 0
        self.plans = Plans()
        self._versions = versions
        self._whole = capacity
        self._capacity = capacity - capacity // _PLANS_SHARE
        self._queues = Queues(self._capacity, versions)
        self._entries = self._queues.entries
        self.absences = Absences(self._entries)
        self._shapes = Shapes()
        self._regions: list[Region] = []
        self._by_length: list[Region] = []  # longest zone first
        self._misses = self._stored = self._refused = 0
        self._stale = self._evicted = self._not_plain = 0

    @property
    def log_drops(self) -> int:
        """How many hits were not logged, because nobody had taken those before them."""
        return self.log.dropped

    def store(
        self,
        query: bytes,
        reply: bytes,
        pairs: Sequence[tuple[int, int]],
        group: int,
        *,
        size: int,
        rotate: bool,
        names: ClusterNames | None,
        mark_ttl: int,
        log: bool = False,
        max_payload: int = MAX_PAYLOAD_SIZE,
    ) -> bool:
        """Keep the reply to a query; False where it may not be kept.

        `pairs` are the counters that were read before the reply was computed.  `size` is its length without
        compression and without OPT.  `rotate`: its addresses take turns.  `names` has the serial of its SOA records.
        `mark_ttl`: for so many seconds after a mark (set now, and anew by a hit after that) a hit counts as one of
        `cache`; 0: each hit is a miss of `cache`; -1: `cache` does not count it.  `log`: hits are put into
        the log ring.  `max_payload`: larger payload sizes of queries are
        lowered to it, in what a reply says and, over UDP, in how long it may be.  It is 512 to 65,507, or 65,535 where
        none is lowered; raise ValueError for others.
        """
        _refuse_numbers(group, size)
        _refuse_payload(max_payload)
        pairs = tuple((index % Versions.SIZE, value) for index, value in pairs)
        usual = read_query(query)
        values = self._versions.values
        if (
            usual is None
            or len(pairs) > MAX_PAIRS
            or any(values[index] != value for index, value in pairs)
        ):
            return self._refuse()
        outline = read_outline(query[HEADER_LEN : usual.end], reply)
        if outline is None or (outline.serials and names is None):
            return self._refuse()
        shape = self._shapes.take(
            key_of(
                outline,
                group=group,
                size=size,
                rotate=rotate,
                names=names,
                mark_ttl=mark_ttl,
                log=log,
                max_payload=max_payload,
            )
        )
        now = time.monotonic()
        until = now + mark_ttl if mark_ttl > 0 else NEVER
        key, indexes = usual.key, pack_indexes([index for index, _ in pairs])
        entry = Entry(shape, outline.records, indexes, until)
        octets = octets_of(key, entry)
        if octets + shape.octets > self._capacity:
            self._shapes.give_back(shape)
            return self._refuse()
        known = self._entries.get(key)
        if known is None:
            self._make_room(octets)
            self._queues.push(key, entry)
        else:
            self.plans.forget(known)
            before, last = octets_of(key, known), known.shape
            if mark_ttl > 0 and last.mark_ttl > 0 and known.until > now:
                until = known.until
            known.fill(shape, outline.records, indexes, until)
            self._shapes.give_back(last)
            self._queues.resize(known, octets - before)
            self._make_room(0)
        self.logs |= log
        self._stored += 1
        room = self._room_for_plans()
        if self.plans.octets + _MOST_OF_A_PLAN <= room:
            self._prepare(key, self._entries[key], query, usual.end, usual.form, room)
        return True

    def add_negative_zone(
        self,
        zone: bytes,
        names: ClusterNames,
        holes: Sequence[bytes],
        groups: Mapping[int, int],
        mark_ttl: int,
        log: bool = False,
        max_payload: int = MAX_PAYLOAD_SIZE,
    ) -> int:
        """Answer the names below a zone that do not exist, once taught; return the region's number.

        `zone` and `holes` are lower-case wire names; `groups` maps each type that is answered to its group.
        `mark_ttl` is 0 or -1, as in store(); raise ValueError for others.  `log` and `max_payload` are as there.
        """
        if mark_ttl not in (0, -1):
            raise ValueError(
                f"the mark of a region is 0 or -1, not {mark_ttl}: it has none to keep"
            )
        for group in groups.values():
            _refuse_numbers(group, 0)
        _refuse_payload(max_payload)
        region = Region(zone, names, holes, groups, mark_ttl, log, max_payload)
        self.logs |= log
        self.absences.clear()
        self._regions.append(region)
        self._by_length = sorted(self._regions, key=lambda each: -len(each.zone))
        return len(self._regions) - 1

    def set_template(self, region: int, query: bytes, reply: bytes, size: int) -> bool:
        """Take the NXDOMAIN reply of one real run as a region's template; False where it does not fit.

        Raise IndexError where there is no such region.
        """
        _refuse_numbers(0, size)
        if not 0 <= region < len(self._regions):
            raise IndexError("the table has no such region")
        usual = read_query(query)
        self.absences.clear()
        return usual is not None and self._regions[region].teach(usual, query, reply, size)

    def lookup(self, query: bytes, *, client: bytes, limit: int, now: float) -> bytes | None:
        """Answer a query that came over TCP, in at most `limit` octets; `now` in monotonic seconds.

        `client` is the client's socket address.
        """
        begin = time.monotonic_ns()
        plan = self.plans.by_form.get(query[2:])
        if (
            plan is not None
            and plan.length <= limit
            and (plan.entry.changes == CHANGES[0] or self.still_holds(plan))
            and plan.entry.until > now
        ):
            reply = query[:2] + (b"".join(plan.turned()) if plan.step else plan.body)
            kind = plan.kind
            self.hits += 1
            if plan.entry.state & FREQUENCY < FREQUENCY:
                plan.entry.state += 1
        else:
            found = self.answer(query, limit, now)
            if found is None:
                return None
            reply, kind = found
        kind |= TCP | IPV6 if len(client) > SOCKADDR_IN_LEN and is_ipv6(client) else TCP
        duration = time.monotonic_ns() - begin
        self.tallies.add_one(kind, duration)
        if self.logs:
            self.log.push([(query, client, reply[2] << 8 | reply[3])], [kind], duration)
        return reply

    def take_log(self, most: int) -> list[LogRecord]:
        """Take out the oldest records of the log ring; raise OverflowError for a negative number."""
        return self.log.take(most)

    def clear(self) -> None:
        """Drop every entry; regions and their templates stay."""
        self.plans.clear()
        self._queues.clear()
        self._shapes.clear()

    def take_counts(self) -> list[Row]:
        """What was counted since the last call: (group, whether over TCP, cells); tally.py names the cells."""
        return self.tallies.take_counts()

    def statistics(self) -> AnswerTableStatistics:
        """What is there and what was done."""
        return AnswerTableStatistics(
            entries=len(self._entries),
            octets=self._queues.octets + self._shapes.octets + self.plans.octets,
            hits=self.hits,
            misses=self._misses,
            negative_hits=self.negative_hits,
            stored=self._stored,
            refused=self._refused,
            stale=self._stale,
            evicted=self._evicted,
            not_plain=self._not_plain,
        )

    def answer(self, query: bytes, limit: int | None, now: float) -> tuple[bytes, int] | None:
        """The reply and what it counts as over UDP and IPv4; `limit` None: it came over UDP, what that allows."""
        known = cut_query(query)
        if known is None:
            usual = read_query(query)
            if usual is None:
                self._not_plain += 1
                return None
            key, end, form = usual
            entry = self._entries.get(key)
        else:
            cut, form = known
            end = len(query) + cut + 2
            key = query[HEADER_LEN:cut] + form.tail
            entry = self._entries.get(key)
            if entry is None:
                lower = query[HEADER_LEN : cut - 2].lower() + key[-3:]
                if lower != key:
                    key = lower
                    entry = self._entries.get(key)
        if entry is None or not (entry.changes == CHANGES[0] or self._is_still_true(entry)):
            return self._answer_absent(key, query, end, form, limit)
        shape = entry.shape
        _, variant, opt, most, do = form
        if most > shape.max_payload:
            _, _, opt, most, _ = form = lower_size(form, shape.max_payload)
        kind = shape.kind | len(query) << LENGTH_SHIFT | do
        state = entry.state
        if state & FREQUENCY:
            self.plans.countdown -= 1
            if not self.plans.countdown:
                self._prepare(key, entry, query, end, form, self._room_for_plans())
        if state & FREQUENCY < FREQUENCY:
            entry.state = state + 1
        if shape.mark_ttl > 0:
            if entry.until > now:
                kind |= CACHE_HIT
            else:
                kind |= CACHE_MISS
                entry.until = now + shape.mark_ttl
        self.hits += 1
        self.absences.is_likely = False
        records = entry.turned() if shape.step else entry.records
        if limit is None:
            limit = most
        if end + len(records) + len(opt) > limit:
            return write(query, end, form, limit, shape.flags, shape.counts, records), kind
        head = shape.heads[variant]
        return b"".join((query[:2], head, query[HEADER_LEN:end], records, opt)), kind

    def answer_alike(self, form: bytes, now: float) -> tuple[tuple[bytes, ...], int, int] | None:
        """What follows the ID in the reply to a form that is like a prepared one; then as Plan.varied()."""
        plan = self.plans.find_alike(form)
        if plan is None:
            return None
        entry = plan.entry
        if (entry.changes != CHANGES[0] and not self.still_holds(plan)) or entry.until <= now:
            return None
        if entry.state & FREQUENCY < FREQUENCY:
            entry.state += 1
        self.absences.is_likely = False
        return plan.varied(form)

    def still_holds(self, plan: Plan) -> bool:
        """Tell whether what is prepared can be sent, after something has changed; where not, answer() sees to it."""
        entry = plan.entry
        if entry.is_dated() or not entry.is_true(self._versions):
            return False
        entry.renew()
        return True

    def _is_still_true(self, entry: Entry) -> bool:
        """Tell whether an entry is true after something has changed, and bring its serial up to date."""
        if not entry.is_true(self._versions):
            self._stale += 1
            self.plans.forget(entry)
            return False
        if entry.is_dated():
            self.plans.forget(entry)
        entry.renew()
        return True

    def _answer_absent(
        self, key: bytes, query: bytes, end: int, form: Form, limit: int | None
    ) -> tuple[bytes, int] | None:
        kind, region = self._find_absent(key)
        template = region.template if region is not None else None
        if region is None or template is None:
            # Where nobody has looked at its labels, it may be no query at all.
            if read_query(query) is None:
                self._not_plain += 1
            else:
                self._misses += 1
            return None
        if form.limit > region.max_payload:
            form = lower_size(form, region.max_payload)
        kind |= len(query) << LENGTH_SHIFT | form.do
        self.negative_hits += 1
        self.absences.is_likely = True
        self.absences.prepare(region, key, query, end, form, kind)
        records = region.record(end)
        if limit is None:
            limit = form.limit
        # What fits into the limit is written whole.
        return write(query, end, form, limit, template.flags, COUNTS, records), kind

    def _find_absent(self, key: bytes) -> tuple[int, Region | None]:
        """What a hit counts as but for the query's length and DO, and the region in which the name does not exist."""
        for region in self._by_length:
            kind = region.find(key)
            if kind >= 0:
                return kind, region
            if kind == LEFT_TO_THE_CHAIN:
                break
        return 0, None

    def _make_room(self, octets: int) -> None:
        while self._queues.octets + self._shapes.octets + octets > self._capacity:
            gone = self._queues.evict()
            if gone is None:
                break
            _, entry = gone
            self._evicted += 1
            self.plans.forget(entry)
            self._shapes.give_back(entry.shape)
        self.plans.shrink(self._room_for_plans() - octets)

    def _prepare(
        self, key: bytes, entry: Entry, query: bytes, end: int, form: Form, room: int
    ) -> None:
        shape = entry.shape
        if form.limit > shape.max_payload:
            form = lower_size(form, shape.max_payload)
        kind = shape.kind | len(query) << LENGTH_SHIFT | form.do
        if shape.mark_ttl > 0:
            kind |= CACHE_HIT
        self.plans.prepare(key, entry, query, end, form, kind, room)

    def _room_for_plans(self) -> int:
        return self._whole - self._queues.octets - self._shapes.octets

    def _refuse(self) -> bool:
        self._refused += 1
        return False


def _refuse_numbers(group: int, size: int) -> None:
    if not 0 <= group <= _MAX_SIZE or not 0 <= size <= _MAX_SIZE:
        raise OverflowError(f"group and size have 32 bits, {group} and {size} do not fit")


def _refuse_payload(max_payload: int) -> None:
    if not 0 <= max_payload <= MAX_PAYLOAD_SIZE:
        raise OverflowError(f"a payload size has 16 bits, {max_payload} does not fit")
    if not MIN_UDP_LEN <= max_payload <= MAX_UDP_LEN and max_payload != MAX_PAYLOAD_SIZE:
        raise ValueError(
            f"max_payload is {MIN_UDP_LEN} to {MAX_UDP_LEN}, or {MAX_PAYLOAD_SIZE} where none is lowered,"
            f" not {max_payload}"
        )
