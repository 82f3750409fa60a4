"""The questions of a load, and their order.

Path: query_file.py or cluster_names.py makes the questions -> here -> sender.py takes the numbers one by one.
Rule 1: an order depends only on its arguments; the same seed gives the same order.
Rule 2: the questions of a file are sent from the first line to the last, repeatedly, as dnsperf does; names of a
        cluster are drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate, count, cycle
from random import Random
from typing import Final, NamedTuple

import msgspec

from hsdns.load.judge import Answer
from hsdns.load.pods import PodPlan, meant
from hsdns.wire.decode import HEADER_LEN
from hsdns.wire.edns import Edns
from hsdns.wire.encode import encode_query
from hsdns.wire.iana import RRClass, RRType
from hsdns.wire.message import RD, Query
from hsdns.wire.name import ROOT, Name

AT_ONCE: Final = 1024  # numbers drawn together
_IN: Final = RRClass.IN.to_bytes(2, "big")
ABSENT: Final = "absent"  # the group of names that do not exist


class Question(NamedTuple):
    """One question; `group` is the kind of its name, "file" for questions of a file.

    `flags` are those of the header, `own_edns` a fixed payload size: 0 for no EDNS, None for that of the run.  `do`:
    the DNSSEC OK bit of the OPT record (RFC 3225).
    """

    name: Name
    qtype: int
    group: str
    flags: int = RD
    own_edns: int | None = None
    do: bool = False

    def query(self, edns: int = 0) -> Query:
        """The query, with an OPT record of that payload size unless it is 0."""
        size = edns if self.own_edns is None else self.own_edns
        record = Edns(size, do=self.do) if size else None
        return Query.ask(self.name, self.qtype, flags=self.flags, edns=record)

    @property
    def section(self) -> bytes:
        """The question section of the query."""
        return self.name.wire + self.qtype.to_bytes(2, "big") + _IN

    def octets(self, edns: int = 0) -> bytes:
        """The query on the wire, without its ID."""
        size = edns if self.own_edns is None else self.own_edns
        before, after = _around(self.flags, size, self.do)
        return before + self.section + after


@cache
def _around(flags: int, size: int, do: bool) -> tuple[bytes, bytes]:
    """The octets before and after the question section of a query, without its ID."""
    question = Question(ROOT, RRType.A, "", flags, size, do)
    octets, begin = encode_query(question.query(), 0)[2:], HEADER_LEN - 2
    return octets[:begin], octets[begin + len(question.section) :]


class Recorded(msgspec.Struct, frozen=True):
    """Times in nanoseconds from the begin, and numbers of questions: arrays of the types q and I, as octets."""

    times: bytes
    order: bytes


class Questions(NamedTuple):
    """All questions; `weights` give how often each is sent, empty for in order.

    With `pods`, these look up names instead; their questions become known when they are sent.  `recorded`: when each is
    sent.  `known` has the right answers to the first questions at the time of creation, for truth.Truth.
    """

    all: Sequence[Question]
    weights: Sequence[float] = ()
    seed: int = 0
    pods: PodPlan | None = None
    recorded: Recorded | None = None
    known: Sequence[Answer] = ()

    @property
    def first(self) -> Question:
        """A question to check whether a server answers; its name exists, if any does."""
        if self.pods is not None:
            plan = self.pods
            target = next((each for each in plan.targets if each.kind != ABSENT), plan.targets[0])
            return Question(Name.from_text(meant(target, plan.domain)), RRType.A, target.kind)
        return next((each for each in self.all if each.group != ABSENT), self.all[0])

    def order(self) -> Iterator[int]:
        """The numbers of the questions in the order of sending, without end."""
        return order(len(self.all), self.weights, self.seed)


def order(length: int, weights: Sequence[float], seed: int) -> Iterator[int]:
    """Numbers below `length` without end: in order, or drawn by `weights` if there are any."""
    if not weights:
        yield from cycle(range(length))
        return
    random, numbers, cumulated = Random(seed), range(length), list(accumulate(weights))
    while True:
        yield from random.choices(numbers, cum_weights=cumulated, k=AT_ONCE)


def zipf(length: int, exponent: float) -> Iterator[float]:
    """Weights by rank: 1, 1/2^s, 1/3^s ...; all equal for an exponent of 0."""
    return (1.0 / rank**exponent for rank, _ in zip(count(1), range(length), strict=False))
