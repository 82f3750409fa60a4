"""What is counted of a run, a report of it as values and as text, and that counters of two runs add up to those of one."""

from __future__ import annotations

import gc
import json
import sys
from copy import deepcopy
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hsdns.load.counters import (
    CLOSED,
    ENDS,
    FAILED,
    FOUND,
    MOST_REASONS,
    NONE,
    OTHERS,
    RESET,
    UNFINISHED,
    ConnectionsReport,
    Lookup,
    LookupsReport,
    add,
    count,
)
from hsdns.load.errors import LoadError
from hsdns.load.generators.merge import merge
from hsdns.load.histogram import Histogram, Percentile
from hsdns.load.limits import read_limits
from hsdns.load.outcome import LOST, NO_REPLY, NOT_SENT, OTHER_QUESTION, UNMATCHED, pack_counts
from hsdns.load.output.words import together_words
from hsdns.load.pods import FORMS
from hsdns.load.questions import Question
from hsdns.load.report import (
    FORMAT,
    ClockReport,
    KneeReport,
    Machine,
    PlanReport,
    Report,
    encode,
    exit_status,
    read_report,
)
from hsdns.load.results import (
    OPEN,
    EpisodeReport,
    EventReport,
    PropagationReport,
    Results,
    ServerReport,
    VerdictReport,
    episodes_of,
)
from hsdns.load.schedule import SECOND, Stage
from hsdns.load.verify.judge import (
    AHEAD,
    BEHIND,
    RIGHT,
    STALE,
    UNDECIDED,
    UNJUDGED,
    UNKNOWN,
    WRONG,
    Verdict,
)
from hsdns.load.verify.verifier import Judged
from hsdns.resolver import MODELS
from hsdns.wire.iana import RRType
from hsdns.wire.name import Name
from tests.load.verify.test_follow import shown
from tests.support.effort import tries
from tests.support.tables import columns

TABLES = Path(__file__).with_name("tables.txt")
BEGIN = 7 * SECOND
MS = SECOND // 1000
NAME = Name.from_text("www.a.test.")
QUESTIONS = [Question(NAME, RRType.A, "service"), Question(NAME, RRType.SRV, "srv")]
COUNT = st.integers(0, 65_535)
TIME = st.integers(0, 10**12)
REASONS = st.dictionaries(st.sampled_from(["", CLOSED, "x"]), st.integers(1, 9))
CONNECTIONS = st.builds(
    ConnectionsReport, opened=st.integers(1, 65_535), most_open=COUNT, not_opened=REASONS, ended=REASONS, without_answer=REASONS,
    asked_again=COUNT, late=COUNT, fell=COUNT, slots=st.lists(st.tuples(st.integers(0, 99), st.integers(1, 99)), max_size=3).map(Histogram),
)  # fmt: skip
LOOKUPS = st.lists(
    st.builds(
        lambda *counts: Lookup(*counts[:8], *(counts[7] + each for each in counts[8:])),
        st.sampled_from(list(MODELS)), st.sampled_from(list(FORMS)), st.sampled_from(ENDS),
        COUNT, COUNT, COUNT, COUNT, TIME, TIME, TIME,
    ),
    max_size=8,
)  # fmt: skip
SHOWN = st.lists(
    st.builds(
        shown, st.none() | st.floats(0, 70), st.none() | st.floats(0, 70),
        adds=st.booleans(), removes=st.booleans(), at=st.sampled_from([100.5, 101.0, 200.25]),
    ),
    max_size=8,
)  # fmt: skip
# Lookups that ended in each of the ways.
FINISHED = Lookup("glibc", "name", FOUND, 4, 2, 0, 0, 0, 50_000, 3 * MS)
LOOKED_UP = [
    FINISHED,
    msgspec.structs.replace(
        FINISHED, resolver="go", form="full", end=NONE, queries=8, wasted=8, over_tcp=2
    ),
    msgspec.structs.replace(FINISHED, end=UNFINISHED, again=3),
    msgspec.structs.replace(FINISHED, end=FAILED),
]


def lookups(*found: Lookup) -> LookupsReport:
    counted = LookupsReport()
    for each in found:
        counted.add(each)
    return counted


