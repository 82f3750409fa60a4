from hypothesis import given

from hsdns.load.histogram import Histogram
from hsdns.load.outcome import ENDS, FOUND, UNFINISHED, Lookup, Lookups, pack_lookups
from hsdns.load.results import LookupPercentile, lookups_of, lookups_report
from tests.load.test_lookups import LOOKUPS, facts


def counted(*found: Lookup) -> Lookups:
    lookups = Lookups()
    lookups.add(pack_lookups(found))
    return lookups


def test_without_lookups_there_is_no_report() -> None:
    assert lookups_report(Lookups(), Histogram(), refused=False) is None


@given(found=LOOKUPS.filter(bool))
def test_a_report_has_all_that_was_counted(found: list[Lookup]) -> None:
    lookups = counted(*found)
    report = lookups_report(lookups, Histogram(), refused=False)
    assert report is not None
    assert facts(lookups_of(report)) == facts(lookups)


MS = 1_000_000
ENDED = Lookup(0, 0, ENDS.index(FOUND), 4, 2, 0, 0, 0, 50_000, 3 * MS)
GIVEN_UP = ENDED._replace(end=ENDS.index(UNFINISHED))


def test_one_that_is_not_over_is_slower_than_all() -> None:
    report = lookups_report(counted(ENDED, ENDED, GIVEN_UP), Histogram(), refused=False)
    assert report is not None
    (part,) = report.by_resolver
    assert (part.name, part.median_queries, part.most_queries) == ("glibc", 4, 4)
    assert part.latency[0] == LookupPercentile("p50", 3001)
    assert part.latency[-1] == LookupPercentile("max", None, "lost")
    assert report.lateness[0] == LookupPercentile("p50", 50)


def test_a_generator_that_was_late() -> None:
    late = Histogram([(2000, 1)])
    for lateness, refused in ((late, False), (Histogram(), True)):
        report = lookups_report(counted(ENDED), lateness, refused=refused)
        assert report is not None
        assert report.whole.latency[0] == LookupPercentile("p50", None, "generator")
