from __future__ import annotations

from copy import deepcopy

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hsdns.load.counters import ConnectionsReport, Lookup, add
from hsdns.load.errors import LoadError
from hsdns.load.limits import read_limits
from hsdns.load.merge import merge
from hsdns.load.outcome import LOST, NOT_SENT
from hsdns.load.questions import Question
from hsdns.load.report import FORMAT, Report, encode, read_report
from hsdns.load.results import EventReport, PropagationReport, Results
from hsdns.load.schedule import SECOND
from hsdns.load.verify.judge import AHEAD, BEHIND, RIGHT, STALE, UNDECIDED, WRONG, Verdict
from hsdns.load.verify.verifier import Judged
from hsdns.wire.iana import RRType
from hsdns.wire.name import Name
from tests.load.test_report import MACHINE, PLAN, STARTED, report, results
from tests.load.test_results import CONNECTIONS, LOOKUPS, SHOWN
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


# What a generator measures: its queries, its lookups, its connections, and how changes showed to it.
Part = tuple[list[Asked], list[Lookup], ConnectionsReport, list[EventReport]]
PART: st.SearchStrategy[Part] = st.tuples(st.lists(ASKED, max_size=8), LOOKUPS, CONNECTIONS, SHOWN)


def measured(parts: list[Part], changes: list[float]) -> Results:
    """What one generator would measure of all that."""
    whole, changed = Results(QUESTIONS, BEGIN), []
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
    whole.propagation = PropagationReport.of(changed, len(changed) + len(parts))
    return whole


def reported(whole: Results, part: str = "") -> Report:
    plan = msgspec.structs.replace(PLAN, part=part)
    limits = read_limits(LIMITS, verifies=True)
    whole.lasted = 5.0
    return Report(FORMAT, STARTED, plan, MACHINE, [whole.report()]).finish(0.1, limits)


@settings(max_examples=tries(20))
@given(
    parts=st.lists(PART, min_size=1, max_size=4),
    changes=st.lists(st.floats(7, 12), max_size=3),
)
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


def test_a_generator_that_followed_no_changes_adds_nothing() -> None:
    found = PropagationReport.of([shown()], 1)
    parts = [part(0, 2, propagation=found), part(1, 2, propagation=None)]
    for reports in (parts, [part(0, 2), part(1, 2)]):
        (server,) = merge([(f"r{at}", each) for at, each in enumerate(reports)]).servers
        assert server.propagation == (found if reports is parts else None)
