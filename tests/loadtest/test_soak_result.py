"""What a soak has found, and the sentences about what does not hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loadtest.bench import as_data
from loadtest.pressure.machine import Machine
from loadtest.pressure.soak_result import Applied, Bounds, Soak
from tests.support.tables import columns

MB = 1_000_000
TABLES = Path(__file__).with_name("tables.txt")
TO_4, TO_16 = Bounds(0.002, 0.004), Bounds(0.008, 0.016)
TO_64, TO_256 = Bounds(0.032, 0.064), Bounds(0.128, 0.256)
APPLIED = Applied(360_000, TO_4, TO_64)
MACHINE = Machine(360_000, 0.002, 0.03, 0.001, 0.02)
STOPPED = MACHINE._replace(gaps=[(0.9, 1.1), (1.15, 1.25), (3.0, 3.1)])
GOOD = Soak(
    "hsdns", 1800, 360_000, {"right": 1_000_000}, 0.0, 0.004, 0.02, APPLIED, 1.0,
    [(float(second), 90 * MB) for second in range(0, 1800, 2)], 400.0, 900.0, 1.0,
    MACHINE,
)  # fmt: skip


def growing(seconds: int, an_hour: int) -> list[tuple[float, int]]:
    return [(float(at), 90 * MB + at * an_hour // 3600) for at in range(0, seconds, 2)]


@pytest.mark.parametrize(
    ("memory", "is_flat"),
    [
        (growing(1800, 9 * MB), True),
        (growing(1800, 30 * MB), False),
        (growing(60, 30 * MB), True),
        (growing(60, 2000 * MB), False),
    ],
    ids=["slow", "fast", "short", "short and fast"],
)
def test_memory(memory: list[tuple[float, int]], is_flat: bool) -> None:
    assert GOOD._replace(memory=memory).is_flat is is_flat


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"judged": {"right": 1_000_000, "stale": 1}, "worst_age": 0.25},
         "1 answers were stale or wrong, by 250 ms at most"),
        ({"judged": {"right": 90_000, "failed": 900_000}}, "only 50 answers a second were judged"),
        ({"applied": APPLIED._replace(p99=TO_64)},
         "99 % of 360,000 events were applied within 64 ms, and all within 64 ms"),
        ({"applied": Applied(360_000, TO_16, TO_256)},
         "99 % of 360,000 events were applied within 16 ms, and all within 256 ms"),
        ({"applied": Applied(0, None, None, "/metrics says no more")}, "/metrics says no more"),
        ({"shown_p99": 0.021}, "events were shown after 21 ms (p99)"),
        ({"shown_worst": 0.101}, "an event was shown after 101 ms, without the machine's own delays"),
        ({"shown_worst": 0.101, "slow": [(1.0, 1.101)]}, "an event was shown after 101 ms, without the machine's own delays"),
        ({"shown_worst": 0.301, "slow": [(1.0, 1.301), (1.2, 1.3)], "machine": STOPPED}, "an event was shown after 101 ms, without the machine's own delays"),
        ({"shown_p99": None, "shown_worst": None}, "no event was waited for"),
        ({"sent": 0.949}, "a pressing client has sent 94.9% of what it should send"),
        ({"health": 0.98}, "/health answered 98.0% of the probes"),
        ({"memory": growing(1800, 30 * MB)}, "memory rises by 30 MB an hour in the second half"),
        ({"memory": [(0.0, 90 * MB), (2.0, 179 * MB), *[(float(at), 90 * MB) for at in range(4, 60, 2)]]},
         "memory was 179 MB, and may be 178 MB"),
        ({"after_p99_us": 1300.0}, "2 s after the end p99 is 1.3 ms, before it was 0.4 ms, and 100.0% is answered"),
        ({"after_share": 0.5}, "2 s after the end p99 is 0.9 ms, before it was 0.4 ms, and 50.0% is answered"),
        ({"ended": "hsdns ended with status 1"}, "hsdns ended with status 1"),
    ],
)  # fmt: skip
def test_faults(changed: dict[str, object], sentence: str) -> None:
    assert GOOD._replace(**changed).faults == [sentence]  # type: ignore[arg-type] # whatever a row has


def bounds(word: str) -> Bounds | None:
    return None if word == "-" else Bounds(*(int(ms) / 1e3 for ms in word.split("-")))


@pytest.mark.parametrize(("given", "expected"), columns(TABLES, "a bucket, and what was shown, in milliseconds"))  # fmt: skip
def test_where_a_bucket_cannot_tell_what_was_shown_does(given: str, expected: str) -> None:
    """The buckets of the 99th percentile and of the worst, and what was shown of both."""
    first, last, *shown = given.split()
    applied = Applied(9, bounds(first), bounds(last), "why" if first == "-" else "")
    p99, worst = (None if each == "-" else int(each) / 1e3 for each in shown)
    soak = GOOD._replace(applied=applied, shown_p99=p99, shown_worst=worst)
    (check,) = [each for each in soak.checks if "applied" in each.figure]
    assert f"{'holds' if check.holds else 'fails'} {check.measured}" == expected


def test_a_good_soak_has_no_faults() -> None:
    assert GOOD.faults == []
    assert all(check.holds for check in GOOD.checks)
    found = json.loads(json.dumps(as_data(GOOD), allow_nan=False))
    assert (found["applied"]["p99"]["most"], found["machine"]["worst"]) == (0.004, 0.03)
