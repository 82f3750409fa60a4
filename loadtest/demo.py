"""`make load-demo`: loads hsdns, hsdns with a frozen state, and CoreDNS without and with `cache 30`, all in one run.

Path: `python -m loadtest.demo` -> here -> `hsdns load`, which makes the cluster up and serves it to the servers.
Rule 1: the servers get the same queries at the same times, under the same changes, and share one report.
Rule 2: every answer of hsdns must be right, and the report must show the stale answers of frozen or caching servers
        with their age; otherwise the exit status is 1.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

from loadtest.figures import Checked
from loadtest.generators import HSDNS, churn_words
from loadtest.ports import free_port
from loadtest.process import BenchmarkError, run_benchmark
from loadtest.programs import ROOT, configuration, which
from loadtest.server import start

# Seconds by which the age of the stalest answer may be lower than the duration of the run.
MARGIN: Final = 3.0
RATE: Final = "1000"  # queries a second to each server
SECONDS: Final = 32  # so that `cache 30` shows 30 s
CHURN: Final = 50  # changes a second
BAD: Final = ("stale", "early", "missing", "extra", "wrong")


class Subject(NamedTuple):
    """A server under test; `directives` are added to its Corefile.

    `stale` is the expected age of its stalest answer at the end, in seconds; None if no answer may be stale.
    """

    name: str
    title: str
    words: tuple[str, ...]
    directives: tuple[str, ...] = ()
    stale: float | None = None


def subjects(coredns: str | None) -> list[Subject]:
    """The servers whose programs are installed."""
    found = [
        Subject("hsdns", "hsdns", HSDNS),
        Subject("frozen", "hsdns with fault freeze", HSDNS, ("fault freeze",), float("inf")),
    ]
    if coredns is not None:
        found += [
            Subject("coredns", "CoreDNS", (coredns,)),
            Subject("cache", "CoreDNS with cache 30", (coredns,), ("cache 30",), 30.0),
        ]
    return found


def corefile(port: int, api: int, directives: Sequence[str]) -> str:
    """The Corefile of a server on a port, with the API server on another port."""
    lines = "\n    ".join(directives)
    return configuration("demo.Corefile", port=port, api=api, directives=lines)


def judged(subject: Subject, report: dict[str, Any]) -> Checked:
    """A line about the report of a server, and whether the result is as expected."""
    verdicts = report["verdicts"]
    counts: dict[str, int] = verdicts["counts"]
    stalest = next((each["us"] for each in verdicts["stale_age"] if each["name"] == "max"), None)
    age = "" if stalest is None else f", by up to {stalest / 1e6:.1f} s"
    words = (
        ", ".join(f"{counts[word]} {word}" for word in BAD if counts[word]) or "none that was not"
    )
    line = f"{subject.title}: {counts['right']} answers right, {words}{age}; under {verdicts['changes']} changes"
    if subject.stale is None:
        is_good = not any(counts[word] for word in BAD)
    else:
        expected = min(subject.stale, report["seconds"]) - MARGIN
        is_good = stalest is not None and stalest / 1e6 >= expected
    return Checked(line, is_good and counts["right"] > 0)


def coredns() -> str | None:
    """The program."""
    return os.environ.get("HSDNS_PEER") or which("coredns")


def loaded(
    folder: Path, servers: Sequence[Subject], rate: str, seconds: int, churn: int, *more: str
) -> list[dict[str, Any]]:
    """Load servers under `churn` changes a second; return the report of each; raise BenchmarkError."""
    ports, api = [free_port() for _ in servers], free_port()
    with tempfile.TemporaryDirectory(prefix="load-demo-") as logs, ExitStack() as stack:
        for server, port in zip(servers, ports, strict=True):
            text = corefile(port, api, server.directives)
            stack.enter_context(start(Path(logs), server.name, text, words=server.words))
        titled = dict(zip((each.title for each in servers), ports, strict=True))
        load = churn_words(
            titled, api, "services=100 endpoints=5", rate, churn,
            "-time", f"{seconds}s", "-wait", "30s", "-json", str(folder / "report.json"), *more,
        )  # fmt: skip
        if subprocess.run(load, cwd=ROOT, check=False).returncode:
            raise BenchmarkError("hsdns load has failed; what it says is above")
    return list(json.loads((folder / "report.json").read_text())["servers"])


def run(folder: Path, rate: str, seconds: int, churn: int) -> list[Checked]:
    """Load the servers; return a line about each, and whether it is as expected; raise BenchmarkError."""
    servers, page = subjects(coredns()), ("-html", str(folder / "report.html"))
    found = loaded(folder, servers, rate, seconds, churn, "-probes", "400", *page)
    return [judged(each, of) for each, of in zip(servers, found, strict=True)]


def main() -> int:
    """Load all servers; return the exit status."""
    folder = ROOT / "build" / "load-demo"
    folder.mkdir(parents=True, exist_ok=True)
    found = run(folder, RATE, SECONDS, CHURN)
    print(f"\nthe report is in {folder}")
    print("\n".join(each.said for each in found))
    return 0 if all(each.holds for each in found) else 1


if __name__ == "__main__":
    sys.exit(run_benchmark("load-demo", main))
