"""The benchmark as a whole, small: echo, dict and hsdns in one round of the drain method."""

import io
import shutil
from pathlib import Path

import pytest

from loadtest.answering.cluster import Cluster
from loadtest.answering.mixes import BY_KEY, DRAIN, MIXES
from loadtest.answering.programs import (
    DICT,
    ECHO,
    KNOT,
    PURE,
    Program,
    find_programs,
    hsdns_command,
)
from loadtest.answering.progress_bar import ProgressBar
from loadtest.answering.run import Effort, Run, supports

SERVERS = [PURE, ECHO, DICT]


@pytest.mark.slow
@pytest.mark.sockets
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler (cc) for the echo")
def test_a_small_run(tmp_path: Path) -> None:
    found = find_programs(SERVERS, hsdns_command())
    mixes = [BY_KEY["hot"], BY_KEY["random"]]
    run = Run(
        tmp_path,
        Cluster(40, 3),
        found.programs,
        mixes,
        None,
        ProgressBar(io.StringIO()),
        dnsperf=None,
    )
    with run:
        results = run.measure(Effort(drain_rounds=2, dnsperf_rounds=0))
    assert run.missing == []
    assert {(each.mix, each.server, each.round) for each in results.samples} == {
        *(("hot", server, number) for server in SERVERS for number in (0, 1)),
        *(("random", server, number) for server in (PURE, ECHO) for number in (0, 1)),
    }
    assert all(each.cpu_us > 0 and each.method == DRAIN for each in results.samples)
    assert all(warm_up.unanswered == warm_up.different == 0 for warm_up in results.warm_ups)


@pytest.mark.parametrize(
    ("server", "mixes"),
    [
        (DICT, "hot ports cluster search names-1k names-100k"),
        (KNOT, "hot ports cluster search random cookies names-1k names-100k tcp"),
        (ECHO, "hot ports cluster search random cookies names-1k names-100k changes tcp"),
        (PURE, "hot ports cluster search random cookies names-1k names-100k changes cached tcp"),
    ],
    ids=str,
)
def test_who_can_take_what(server: str, mixes: str) -> None:
    program = Program(server, (), "")
    assert [mix.key for mix in MIXES if supports(program, mix)] == mixes.split()
