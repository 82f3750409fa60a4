"""The cost of a hit of the answer table while its tap is closed, and while it takes queries.

    python -m loadtest.tap

Path: datagrams over loopback -> Batch.serve() of both twins -> a table on standard output.
Rule 1: each round measures every state of the tap, in another order, so that other work of the machine affects all of
        them.  The figure is the median of the rounds, the ratio that of the medians.
Rule 2: the figure is the CPU time of the thread in serve(): receiving, looking up and sending batches of 64.
Rule 3: an open tap is emptied every TAKE batches, outside of the measured time.
"""

from __future__ import annotations

import importlib
import socket
import time
from collections.abc import Sequence
from importlib.util import find_spec
from random import Random
from statistics import median
from types import ModuleType
from typing import Any, Final

from hsdns.fastpath.hit_records import CLOSED, FAIR_SHARE, LAST_QUERIES
from hsdns.fastpath.terms import Terms
from hsdns.wire.encode import encode, encode_query
from hsdns.wire.iana import RRType
from hsdns.wire.message import RR, Query, Reply
from hsdns.wire.name import Name

TWINS: Final = ("hsdns.fastpath._native", "hsdns.fastpath._python")
STATES: Final = {
    "no tap": None,
    "closed": CLOSED,
    "keeps the last queries": LAST_QUERIES,
    "takes a share": FAIR_SHARE,
}
BATCH_LEN: Final = 64
TAKE: Final = 100
ROUNDS: Final = 150
BATCHES: Final = 200  # batches in a round


class Bench:
    """A socket with a batch, and a table for each state of the tap; all have the same reply."""

    def __init__(self, twin: ModuleType) -> None:
        qname = Name.from_text("web.shop.svc.cluster.local.")
        query = Query.ask(qname, RRType.A, query_id=7)
        self._query = encode_query(query, 7)
        reply = encode(query, Reply(answer=(RR(qname, RRType.A, 30, b"\x0a\0\0\1"),), aa=True), 512)
        self._taps: dict[str, Any] = {}
        self._tables: dict[str, Any] = {}
        for name, mode in STATES.items():
            tap = self._taps[name] = None if mode is None else twin.Tap()
            if tap is not None:
                tap.mode = mode
            table = self._tables[name] = twin.AnswerTable(twin.Versions(), 1 << 20, tap, 0)
            assert table.store(self._query, reply, [], Terms(0), size=len(reply))
        self._server, self._client = (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in "ab"
        )
        self._server.bind(("127.0.0.1", 0))
        self._server.setblocking(False)
        self._client.connect(self._server.getsockname())
        self._batch = twin.Batch(self._server.fileno(), False)

    def measure(self, state: str, batches: int) -> float:
        """Nanoseconds of CPU time for a hit, averaged over this many batches."""
        table, tap, spent = self._tables[state], self._taps[state], 0
        for number in range(batches):
            for _ in range(BATCH_LEN):
                self._client.send(self._query)
            begin = time.thread_time_ns()
            missed = self._batch.serve(table)
            spent += time.thread_time_ns() - begin
            assert not missed
            for _ in range(BATCH_LEN):
                self._client.recv(512)
            if tap is not None and number % TAKE == 0:
                tap.take()
        return spent / batches / BATCH_LEN

    def close(self) -> None:
        """Close the sockets."""
        self._server.close()
        self._client.close()


def compare(twin: ModuleType, rounds: int, batches: int) -> dict[str, float]:
    """The median cost of a hit in each state of the tap, in nanoseconds."""
    bench, random = Bench(twin), Random(1)
    samples: dict[str, list[float]] = {state: [] for state in STATES}
    try:
        for _ in range(rounds):
            for state in random.sample(list(STATES), len(STATES)):
                samples[state].append(bench.measure(state, batches))
    finally:
        bench.close()
    return {state: median(found) for state, found in samples.items()}


def lines(name: str, costs: dict[str, float]) -> Sequence[str]:
    """Rows of a Markdown table: the fast path, the state, nanoseconds, and the ratio to a table without a tap."""
    first = next(iter(costs.values()))
    return [
        f"| {name} | {state} | {cost:,.0f} | {cost / first:.3f} |" for state, cost in costs.items()
    ]


def main() -> None:
    """Measure the available twins."""
    print("| fast path | tap | ns a hit | ratio |\n| --- | --- | --- | --- |")
    for module in TWINS:
        if find_spec(module) is None:
            continue  # the compiled one is not built
        name = "compiled" if module.endswith("_native") else "Python"
        costs = compare(importlib.import_module(module), ROUNDS, BATCHES)
        print("\n".join(lines(name, costs)), flush=True)


if __name__ == "__main__":
    main()
