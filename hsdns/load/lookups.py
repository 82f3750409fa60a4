"""The results of the pods' lookups: packs each for the pipe, and counts them.

Path: pod_sender.py packs -> a pipe -> run.py -> here -> lookup_report.py.
Rule 1: a latency runs from when the lookup was due until the program has its result, and includes the search list, the
        waits and retries.
Rule 2: the lookups of two runs are added without loss (`merge`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final, NamedTuple

from hsdns.load.histogram import Histogram
from hsdns.load.pods import FORMS, Wanted
from hsdns.resolver import MODELS, cares, glibc, go, musl
from hsdns.resolver.model import Result

LOOKUPS: Final = b"l"  # the kind of message
FOUND: Final = "found"  # it has addresses
NONE: Final = "none"  # the resolver reports that the name does not exist, or has no address
FAILED: Final = "failed"  # no result: no reply in time, or an error
UNFINISHED: Final = "unfinished"  # the run ended before
ENDS: Final = (FOUND, NONE, FAILED, UNFINISHED)
_NONE: Final = frozenset(
    (glibc.NONAME, glibc.NODATA, musl.NONAME, musl.NODATA, go.NO_HOST, cares.NODATA, cares.NOT_FOUND)
)  # fmt: skip
_LOOKUP: Final = Struct("=BBBHHHHqqq")
_RESOLVERS: Final = tuple(MODELS)
_FORMS: Final = tuple(FORMS)
_MOST: Final = 0xFFFF  # counted queries of a lookup
MICROSECOND: Final = 1000  # nanoseconds


class Lookup(NamedTuple):
    """A lookup with the numbers of its resolver and form (kinds_of) and of its end (ENDS), and its queries.

    Times are nanoseconds of the monotonic clock.  `wasted` queries were for another name than the intended one, `again`
    counts queries repeated in the same lookup, `over_tcp` those over TCP.  `began` is when the generator began it;
    `ended` of an UNFINISHED one is when it was given up.
    """

    resolver: int
    form: int
    end: int
    queries: int
    wasted: int
    again: int
    over_tcp: int
    planned: int
    began: int
    ended: int


def end_of(result: Result) -> str:
    """The end (ENDS) of a result."""
    if result.addresses:
        return FOUND
    return NONE if result.error in _NONE else FAILED


def kinds_of(resolver: str, wanted: Wanted) -> tuple[int, int]:
    """The numbers of a lookup's resolver and form."""
    return _RESOLVERS.index(resolver), _FORMS.index(wanted.form)


def pack_lookups(found: Iterable[Lookup]) -> bytes:
    """Lookups as octets."""
    pack = _LOOKUP.pack
    return b"".join(
        [pack(*each[:3], *(min(count, _MOST) for count in each[3:7]), *each[7:]) for each in found]
    )


def unpack_lookups(octets: bytes) -> Iterator[Lookup]:
    """The lookups in octets of pack_lookups()."""
    return map(Lookup._make, _LOOKUP.iter_unpack(octets))


class LookupPart:
    """Counts of lookups: how they ended, their duration in microseconds, and their queries."""

    __slots__ = ("again", "ends", "latency", "over_tcp", "queries", "sent", "wasted")

    def __init__(self) -> None:
        self.ends: Counter[str] = Counter()
        self.latency = Histogram()  # without UNFINISHED ones
        self.queries = Histogram()  # queries per lookup
        self.sent = 0  # total of queries
        self.wasted = 0
        self.again = 0
        self.over_tcp = 0

    def add(self, found: Lookup) -> None:
        """Count a lookup."""
        end = ENDS[found.end]
        self.ends[end] += 1
        if end != UNFINISHED:
            self.latency.record((found.ended - found.planned) // MICROSECOND)
        self.queries.record(found.queries)
        self.sent += found.queries
        self.wasted += found.wasted
        self.again += found.again
        self.over_tcp += found.over_tcp

    def merge(self, other: LookupPart) -> None:
        """Add the counts of another one."""
        self.ends.update(other.ends)
        self.latency.merge(other.latency)
        self.queries.merge(other.queries)
        self.sent += other.sent
        self.wasted += other.wasted
        self.again += other.again
        self.over_tcp += other.over_tcp


class Lookups:
    """All lookups of a run, in parts by resolver and by the form of the name."""

    def __init__(self) -> None:
        self.by_resolver: dict[str, LookupPart] = {}
        self.by_form: dict[str, LookupPart] = {}
        self.lateness = (
            Histogram()
        )  # from when one was due until the generator began it, in microseconds

    def add(self, octets: bytes) -> None:
        """Count the lookups of a message."""
        for found in unpack_lookups(octets):
            self.by_resolver.setdefault(_RESOLVERS[found.resolver], LookupPart()).add(found)
            self.by_form.setdefault(_FORMS[found.form], LookupPart()).add(found)
            self.lateness.record(max(0, found.began - found.planned) // MICROSECOND)

    def whole(self) -> LookupPart:
        """The total of all parts."""
        found = LookupPart()
        for part in self.by_resolver.values():
            found.merge(part)
        return found

    def merge(self, other: Lookups) -> None:
        """Add the lookups of another run."""
        for mine, theirs in ((self.by_resolver, other.by_resolver), (self.by_form, other.by_form)):
            for name, part in theirs.items():
                mine.setdefault(name, LookupPart()).merge(part)
        self.lateness.merge(other.lateness)
