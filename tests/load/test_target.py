from __future__ import annotations

import pytest

from hsdns.load.target import (
    FAILING_AFTER,
    FailureWatch,
)


@pytest.mark.parametrize(
    ("seconds", "ends"),
    [
        ([(0, 5)] * FAILING_AFTER, True),
        ([(0, 5)] * (FAILING_AFTER - 1), False),
        ([(0, 5), (1, 5), (0, 5), (0, 5)], False),
        ([(0, 5), (0, 0), (0, 5), (0, 5)], True),  # a second without queries says nothing
    ],
)
def test_a_target_that_fails_everything(seconds: list[tuple[int, int]], ends: bool) -> None:
    failures = FailureWatch()
    found = [failures.see(number, *counts) for number, counts in enumerate(seconds)]
    assert found[-1] is ends
    assert failures.see(0, 0, 5) is False
