from loadtest.generator.report import Row, combined, table


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
