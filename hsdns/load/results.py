"""The measurements of a run: counters that grow while it runs, are written as its report, read again and added.

Path: run.py passes outcomes and verdicts -> here -> report.py, cli/progress.py, limits.py.
Rule 1: a query belongs to the second in which it was due.
Rule 2: latency is measured from when the query was due, lateness from then until it was sent; in microseconds.
Rule 3: a struct has counters, of which add() makes the sum of two runs without loss, and figures, which finish() makes
        from them.  A field that ends with "slots" is a histogram.
Rule 4: the histograms of a second are packed OPEN seconds later, when nearly all of its queries are answered or lost.
Rule 5: a percentile of changes that showed is stated only if there are enough of them for one to be above it: a hundred
        for p99.  Each generator that followed a change counts it, because it may show at different times to each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from hsdns.load.counters import (
    FAILED,
    MICROSECOND,
    UNFINISHED,
    ConnectionsReport,
    Figures,
    LookupsReport,
    MachineTimes,
    add,
    count,
    no_slots,
)
from hsdns.load.histogram import (
    NOTHING,
    PERCENTS,
    Histogram,
    Percentile,
    all_sent,
    latency_figures,
    name_of,
    percentiles,
    service_figures,
    slot_of,
)
from hsdns.load.limits import Measured
from hsdns.load.outcome import (
    DROPPED,
    LATE,
    LATE_COUNT,
    LATE_LOST,
    LATENCY,
    LATENESS,
    LOST_COUNT,
    NOT_SENT,
    NOT_SENT_COUNT,
    OF_KIND,
    RCODE,
    SENT_WITHIN,
    SERVICE,
    TRUNCATED,
    UNMATCHED,
    UNSTAMPED,
    UNSURE,
    WHY_UNMATCHED,
    PlainOutcome,
    unpack_counts,
)
from hsdns.load.questions import Question
from hsdns.load.schedule import SECOND
from hsdns.load.verify.judge import BEHIND, RIGHT, STALE, UNDECIDED, UNJUDGED, VERDICTS, WRONG
from hsdns.load.verify.verifier import Judged
from hsdns.wire.iana import Rcode, rcode_from_text, rcode_to_text, type_to_text
from hsdns.wire.message import TC

OPEN: Final = 10  # seconds
MOST_EVENTS: Final = 2000  # in a report
FEW: Final = "few"
NEVER: Final = "never"
MOST_EPISODES: Final = 1000


def kind_numbers(questions: Iterable[Question]) -> list[int]:
    """The number of each question's kind, in the order of first appearance."""
    numbers: dict[tuple[str, int], int] = {}
    return [numbers.setdefault((each.group, each.qtype), len(numbers)) for each in questions]


class Counts(msgspec.Struct):
    """Counts of queries; `due` includes those that this machine could not send.

    `late` ones, of those sent, left so late that their loss may be due to the sender; `late_lost` are those lost.
    `unknown` ones were lost in or beside a second with late queries or dropped replies, so they may be the sender's.
    """

    due: int = 0
    sent: int = 0
    not_sent: int = 0
    answered: int = 0
    lost: int = 0
    truncated: int = 0
    late: int = 0
    late_lost: int = 0
    unknown: int = 0
    rcodes: dict[str, int] = {}

    def answer(self, rcode: int, number: int = 1) -> None:
        """Count answers."""
        self.due += number
        self.sent += number
        self.answered += number
        text = _RCODES[rcode]
        self.rcodes[text] = self.rcodes.get(text, 0) + number

    def lose(self, number: int = 1) -> None:
        """Count lost queries."""
        self.due += number
        self.sent += number
        self.lost += number

    def not_send(self, number: int = 1) -> None:
        """Count queries that could not be sent."""
        self.due += number
        self.not_sent += number

    @property
    def undecided(self) -> int:
        """How many queries say nothing certain about the server's latency."""
        return self.late + self.unknown - min(self.late_lost, self.unknown)

    def finish(self) -> None:
        """Put the rcodes in order."""
        self.rcodes = dict(sorted(self.rcodes.items(), key=lambda each: rcode_from_text(each[0])))


_RCODES: Final = [rcode_to_text(rcode) for rcode in range(16)]


