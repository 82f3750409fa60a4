"""Counters that grow while a run goes on, and are added: those that the process that sends keeps itself.

Path: send/connection.py counts connections, send/pods.py lookups -> send/loop.py sends both at the end, as they are ->
      run.py -> results.py, which has all other counters.
Rule 1: a struct has counters, of which add() makes the sum of two runs without loss, and figures, which finish() makes
        from them.  A field that ends with "slots" is a histogram.
Rule 2: a set-up lasts from the request for a connection until it can send a query, including handshakes.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Final, TypeVar

import msgspec

from hsdns.load.histogram import Histogram, Percentile, latency_figures, percentiles

MICROSECOND: Final = 1000  # nanoseconds
MOST_REASONS: Final = 50  # by which something is counted
OTHERS: Final = "others"
EARLIEST: Final = ("first_s",)  # the sum of two of these is the earlier one
# Fields that are lists of parts, and what tells these apart.
PARTS: Final = {
    **dict.fromkeys(("by_resolver", "by_form"), ("name",)),
    "per_second": ("second",),
    "kinds": ("group", "type"),
    "stale_names": ("name", "type"),
    "wrong": ("field", "name", "type"),
}
JOINED: Final = ("events", "episodes")  # fields that are lists of parts that stay
Figures = list[Percentile]
T = TypeVar("T")


class MachineTimes(msgspec.Struct):
    """What the machine of the generator did in `elapsed` microseconds, in microseconds; None: it does not tell.

    CPUs were `busy` with any process, or `stolen` by the hypervisor; under `pressure` some task waited for one, and the
    sender `waited`, or was `stopped`, as far as looking ten times a second tells.  `sender`, `counting` and `server`
    are CPU time; that of the server if it is on this machine.  `overflowed` queries did not fit into its sockets.
    """

    elapsed: int | None = None
    busy: int | None = None
    stolen: int | None = None
    pressure: int | None = None
    waited: int | None = None
    sender: int | None = None
    counting: int | None = None
    server: int | None = None
    overflowed: int | None = None
    stopped: int | None = None

    def since(self, before: MachineTimes) -> MachineTimes:
        """What has happened since earlier times."""
        pairs = zip(msgspec.structs.astuple(self), msgspec.structs.astuple(before), strict=True)
        return MachineTimes(
            *(None if None in pair else max(0, pair[0] - pair[1]) for pair in pairs)
        )

    @property
    def others(self) -> int | None:
        """The CPU time that neither the generator nor the server had; None if the server is not known."""
        if self.busy is None or self.server is None:
            return None
        known = self.server + (self.sender or 0) + (self.counting or 0)
        return max(0, self.busy - known) + (self.stolen or 0)


# Why connections end.
SPENT: Final = "had all its queries"
IDLE: Final = "idle"
CLOSED: Final = "closed by the server"
RESET: Final = "reset by the server"
SILENT: Final = "silent for the time-out"
AT_END: Final = "end of the run"

# How lookups end.
FOUND: Final = "found"  # it has addresses
NONE: Final = "none"  # the resolver reports that the name does not exist, or has no address
FAILED: Final = "failed"  # no result: no reply in time, or an error
UNFINISHED: Final = "unfinished"  # the run ended before
ENDS: Final = (FOUND, NONE, FAILED, UNFINISHED)


def encode(counters: msgspec.Struct) -> bytes:
    """Counters as octets."""
    return msgspec.msgpack.encode(counters, enc_hook=Histogram.pairs)


def decode(octets: bytes, kind: type[T]) -> T:
    """The counters in octets."""
    return msgspec.msgpack.decode(octets, type=kind, dec_hook=lambda kind, found: kind(found))


def add(mine: Any, theirs: Any) -> None:
    """Add the counters of a struct to those of another one: the larger one of two ages stays, and the earlier begin.

    What only theirs has becomes a part of mine.
    """
    for name in mine.__struct_fields__:
        own, other = getattr(mine, name), getattr(theirs, name)
        if other is None or name == "second":
            continue
        if own is None:
            setattr(mine, name, other)
        elif isinstance(own, Histogram):
            own.merge(other)
        elif isinstance(own, msgspec.Struct):
            add(own, other)
        elif isinstance(own, dict):
            for reason, number in other.items():
                count(own, reason, number)
        elif name in PARTS:
            key = attrgetter(*PARTS[name])
            known = {key(part): part for part in own}
            for part in other:
                if key(part) in known:
                    add(known[key(part)], part)
                else:
                    own.append(part)
        elif name in JOINED:
            own += other
        elif isinstance(own, float):
            setattr(mine, name, (min if name in EARLIEST else max)(own, other))
        elif isinstance(own, int):
            setattr(mine, name, own + other)


def count(counts: dict[str, int], reason: str, number: int = 1) -> None:
    """Count a reason; the number of different ones is bounded, since a server can send a new one each time."""
    known = reason if reason in counts or len(counts) < MOST_REASONS else OTHERS
    counts[known] = counts.get(known, 0) + number


def no_slots() -> Any:
    """A field that is a histogram."""
    return msgspec.field(default_factory=Histogram)


class ConnectionsReport(msgspec.Struct):
    """Connections of a load, or those for truncated answers over UDP.

    `not_opened`, `ended` and `without_answer` (queries) are counts by reason.  `asked_again`: queries whose connection
    had ended; `late`: replies after the timeout; `fell`: truncated answers over UDP.  `slots` are the histogram of the
    set-ups, which are not in the figures of queries; a latency includes the wait for one anyway.
    """

    opened: int = 0
    most_open: int = 0
    not_opened: dict[str, int] = {}
    ended: dict[str, int] = {}
    without_answer: dict[str, int] = {}
    asked_again: int = 0
    late: int = 0
    fell: int = 0
    setup: Figures = []
    slots: Histogram = no_slots()

    @property
    def open(self) -> int:
        """How many are open now."""
        return self.opened - sum(self.ended.values())

    def open_after(self, nanoseconds: int) -> None:
        """Count a connection whose set-up took so long."""
        self.opened += 1
        self.slots.record(nanoseconds // MICROSECOND)
        self.most_open = max(self.most_open, self.open)

    def finish(self) -> ConnectionsReport | None:
        """Make the figures; None if there was no connection."""
        if not self.opened and not self.not_opened and not self.fell:
            return None
        self.setup = percentiles(self.slots)
        for counts in ("not_opened", "ended", "without_answer"):
            found = sorted(getattr(self, counts).items(), key=lambda each: (-each[1], each[0]))
            setattr(self, counts, dict(found))
        return self


class Lookup(msgspec.Struct):
    """A lookup: its resolver, the form of its name, its end (ENDS) and its queries.

    Times are nanoseconds of the monotonic clock.  `wasted` queries were for another name than the intended one, `again`
    counts queries repeated in the same lookup, `over_tcp` those over TCP, `kept` those that a forwarder answered
    itself.  `began` is when the generator began it; `ended` of an UNFINISHED one is when it was given up.
    """

    resolver: str
    form: str
    end: str = UNFINISHED
    queries: int = 0
    wasted: int = 0
    again: int = 0
    over_tcp: int = 0
    planned: int = 0
    began: int = 0
    ended: int = 0
    kept: int = 0


class LookupPartReport(msgspec.Struct):
    """A part of the lookups: how they ended, and their queries.

    `wasted` queries were for another name than the intended one, `again` counts queries repeated in the same lookup,
    `over_tcp` those over TCP, `kept` those that a forwarder answered itself.  `median_queries` and `most_queries` are
    per lookup.  A latency runs from when the lookup was due until the program has its result, and includes the search
    list, the waits and retries.
    """

    name: str = ""
    ends: dict[str, int] = {}
    queries: int = 0
    wasted: int = 0
    again: int = 0
    over_tcp: int = 0
    kept: int = 0
    median_queries: int = 0
    most_queries: int = 0
    latency: Figures = []
    slots: Histogram = no_slots()  # without UNFINISHED ones
    query_slots: Histogram = no_slots()

    def add(self, found: Lookup) -> None:
        """Count a lookup."""
        count(self.ends, found.end)
        if found.end != UNFINISHED:
            self.slots.record((found.ended - found.planned) // MICROSECOND)
        self.query_slots.record(found.queries)
        self.queries += found.queries
        self.wasted += found.wasted
        self.again += found.again
        self.over_tcp += found.over_tcp
        self.kept += found.kept

    def finish(self, lateness: Histogram, *, withheld: bool) -> None:
        """Make the figures; `lateness` is that of the queries."""
        self.ends = {end: self.ends.get(end, 0) for end in ENDS}
        self.latency = latency_figures(
            self.slots, self.ends[UNFINISHED], lateness, withheld=withheld
        )
        self.median_queries = self.query_slots.percentile(50) or 0
        self.most_queries = self.query_slots.highest or 0


class LookupsReport(msgspec.Struct):
    """All lookups, in total and in parts; `lateness` runs from when one was due until the generator began it."""

    whole: LookupPartReport = msgspec.field(default_factory=LookupPartReport)
    by_resolver: list[LookupPartReport] = []
    by_form: list[LookupPartReport] = []
    lateness: Figures = []
    lateness_slots: Histogram = no_slots()

    def add(self, found: Lookup) -> None:
        """Count a lookup."""
        self.whole.add(found)
        _part(self.by_resolver, found.resolver).add(found)
        _part(self.by_form, found.form).add(found)
        self.lateness_slots.record(max(0, found.began - found.planned) // MICROSECOND)

    def finish(self, lateness: Histogram, *, withheld: bool) -> LookupsReport | None:
        """Make the figures; None without lookups.

        `lateness` is that of the queries, which decides whether a latency is stated; `withheld`: none is stated.
        """
        if not self.whole.ends:
            return None
        for parts in (self.by_resolver, self.by_form):
            parts.sort(key=lambda each: each.name)
        for part in (self.whole, *self.by_resolver, *self.by_form):
            part.finish(lateness, withheld=withheld)
        self.lateness = percentiles(self.lateness_slots)
        return self


def _part(parts: list[LookupPartReport], name: str) -> LookupPartReport:
    found = next((each for each in parts if each.name == name), None)
    if found is None:
        found = LookupPartReport(name)
        parts.append(found)
    return found
