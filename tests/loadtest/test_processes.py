"""Benchmarks as processes: a small run, what a signal ends, and ports that nobody else has; and the pages of figures."""

from __future__ import annotations

import errno
import io
import multiprocessing
import re
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from loadtest import ports, summary
from loadtest.answering.cluster import Cluster
from loadtest.answering.mixes import BY_KEY, DRAIN
from loadtest.answering.run import Effort, Run
from loadtest.bench import Progress, markdown
from loadtest.process import BenchmarkError
from loadtest.programs import DICT, ECHO, PURE, ROOT, find_programs, hsdns_command
from loadtest.summary import PAGE, PLOT, ROWS, TABLES, figures, refreshed, svg

SERVERS = [PURE, ECHO, DICT]
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

sys.exit(run_benchmark("bench", main))
"""


@pytest.mark.slow
@pytest.mark.sockets
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler (cc) for the echo")
def test_a_small_run(tmp_path: Path) -> None:
    found = find_programs(SERVERS, hsdns_command())
    mixes = [BY_KEY["hot"], BY_KEY["random"]]
    progress = Progress(io.StringIO())
    with Run(
        tmp_path, Cluster(40, 3), found.programs, mixes, None, progress, dnsperf=None
    ) as measured:
        results = measured.measure(Effort(drain_rounds=2, dnsperf_rounds=0))
    assert measured.missing == []
    assert {(each.mix, each.server, each.round) for each in results.samples} == {
        *(("hot", server, number) for server in SERVERS for number in (0, 1)),
        *(("random", server, number) for server in (PURE, ECHO) for number in (0, 1)),
    }
    assert all(each.cpu_us > 0 and each.method == DRAIN for each in results.samples)
    assert all(warm_up.unanswered == warm_up.different == 0 for warm_up in results.warm_ups)


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


def _give(count: int) -> list[int]:
    return [ports.free_port() for _ in range(count)]


def test_no_port_is_given_twice_and_none_to_two_processes() -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        given = [_give(50), *pool.map(_give, [50, 50], chunksize=1)]
    assert len({port for each in given for port in each}) == 150


@pytest.mark.parametrize("kind", [socket.SOCK_DGRAM, socket.SOCK_STREAM])
def test_a_port_that_is_taken_is_passed_over(
    kind: socket.SocketKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(ports.reserve()) as reserved, socket.socket(socket.AF_INET, kind) as taken:
        first = reserved.next() + 1
        taken.bind(("127.0.0.1", first))
        if kind == socket.SOCK_STREAM:
            taken.listen()
        assert reserved.next() == first + 1
        # Taken between free_port() and the bind.
        given = iter([first, first + 2])
        monkeypatch.setattr(ports, "free_port", lambda: next(given))
        udp, tcp = ports.open_both()
        with udp, tcp:
            assert [each.getsockname() for each in (udp, tcp)] == [("127.0.0.1", first + 2)] * 2
        with pytest.raises(OSError, match="in use") as caught:
            ports.open_both(port=first)
        assert caught.value.errno == errno.EADDRINUSE


# --- docs/performance.md, and the sections that benchmarks write ---

BEGIN, END = "<!-- summary: begin -->", "<!-- summary: end -->"
FIGURED = (("C echo", 2.0), ("hsdns, compiled", 2.5), ("hsdns, pure Python", 6.0), ("CoreDNS", 400.25))  # fmt: skip


def made_page(*servers: tuple[str, float], watch: str = "0.5") -> str:
    rows = "".join(f"| {name} | {value} | 1.00 |\n" for name, value in servers)
    part, what, named, *_ = next(each for each in ROWS if each[3] == "make bench-watch")
    watched = f"| {part} | {what} | {watch} | 7 | 1.00 |\n"
    return (
        f"# A\n\n{BEGIN}\n| {named} | 0.7 | 9 | 0.08 | `make bench-watch` |\n{END}\n\n### hot\n\n| server | drain µs | least |\n| --- | ---: | ---: |\n"
        f"| C echo | 99.00 | 1.00 |\n\n### cluster\n\n| server | drain µs | least |\n| --- | ---: | ---: |\n{rows}"
        f"\n### next\n\n| part | figure | hsdns | CoreDNS | ratio |\n| --- | --- | ---: | ---: | ---: |\n{watched}"
    )


MADE = made_page(*FIGURED)


def test_the_page_begins_with_what_its_tables_say() -> None:
    page, tables = PAGE.read_text(), TABLES.read_text()
    assert refreshed(page, tables) == page, "run: make pictures"
    assert PAGE.with_name(PLOT).read_text() == svg(figures(tables)), "run: make pictures"


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        (made_page(*FIGURED[:-1]), "their figures need the drain figure of CoreDNS in cluster;"),
        (made_page(*FIGURED, watch=""), 'need "median, ms" of write to answer, 10,000 Services for both servers;'),
        (MADE.replace("### cluster", "### other"), "need the drain figure of C echo in cluster;"),
        (MADE.replace(END, ""), f"the page must have the lines {BEGIN} and {END} once each"),
    ],
    ids=["no CoreDNS", "not watched", "other mix", "no mark"],
)  # fmt: skip
def test_a_page_without_its_figures_is_left_alone(page: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=re.escape(sentence)):
        summary.write(tmp_path, page, page)
    assert list(tmp_path.iterdir()) == []


def test_tables() -> None:
    rows = [["server", "µs", "remark"], ["a", "1.00", ""], ["hsdns", "12.00", "lost"]]
    assert markdown(rows).splitlines()[1:3] == ["| ------ | ----: | ------ |", "| a      |  1.00 |        |"]  # fmt: skip