class KindReport(msgspec.Struct):
    """Queries of one kind of name and one type; `slots` are the histogram of the latency (docs/load.md)."""

    group: str
    type: str
    counts: Counts = msgspec.field(default_factory=Counts)
    latency: Figures = []
    service: Figures = []
    slots: Histogram = no_slots()
    service_slots: Histogram = no_slots()

    def finish(self, whole: Second, *, withheld: bool) -> None:
        """Make the figures; `whole` is the sum of all seconds, `withheld`: no latency is stated."""
        self.counts.finish()
        late, lost = self.counts.late, self.counts.lost
        unknown = lost if whole.counts.unknown else 0
        given = lost, whole.late_slots, late + unknown
        self.latency = latency_figures(self.slots, *given, withheld=withheld)
        self.service = service_figures(self.service_slots, lost, unknown, withheld=withheld)


class Second(msgspec.Struct):
    """One second of the schedule; `slots`, `service_slots` and `late_slots` are histograms.

    They are those of the latency, of the service time, which runs from the sending to the reply, and of the lateness.
    `unmatched` replies arrived in this second that were none to a query that waited, by reason.  `unstamped` replies
    have the time of their reading, `dropped` datagrams found no room in a socket of the sender, and
    `sent_within_slots` is the histogram of the system calls that sent the queries, in one of which each left.
    """

    second: int = 0
    counts: Counts = msgspec.field(default_factory=Counts)
    latency: Figures = []
    lateness: Figures = []
    verdicts: dict[str, int] = {}
    worst_age_ms: float = 0.0
    changes: int = 0
    unmatched: dict[str, int] = {}
    unstamped: int = 0
    dropped: int = 0
    slots: Histogram = no_slots()
    service_slots: Histogram = no_slots()
    late_slots: Histogram = no_slots()
    sent_within_slots: Histogram = no_slots()
    machine: MachineTimes = msgspec.field(default_factory=MachineTimes)

    def finish(self, *, withheld: bool) -> None:
        """Make the figures; `withheld`: no latency is stated."""
        self.counts.finish()
        given = self.counts.lost, self.late_slots, self.counts.undecided
        self.latency = latency_figures(self.slots, *given, withheld=withheld)
        self.lateness = percentiles(self.late_slots)
        self.verdicts = {word: self.verdicts[word] for word in VERDICTS if self.verdicts.get(word)}
        self.worst_age_ms = round(self.worst_age_ms, 3)


class StaleReport(msgspec.Struct):
    """A name that had stale answers; the time of the first is in seconds after the begin."""

    name: str
    type: str
    count: int = 0
    worst_age_ms: float = 0.0
    first_s: float = float("inf")


class WrongReport(msgspec.Struct):
    """A field that was wrong in answers to a question; the time of the first is in seconds after the begin."""

    field: str
    name: str
    type: str
    count: int = 0
    first_s: float = float("inf")


class EpisodeReport(msgspec.Struct):
    """A time in which answers were stale: from the first change that one lacked to the last query with such an answer.

    In seconds after the begin.  For a frozen server, `since_s` is when it froze.
    """

    since_s: float
    until_s: float
    count: int = 1
    worst_age_ms: float = 0.0


def episodes_of(found: Iterable[EpisodeReport]) -> list[EpisodeReport]:
    """Episodes in order, those that overlap as one; of more than MOST_EPISODES those with the shortest gap are one."""
    made: list[EpisodeReport] = []
    for each in sorted(found, key=lambda each: each.since_s):
        if made and each.since_s <= made[-1].until_s:
            _join(made[-1], each)
        else:
            made.append(each)
    while len(made) > MOST_EPISODES:
        gaps = [
            (after.since_s - each.until_s, at) for at, (each, after) in enumerate(pairwise(made))
        ]
        _, at = min(gaps)
        _join(made[at], made.pop(at + 1))
    return made


def _join(episode: EpisodeReport, other: EpisodeReport) -> None:
    episode.until_s = max(episode.until_s, other.until_s)
    episode.count += other.count
    episode.worst_age_ms = max(episode.worst_age_ms, other.worst_age_ms)


