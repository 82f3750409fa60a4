from hsdns.load.histogram import PERCENTS, Figure, Histogram
from hsdns.load.results import Second, limit_counts, lookups_report, measured_of, with_lookups
from hsdns.load.verify.judge import RIGHT, STALE, UNDECIDED
from hsdns.wire.iana import Rcode
from tests.load.output.test_lookup_text import FEW
from tests.load.test_report import results

WHOLE = results(lost=2, stale=True).whole()


def test_counts_and_what_they_are_a_share_of() -> None:
    few = Second()
    few.rcodes.update({Rcode.NOERROR: 5, Rcode.NXDOMAIN: 4, Rcode.SERVFAIL: 3, Rcode.REFUSED: 2})
    few.lost, few.truncated = 6, 1
    few.verdicts.update({RIGHT: 7, STALE: 1, UNDECIDED: 2})
    assert limit_counts(few) == {
        "loss": (6, 20), "errors": (5, 14), "servfail": (3, 14), "refused": (2, 14), "nxdomain": (4, 14),
        "truncated": (1, 14), "right": (7, 10), "stale": (1, 10), "early": (0, 10), "missing": (0, 10),
        "extra": (0, 10), "wrong": (0, 10), "undecided": (2, 10),
    }  # fmt: skip


def test_percentiles() -> None:
    found = measured_of(WHOLE)
    assert [each.us for each in found.latency[:4]] == [1000] * 4
    assert {each.us for each in found.lateness} == {0}
    assert found.counts["loss"] == (2, 200)
    assert (found.lookups, found.knee) == ((), (0.0, float("inf")))


def test_lookups() -> None:
    found = with_lookups(measured_of(WHOLE), lookups_report(FEW, Histogram(), refused=False))
    assert found.counts["lookup.failed"] == found.counts["lookup.unfinished"] == (1, 4)
    assert found.counts["loss"] == (2, 200)
    assert found.lookups[0] == Figure(50.0, 3001)
    assert found.lookups[1:] == [Figure(percent, None, "lost") for percent in PERCENTS[1:]]
    without = with_lookups(measured_of(WHOLE), None)
    assert (without.counts["lookup.failed"], without.lookups) == ((0, 0), [])
