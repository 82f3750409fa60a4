import pytest

from loadtest.generator.report import Row, combined, lateness_told, table


def row(generator: str, cpu: float, late: float | None = None, p99: float | None = 100) -> Row:
    return Row("C echo", generator, 20_000, 20_000.0, cpu, 0, 50.0, p99, late, late, late)


def test_the_median_of_what_every_turn_tells() -> None:
    found = combined([row("a", 1, 5), row("a", 3, 2000), row("a", 2, 7, None)])
    assert (found.cpu, found.late_p999, found.p50, found.p99) == (2, 7, 50, None)


def test_the_ratio_is_to_the_same_rate() -> None:
    rows = [row("a", 6, 7), row("dnsperf", 4), row("a", 6)._replace(rate=30_000)]
    assert table(rows, "dnsperf").splitlines()[2:] == [
        "| C echo | a | 20,000 | 6.0 | 1.50 | 0 | 50 µs | 100 µs | 7 µs | 7 µs | 7 µs |",
        "| C echo | dnsperf | 20,000 | 4.0 | 1.00 | 0 | 50 µs | 100 µs | - | - | - |",
        "| C echo | a | 20,000 | 6.0 | - | 0 | 50 µs | 100 µs | - | - | - |",
    ]


def test_times() -> None:
    assert "1.5 ms" in table([row("a", 1, 1500)], "dnsperf")


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ([row("a", 1, 80), row("a", 1, 49)._replace(server="Knot DNS")], "holds: a at 20,000/s late by 49 µs at p99.9 (limit 50 µs; with Knot DNS)"),
        ([row("a", 1, 2000)], "DOES NOT HOLD: a at 20,000/s late by 2.0 ms at p99.9 (limit 50 µs; with C echo)"),
        ([row("a", 1), row("b", 1, 5)], "NOT MEASURED: a at 20,000/s"),
    ],
)  # fmt: skip
def test_limits_of_the_lateness(rows: list[Row], line: str) -> None:
    assert lateness_told(rows, {("a", 20_000): 50.0}) == ([line], line.startswith("holds"))
