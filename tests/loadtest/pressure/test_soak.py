import pytest

from loadtest.pressure.applied import NONE, Applied
from loadtest.pressure.soak import Soak, slope

MB = 1_000_000
GOOD = Soak(
    "hsdns", 1800, 360_000, {"right": 1_000_000}, 0.0, 0.004, 0.02, Applied(360_000, 0.004, 0.064), 1.0,
    [(float(second), 90 * MB) for second in range(0, 1800, 2)], 400.0, 900.0, 1.0,
)  # fmt: skip


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([], 0.0),
        ([(1, 5)], 0.0),
        ([(1, 5), (1, 7)], 0.0),
        ([(0, 1), (1, 3), (2, 5)], 2.0),
        ([(0, 5), (1, 3), (2, 5), (3, 3)], -0.4),
    ],
)
def test_slope(samples: list[tuple[float, float]], expected: float) -> None:
    assert slope(samples) == pytest.approx(expected)


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
         "1 answers were stale or wrong, by 0.25 s at most"),
        ({"judged": {"right": 90_000, "failed": 900_000}}, "only 50 answers a second were judged"),
        ({"applied": Applied(360_000, 0.032, 0.064)},
         "99 % of 360,000 events were applied within 32 ms, and all within 64 ms"),
        ({"applied": Applied(360_000, 0.016, 0.128)},
         "99 % of 360,000 events were applied within 16 ms, and all within 128 ms"),
        ({"applied": NONE}, "99 % of 0 events were applied within inf ms, and all within inf ms"),
        ({"event_p99": 0.021}, "events were shown after 21 ms (p99) and 20 ms (worst)"),
        ({"event_worst": 0.101}, "events were shown after 4 ms (p99) and 101 ms (worst)"),
        ({"health": 0.98}, "/health answered 98.0% of the probes"),
        ({"memory": growing(1800, 30 * MB)}, "memory rises by 30 MB an hour"),
        ({"after_p99_us": 1300.0}, "2 s after the end p99 is 1.3 ms, before it was 0.4 ms, and 100.0% is answered"),
        ({"after_share": 0.5}, "2 s after the end p99 is 0.9 ms, before it was 0.4 ms, and 50.0% is answered"),
        ({"ended": "hsdns ended with status 1"}, "hsdns ended with status 1"),
    ],
)  # fmt: skip
def test_faults(changed: dict[str, object], sentence: str) -> None:
    assert GOOD._replace(**changed).faults == [sentence]  # type: ignore[arg-type] # whatever a row has


def test_a_good_soak_has_no_faults() -> None:
    assert GOOD.faults == []
    assert GOOD.to_json()["faults"] == []