def stated(found: LookupsReport, lateness: Histogram | None = None) -> LookupsReport:
    report = found.finish(lateness or Histogram(), withheld=False)
    assert report is not None
    return report


def octets(found: Histogram) -> int:
    objects = {id(each): each for each in gc.get_referents(found) if not isinstance(each, type)}
    inner = {
        id(each): each for each in gc.get_referents(*objects.values()) if not isinstance(each, type)
    }
    return sum(map(sys.getsizeof, (objects | inner).values()))


def test_histograms_of_old_seconds_take_little_memory() -> None:
    results = Results(QUESTIONS, BEGIN)
    for number in range(2 * OPEN):
        each = results.second(number)
        each.slots.slots.update(range(1000))
        each.late_slots.slots.update(range(100))
    sizes = [octets(each.slots) + octets(each.late_slots) for each in results.seconds.values()]
    assert max(sizes[:OPEN]) < 1100 * 8 + 1000 < min(sizes[OPEN:]) / 4, sizes
    results.second(0).slots.slots[7] += 1  # of a query that was answered late
    assert results.whole().slots.slots[7] == 2 * OPEN + 1


@pytest.mark.parametrize("begin", [7 * SECOND, 123_456_789_012_345, 10**15 + 1])
def test_what_is_asked_at_the_begin_of_a_second_belongs_to_it(begin: int) -> None:
    """Though the seconds of the clock are not exact: they are rounded to nanoseconds."""
    results = Results(QUESTIONS, begin)
    for number in range(100):
        planned = (begin + number * SECOND) / SECOND
        results.add_verdict(Judged(0, planned, planned, Verdict(RIGHT)))
    results.add_changes([(begin + number * SECOND) / SECOND for number in range(100)])
    found = {
        number: (each.verdicts[RIGHT], each.changes) for number, each in results.seconds.items()
    }
    assert found == dict.fromkeys(range(100), (1, 1))


def test_connections() -> None:
    found = ConnectionsReport()
    for nanoseconds in (1_500_000, 2_500_000, 2_500_000):
        found.open_after(nanoseconds)
    count(found.ended, RESET, 2)
    found.open_after(2_500_000)
    for why in ("a", "b", "b"):
        count(found.not_opened, why)
    assert found.finish() is found
    assert (found.opened, found.open, found.most_open) == (4, 2, 3)
    assert found.setup[0] == Percentile("p50", 2501)  # the highest of its slot
    assert (list(found.not_opened.items()), found.ended) == ([("b", 2), ("a", 1)], {RESET: 2})
    assert ConnectionsReport().finish() is None


def test_reasons_are_bounded() -> None:
    found = ConnectionsReport()
    for at in range(MOST_REASONS + 5):
        count(found.without_answer, f"HTTP status {at}")
    assert len(found.without_answer) == MOST_REASONS + 1
    assert found.without_answer[OTHERS] == 5


# --- reports ---

SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "load.schema.json"
WEB = Name.from_text("web.shop.svc.cluster.local.")
TARGET = "127.0.0.1 port 53"
PLAN = PlanReport(
    "UDP", [Stage(2, 100, 100)], "even", 1, 7, 4, 2000, 2, "2 questions", 0, 10
)  # fmt: skip
STARTED = "2026-01-01T00:00:00.000Z"
MACHINE = Machine("1.0", "3.11.2", "Linux", 2, "rust")


def results(*, lost: int = 0, late: int = 0, stale: bool = False) -> Results:
    kinds = (RRType.A, "service"), (RRType.SRV, "srv"), (RRType.AAAA, "never asked")
    found = Results([Question(WEB, *kind) for kind in kinds], 0)
    for number in range(200):
        planned = number * 10 * MS
        received = LOST if number < lost else planned + late * MS + 1 * MS
        found.add([(number % 2, 0x8400, 0, planned, planned + late * MS, received)])
        verdict = Verdict(RIGHT)
        if stale and number >= 190:
            verdict = Verdict(STALE, (number - 189) / 10)
        elif stale and number == 0:
            verdict = Verdict(UNDECIDED, 0.01, BEHIND)
        elif stale and number < 4:
            verdict = (
                Verdict(WRONG, reason="owner") if number % 2 else Verdict(UNJUDGED, reason=UNKNOWN)
            )
        found.add_verdict(Judged(number % 2, planned / SECOND, planned / SECOND, verdict))
    if stale:
        unmatched = pack_counts([(UNMATCHED, 1, OTHER_QUESTION, 2), (UNMATCHED, 1, NO_REPLY, 1)])
        found.add_counts(unmatched)
    found.add_changes([0.5, 1.5])
    return found


