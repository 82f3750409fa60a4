"""What a second worker brings: the CPU time of the busiest thread for each answer, with one worker and with two.

    make bench-workers

Path: here -> ../server.py, drain.py.
Rule 1: two servers run at the same time, one with each number of workers, and are drained in turns, in another order
        every second round.  The queries come from MANY_PORTS ports, as the kernel gives each port to one worker.
Rule 2: the gain is how much less CPU time the busiest thread needs: what two workers answer where each has a core of
        its own.  It is no wall time: here the client and the kernel's work for it share the cores.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Final

from loadtest import bench
from loadtest.answering.cluster import Cluster
from loadtest.answering.drain import QUERIES, QuerySender, enlarge_buffers
from loadtest.answering.mixes import MANY_PORTS
from loadtest.dns import query_of
from loadtest.process import Process, run_benchmark
from loadtest.programs import HSDNS, hsdns_command
from loadtest.server import Ports, start, wait_answering

CLUSTER: Final = Cluster(services=1_000)


def busiest(
    sender: QuerySender, process: Process, port: int, queries: list[bytes]
) -> tuple[float, float]:
    """The CPU time for each answer in microseconds: of the busiest thread, and of all."""
    before = process.threads_ns()
    done = sender.drain(process, port, queries)
    spent = [now - before.get(thread, 0) for thread, now in process.threads_ns().items()]
    return max(spent) / done.answered / 1e3, done.cpu_ns / done.answered / 1e3


def measure(rounds: int) -> None:
    """Measure and print."""
    names = [CLUSTER.service(each) for each in range(CLUSTER.services)]
    queries = [query_of(names[each % len(names)], "A", edns=True) for each in range(QUERIES)]
    with tempfile.TemporaryDirectory(prefix="bench-") as name, QuerySender(MANY_PORTS) as sender:
        servers = []
        processes = []
        try:
            for workers in (1, 2):
                ports, words = Ports.free(), (*hsdns_command(), "-workers", str(workers))
                corefile = ports.corefile(f"source {CLUSTER.source}")
                process = start(Path(name), f"{HSDNS}-{workers}", corefile, words=words)
                processes.append(process)
                wait_answering(process, ports.dns, queries[0])
                enlarge_buffers(process.pid, ports.dns)
                sender.drain(process, ports.dns, queries)
                servers.append((process, ports.dns, list[float](), list[float]()))
            for number in range(rounds):
                for process, port, most, whole in servers[:: 1 if number % 2 else -1]:
                    found = busiest(sender, process, port, queries)
                    most.append(found[0])
                    whole.append(found[1])
        finally:
            for process in processes:
                process.end()
    (_, _, one, all_one), (_, _, two, all_two) = servers
    gain = median(first / second for first, second in zip(one, two, strict=True))
    print(f"one worker: {median(one):.2f} µs an answer, all threads {median(all_one):.2f}")
    print(f"two workers: {median(two):.2f} µs an answer, all threads {median(all_two):.2f}")
    print(f"gain by the busiest thread: {gain:.2f}")


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="make bench-workers", description=__doc__)
    parser.add_argument("--rounds", type=bench.number(1, 1_000), default=40, metavar="N")
    measure(parser.parse_args().rounds)
    return 0


if __name__ == "__main__":
    sys.exit(run_benchmark("make bench-workers", main))
