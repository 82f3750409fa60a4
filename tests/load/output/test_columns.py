import msgspec
import pytest

from hsdns.load.output.columns import MOST, columns, span
from hsdns.load.report import ServerReport
from tests.load.test_report import of_server, results

WHOLE = of_server(results(lost=2, stale=True))


def lengthened(found: ServerReport, seconds: int) -> ServerReport:
    """The same seconds again and again."""
    parts = [
        msgspec.structs.replace(found.per_second[number % 2], second=number)
        for number in range(seconds)
    ]
    return msgspec.structs.replace(found, per_second=parts, seconds=float(seconds))


def test_columns() -> None:
    first, second = columns(WHOLE)
    assert (first.first, first.seconds, second.first) == (0, 1, 1)
    assert {name: rate for name, rate in first.rcodes.items() if rate} == {"NOERROR": 98, "lost": 2}
    assert {word: rate for word, rate in second.verdicts.items() if rate} == {"stale": 10}
    assert first.figures == {"p50": 1000, "p99": None, "p99.9": None, "late": 0}
    assert (second.worst_age_ms, second.changes) == (1000, 1)


@pytest.mark.parametrize("seconds", [1, 149, 150, 151, 1000])
def test_long_runs_have_wider_columns(seconds: int) -> None:
    found = columns(lengthened(WHOLE, seconds))
    assert len(found) <= MOST
    total = sum(sum(each.rcodes.values()) * min(each.seconds, seconds - each.first) for each in found)  # fmt: skip
    assert total == pytest.approx(seconds * 100)


def test_nothing_was_measured() -> None:
    nothing = msgspec.structs.replace(WHOLE, per_second=[])
    assert columns(nothing) == []


def test_what_a_column_is_called() -> None:
    assert [span(each) for each in columns(WHOLE)] == ["0 s", "1 s"]
    assert span(columns(lengthened(WHOLE, 400))[1]) == "3 to 6 s"