def report(
    found: Results,
    limits: str = "",
    ended: str = "",
    slack: float | None = 0.1,
    propagation: PropagationReport | None = None,
    **more: Results,
) -> Report:
    """A report of a server, and of more that have names."""
    read = read_limits(limits, verifies=True) if limits else []
    found.server.ended, found.server.propagation = ended, propagation
    servers = [
        named(each, name, f"127.0.0.{at} port 53")
        for at, (name, each) in enumerate({TARGET: found, **more}.items(), 1)
    ]
    return Report(FORMAT, STARTED, PLAN, MACHINE, servers).finish(slack, read)


def named(found: Results, name: str = "a", target: str = "a") -> ServerReport:
    found.server.name, found.server.target, found.server.seconds = name, target, 2.0
    return found.report()


@pytest.mark.parametrize(("limits", "status"), [("", 0), ("stale>0", 0), ("p50>5ms", 2), ("p50>5ms,right>0", 1), ("p50>7ms", 0)])  # fmt: skip
def test_a_generator_that_was_the_limit(limits: str, status: int) -> None:
    whole = report(results(late=5), limits)
    (found,) = whole.servers
    assert {each.why for each in found.latency} == {"generator"}
    assert found.withheld.startswith("the generator was the limit: it was late by 5.00 ms at p50; ")
    assert exit_status(whole) == status


@pytest.mark.parametrize(("given", "expected"), columns(TABLES, "stale answers, from the change that each lacked to its query => when answers were stale, and how many"))  # fmt: skip
def test_episodes(given: str, expected: str) -> None:
    found = VerdictReport()
    for each in given.split():
        since, until = map(float, each.split("-"))
        found.lack(EpisodeReport(since, until, 1, (until - since) * 1000))
    told = [f"{each.since_s:g}-{each.until_s:g} {each.count}" for each in found.episodes]
    assert ", ".join(told) == expected
    assert found.episodes == episodes_of(deepcopy(found.episodes))


@pytest.mark.parametrize(("given", "expected"), columns(TABLES, "limits on the knee: found, held at and broken at => met or not, the rate that decides, and the status"))  # fmt: skip
def test_a_limit_on_the_knee(given: str, expected: str) -> None:
    is_found, *rates = given.split()
    held, broken = (None if each == "none" else float(each) for each in rates or ("none", "none"))
    knee = KneeReport(is_found == "yes", held, broken, "", [], []) if rates else None
    limits = read_limits("knee<5000", verifies=False, finds_knee=True)
    found = Report(FORMAT, STARTED, PLAN, MACHINE, [named(results())], knee=knee)
    found.finish(None, limits)
    (limit,) = found.servers[0].limits
    words = {True: "yes", False: "no", None: "none"}[limit.met], "none" if limit.rate is None else f"{limit.rate:g}"  # fmt: skip
    assert (found.knee, limit.limit) == (knee, "knee<5000")
    assert f"{' '.join(words)} {exit_status(found)}" == expected


def test_schema() -> None:
    """docs/load.schema.json is what the report is written by; print it anew if it is not."""
    schema = msgspec.json.schema(
        Report, schema_hook=lambda kind: msgspec.json.schema(list[tuple[int, int]])
    )
    for each in schema["$defs"].values():
        each["required"] = list(each["properties"])  # all is written
    assert json.loads(SCHEMA.read_text()) == json.loads(json.dumps(schema))


@pytest.mark.parametrize(("given", "status"), columns(TABLES, "limits and why a run has ended => the exit status"))  # fmt: skip
def test_limits_apply_to_each_server(given: str, status: str) -> None:
    limits, ended = given.strip().split("|")
    whole = report(results(), limits.strip(), ended.strip(), frozen=results(stale=True))
    assert [each.name for each in whole.servers] == [TARGET, "frozen"]
    if limits.strip() == "stale>0":
        assert [each.limits[0].met for each in whole.servers] == [False, True]
    assert exit_status(whole) == int(status)


