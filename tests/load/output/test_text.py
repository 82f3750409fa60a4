from hsdns.load.output.text import compared_lines, lines, lookup_lines
from hsdns.load.output.words import shown_together
from hsdns.load.verify.propagation import propagation_report
from tests.load.test_report import report, results
from tests.load.test_results import LOOKED_UP, lookups, stated
from tests.load.verify.test_propagation_report import QUESTIONS, shown

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

GOOD = propagation_report([shown(), shown(0.05, 0.04, at=101.0)], QUESTIONS, 2, 100.0)
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
