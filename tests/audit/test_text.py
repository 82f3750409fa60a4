"""The report of an audit as text."""

from __future__ import annotations

from hsdns.audit.report import Finding, lines, what_is_wrong
from hsdns.audit.run import LOST, Result
from hsdns.load.verify.judge import STALE
from tests.audit.test_report import FINE, Given, report


def test_all_is_right() -> None:
    assert lines([report(Given([FINE] * 3))]) == [
        "test: 2 names that exist, 1 that must not, in 1.5 s",
        "10.96.0.10  3 right; p50 1.00 ms, p99 1.00 ms, max 1.00 ms",
    ]


def test_two_servers_of_which_one_lags() -> None:
    lagging = Given([Result(STALE, 3.0, 0.001, 0, 5), FINE, FINE])
    assert lines([report(Given([FINE] * 3), lagging)]) == [
        "test: 2 names that exist, 1 that must not, in 1.5 s",
        "10.96.0.10  3 right; p50 1.00 ms, p99 1.00 ms, max 1.00 ms",
        "10.96.0.11  2 right, 1 stale; p50 1.00 ms, p99 1.00 ms, max 1.00 ms",
        "            behind by 3.0 s at most",
        "            1 of them another server answers right",
        "",
        "10.96.0.11",
        "  a.shop.svc.cluster.local. A: stale by 3.0 s; lacks A 10.0.0.1, A 10.0.0.2",
    ]


def test_a_pass_that_was_interrupted() -> None:
    answers = Given([FINE, Result(LOST), Result(LOST)])
    answers.asked = 1
    assert lines([report(answers, ended="interrupted")])[1] == (
        "NOT WHOLE  interrupted; 2 of them were not asked everywhere"
    )


def test_a_fleet_has_a_table() -> None:
    found = lines([report(Given([FINE] * 3)), report(Given([FINE, Result(LOST), FINE]))])
    assert found[-3:] == [
        "cluster  server      names  not right  worst age  p99",
        "test     10.96.0.10  2      0          -          1.00 ms",
        "test     10.96.0.10  2      1          -          lost",
    ]


def test_many_records_are_cut() -> None:
    records = [f"A 10.0.0.{at}" for at in range(1, 6)]
    found = Finding("a.", "A", "service", "missing", 0.0, 1.0, "", records)
    assert what_is_wrong(found) == "missing; lacks A 10.0.0.1, A 10.0.0.2, A 10.0.0.3 and 2 more"