# --- reports that are added up ---

NAMES = [Name.from_text("www.a.test."), Name.from_text("b.test.")]
ASKED_OF = [
    Question(NAMES[0], RRType.A, "service"),
    Question(NAMES[0], RRType.SRV, "srv"),
    Question(NAMES[1], 65_280, "service"),
    Question(NAMES[0], RRType.A, "service"),  # the first one again
]
LIMITS = "p99>5ms,late.p50>1ms,loss>0.1%,stale>0,servfail>1%:abort"
Outcome = tuple[int, int, int, int, int, int]
Asked = tuple[Outcome, Verdict | None]  # and what the answer was judged to be


def asked(
    question: int, rcode: int, truncated: bool, planned: int, late: int, took: int, verdict: Verdict | None
) -> Asked:  # fmt: skip
    due = BEGIN + planned
    received = took if took <= 0 else due + late + took
    outcome = (question, 0x8400 | rcode | 0x200 * truncated, 0, due, due + late, received)
    return outcome, verdict if took > 0 else None


AGES = st.floats(0, 100)
ASKED = st.builds(
    asked,
    st.integers(0, len(ASKED_OF) - 1),
    st.sampled_from([0, 2, 3, 11, 15]),
    st.booleans(),
    st.integers(0, 4 * SECOND),
    st.integers(0, SECOND),
    st.sampled_from([LOST, NOT_SENT]) | st.integers(1, 3 * SECOND),
    st.none()
    | st.builds(Verdict, st.just(STALE), AGES)
    | st.builds(Verdict, st.just(UNDECIDED), AGES, st.sampled_from([BEHIND, AHEAD]))
    | st.sampled_from(
        [Verdict(RIGHT), Verdict(WRONG, reason="ttl"), Verdict(UNJUDGED, reason=UNKNOWN)]
    ),
)


# What a generator measures: its queries, its lookups, its connections, and how changes showed to it.
Part = tuple[list[Asked], list[Lookup], ConnectionsReport, list[EventReport]]
PART: st.SearchStrategy[Part] = st.tuples(st.lists(ASKED, max_size=8), LOOKUPS, CONNECTIONS, SHOWN)


def measured(parts: list[Part], changes: list[float]) -> Results:
    """What one generator would measure of all that."""
    whole, changed = Results(ASKED_OF, BEGIN), []
    for found, lookups, connections, shown_ in parts:
        whole.add([outcome for outcome, _ in found])
        for (question, _, _, planned, sent, _), verdict in found:
            if verdict is not None:
                whole.add_verdict(Judged(question, planned / SECOND, sent / SECOND, verdict))
        for each in lookups:
            whole.lookups.add(each)
        add(whole.connections, deepcopy(connections))
        changed += shown_
    whole.add_changes(changes)
    whole.server.propagation = PropagationReport.of(changed, len(changed) + len(parts))
    return whole


def reported(whole: Results, part: str = "") -> Report:
    plan = msgspec.structs.replace(PLAN, part=part)
    limits = read_limits(LIMITS, verifies=True)
    whole.server.seconds = 5.0
    return Report(FORMAT, STARTED, plan, MACHINE, [whole.report()]).finish(0.1, limits)


@settings(max_examples=tries(20))
@given(parts=st.lists(PART, min_size=1, max_size=4), changes=st.lists(st.floats(7, 12), max_size=3))
def test_merged_is_what_one_generator_would_have_written(parts: list[Part], changes: list[float]) -> None:  # fmt: skip
    """Bit for bit, through JSON, in whatever order the reports are given; but most_open is only a bound."""
    count = len(parts)
    written = [
        encode(reported(measured([part], changes), f"{at}/{count}" if count > 1 else ""))
        for at, part in enumerate(parts)
    ]
    merged = merge([(f"r{at}", read_report(each, "r")) for at, each in enumerate(written)][::-1])
    merged = msgspec.structs.replace(merged, generators=1)
    alone = read_report(encode(reported(measured(parts, changes))), "r")
    assert merged == alone
    assert encode(merged) == encode(alone)


def with_plan(found: Report, **changes: object) -> Report:
    return msgspec.structs.replace(found, plan=msgspec.structs.replace(found.plan, **changes))


