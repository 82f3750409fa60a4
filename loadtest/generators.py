"""Load generators, as parts of benchmarks: the commands of `hsdns load`, dnsperf and h2load, and what they print.

Path: the benchmarks -> here -> `hsdns load`, dnsperf, h2load.
Rule 1: what is asked is a file of names; a server that stops to answer does not end the load.
Rule 2: the figure of a server under dnsperf is CPU time per completed query, not queries per second: with one core for
        dnsperf, dnsperf is the bottleneck, and a faster server waits more often.
Rule 3: latencies of dnsperf are measured in a run of their own at a rate that every server can handle, because it must
        print each query for them.
Rule 4: HTTPS is measured with h2load (nghttp2): dnsperf 2.10 stops where a reply comes before its sender waits for it.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from loadtest.dns import query_of
from loadtest.process import BenchmarkError, on_core
from loadtest.programs import ROOT

HSDNS: Final = (sys.executable, "-m", "hsdns")
CLIENTS: Final = 20
_GRACE: Final = 60.0
_COUNTS = {
    "sent": re.compile(r"Queries sent:\s+(\d+)"),
    "completed": re.compile(r"Queries completed:\s+(\d+)"),
    "seconds": re.compile(r"Run time \(s\):\s+([\d.]+)"),
}
_H2LOAD: Final = re.compile(r"finished in ([\d.]+)(m?s),(?:.|\n)*?(\d+) succeeded, (\d+) failed")
_ANSWERED = re.compile(r"^> (?!T )\S+ \S+ \S+ ([\d.]+)$", re.MULTILINE)


class Ran(NamedTuple):
    """The output of a generator, and its CPU time in seconds."""

    printed: str
    cpu: float


def run(
    words: Sequence[str],
    seconds: float,
    *,
    core: int | None = None,
    environ: Mapping[str, str] | None = None,
) -> Ran:
    """Run a generator to its end, which comes after some seconds; raise BenchmarkError."""
    before = _cpu_of_children()
    with tempfile.TemporaryFile("w+") as out, on_core(core):
        try:
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE, cwd=ROOT, text=True,
                env={**os.environ, **(environ or {})}, timeout=seconds + _GRACE, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise BenchmarkError(f"{words[0]} did not end") from None
        out.seek(0)
        printed = out.read()
    if done.returncode != 0:
        raise BenchmarkError(
            f"{words[0]} ended with status {done.returncode}: {done.stderr[-500:]}"
        )
    return Ran(printed, _cpu_of_children() - before)


def _cpu_of_children() -> float:
    """Seconds of CPU time of those that were waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def write_names(path: Path, names: Iterable[str]) -> Path:
    """Write a file of names, all for A records."""
    return write_questions(path, ((name, "A") for name in names))


def write_questions(path: Path, questions: Iterable[tuple[str, str]]) -> Path:
    """Write a file of names and types, which both generators read."""
    path.write_text("".join(f"{name} {rrtype}\n" for name, rrtype in questions))
    return path


# --- hsdns load ---


def load_words(port: int, names: Path, rate: float, seconds: float, *more: str) -> tuple[str, ...]:
    """The command that loads a server of this machine for some seconds; its report is JSON."""
    return (
        *HSDNS, "load", "-p", str(port), "-queries", str(names), "-rate", f"{rate:g}", "-time", f"{seconds:g}s",
        "-max-time", f"{seconds:g}s", "-keep-going", "-live", "none", "-o", "json", *more,
    )  # fmt: skip


def churn_words(
    ports: Mapping[str, int], api: int, cluster: str, rate: str, churn: int, *more: str
) -> tuple[str, ...]:
    """The command that verifies servers, by their titles, while the cluster that it serves to them changes."""
    servers = [f"{title}=127.0.0.1:{port}" for title, port in ports.items()]
    return (
        *HSDNS, "load", *(word for each in servers for word in ("-server", each)), "-rate", rate, "-seed", "1",
        "-source", "synthetic", *cluster.split(), "-api", f"127.0.0.1:{api}", "-churn", str(churn),
        "-churn-kinds", "scale=3,rollout=1,ready=4,kill=1,renumber=1", "-verify", *more,
    )  # fmt: skip


def counts_of(report: dict[str, Any]) -> dict[str, float]:
    """The counts of a report as the other clients of pressure/ print them; a percentile that does not stand is 0."""
    (server,) = report["servers"]
    counts, us = server["counts"], {each["name"]: each["us"] or 0 for each in server["latency"]}
    failed = sum(counts["rcodes"].get(rcode, 0) for rcode in ("SERVFAIL", "REFUSED"))
    return {
        "offered": counts["due"],
        "sent": counts["sent"],
        "answered": counts["answered"],
        "failed": failed,
        "p50_us": us["p50"],
        "p99_us": us["p99"],
        "worst_us": us["max"],
    }


# --- dnsperf ---


class Counted(NamedTuple):
    """The statistics that dnsperf prints at the end."""

    sent: int
    completed: int
    seconds: float


def dnsperf_words(
    program: str, port: int, questions: Path, seconds: float, *more: str
) -> list[str]:
    """The command of dnsperf, which takes whole seconds, with as many clients as all have."""
    return [
        program, "-s", "127.0.0.1", "-p", str(port), "-d", str(questions), "-l", str(max(1, round(seconds))),
        "-T", "1", "-t", "1", "-c", str(CLIENTS), *more,
    ]  # fmt: skip


def counted(text: str) -> Counted:
    """Read dnsperf's statistics; raise BenchmarkError if there are none."""
    found = {}
    for name, pattern in _COUNTS.items():
        match = pattern.search(text)
        if match is None:
            raise BenchmarkError(f'dnsperf does not say "{pattern.pattern}": {text[-300:]}')
        found[name] = match[1]
    return Counted(int(found["sent"]), int(found["completed"]), float(found["seconds"]))


def latencies(text: str) -> list[float]:
    """Read the seconds of each answered query from the output of dnsperf -v."""
    return [float(each) for each in _ANSWERED.findall(text)]


# --- h2load ---


def h2load_words(port: int, questions: Path, seconds: float, streams: int) -> list[str]:
    """The command of h2load with so many streams at once on the connection of each client, whose IDs are 0."""
    asked = [line.split() for line in questions.read_text().splitlines()]
    texts = [urlsafe_b64encode(query_of(*each)).rstrip(b"=").decode() for each in asked]
    uris = questions.with_suffix(".uris")
    uris.write_text("".join(f"https://127.0.0.1:{port}/dns-query?dns={text}\n" for text in texts))
    return [
        "h2load", "-c", str(CLIENTS), "-m", str(streams), "-D", str(max(1, round(seconds))), "-i", str(uris),
    ]  # fmt: skip


def counted_streams(text: str) -> Counted:
    """Read h2load's statistics, without the requests that wait at its end; raise BenchmarkError if there are none."""
    found = _H2LOAD.search(text)
    if found is None:
        raise BenchmarkError(f"h2load prints no statistics: {text[-300:]}")
    seconds = float(found[1]) / (1000 if found[2] == "ms" else 1)
    succeeded, failed = int(found[3]), int(found[4])
    return Counted(succeeded + failed, succeeded, seconds)
