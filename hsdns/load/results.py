"""The measurements of a run: counts and histograms, by second and by kind of question.

Path: run.py passes outcomes and verdicts -> here -> report.py, cli/progress.py, limits.py.
Rule 1: a query belongs to the second in which it was due.
Rule 2: latency is measured from when the query was due, lateness from then until it was sent; in microseconds.
Rule 3: results of two runs are added without loss (`merge`).
Rule 4: the histograms of a second are packed OPEN seconds later, when nearly all of its queries are answered or lost.

The connections of a load in a report, as values and as text:
Rule: set-ups are not in the figures of queries; a latency includes the wait for a set-up anyway.

The lookups of pods in a report, as values:
Rule 1: the latency of a lookup includes the generator's lateness, like that of a query, and the same rule decides
        whether it is stated (histogram.py).
Rule 2: `slots` are the slots of the histograms with their counts, so that reports can be added without loss.

It also has the measured values that limits apply to, for some seconds of a run and for its lookups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from hsdns.load.histogram import (
    PERCENTS,
    Figure,
    Histogram,
    Slots,
    all_sent,
    latency_figures,
    lateness_figures,
    name_of,
    slot_of,
)
from hsdns.load.limits import Measured
from hsdns.load.outcome import (
    ENDS,
    FAILED,
    LATENCY,
    LATENESS,
    LOST_COUNT,
    NOT_SENT,
    NOT_SENT_COUNT,
    OF_KIND,
    RCODE,
    TRUNCATED,
    UNFINISHED,
    ConnectionCounts,
    LookupPart,
    Lookups,
    PlainOutcome,
    unpack_counts,
)
from hsdns.load.questions import Question
from hsdns.load.schedule import SECOND
from hsdns.load.verify.judge import BEHIND, RIGHT, STALE, UNDECIDED, VERDICTS
from hsdns.load.verify.verifier import Judged
from hsdns.wire.iana import Rcode
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


class SetupPercentile(msgspec.Struct, frozen=True):
    """p50 ... max of the set-ups, in microseconds; None if there are none."""

    name: str
    us: int | None


class ConnectionsReport(msgspec.Struct, frozen=True):
    """Connections of a load, or those for truncated answers over UDP.

    `not_opened`, `ended` and `without_answer` (queries) are counts by reason.  `asked_again`: queries whose connection
    had ended; `late`: replies after the timeout; `fell`: truncated answers over UDP.  `slots` are the histogram of the
    set-ups.
    """

    opened: int
    most_open: int
    not_opened: dict[str, int]
    ended: dict[str, int]
    without_answer: dict[str, int]
    asked_again: int
    late: int
    fell: int
    setup: list[SetupPercentile]
    slots: Slots


def connections_report(counts: ConnectionCounts) -> ConnectionsReport | None:
    """The report; None if there was no connection."""
    if not counts.opened and not counts.not_opened and not counts.fell:
        return None
    figures = zip(PERCENTS, counts.setup.percentiles(PERCENTS), strict=True)
    return ConnectionsReport(
        counts.opened,
        counts.most_open,
        _sorted(counts.not_opened),
        _sorted(counts.ended),
        _sorted(counts.failed),
        counts.again,
        counts.late,
        counts.fell,
        [SetupPercentile(name_of(percent), us) for percent, us in figures],
        counts.setup.pairs(),
    )


def connection_counts(report: ConnectionsReport) -> ConnectionCounts:
    """The counts that a report was made from."""
    found = ConnectionCounts()
    found.setup = Histogram(report.slots)
    found.most_open = report.most_open
    found.not_opened.update(report.not_opened)
    found.ended.update(report.ended)
    found.failed.update(report.without_answer)
    found.again, found.late, found.fell = report.asked_again, report.late, report.fell
    return found


def reasons(counts: Mapping[str, int]) -> str:
    """Counts by reason, in words."""
    return ", ".join(f"{why} {count}" for why, count in counts.items())


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda each: (-each[1], each[0])))


class LookupPercentile(msgspec.Struct, frozen=True):
    """Like Percentile; `lost` means a lookup that had not finished at the end."""

    name: str
    us: int | None
    why: str = ""


class LookupPartReport(msgspec.Struct, frozen=True):
    """A part of the lookups: how they ended, and their queries.

    `wasted` queries were for another name than the intended one, `again` counts queries repeated in the same lookup,
    `over_tcp` those over TCP.  `median_queries` and `most_queries` are per lookup.
    """

    name: str
    ends: dict[str, int]
    queries: int
    wasted: int
    again: int
    over_tcp: int
    median_queries: int
    most_queries: int
    latency: list[LookupPercentile]
    slots: Slots
    query_slots: Slots


class LookupsReport(msgspec.Struct, frozen=True):
    """All lookups, in total and in parts; `lateness` runs from when one was due until the generator began it."""

    whole: LookupPartReport
    by_resolver: list[LookupPartReport]
    by_form: list[LookupPartReport]
    lateness: list[LookupPercentile]
    lateness_slots: Slots


def lookups_report(found: Lookups, lateness: Histogram, *, refused: bool) -> LookupsReport | None:
    """The report; None without lookups.

    `lateness` is that of the queries, which decides whether a latency is stated; `refused`: none is stated.
    """
    whole = found.whole()
    if not whole.ends:
        return None

    def part(name: str, each: LookupPart) -> LookupPartReport:
        figures = latency_figures(each.latency, each.ends[UNFINISHED], lateness, refused=refused)
        return LookupPartReport(
            name,
            {end: each.ends[end] for end in ENDS},
            each.sent,
            each.wasted,
            each.again,
            each.over_tcp,
            each.queries.percentile(50) or 0,
            each.queries.highest or 0,
            _percentiles(figures),
            each.latency.pairs(),
            each.queries.pairs(),
        )

    return LookupsReport(
        part("", whole),
        [part(*each) for each in sorted(found.by_resolver.items())],
        [part(*each) for each in sorted(found.by_form.items())],
        _percentiles(lateness_figures(found.lateness)),
        found.lateness.pairs(),
    )


def lookups_of(report: LookupsReport) -> Lookups:
    """The lookups that a report was made from."""
    found = Lookups()
    found.by_resolver = {each.name: _counted(each) for each in report.by_resolver}
    found.by_form = {each.name: _counted(each) for each in report.by_form}
    found.lateness = Histogram(report.lateness_slots)
    return found


def _counted(report: LookupPartReport) -> LookupPart:
    found = LookupPart()
    found.ends.update({end: count for end, count in report.ends.items() if count})
    found.latency = Histogram(report.slots)
    found.queries = Histogram(report.query_slots)
    found.sent, found.wasted = report.queries, report.wasted
    found.again, found.over_tcp = report.again, report.over_tcp
    return found


def _percentiles(figures: Sequence[Figure]) -> list[LookupPercentile]:
    return [LookupPercentile(name_of(each.percent), each.us, each.why) for each in figures]


def measured_of(found: Second) -> Measured:
    """The values of some seconds, added up."""
    lateness = lateness_figures(found.lateness)
    refused = not all_sent(found.sent, found.not_sent)
    latency = latency_figures(found.latency, found.lost, found.lateness, refused=refused)
    return Measured(limit_counts(found), latency, lateness)


def limit_counts(whole: Second) -> dict[str, tuple[int, int]]:
    """The counts that limits can apply to, each with the number that it is a share of."""
    judged = whole.verdicts.total()
    rcodes, answered = whole.rcodes, whole.answered
    bad = sum(count for rcode, count in rcodes.items() if rcode not in (Rcode.NOERROR, Rcode.NXDOMAIN))  # fmt: skip
    found = {
        "loss": (whole.lost, whole.sent),
        "errors": (bad, answered),
        "servfail": (rcodes[Rcode.SERVFAIL], answered),
        "refused": (rcodes[Rcode.REFUSED], answered),
        "nxdomain": (rcodes[Rcode.NXDOMAIN], answered),
        "truncated": (whole.truncated, answered),
    }
    return found | {word: (whole.verdicts[word], judged) for word in VERDICTS}


def with_lookups(measured: Measured, lookups: LookupsReport | None) -> Measured:
    """The values, with those of the lookups of pods added."""
    ends = {} if lookups is None else lookups.whole.ends
    latency = [] if lookups is None else lookups.whole.latency
    counts = {
        f"lookup.{end}": (ends.get(end, 0), sum(ends.values())) for end in (FAILED, UNFINISHED)
    }
    figures = [
        Figure(percent, each.us, each.why) for percent, each in zip(PERCENTS, latency, strict=False)
    ]
    return measured._replace(counts={**measured.counts, **counts}, lookups=figures)
