"""Has `hsdns load` verify the answers of `hsdns serve` under changes, and judges what it reports.

Path: here -> `hsdns serve`, and `hsdns load`, which makes the cluster up and changes it.
Rule 1: of ANSWERS answers none may be stale, early, missing, extra or wrong, and none may have been excused because
        states were forgotten or the cluster was not watched.  What is undecided is bounded (UNDECIDED).
Rule 2: the memory of the generator with all its processes is bounded (MEMORY): what it remembers of the cluster and of
        replies has a limit; of each second of the run it keeps two histograms, about 10 KB.
Rule 3: in a run of its own the server is frozen in the middle.  The report must then say since when, within AGE of the
        time at which the server was told.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from hsdns.cli.running_server import RunningServer, ServerError
from loadtest.demo import BAD, corefile
from loadtest.figures import Checked, told
from loadtest.generators import HSDNS, churn_words
from loadtest.ports import free_port
from loadtest.process import BenchmarkError, Process, run_benchmark
from loadtest.programs import ROOT
from loadtest.server import start

ANSWERS: Final = 10_000_000
# Queries a second: with the API server and the judge on the same two cores, 10,000 leave no core for a pause.
RATE: Final = 5_000
# At once.  Before queries are due the generator looks at the clock without rest; this has it do so less often, and
# leaves the processors to the servers and the judge.
BURST: Final = 16
CHURN: Final = 1000  # changes a second
SERVICES: Final = 1000
ENDPOINTS: Final = 5
FREEZE_SECONDS: Final = 20.0  # of the run with a freeze, which comes in its middle
EXCUSES: Final = ("forgotten", "away", "unknown", "truncated")
UNDECIDED: Final = 0.01  # of all answers, at most
MEMORY: Final = 1 << 30  # octets
AGE: Final = 0.005  # seconds
LEAST: Final = 0.999  # of the answers, the rest may be lost
START: Final = 30.0  # seconds until both are ready
FAULTS: Final = "/v1/faults"
_EVERY: Final = 1.0  # seconds between two looks at the memory
_GRACE: Final = 120.0


class Told(NamedTuple):
    """Times of the wall clock, in seconds: before and after the server was told to freeze."""

    before: float
    after: float


class Ran(NamedTuple):
    """A run: its report, the most memory that the generator had in octets, and when the server was frozen.

    `cpu` are seconds of CPU time: of the server, and of the generator with the API server that is a part of it.
    """

    report: dict[str, Any]
    memory: int
    cpu: tuple[float, float] = (0.0, 0.0)
    frozen: Told | None = None


def run(folder: Path, rate: int, seconds: float, churn: int, *, freezes: bool = False) -> Ran:
    """Start the server, load it and perhaps freeze it in the middle; raise BenchmarkError."""
    port, api, control, out = free_port(), free_port(), folder / "c.sock", folder / "report.json"
    out.unlink(missing_ok=True)
    serve, text = (*HSDNS, "serve", "-control", str(control)), corefile(port, api, ())
    words = churn_words(
        {"hsdns": port}, api, f"services={SERVICES} endpoints={ENDPOINTS}", str(rate), churn,
        "-time", f"{seconds:g}s", "-max-time", f"{seconds:g}s", "-arrival", f"burst={BURST}", "-probes", "0",
        "-edns", "1232", "-wait", f"{START:g}s", "-json", str(out),
    )  # fmt: skip
    frozen, memory, cpu = None, 0, (0.0, 0.0)
    with (
        start(folder, "hsdns", text, words=serve) as server,
        Process("load", words, folder, cwd=ROOT) as load,
    ):
        deadline = time.time() + START + seconds + _GRACE
        while load.is_running:
            with suppress(BenchmarkError):  # it has ended meanwhile
                memory = max(memory, load.memory().now)
                cpu = server.cpu(), load.cpu()
            server.check()
            passed = re.findall(r"^(\d+)/\d+ s, ", load.printed(), re.MULTILINE)
            if freezes and frozen is None and max(map(int, passed), default=0) >= seconds / 2:
                frozen = freeze(control)
            if time.time() > deadline:
                raise BenchmarkError(f"hsdns load did not end:\n{load.printed()}")
            time.sleep(_EVERY)
        try:
            report = json.loads(out.read_text())
        except (OSError, ValueError):
            raise BenchmarkError(f"hsdns load wrote no report:\n{load.printed()}") from None
    return Ran(report, memory, cpu, frozen)


def freeze(control: Path) -> Told:
    """Have the server freeze; say when it was told to; raise BenchmarkError."""
    server = RunningServer(control, 0, "")
    before = time.time()
    try:
        list(server.lines(FAULTS, "POST", json.dumps({"rule": "freeze"}).encode()))
    except ServerError as error:
        raise BenchmarkError(f"the server was not frozen: {error}") from None
    return Told(before, time.time())


def judge(ran: Ran, answers: int) -> list[Checked]:
    """What is to be said of a run under changes."""
    (server,) = ran.report["servers"]
    verdicts, counts = server["verdicts"], server["verdicts"]["counts"]
    judged, undecided = sum(counts.values()), counts["undecided"]
    bad = ", ".join(f"{counts[word]} {word}" for word in BAD)
    reasons = verdicts["undecided"]
    why = ", ".join(f"{word} {count}" for word, count in sorted(reasons.items())) or "none"
    excused = sum(reasons.get(word, 0) for word in EXCUSES)
    ended = server["ended"]
    return [
        Checked(f"{judged:,} answers were judged, of {answers:,}", judged >= answers * LEAST and not ended),
        Checked(f"{bad}; under {verdicts['changes']:,} changes", not any(counts[word] for word in BAD)),
        Checked(f"{undecided} undecided ({why}), {undecided / max(1, judged):.4%} of all, at most {UNDECIDED:.0%}",
                undecided <= UNDECIDED * judged),
        Checked(f"{excused} answers were excused ({', '.join(EXCUSES)})", not excused),
        Checked(f"the generator had up to {ran.memory / 2**20:.0f} MiB, at most {MEMORY / 2**20:.0f}",
                ran.memory <= MEMORY),
    ]  # fmt: skip


def judge_freeze(ran: Ran) -> list[Checked]:
    """What is to be said of a run with a freeze."""
    (server,) = ran.report["servers"]
    verdicts, frozen = server["verdicts"], ran.frozen
    if frozen is None or verdicts["old_since_s"] is None:
        return [Checked("the freeze was not found", holds=False)]
    begin = datetime.fromisoformat(ran.report["started"]).timestamp()
    since = begin + verdicts["old_since_s"]
    error = max(0.0, frozen.before - since, since - frozen.after)
    stalest = max(each["us"] or 0 for each in verdicts["stale_age"]) / 1e6
    other = {word: verdicts["counts"][word] for word in BAD if word != "stale"}
    return [
        Checked(
            f"the freeze was found {error * 1000:.1f} ms from when the server was told (which took"
            f" {(frozen.after - frozen.before) * 1000:.1f} ms), at most {AGE * 1000:g}; {verdicts['counts']['stale']:,}"
            f" stale answers, by up to {stalest:.3f} s, asked for until {verdicts['old_for_s']:.3f} s after it",
            error <= AGE,
        ),
        Checked(", ".join(f"{count} {word}" for word, count in other.items()), not any(other.values())),
    ]  # fmt: skip


def main() -> int:
    """Run it; return the exit status: 0 if all holds, 1 if something does not."""
    parser = argparse.ArgumentParser(prog="python -m loadtest.verdicts", description=__doc__)
    add = parser.add_argument
    add("--answers", type=int, default=ANSWERS, help="default: %(default)s")
    add("--rate", type=int, default=RATE, help="a second (default: %(default)s)")
    add("--churn", type=int, default=CHURN, help="a second (default: %(default)s)")
    add("--freeze", action="store_true", help="only the run with a freeze, which is short")
    options = parser.parse_args()
    checked: list[Checked] = []
    with tempfile.TemporaryDirectory(prefix="verdicts-") as name:
        folder, rate, churn = Path(name), options.rate, options.churn
        if not options.freeze:
            found = run(folder, rate, options.answers / rate, churn)
            checked += judge(found, options.answers)
        found = run(folder, rate, FREEZE_SECONDS, churn, freezes=True)
        checked += judge_freeze(found)
        used = "CPU time: the server {:.1f} s, the generator {:.1f} s, of the last run"
        print(used.format(*found.cpu))
    return told(checked)


if __name__ == "__main__":
    sys.exit(run_benchmark("bench-verdicts", main))
