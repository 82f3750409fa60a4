"""The benchmark of the tap: what it measures, not how much."""

from __future__ import annotations

import importlib

import pytest

from loadtest.tap import STATES, Bench, compare, lines
from tests.fastpath.twins import BOTH


@pytest.mark.sockets
@pytest.mark.parametrize("twin", BOTH)
def test_every_state_answers_all(twin: str) -> None:
    costs = compare(importlib.import_module(twin), rounds=1, batches=2)
    assert list(costs) == list(STATES)
    assert all(cost > 0 for cost in costs.values())


@pytest.mark.sockets
@pytest.mark.parametrize("twin", BOTH)
def test_the_taps_are_in_the_states(twin: str) -> None:
    bench = Bench(importlib.import_module(twin))
    try:
        for state in STATES:
            bench.measure(state, 2)
        # The first batch was taken away, the second one is there.
        seen = {state: tap.take()[0] for state, tap in bench._taps.items() if tap is not None}
    finally:
        bench.close()
    assert seen == {"closed": 0, "keeps the last queries": 64, "takes a share": 64}


def test_rows() -> None:
    assert lines("compiled", {"no tap": 2000.0, "closed": 2010.0}) == [
        "| compiled | no tap | 2,000 | 1.000 |",
        "| compiled | closed | 2,010 | 1.005 |",
    ]