class VerdictReport(msgspec.Struct):
    """Verdicts on the answers, with the ages of stale ones and of those behind by less than the slack.

    `undecided` and `unjudged` are counts by reason.  `stale_names` has all of them, the stalest first; `wrong` has a
    part for each field and question.
    """

    counts: dict[str, int] = {}
    undecided: dict[str, int] = {}
    unjudged: dict[str, int] = {}
    slack_ms: float = 0.0
    changes: int = 0
    stale_age: Figures = []
    behind: Figures = []
    stale_names: list[StaleReport] = []
    stale_slots: Histogram = no_slots()
    behind_slots: Histogram = no_slots()
    episodes: list[EpisodeReport] = []
    wrong: list[WrongReport] = []

    def lack(self, found: EpisodeReport) -> None:
        """Add a stale answer."""
        last = self.episodes[-1] if self.episodes else None
        if last is not None and last.since_s <= found.since_s <= last.until_s:
            _join(last, found)
        else:
            self.episodes = episodes_of([*self.episodes, found])

    def finish(self, whole: Second, slack: float) -> VerdictReport:
        """Make the figures; `whole` is the sum of all seconds, `slack` in seconds."""
        self.counts = {word: whole.verdicts.get(word, 0) for word in VERDICTS}
        self.undecided = dict(sorted(self.undecided.items()))
        self.unjudged = dict(sorted(self.unjudged.items()))
        self.slack_ms, self.changes = slack * 1000, whole.changes
        self.stale_age, self.behind = percentiles(self.stale_slots), percentiles(self.behind_slots)
        for each in self.stale_names:
            each.worst_age_ms, each.first_s = round(each.worst_age_ms, 3), round(each.first_s, 3)
        self.stale_names.sort(key=lambda each: (-each.worst_age_ms, each.name, each.type))
        self.episodes = episodes_of(self.episodes)
        for episode in self.episodes:
            episode.since_s, episode.until_s = round(episode.since_s, 6), round(episode.until_s, 6)
            episode.worst_age_ms = round(episode.worst_age_ms, 3)
        for wrong in self.wrong:
            wrong.first_s = round(wrong.first_s, 3)
        self.wrong.sort(key=lambda each: (each.field, each.first_s, each.name, each.type))
        return self


class EventReport(msgspec.Struct, frozen=True):
    """A change that was followed: when it was written (seconds after the begin), and milliseconds from then on.

    `seen_ms` is when the generator's watch saw it, `first_new_ms` and `last_old_ms` are None for never; `resolution_ms`
    is the time between the probes around the first new answer.
    """

    at_s: float
    name: str
    type: str
    adds: bool
    removes: bool
    seen_ms: float
    first_new_ms: float | None
    last_old_ms: float | None
    resolution_ms: float


