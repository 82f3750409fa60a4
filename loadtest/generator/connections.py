"""Loads hsdns over connections, in turns with `hsdns load` and with dnsperf.

Path: measure.py (`--connections`) -> here -> the generators; report.py has the table.
Rule 1: both use the same rates, and once dnsperf's mode of sending as fast as replies arrive (FASTEST).
Rule 2: as in measure.py: the server has the first CPU, and the CPU time is that of the whole generator.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import partial
from math import ceil
from pathlib import Path
from typing import Final

from loadtest.answering.cluster import Cluster, Question
from loadtest.answering.dnsperf import CLIENTS, counted, write_questions
from loadtest.dns import is_answering, query_of
from loadtest.generator.measure import DNSPERF, NAMES, SERVICES, load_row, run_generator
from loadtest.generator.report import Row, combined
from loadtest.ports import free_port
from loadtest.process import Process
from loadtest.programs import ROOT, make_certificate
from loadtest.server import START_DEADLINE

TRANSPORTS: Final = {"tcp": "TCP", "dot": "DNS over TLS"}
RATES: Final = {"tcp": (3_000, 20_000, 40_000), "dot": (3_000, 10_000, 20_000)}
FASTEST: Final = 0  # stands for a rate
OURS: Final = "hsdns load"
_UNDER_WAY: Final = (
    "2000"  # queries of dnsperf in flight, as many as 20 connections with 100 each have
)
COREFILE: Final = """\
{scheme}cluster.local:{port} {{
    bind 127.0.0.1
    {tls}
    kubernetes {{
        source {source}
    }}
    cache
}}
"""


def measure(
    folder: Path, transports: Sequence[str], turns: int, seconds: float, cores: Sequence[int | None]
) -> list[Row]:
    """Run the benchmark; the server and dnsperf have a core each; raise BenchmarkError."""
    cluster = Cluster(SERVICES, 5)
    questions = [Question(cluster.service(number), "A") for number in range(NAMES)]
    names = folder / "names"
    write_questions(names, questions)
    files = make_certificate(folder)
    ports = {each: free_port() for each in transports}
    blocks = [
        COREFILE.format(
            scheme="tls://" if transport == "dot" else "",
            port=port,
            tls=f"tls {files.certificate} {files.key}" if transport == "dot" else "",
            source=cluster.source,
        )
        for transport, port in ports.items()
    ]
    ready = free_port()
    path = folder / "Corefile"
    path.write_text(f".:{ready} {{\n    bind 127.0.0.1\n    whoami\n}}\n" + "".join(blocks))
    words = (sys.executable, "-m", "hsdns", "-conf", str(path))
    rows: dict[tuple[str, int, str], list[Row]] = {}
    with Process("hsdns", words, folder, cwd=ROOT, core=cores[0]) as server:
        is_up = partial(is_answering, ready, query_of("whoami.", "A"), records=False)
        server.wait_until(is_up, START_DEADLINE, "does not answer")
        for turn in range(turns):
            for transport, port in ports.items():
                for rate, generator in _order(transport, turn):
                    what = f"{rate}/s" if rate else "as fast as it gets replies"
                    print(f"turn {turn + 1}: {transport}, {generator}, {what}", file=sys.stderr)
                    if generator == OURS:
                        row = _load(transport, port, names, rate, seconds)
                    else:
                        row = _dnsperf(transport, port, names, rate, seconds, cores[1])
                    rows.setdefault((transport, rate, generator), []).append(row)
    return [combined(each) for _, each in sorted(rows.items(), key=_place)]


def _place(item: tuple[tuple[str, int, str], list[Row]]) -> tuple[int, float]:
    """The order of rows: by transport, then by rate, the fastest last."""
    transport, rate, _ = item[0]
    return list(TRANSPORTS).index(transport), rate or float("inf")


def _order(transport: str, turn: int) -> list[tuple[int, str]]:
    """Rates and generators, each generator first in every other turn."""
    found = [(rate, each) for rate in RATES[transport] for each in (OURS, DNSPERF)]
    return [*(found if turn % 2 else found[::-1]), (FASTEST, DNSPERF)]


def _load(transport: str, port: int, names: Path, rate: int, seconds: float) -> Row:
    words = (
        sys.executable, "-m", "hsdns", "load", "-p", str(port), "-queries", str(names), "-rate", str(rate), "-time",
        f"{seconds}s", "-transport", transport, "-connections", str(CLIENTS), "-o", "json",
        *(("-tls-insecure",) if transport == "dot" else ()),
    )  # fmt: skip
    found = run_generator(words, None, {}, seconds)
    report = json.loads(found.printed)["servers"][0]
    return load_row(report, TRANSPORTS[transport], OURS, rate, seconds, found.cpu)


def _dnsperf(
    transport: str, port: int, names: Path, rate: int, seconds: float, core: int | None
) -> Row:
    whole = ceil(seconds)
    words = (
        "dnsperf", "-s", "127.0.0.1", "-p", str(port), "-d", str(names), "-l", str(whole), "-c", str(CLIENTS),
        "-T", "1", "-t", "2", "-q", _UNDER_WAY, "-m", transport, *(("-Q", str(rate)) if rate else ()),
    )  # fmt: skip
    found = run_generator(words, core, {}, whole)
    counts = counted(found.printed)
    return Row(
        TRANSPORTS[transport],
        DNSPERF,
        rate,
        counts.completed / counts.seconds,
        found.cpu * 1e6 / max(1, counts.sent),
        counts.sent - counts.completed,
        None,
        None,
    )
