"""Loads hsdns over connections, in turns with `hsdns load` and with dnsperf.

Path: __main__.py -> here -> the generators; measure.py has the table.
Rule 1: both use the same rates, and once dnsperf's mode of sending as fast as replies arrive (FASTEST).
Rule 2: as in measure.py: the server has the first CPU, and the CPU time is that of the whole generator.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import Final

from loadtest.answering.cluster import Cluster, Question
from loadtest.dns import query_of
from loadtest.generator.measure import DNSPERF, NAMES, SERVICES, Row, combined, dnsperf, load
from loadtest.generators import CLIENTS, dnsperf_words, write_questions
from loadtest.ports import free_port
from loadtest.programs import make_certificate
from loadtest.server import start

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
    text = f".:{ready} {{\n    bind 127.0.0.1\n    whoami\n}}\n" + "".join(blocks)
    rows: dict[tuple[str, int, str], list[Row]] = {}
    with start(folder, "hsdns", text, ready, query_of("whoami.", "A"), core=cores[0]):
        for turn in range(turns):
            for transport, port in ports.items():
                for rate, generator in _order(transport, turn):
                    what = f"{rate}/s" if rate else "as fast as it gets replies"
                    print(f"turn {turn + 1}: {transport}, {generator}, {what}", file=sys.stderr)
                    title = TRANSPORTS[transport]
                    if generator == OURS:
                        tls = ("-tls-insecure",) if transport == "dot" else ()
                        over = ("-transport", transport, "-connections", str(CLIENTS), *tls)
                        row = load(title, OURS, port, names, rate, seconds, *over)
                    else:
                        pace = ("-Q", str(rate)) if rate else ()
                        over = ("-q", _UNDER_WAY, "-m", transport, *pace)
                        sent = dnsperf_words(DNSPERF, port, names, ceil(seconds), *over)
                        row = dnsperf(title, sent, cores[1], rate, seconds, again=False)
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
