import sys

import pytest

from loadtest.generator.measure import load_row, run_generator
from loadtest.process import BenchmarkError


def test_cpu_and_what_is_printed() -> None:
    words = (sys.executable, "-c", "import os; print(os.environ['A'], sum(range(10**6)))")
    found = run_generator(words, None, {"A": "b"}, 5)
    assert found.printed == "b 499999500000\n"
    assert found.cpu > 0


def test_a_generator_that_fails() -> None:
    with pytest.raises(BenchmarkError, match="ended with status 3: why"):
        run_generator((sys.executable, "-c", "import sys; print('why', file=sys.stderr); sys.exit(3)"), None, {}, 5)  # fmt: skip


def test_the_figures_of_a_report() -> None:
    names = ("p50", "p99", "p99.9")
    report = {
        "counts": {"due": 4000, "sent": 3998, "lost": 3, "not_sent": 2},
        "latency": [{"name": name, "us": us} for name, us in zip(names, (5, None, None), strict=True)],
        "lateness": [{"name": name, "us": us} for name, us in zip(names, (1, 2, 3), strict=True)],
    }  # fmt: skip
    found = load_row(report, "Knot DNS", "hsdns load", 1000, 4.0, 0.02)
    assert (found.reached, found.cpu, found.lost) == (999.5, 5.0, 5)
    assert (found.p50, found.p99) == (5, None)
    assert (found.late_p50, found.late_p99, found.late_p999) == (1, 2, 3)
