from __future__ import annotations

import threading

import pytest

from loadtest.pressure import probes
from loadtest.pressure.probes import Probed, Probes


def test_a_probe_that_still_waits_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "EVERY", 0.0)
    waits, go_on = threading.Event(), threading.Event()
    outcomes = iter((True, False))

    def probe() -> bool:
        try:
            found = next(outcomes)
        except StopIteration:
            waits.set()
            assert go_on.wait(10)
            raise OSError("refused") from None
        return found

    with Probes(probe) as running:
        assert waits.wait(10)
        assert running.result == Probed(2, 1)
        go_on.set()
    assert running.result.answered == 1
