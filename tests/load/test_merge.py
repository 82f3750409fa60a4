from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hsdns.load.counters import Lookup
from hsdns.load.errors import LoadError
from hsdns.load.limits import read_limits
from hsdns.load.merge import merge
from hsdns.load.outcome import LOST, NOT_SENT
from hsdns.load.questions import Question
from hsdns.load.report import Report, Run, encode, make_report, read_report
from hsdns.load.results import PropagationReport, Results
from hsdns.load.schedule import SECOND
from hsdns.load.verify.judge import AHEAD, BEHIND, RIGHT, STALE, UNDECIDED, WRONG, Verdict
from hsdns.load.verify.verifier import Judged
from hsdns.wire.iana import RRType
from hsdns.wire.name import Name
from tests.load.test_report import MACHINE, PLAN, report, results
from tests.load.test_results import LOOKUPS
from tests.load.verify.test_propagation import shown
from tests.support.effort import tries

BEGIN = 7 * SECOND
NAMES = [Name.from_text("www.a.test."), Name.from_text("b.test.")]
QUESTIONS = [
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
    st.integers(0, len(QUESTIONS) - 1),
    st.sampled_from([0, 2, 3, 11, 15]),
    st.booleans(),
    st.integers(0, 4 * SECOND),
    st.integers(0, SECOND),
    st.sampled_from([LOST, NOT_SENT]) | st.integers(1, 3 * SECOND),
    st.none()
    | st.builds(Verdict, st.just(STALE), AGES)
    | st.builds(Verdict, st.just(UNDECIDED), AGES, st.sampled_from([BEHIND, AHEAD]))
    | st.sampled_from([Verdict(RIGHT), Verdict(WRONG)]),
)


def measured(found: list[Asked], changes: list[float], lookups: list[Lookup]) -> Results:
    """What a generator measures of these queries."""
    whole = Results(QUESTIONS, BEGIN)
    whole.add([outcome for outcome, _ in found])
    for (question, _, _, planned, sent, _), verdict in found:
        if verdict is not None:
            whole.add_verdict(Judged(question, planned / SECOND, sent / SECOND, verdict))
    whole.add_changes(changes)
    for each in lookups:
        whole.lookups.add(each)
    return whole


def reported(whole: Results, part: str = "") -> Report:
    plan = msgspec.structs.replace(PLAN, part=part)
    limits = read_limits(LIMITS, verifies=True)
    run = Run("2026-01-01T00:00:00.000Z", plan, MACHINE, 0.1, limits)
    whole.lasted = 5.0
    return make_report(run, [whole.report()])


@settings(max_examples=tries(20))
@given(
    parts=st.lists(st.tuples(st.lists(ASKED, max_size=8), LOOKUPS), min_size=1, max_size=4),
    changes=st.lists(st.floats(7, 12), max_size=3),
)
def test_merged_is_what_one_generator_would_have_written(
    parts: list[tuple[list[Asked], list[Lookup]]], changes: list[float]
) -> None:
    """Bit for bit, through JSON, in whatever order the reports are given."""
    every = [each for found, _ in parts for each in found]
    whole = reported(measured(every, changes, [each for _, found in parts for each in found]))
    written = [
        encode(reported(measured(found, changes, lookups), f"{at}/{len(parts)}" if len(parts) > 1 else ""))
        for at, (found, lookups) in enumerate(parts)
    ]  # fmt: skip
    merged = merge([(f"r{at}", read_report(each, "r")) for at, each in enumerate(written)][::-1])
    merged = msgspec.structs.replace(merged, generators=1)
    alone = read_report(encode(whole), "r")
    assert merged == alone
    assert encode(merged) == encode(alone)


def with_plan(found: Report, **changes: object) -> Report:
    return msgspec.structs.replace(found, plan=msgspec.structs.replace(found.plan, **changes))


def part(number: int, count: int, found: Results | None = None, **changes: object) -> Report:
    whole = report(found or results(), "stale>0")
    servers = [msgspec.structs.replace(whole.servers[0], **changes)]
    return with_plan(msgspec.structs.replace(whole, servers=servers), part=f"{number}/{count}")


