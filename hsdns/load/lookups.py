"""What became of the lookups of pods: one after the other on the pipe, and all of them counted.

Path: pod_sender.py packs -> a pipe -> run.py -> here -> lookup_report.py.
Rule 1: a latency runs from when the lookup was due until the program has its result: with the names of the search list,
        the waits and what was sent again.
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
FOUND: Final = "found"  # there are addresses
NONE: Final = "none"  # the resolver says that there is no such name, or no address of it
FAILED: Final = "failed"  # it could not tell: no reply in time, or an error
UNFINISHED: Final = "unfinished"  # the run was over before
ENDS: Final = (FOUND, NONE, FAILED, UNFINISHED)
_NONE: Final = frozenset(
    (glibc.NONAME, glibc.NODATA, musl.NONAME, musl.NODATA, go.NO_HOST, cares.NODATA, cares.NOT_FOUND)
)  # fmt: skip
_LOOKUP: Final = Struct("=BBBHHHHqqq")
_RESOLVERS: Final = tuple(MODELS)
_FORMS: Final = tuple(FORMS)
_MOST: Final = 0xFFFF  # queries of a lookup that are counted
MICROSECOND: Final = 1000  # nanoseconds


class Lookup(NamedTuple):
    """A lookup by the numbers of its resolver and form (kinds_of) and of its end (ENDS), with its queries.

    Times are nanoseconds of the monotonic clock.
    `wasted` queries were for another name than the one that is meant, `again` ones were sent before in the same lookup,
    and `over_tcp` ones went over TCP.  `began` is when the generator came to it; `ended` of one that is UNFINISHED is
    when it was given up.
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
    """Which end a result is."""
    if result.addresses:
        return FOUND
    return NONE if result.error in _NONE else FAILED


def kinds_of(resolver: str, wanted: Wanted) -> tuple[int, int]:
    """The numbers of a lookup's resolver and form."""
    return _RESOLVERS.index(resolver), _FORMS.index(wanted.form)


def pack_lookups(found: Iterable[Lookup]) -> bytes:
    """The octets of some lookups."""
    pack = _LOOKUP.pack
    return b"".join(
        [pack(*each[:3], *(min(count, _MOST) for count in each[3:7]), *each[7:]) for each in found]
    )


def unpack_lookups(octets: bytes) -> Iterator[Lookup]:
    """The lookups."""
    return map(Lookup._make, _LOOKUP.iter_unpack(octets))


class LookupPart:
    """Counts of some lookups: how they ended, microseconds until then, and queries of each."""

    __slots__ = ("again", "ends", "latency", "over_tcp", "queries", "sent", "wasted")

    def __init__(self) -> None:
        self.ends: Counter[str] = Counter()
        self.latency = Histogram()  # without those that are UNFINISHED
        self.queries = Histogram()  # how many queries one had
        self.sent = 0  # queries of all of them
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
        )  # from when one was due until the generator came to it, microseconds

    def add(self, octets: bytes) -> None:
        """Count those of a message."""
        for found in unpack_lookups(octets):
            self.by_resolver.setdefault(_RESOLVERS[found.resolver], LookupPart()).add(found)
            self.by_form.setdefault(_FORMS[found.form], LookupPart()).add(found)
            self.lateness.record(max(0, found.began - found.planned) // MICROSECOND)

    def whole(self) -> LookupPart:
        """All together."""
        found = LookupPart()
        for part in self.by_resolver.values():
            found.merge(part)
        return found

    def merge(self, other: Lookups) -> None:
        """Add those of another run."""
        for mine, theirs in ((self.by_resolver, other.by_resolver), (self.by_form, other.by_form)):
            for name, part in theirs.items():
                mine.setdefault(name, LookupPart()).merge(part)
        self.lateness.merge(other.lateness)
