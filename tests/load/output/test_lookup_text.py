from hsdns.load.histogram import Histogram
from hsdns.load.outcome import ENDS, FAILED, FOUND, NONE
from hsdns.load.output.text import HEAD, lookup_lines, lookup_rows
from hsdns.load.results import lookups_report
from tests.load.test_lookup_report import ENDED, GIVEN_UP, counted

FEW = counted(
    ENDED,
    ENDED._replace(resolver=3, form=3, end=ENDS.index(NONE), queries=8, wasted=8, over_tcp=2),
    GIVEN_UP._replace(again=3),
    ENDED._replace(end=ENDS.index(FAILED)),
)
assert ENDS[ENDED.end] == FOUND


def test_lines() -> None:
    report = lookups_report(FEW, Histogram(), refused=False)
    assert report is not None
    assert list(lookup_lines(report)) == [
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


def test_rows() -> None:
    report = lookups_report(FEW, Histogram(), refused=False)
    assert report is not None
    rows = lookup_rows([report.whole, *report.by_resolver])
    assert [row[: len(HEAD)] for row in rows] == [
        ("all", 4, 1, 1, 2, 20, 14, 3, 2, 8),
        ("glibc", 3, 1, 0, 2, 12, 6, 3, 0, 4),
        ("go", 1, 0, 1, 0, 8, 8, 0, 2, 8),
    ]
    assert rows[0][len(HEAD) :][0] == "3.00 ms"