def test_what_is_said_of_generators() -> None:
    other = msgspec.structs.replace(part(1, 2, seconds=3.0), started="2025-12-31T23:59:59.000Z")
    machine = msgspec.structs.replace(MACHINE, system="Darwin", processors=8)
    found = merge([("a", part(0, 2)), ("b", msgspec.structs.replace(other, machine=machine))])
    assert (found.started, found.generators, found.plan.part) == ("2025-12-31T23:59:59.000Z", 2, "")
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
        ([report(results()), report(results(), ended="interrupted")], "r1: interrupted"),
    ],
)
def test_what_is_not_whole(reports: list[Report], ended: str) -> None:
    found = merge([(f"r{at}", msgspec.structs.replace(each, servers=[msgspec.structs.replace(each.servers[0], limits=[])])) for at, each in enumerate(reports)])  # fmt: skip
    assert found.servers[0].ended == ended


def test_a_limit_that_ended_one_generator_is_met() -> None:
    said = "aborted by p50>1s (1.20 s over 5 s)"
    found = merge(
        [
            ("a", with_plan(report(results(), "p50>1s:abort", said), part="0/2")),
            ("b", with_plan(report(results(), "p50>1s:abort"), part="1/2")),
        ]
    )
    assert found.servers[0].ended == f"part 0/2: {said}"
    assert [limit.met for limit in found.servers[0].limits] == [True]


def test_names_of_a_cluster_that_changed_meanwhile() -> None:
    plans = [{"questions": n, "what": f"{n} questions of the cluster: service"} for n in (8, 9)]
    found = merge([(f"r{at}", with_plan(part(at, 2), **plan)) for at, plan in enumerate(plans)])
    assert found.plan.what == "8 questions of the cluster: service"


@pytest.mark.parametrize(
    ("first", "second", "sentence"),
    [
        (part(0, 2), with_plan(part(1, 2), seed=8), "b is of another plan than a, so they cannot be added; the runs differ in seed: a: 127.0.0.1 port 53: 7; b: 127.0.0.1 port 53: 8"),
        (part(0, 2), with_plan(part(1, 2), timeout_ms=1), "b is of another plan than a, so they cannot be added"),
        (part(0, 2), part(0, 2), "part 0/2 is there more than once: a, b"),
        (part(0, 2), part(1, 3), "these are portions of different plans: a: 0/2, b: 1/3"),
        (part(0, 2), report(results(), "stale>0"), "these are portions of different plans: b: all of it, a: 0/2"),
        (part(0, 2), part(1, 2, limits=[]), "b has other limits than a, so they cannot be added: none, not stale>0"),
        (part(0, 2), part(1, 2, name="x"), "b has other servers than a, so they cannot be added: x (127.0.0.1 port 53), not 127.0.0.1 port 53 (127.0.0.1 port 53)"),
        (part(0, 2), part(1, 2, verdicts=None), "b has other slack than a, so they cannot be added: none, not 100 ms"),
    ],
)  # fmt: skip
def test_what_cannot_be_added(first: Report, second: Report, sentence: str) -> None:
    with pytest.raises(LoadError) as error:
        merge([("a", first), ("b", second)])
    assert str(error.value) == sentence


def test_how_changes_showed_is_added() -> None:
    """A change counts for each generator that followed it; one that followed none adds nothing."""
    every = [shown(), shown(None, 0.5, at=101.0), shown(0.3, None, at=102.0)]
    spread = [PropagationReport.of(each, 4) for each in (every[:1], every[1:])]
    parts = [part(at, 3, propagation=each) for at, each in enumerate([*spread, None])]
    (server,) = merge([(f"r{at}", each) for at, each in enumerate(parts)]).servers
    assert server.propagation == PropagationReport.of(every, 8)
    (server,) = merge([("a", part(0, 2)), ("b", part(1, 2))]).servers
    assert server.propagation is None
