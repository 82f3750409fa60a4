import os
import sys
from pathlib import Path

import pytest

from loadtest.answering.usage import MeasuredProcess, on_core, schedstat_ns

SPIN = "while True: pass"


def test_schedstat() -> None:
    assert schedstat_ns("288560 66109 1\n") == 288560


def test_a_stopped_process_uses_no_cpu_and_goes_on_after(tmp_path: Path) -> None:
    core = min(os.sched_getaffinity(0))
    with MeasuredProcess("spin", (sys.executable, "-c", SPIN), tmp_path, core) as process:
        assert os.sched_getaffinity(process.pids()[0]) == {core}
        process.stop()
        before = process.cpu_ns()
        assert process.cpu_ns() == before
        process.resume()
        while process.cpu_ns() == before:  # ends by itself; the test's time limit is the deadline
            pass
        process.stop()  # and a stopped one can be ended


@pytest.mark.parametrize("core", [None, min(os.sched_getaffinity(0))], ids=["any", "one"])
def test_on_core(core: int | None) -> None:
    before = os.sched_getaffinity(0)
    with on_core(core):
        assert os.sched_getaffinity(0) == (before if core is None else {core})
    assert os.sched_getaffinity(0) == before
