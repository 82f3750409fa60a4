"""The measurements of a run: counts and histograms, by second and by kind of question.

Path: run.py passes outcomes and verdicts -> here -> report.py, live.py, thresholds.py.
Rule 1: a query belongs to the second in which it was due.
Rule 2: latency is measured from when the query was due, lateness from then until it was sent; in microseconds.
Rule 3: results of two runs are added without loss (`merge`).
Rule 4: the histograms of a second are packed OPEN seconds later, when nearly all of its queries are answered or lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from hsdns.load.connection_facts import ConnectionCounts
from hsdns.load.histogram import Histogram, slot_of
from hsdns.load.judge import BEHIND, RIGHT, STALE, UNDECIDED
from hsdns.load.lookups import Lookups
from hsdns.load.outcome import (
    LATENCY,
    LATENESS,
    LOST_COUNT,
    NOT_SENT,
    NOT_SENT_COUNT,
    OF_KIND,
    RCODE,
    TRUNCATED,
    PlainOutcome,
    unpack_counts,
)
from hsdns.load.questions import Question
from hsdns.load.schedule import SECOND
from hsdns.load.verifier import Judged
from hsdns.wire.message import TC

MICROSECOND: Final = 1000  # nanoseconds
OPEN: Final = 10  # seconds
Kind = tuple[str, int]  # group and type


def kind_numbers(questions: Iterable[Question]) -> list[int]:
    """The number of each question's kind, in the order of first appearance."""
    numbers: dict[Kind, int] = {}
    return [numbers.setdefault((each.group, each.qtype), len(numbers)) for each in questions]


class Part:
    """Counts of some of the queries; `rcodes` counts the answered ones."""

    __slots__ = ("latency", "lost", "not_sent", "rcodes", "truncated")

    def __init__(self) -> None:
        self.rcodes: Counter[int] = Counter()
        self.lost = 0
        self.not_sent = 0
        self.truncated = 0
        self.latency = Histogram()

    @property
    def answered(self) -> int:
        """The number of answered queries."""
        return self.rcodes.total()

    @property
    def sent(self) -> int:
        """The number of sent queries."""
        return self.answered + self.lost

    def merge(self, other: Part) -> None:
        """Add the counts of another one."""
        self.rcodes.update(other.rcodes)
        self.lost += other.lost
        self.not_sent += other.not_sent
        self.truncated += other.truncated
        self.latency.merge(other.latency)


class Second(Part):
    """A second of the schedule; `worst_age` is the age of its stalest answer, in seconds."""

    __slots__ = ("changes", "lateness", "verdicts", "worst_age")

    def __init__(self) -> None:
        super().__init__()
        self.lateness = Histogram()
        self.verdicts: Counter[str] = Counter()
        self.worst_age = 0.0
        self.changes = 0

    def merge(self, other: Part) -> None:
        """Add the counts of another one."""
        super().merge(other)
        if isinstance(other, Second):
            self.lateness.merge(other.lateness)
            self.verdicts.update(other.verdicts)
            self.worst_age = max(self.worst_age, other.worst_age)
            self.changes += other.changes


class StaleName:
    """A question that had stale answers: their number, the worst age, and the time of the first query (seconds)."""

    __slots__ = ("count", "first", "worst_age")

    def __init__(self) -> None:
        self.count = 0
        self.worst_age = 0.0
        self.first = float("inf")

    def merge(self, other: StaleName) -> None:
        """Add the answers of another one."""
        self.count += other.count
        self.worst_age = max(self.worst_age, other.worst_age)
        self.first = min(self.first, other.first)


class OldSpan:
    """The first change that stale answers lack, and the last query with one; seconds from the begin.

    `since` is the time of the first change that one of them lacked: for a frozen server, when it froze.
    """

    __slots__ = ("since", "until")

    def __init__(self) -> None:
        self.since = float("inf")
        self.until = float("-inf")

    def add(self, since: float, until: float) -> None:
        """Add a stale answer, or the span of another run."""
        self.since = min(self.since, since)
        self.until = max(self.until, until)


