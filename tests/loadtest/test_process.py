"""A benchmark that is ended by a signal, with a process that it has started."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from loadtest.answering.programs import ROOT

BENCHMARK = """
import signal, sys, time
from pathlib import Path
from loadtest.process import Process, run_benchmark

# A shell starts background jobs with SIGINT ignored, and the tests may run in one.
signal.signal(signal.SIGINT, signal.default_int_handler)

def main():
    with Process("server", [sys.executable, "-c", "import time; time.sleep(60)"], Path(sys.argv[1])) as server:
        print(server.pid, flush=True)
        time.sleep(60)
    return 0

sys.exit(run_benchmark(main))
"""


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_what_a_benchmark_has_started(tmp_path: Path, sent: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", BENCHMARK, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as benchmark:
        assert benchmark.stdout is not None
        server = int(benchmark.stdout.readline())
        benchmark.send_signal(sent)
        _, said = benchmark.communicate(timeout=20)
    assert benchmark.returncode == 130
    assert said == "interrupted; what was started has been ended\n"
    assert not Path(f"/proc/{server}").exists()


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("loadtest/*/__main__.py")), ids=lambda path: path.parent.name
)
def test_every_benchmark_runs_so(path: Path) -> None:
    # The fake API server is no benchmark: benchmarks start and end it.
    assert ("run_benchmark(" in path.read_text()) == (path.parent.name != "apiserver")