class PropagationReport(msgspec.Struct):
    """How long changes took to show; `first_new` for changes that add records, `last_old` for those that remove some.

    `left_out` changes were followed for too short a time to count; `events` is an even selection.  Slots belong to the
    percentiles; changes that never showed are in none.
    """

    followed: int = 0
    left_out: int = 0
    never_new: int = 0
    never_gone: int = 0
    seen: Figures = []
    first_new: Figures = []
    last_old: Figures = []
    resolution: Figures = []
    events: list[EventReport] = []
    seen_slots: Histogram = no_slots()
    first_new_slots: Histogram = no_slots()
    last_old_slots: Histogram = no_slots()
    resolution_slots: Histogram = no_slots()

    @classmethod
    def of(cls, events: Iterable[EventReport], followed: int) -> PropagationReport:
        """The report of the `events` that count, of `followed` changes."""
        found = cls(followed, events=list(events))
        found.left_out = followed - len(found.events)
        for each in found.events:
            _record(found.seen_slots, each.seen_ms)
            if each.adds:
                found.never_new += _record(found.first_new_slots, each.first_new_ms)
            if each.removes:
                found.never_gone += _record(found.last_old_slots, each.last_old_ms)
            if each.first_new_ms is not None:
                _record(found.resolution_slots, each.resolution_ms)
        return found.finish()

    def finish(self) -> PropagationReport:
        """Make the figures, and select events in an order that does not depend on which generator followed them."""
        self.seen = _rare(self.seen_slots)
        self.first_new = _rare(self.first_new_slots, self.never_new)
        self.last_old = _rare(self.last_old_slots, self.never_gone)
        self.resolution = _rare(self.resolution_slots)
        events = sorted(self.events, key=lambda each: (each.at_s, msgspec.json.encode(each)))
        self.events = events[:: -(-len(events) // MOST_EVENTS) or 1]
        return self


def _record(histogram: Histogram, ms: float | None) -> int:
    """Record a time; return 1 if it is None, for never."""
    if ms is None:
        return 1
    histogram.record(round(ms * 1000))
    return 0


def _rare(histogram: Histogram, never: int = 0) -> Figures:
    """Percentiles of few values; `never` more changes are slower than any."""
    whole, figures = histogram.total + never, []
    for percent, us in zip(PERCENTS, histogram.percentiles(PERCENTS, never), strict=True):
        if percent < 100 and round(whole * (100 - percent), 6) < 100:
            figures.append(Percentile(name_of(percent), None, FEW))
        else:
            why = "" if us is not None else NEVER if never else NOTHING
            figures.append(Percentile(name_of(percent), us, why))
    return figures


class LimitReport(msgspec.Struct, frozen=True):
    """A limit of -fail-if; `met` is None if it could not be evaluated.

    Its value is a percentile, with `us` None if there is none, or a `count` out of a `whole`, or the `rate` of the
    knee; if that was not found, the rate at which limits held or broke that decides the limit.  `at_most` is the upper
    bound of a percentile that is withheld, or of a count of which some are of unknown cause.
    """

    limit: str
    met: bool | None
    us: int | None = None
    count: int | None = None
    whole: int | None = None
    rate: float | None = None
    at_most: int | None = None


class ServerReport(msgspec.Struct):
    """What was measured of one server.

    `ended` is "" if its run is complete, else what ended it; `withheld` is why some figures are withheld.  `notes` are
    sentences about what makes the figures mean something else.
    """

    name: str
    target: str
    ended: str
    seconds: float
    counts: Counts
    latency: Figures
    lateness: Figures
    withheld: str
    kinds: list[KindReport]
    verdicts: VerdictReport | None
    propagation: PropagationReport | None
    limits: list[LimitReport]
    per_second: list[Second]
    connections: ConnectionsReport | None = None
    lookups: LookupsReport | None = None  # lookups by pods
    service: Figures = []
    machine: MachineTimes = msgspec.field(default_factory=MachineTimes)
    notes: list[str] = []


class Results:
    """The measurements of a server's run that began at `begin`, nanoseconds of the monotonic clock.

    `server` has what is not counted second by second, or kind by kind.
    """

    def __init__(
        self, questions: Sequence[Question], begin: int, name: str = "", target: str = ""
    ) -> None:
        self.questions = list(questions)
        self.begin = begin
        self.seconds: dict[int, Second] = {}
        self.kinds: dict[tuple[str, int], KindReport] = {}
        verdicts, streams, lookups = VerdictReport(), ConnectionsReport(), LookupsReport()
        self.verdicts, self.connections, self.lookups = verdicts, streams, lookups  # of pods
        self.server = ServerReport(
            name,
            target,
            "",
            0.0,
            Counts(),
            [],
            [],
            "",
            [],
            verdicts,
            None,
            [],
            [],
            streams,
            lookups,
        )
        self.stale: dict[tuple[str, str], StaleReport] = {}  # by name and type
        self.wrong: dict[tuple[str, str, str], WrongReport] = {}  # by field, name and type
        self._kinds = [self.kind(each.group, each.qtype) for each in questions]
        self._numbered = list(self.kinds.values())  # in the order of kind_numbers()

    def kind(self, group: str, qtype: int) -> KindReport:
        """The counts of a kind of question."""
        return self.kinds.setdefault((group, qtype), KindReport(group, type_to_text(qtype)))

    def add_question(self, question: Question) -> None:
        """Add a question; its number is the next one."""
        self.questions.append(question)
        self._kinds.append(self.kind(question.group, question.qtype))

    def second(self, number: int) -> Second:
        """The counts of a second of the schedule."""
        found = self.seconds.get(number)
        if found is None:
            found = self.seconds[number] = Second(number)
            if over := self.seconds.get(number - OPEN):
                for slots in (
                    over.slots,
                    over.service_slots,
                    over.late_slots,
                    over.sent_within_slots,
                ):
                    slots.pack()
        return found

    def add(self, found: Iterable[PlainOutcome]) -> None:
        """Count outcomes."""
        begin, kinds = self.begin, self._kinds
        for question, flags, _, planned, sent, received in found:
            second, kind = self.second((planned - begin) // SECOND), kinds[question]
            if received == NOT_SENT:
                second.counts.not_send()
                kind.counts.not_send()
                continue
            second.late_slots.slots[slot_of((sent - planned) // MICROSECOND)] += 1
            if flags & LATE:
                for each in (second, kind):
                    each.counts.late += 1
                    each.counts.late_lost += received <= 0
            if received <= 0:
                second.counts.lose()
                kind.counts.lose()
                continue
            slot = slot_of((received - planned) // MICROSECOND)
            service = slot_of((received - sent) // MICROSECOND)
            for each in (second, kind):
                each.counts.answer(flags & 15)
                each.slots.slots[slot] += 1
                if not flags & UNSURE:
                    each.service_slots.slots[service] += 1
                if flags & TC:
                    each.counts.truncated += 1

    def add_counts(self, octets: bytes) -> None:
        """Add the counts of the compiled sender; kinds are numbered as in kind_numbers()."""
        for what, number, value, counted in unpack_counts(octets):
            part = self._numbered[number] if what >= OF_KIND else self.second(number)
            what %= OF_KIND
            if what == LATENCY:
                part.slots.slots[value] += counted
            elif what == SERVICE:
                part.service_slots.slots[value] += counted
            elif what == LATENESS and isinstance(part, Second):
                part.late_slots.slots[value] += counted
            elif what == RCODE:
                part.counts.answer(value, counted)
            elif what == LOST_COUNT:
                part.counts.lose(counted)
            elif what == NOT_SENT_COUNT:
                part.counts.not_send(counted)
            elif what == TRUNCATED:
                part.counts.truncated += counted
            elif what == LATE_COUNT:
                part.counts.late += counted
            elif what == LATE_LOST:
                part.counts.late_lost += counted
            elif isinstance(part, Second):
                if what == UNMATCHED:
                    count(part.unmatched, WHY_UNMATCHED[value], counted)
                elif what == UNSTAMPED:
                    part.unstamped += counted
                elif what == SENT_WITHIN:
                    part.sent_within_slots.slots[value] += counted
                elif what == DROPPED:
                    part.dropped += counted

    def add_right(self, planned: Iterable[int]) -> None:
        """Count right answers; `planned` are the due times of their queries, in nanoseconds of the monotonic clock."""
        begin = self.begin
        for number, found in Counter([(each - begin) // SECOND for each in planned]).items():
            count(self.second(number).verdicts, RIGHT, found)

    def add_verdict(self, judged: Judged) -> None:
        """Count a verdict."""
        second = self.second((round(judged.planned * SECOND) - self.begin) // SECOND)
        word, age, reason = judged.verdict
        count(second.verdicts, word)
        if word in (UNDECIDED, UNJUDGED):
            count(self.verdicts.undecided if word == UNDECIDED else self.verdicts.unjudged, reason)
            if reason == BEHIND:
                self.verdicts.behind_slots.record(round(age * 1e6))
        elif word in (STALE, WRONG):
            asked = judged.asked - self.begin / SECOND
            question = self.questions[judged.question]
            key = question.name.to_text(), type_to_text(question.qtype)
            if word == WRONG:
                named = (reason, *key)
                add(
                    self.wrong.setdefault(named, WrongReport(*named)), WrongReport(*named, 1, asked)
                )
                return
            self.verdicts.stale_slots.record(round(age * 1e6))
            second.worst_age_ms = max(second.worst_age_ms, age * 1000)
            add(
                self.stale.setdefault(key, StaleReport(*key)),
                StaleReport(*key, 1, age * 1000, asked),
            )
            self.verdicts.lack(EpisodeReport(asked - age, asked, 1, age * 1000))

    def add_changes(self, times: Iterable[float]) -> None:
        """Count changes of the cluster, at times in monotonic seconds; those before the run are ignored."""
        for time in times:
            number = (round(time * SECOND) - self.begin) // SECOND
            if number >= 0:
                self.second(number).changes += 1

    def whole(self) -> Second:
        """The sum of all seconds."""
        mark_unknown(self.seconds.values())
        return together(self.seconds.values())

    def report(self) -> ServerReport:
        """The counters; Report.finish() makes the figures."""
        self.verdicts.stale_names, self.verdicts.wrong = (
            [*self.stale.values()],
            [*self.wrong.values()],
        )
        self.server.kinds, self.server.per_second = [*self.kinds.values()], [*self.seconds.values()]
        return self.server


def mark_unknown(seconds: Collection[Second]) -> None:
    """Set how many losses of each second may be the sender's.

    A query that comes at another time than planned makes a queue of bounded length drop at most one more, and a reply
    for which the sender had no room is one loss.  So no more are unknown than both in and beside the second.
    """
    doubted = {each.second: each.counts.late + each.dropped for each in seconds}
    for each in seconds:
        near = sum(doubted.get(each.second + step, 0) for step in (-1, 0, 1))
        each.counts.unknown = min(each.counts.lost, near)


def together(seconds: Iterable[Second]) -> Second:
    """The sum of some seconds."""
    found = Second()
    for each in seconds:
        add(found, each)
    return found


def without_histograms(seconds: Iterable[Second]) -> Second:
    """The counts and verdicts of some seconds."""
    found = Second()
    for each in list(seconds):
        add(found.counts, each.counts)
        found.worst_age_ms = max(found.worst_age_ms, each.worst_age_ms)
        for own, other in ((found.verdicts, each.verdicts), (found.unmatched, each.unmatched)):
            for word, number in other.items():
                count(own, word, number)
    found.counts.finish()
    return found


def measured_of(found: Second) -> Measured:
    """The values that limits apply to, of some seconds added up."""
    counts = found.counts
    withheld = not all_sent(counts.sent, counts.not_sent)
    given = counts.lost, found.late_slots, counts.undecided
    latency = latency_figures(found.slots, *given, withheld=withheld)
    service = service_figures(found.service_slots, counts.lost, counts.unknown, withheld=withheld)
    late = percentiles(found.late_slots)
    return Measured(limit_counts(found), latency, late, service=service, unknown=counts.unknown)


def limit_counts(whole: Second) -> dict[str, tuple[int, int]]:
    """The counts that limits can apply to, each with the number that it is a share of."""
    counts, verdicts = whole.counts, whole.verdicts
    every, unmatched = sum(verdicts.values()), sum(whole.unmatched.values())
    judged = every - verdicts.get(UNJUDGED, 0)
    rcodes, answered = counts.rcodes, counts.answered
    good = (rcode_to_text(Rcode.NOERROR), rcode_to_text(Rcode.NXDOMAIN))
    found = {
        "loss": (counts.lost, counts.sent),
        "errors": (sum(number for rcode, number in rcodes.items() if rcode not in good), answered),
        "truncated": (counts.truncated, answered),
        "unmatched": (unmatched, answered + unmatched),
    }
    for rcode in (Rcode.SERVFAIL, Rcode.REFUSED, Rcode.NXDOMAIN):
        text = rcode_to_text(rcode)
        found[text.lower()] = rcodes.get(text, 0), answered
    found |= {word: (verdicts.get(word, 0), judged) for word in VERDICTS}
    return found | {UNJUDGED: (verdicts.get(UNJUDGED, 0), every)}


def with_lookups(measured: Measured, lookups: LookupsReport | None) -> Measured:
    """The values, with those of the lookups of pods added."""
    ends = {} if lookups is None else lookups.whole.ends
    counts = {
        f"lookup.{end}": (ends.get(end, 0), sum(ends.values())) for end in (FAILED, UNFINISHED)
    }
    figures = [] if lookups is None else lookups.whole.latency
    return measured._replace(counts={**measured.counts, **counts}, lookups=figures)