def part(number: int, count: int, found: Results | None = None, **changes: object) -> Report:
    whole = report(found or results(), "stale>0")
    servers = [msgspec.structs.replace(whole.servers[0], **changes)]
    clocks = [ClockReport(f"{number}/{count}", -1500 * number, 20 + number)]
    made = msgspec.structs.replace(whole, servers=servers, digest="d", clocks=clocks)
    return with_plan(made, part=f"{number}/{count}")


def test_what_is_said_of_generators() -> None:
    other = part(1, 2, seconds=3.0)
    machine = msgspec.structs.replace(MACHINE, system="Darwin", processors=8)
    found = merge([("a", part(0, 2)), ("b", msgspec.structs.replace(other, machine=machine))])
    assert (found.started, found.generators, found.plan.part, found.digest) == (STARTED, 2, "", "d")
    assert [each.within_us for each in found.clocks] == [20, 21]
    assert together_words(found) == (
        ", by 2 generators, begun within 41 us of each other, clocks up to 1.50 ms apart from the first one's"
    )
    assert (found.machine.system, found.machine.processors) == ("Linux, Darwin", 8)
    (server,) = found.servers
    assert (server.counts.sent, server.seconds, server.ended) == (400, 3.0, "")
    assert server.verdicts is not None
    assert server.verdicts.changes == 2, "both saw the same"


@pytest.mark.parametrize(
    ("reports", "ended"),
    [
        ([part(0, 4), part(2, 4)], "missing: part 1/4, 3/4"),
        ([part(0, 2), part(1, 2, ended="interrupted")], "part 1/2: interrupted"),
        ([part(0, 3), part(1, 3, ended="interrupted")], "part 1/3: interrupted; missing: part 2/3"),
        ([report(results(), ended="interrupted")], "interrupted"),
    ],
)
def test_what_is_not_whole(reports: list[Report], ended: str) -> None:
    found = merge([(f"r{at}", msgspec.structs.replace(each, servers=[msgspec.structs.replace(each.servers[0], limits=[])])) for at, each in enumerate(reports)])  # fmt: skip
    assert found.servers[0].ended == ended


def test_names_of_a_cluster_that_changed_meanwhile() -> None:
    plans = [{"questions": n, "what": f"{n} questions of the cluster: service"} for n in (8, 9)]
    found = merge([(f"r{at}", with_plan(part(at, 2), **plan)) for at, plan in enumerate(plans)])
    assert found.plan.what == "8 questions of the cluster: service"


@pytest.mark.parametrize(
    ("first", "second", "sentence"),
    [
        (part(0, 2), msgspec.structs.replace(with_plan(part(1, 2), seed=8), digest="e"), "b is of another plan than a, so they cannot be added; the runs differ in seed: a: 127.0.0.1 port 53: 7; b: 127.0.0.1 port 53: 8"),
        (part(0, 2), msgspec.structs.replace(part(1, 2), digest="e"), "b is of another plan than a, so they cannot be added"),
        (part(0, 2), part(0, 2), "part 0/2 is there more than once: a, b"),
        (part(0, 2), part(1, 3), "these are portions of different plans: a: 0/2, b: 1/3"),
        (part(0, 2), with_plan(part(1, 2), part=""), "these are portions of different plans: b: all of it, a: 0/2"),
        (part(0, 2), msgspec.structs.replace(part(1, 2), started="2026-01-01T13:00:00.000Z"), f"b began at 2026-01-01T13:00:00.000Z, and a at {STARTED}, so they are not portions of one run; generators that meet at --coordinate begin together"),
        (report(results()), report(results()), "part 0/1 is there more than once: a, b"),
    ],
)  # fmt: skip
def test_what_cannot_be_added(first: Report, second: Report, sentence: str) -> None:
    with pytest.raises(LoadError) as error:
        merge([("a", first), ("b", second)])
    assert str(error.value) == sentence


def test_a_generator_that_followed_no_changes_adds_nothing() -> None:
    found = PropagationReport.of([shown()], 1)
    parts = [part(0, 2, propagation=found), part(1, 2, propagation=None)]
    for reports in (parts, [part(0, 2), part(1, 2)]):
        (server,) = merge([(f"r{at}", each) for at, each in enumerate(reports)]).servers
        assert server.propagation == (found if reports is parts else None)
