from __future__ import annotations

from hsdns.load.outcome import CLOSED, ENDED, NOT_DNS, NOT_OPENED, OPENED, ConnectionCounts, Fact
from hsdns.load.results import connection_counts, connections_report, reasons
from tests.load.test_connection_facts import counts, everything


def test_no_connection() -> None:
    assert connections_report(ConnectionCounts()) is None


def test_report() -> None:
    found = counts(
        *[Fact(OPENED, 2_000_000)] * 3,
        Fact(ENDED, 0, CLOSED),
        Fact(NOT_OPENED, 0, "a"),
        *[Fact(NOT_OPENED, 0, "b")] * 2,
        Fact(NOT_DNS, 0, "HTTP status 503"),
    )
    report = connections_report(found)
    assert report is not None
    assert (report.opened, report.most_open) == (3, 3)
    assert (report.ended, list(report.not_opened.items())) == ({CLOSED: 1}, [("b", 2), ("a", 1)])
    assert report.without_answer == {"HTTP status 503": 1}
    assert [(each.name, each.us) for each in report.setup[:2]] == [("p50", 2000), ("p90", 2000)]
    assert reasons(report.not_opened) == "b 2, a 1"
    again = connection_counts(report)
    again.open = found.open  # what is open is nothing that a report says
    assert everything(again) == everything(found)
