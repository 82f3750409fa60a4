from __future__ import annotations

import msgspec
import pytest

from hsdns.load.histogram import Percentile, us_to_text
from hsdns.load.output.text import compared_lines, lines, lookup_lines
from hsdns.load.output.words import (
    age,
    arrival,
    comparison,
    differences,
    duration,
    limited,
    percentiles,
    share,
    shown,
    shown_together,
    since_begin,
)
from hsdns.load.report import LimitReport
from hsdns.load.verify.propagation import propagation_report
from tests.load.test_report import report, results
from tests.load.test_results import LOOKED_UP, lookups, stated
from tests.load.verify.test_propagation import QUESTIONS
from tests.load.verify.test_propagation import shown as followed

WHOLE = """\
127.0.0.1 port 53 over UDP, 2 questions
plan       100/s for 2 s, even, seed 7
queries    200 due, 200 sent, 198 answered, 2 (1.000%) lost
answers    NOERROR 198
latency    p50 1.00 ms  p90 1.00 ms  p95 1.00 ms  p99 1.00 ms  p99.9 lost  p99.99 lost  max lost
generator  late by p50 0 us  p90 0 us  p95 0 us  p99 0 us  p99.9 0 us  p99.99 0 us  max 0 us
kinds      service A  99 answered, 1 lost, p50 1.00 ms  p99 1.00 ms  max lost
           srv SRV    99 answered, 1 lost, p50 1.00 ms  p99 1.00 ms  max lost
verdicts   right 189, stale 10, early 0, missing 0, extra 0, wrong 0, undecided 1; of 200 answers, under 2 changes
           undecided: behind 1; slack 100 ms
           behind by p50 10.0 ms  p99 10.0 ms  max 10.0 ms
STALE      by p50 500 ms  p90 900 ms  p95 1.00 s  p99 1.00 s  p99.9 1.00 s  p99.99 1.00 s  max 1.00 s
           first change lacked at 0.990 s, last stale answer 1.000 s later
           web.shop.svc.cluster.local. SRV: 5, by 1.00 s at most, first at 1.9 s
           web.shop.svc.cluster.local. A: 5, by 900 ms at most, first at 1.9 s
limit      stale>0: FAILED, 10 (5.000%)
limit      p50>1s: held, 1.00 ms"""

GOOD = propagation_report([followed(), followed(0.05, 0.04, at=101.0)], QUESTIONS, 2, 100.0)
NOTHING = propagation_report([], QUESTIONS, 0, 100.0)


def test_whole() -> None:
    assert "\n".join(lines(report(results(lost=2, stale=True), "stale>0,p50>1s"))) == WHOLE


def test_refused_and_not_whole() -> None:
    found = lines(report(results(late=5), "p50>1s", ended="interrupted"))
    assert found[2] == "NOT WHOLE  interrupted after 2.0 s; what was measured until then:"
    assert found[5] == "latency    p50 -  p90 -  p95 -  p99 -  p99.9 -  p99.99 -  max -"
    assert found[7].startswith(
        "REFUSED    the generator was the limit: it was late by 5.00 ms at p50"
    )
    assert found[-1] == "limit      p50>1s: UNKNOWN, could not be told"


SIDE_BY_SIDE = """\
2 servers over UDP, 2 questions
plan       100/s for 2 s, even, seed 7

                    127.0.0.1 port 53      frozen
answered                          200         198
lost                                0  2 (1.000%)
NOERROR                           200         198
latency p50                   1.00 ms     1.00 ms
latency p99                   1.00 ms     1.00 ms
latency p99.9                 1.00 ms        lost
latency max                   1.00 ms        lost
generator late p99               0 us        0 us
right                             200         189
stale                               0          10
undecided                           0           1
stale by p50                        -      500 ms
stale by at most                    -      1.00 s
stale answers over                  -     1.000 s
changes                             2           2

127.0.0.1 port 53
queries    200 due, 200 sent, 200 answered, 0 lost"""


def test_several_servers() -> None:
    found = lines(report(results(), "stale>0", frozen=results(lost=2, stale=True)))
    assert "\n".join(found).startswith(SIDE_BY_SIDE)
    assert found[found.index("frozen: 127.0.0.2 port 53") + 1].startswith("queries    200 due, ")
    assert [each for each in found if each.startswith("limit")] == [
        "limit      stale>0: held, 0",
        "limit      stale>0: FAILED, 10 (5.000%)",
    ]


def test_several_runs() -> None:
    runs = [("a", report(results())), ("b", report(results(late=5), ended="interrupted"))]
    found = compared_lines(shown_together(runs))
    assert found[:2] == [
        "                    a: 127.0.0.1 port 53  b: 127.0.0.1 port 53",
        "not whole                              -           interrupted",
    ]
    assert "b: 127.0.0.1 port 53: 127.0.0.1 port 53" in found


CHANGES = """\
changes    2 followed until they showed; 0 for too short a time
added      first new answer after p50 2.00 ms  p90 -  p95 -  p99 -  p99.9 -  p99.99 -  max 50.0 ms; 0 never
removed    last old answer after p50 1.00 ms  p90 -  p95 -  p99 -  p99.9 -  p99.99 -  max 40.0 ms; 0 never gone
           asked every p50 1.50 ms  p99 -  max 1.50 ms
           seen by the generator after p50 0 us  p99 -  max 0 us"""