class Results:
    """The measurements of a run that began at `begin`, nanoseconds of the monotonic clock."""

    def __init__(self, questions: Sequence[Question], begin: int) -> None:
        self.questions = list(questions)
        self.begin = begin
        self.seconds: dict[int, Second] = {}
        self.kinds: dict[Kind, Part] = {}
        self.reasons: Counter[str] = Counter()  # of undecided answers
        self.ages = Histogram()  # of stale answers, microseconds
        self.behind = Histogram()  # of answers behind by less than the slack
        self.stale: dict[int, StaleName] = {}  # by question
        self.old = OldSpan()
        self.lookups = Lookups()  # of pods
        self.connections = ConnectionCounts()
        self._kinds = [self._kind(each) for each in questions]
        self._numbered = list(self.kinds.values())  # in the order of kind_numbers()

    def _kind(self, question: Question) -> Part:
        return self.kinds.setdefault((question.group, question.qtype), Part())

    def add_question(self, question: Question) -> None:
        """Add a question; its number is the next one."""
        self.questions.append(question)
        self._kinds.append(self._kind(question))

    def second(self, number: int) -> Second:
        """The counts of a second of the schedule."""
        found = self.seconds.get(number)
        if found is None:
            found = self.seconds[number] = Second()
            if over := self.seconds.get(number - OPEN):
                over.latency.pack()
                over.lateness.pack()
        return found

    def add(self, found: Iterable[PlainOutcome]) -> None:
        """Count outcomes."""
        begin, kinds = self.begin, self._kinds
        for question, flags, _, planned, sent, received in found:
            second, kind = self.second((planned - begin) // SECOND), kinds[question]
            if received == NOT_SENT:
                second.not_sent += 1
                kind.not_sent += 1
                continue
            second.lateness.slots[slot_of((sent - planned) // MICROSECOND)] += 1
            if received <= 0:
                second.lost += 1
                kind.lost += 1
                continue
            rcode = flags & 15
            slot = slot_of((received - planned) // MICROSECOND)
            second.rcodes[rcode] += 1
            second.latency.slots[slot] += 1
            kind.rcodes[rcode] += 1
            kind.latency.slots[slot] += 1
            if flags & TC:
                second.truncated += 1
                kind.truncated += 1

    def add_counts(self, octets: bytes) -> None:
        """Add the counts of the compiled sender; kinds are numbered as in kind_numbers()."""
        kinds = self._numbered
        for what, number, value, count in unpack_counts(octets):
            part = kinds[number] if what >= OF_KIND else self.second(number)
            what %= OF_KIND
            if what == LATENCY:
                part.latency.slots[value] += count
            elif what == LATENESS and isinstance(part, Second):
                part.lateness.slots[value] += count
            elif what == RCODE:
                part.rcodes[value] += count
            elif what == LOST_COUNT:
                part.lost += count
            elif what == NOT_SENT_COUNT:
                part.not_sent += count
            elif what == TRUNCATED:
                part.truncated += count

    def add_right(self, planned: Iterable[int]) -> None:
        """Count right answers; `planned` are the due times of their queries, in nanoseconds of the monotonic clock."""
        begin = self.begin
        for number, count in Counter([(each - begin) // SECOND for each in planned]).items():
            self.second(number).verdicts[RIGHT] += count

    def add_verdict(self, judged: Judged) -> None:
        """Count a verdict."""
        second = self.second((round(judged.planned * SECOND) - self.begin) // SECOND)
        word, age, reason = judged.verdict
        second.verdicts[word] += 1
        if word == UNDECIDED:
            self.reasons[reason] += 1
            if reason == BEHIND:
                self.behind.record(round(age * 1e6))
        elif word == STALE:
            self.ages.record(round(age * 1e6))
            second.worst_age = max(second.worst_age, age)
            name = self.stale.setdefault(judged.question, StaleName())
            name.count += 1
            name.worst_age = max(name.worst_age, age)
            asked = judged.asked - self.begin / SECOND
            name.first = min(name.first, asked)
            self.old.add(asked - age, asked)

    def add_changes(self, times: Iterable[float]) -> None:
        """Count changes of the cluster, at times in monotonic seconds; those before the run are ignored."""
        for time in times:
            number = (round(time * SECOND) - self.begin) // SECOND
            if number >= 0:
                self.second(number).changes += 1

    def whole(self) -> Second:
        """The sum of all seconds."""
        found = Second()
        for second in self.seconds.values():
            found.merge(second)
        return found

    def merge(self, other: Results) -> None:
        """Add the measurements of another run of the same questions, second by second."""
        for number, second in other.seconds.items():
            self.second(number).merge(second)
        for kind, part in other.kinds.items():
            self.kinds.setdefault(kind, Part()).merge(part)
        self.reasons.update(other.reasons)
        self.ages.merge(other.ages)
        self.behind.merge(other.behind)
        self.old.add(other.old.since, other.old.until)
        self.lookups.merge(other.lookups)
        self.connections.merge(other.connections)
        for question, theirs in other.stale.items():
            self.stale.setdefault(question, StaleName()).merge(theirs)