def test_changes_that_were_followed() -> None:
    assert CHANGES in "\n".join(lines(report(results(), propagation=GOOD)))
    found = lines(report(results(), propagation=GOOD, other=results()))
    (row,) = [
        each.split() for each in found if each.startswith("added: first new answer after max ")
    ]
    assert row[-3:] == ["50.0", "ms", "-"]
    assert lines(report(results(), propagation=NOTHING))[-1] == (
        "changes    0 followed until they showed; 0 for too short a time"
    )


def test_lookups() -> None:
    assert list(lookup_lines(stated(lookups(*LOOKED_UP)))) == [
        ("lookups", "4, 1 (25.000%) without addresses, 1 (25.000%) failed, 1 (25.000%) unfinished; "
         "20 queries, 14 (70.000%) for other names, 3 sent again, 2 over TCP, median 4, at most 8 each"),
        ("", "p50 3.00 ms  p90 lost  p95 lost  p99 lost  p99.9 lost  p99.99 lost  max lost"),
        ("", "begun late by p50 50 us  p90 50 us  p95 50 us  p99 50 us  p99.9 50 us  p99.99 50 us  max 50 us"),
        ("", "glibc  3, 1 (33.333%) failed, 1 (33.333%) unfinished, p50 3.00 ms  p99 lost  max lost; "
         "12 queries, 6 (50.000%) for other names, 3 sent again, median 4, at most 4 each"),
        ("", "go     1, 1 (100.000%) without addresses, p50 3.00 ms  p99 3.00 ms  max 3.00 ms; "
         "8 queries, 8 (100.000%) for other names, 2 over TCP, median 8, at most 8 each"),
        ("", "full  1, 1 (100.000%) without addresses, p50 3.00 ms  p99 3.00 ms  max 3.00 ms; "
         "8 queries, 8 (100.000%) for other names, 2 over TCP, median 8, at most 8 each"),
        ("", "name  3, 1 (33.333%) failed, 1 (33.333%) unfinished, p50 3.00 ms  p99 lost  max lost; "
         "12 queries, 6 (50.000%) for other names, 3 sent again, median 4, at most 4 each"),
    ]  # fmt: skip


BOTH = report(results(), frozen=results(lost=2, stale=True))


def test_figures_of_servers() -> None:
    rows = dict(comparison(shown(BOTH)))
    assert rows["answered"] == ["200", "198"]
    assert rows["lost"] == ["0", "2 (1.000%)"]
    assert rows["latency p99.9"] == ["1.00 ms", "lost"]
    assert (rows["stale"], rows["stale by at most"]) == (["0", "10"], ["-", "1.00 s"])
    assert "wrong" not in rows
    assert "not whole" not in rows


def test_without_a_judge() -> None:
    rows = {label for label, _ in comparison(shown(report(results(), slack=None)))}
    assert not rows & {"right", "stale by p50", "changes"}


def test_names_of_several_runs() -> None:
    runs = [("a", BOTH), ("b", report(results(), other=results()))]
    assert [each.name for each in shown_together(runs)] == [
        "a: 127.0.0.1 port 53",
        "frozen",
        "b: 127.0.0.1 port 53",
        "other",
    ]


def test_in_what_runs_differ() -> None:
    plan = msgspec.structs.replace(BOTH.plan, seed=8, churn=20.0)
    runs = [("a", BOTH), ("b", msgspec.structs.replace(report(results()), plan=plan))]
    found = differences(shown_together(runs))
    assert found == [
        "the runs differ in seed: a: 127.0.0.1 port 53: 7; frozen: 7; b: 127.0.0.1 port 53: 8",
        "the runs differ in changes a second: a: 127.0.0.1 port 53: 10; frozen: 10; b: 127.0.0.1 port 53: 20",
    ]
    assert differences(shown(BOTH)) == []


@pytest.mark.parametrize(
    ("us", "text"),
    [(0, "0 us"), (999, "999 us"), (1000, "1.00 ms"), (54_321, "54.3 ms"), (543_210, "543 ms"), (2_000_000, "2.00 s")],
)  # fmt: skip
def test_times(us: float, text: str) -> None:
    assert us_to_text(us) == text


def test_words() -> None:
    figures = [Percentile("p50", 5), Percentile("max", None, "lost")]
    assert percentiles(figures) == "p50 5 us  max lost"
    assert percentiles(figures, ("max",)) == "max lost"
    assert duration(Percentile("p50", None, "none")) == "-"
    assert duration(Percentile("p99", None, "few")) == "-"
    assert duration(Percentile("p99", None, "never")) == "never"
    assert (share(0, 10), share(1, 8)) == ("0", "1 (12.500%)")
    assert limited(LimitReport("knee<5000", False, rate=6000.5)) == "6000.5/s"
    assert limited(LimitReport("knee<5000", None)) == "could not be told"
    assert (arrival("burst", 5), arrival("poisson", 1)) == ("bursts of 5", "poisson")


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0.4, "400 us"), (999.4, "999 ms"), (1000.0, "1.000 s"), (13_456.7, "13.457 s")],
)
def test_ages_have_milliseconds(ms: float, text: str) -> None:
    assert age(ms) == text


def test_times_of_a_run() -> None:
    assert [since_begin(each) for each in (2.0004, 0.0, -3.25)] == ["2.000 s", "0.000 s", "3.250 s before the begin"]  # fmt: skip
