"""Has the judge of `hsdns load` judge right answers, altered ones and those of `hsdns serve`, under changes.

Path: here -> clean.py; `hsdns serve`, proxy.py and `hsdns load`, which makes the cluster up and changes it.
Rule 1: of ANSWERS right ones that are made in this process, all must be right (row `clean`).
Rule 2: a proxy alters answers at random times.  The report must have exactly these, each with its verdict and field,
        and no other that is not right (row `altered`).
Rule 3: of ANSWERS answers of the server none may be stale, early, missing, extra or wrong, and none may have been
        excused because states were forgotten or the cluster was not watched.  What is undecided is bounded (UNDECIDED).
        The memory of the generator with all its processes is bounded (MEMORY): what it remembers of the cluster and of
        replies has a limit; of each second of the run it keeps two histograms, about 10 KB (row `churn`).
Rule 4: in a run of its own the server is frozen in the middle.  The report must then say since when, within AGE of the
        time at which the server was told (row `freeze`).
Rule 5: answers of CoreDNS with its plugins have no wrong field (row `peers`, peers.py).
Rule 6: with --busy there are so many busy loops beside.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from hsdns.cli.running_server import RunningServer, ServerError
from loadtest.demo import BAD, corefile
from loadtest.figures import Checked, told
from loadtest.generators import HSDNS, churn_words
from loadtest.ports import free_port
from loadtest.process import BenchmarkError, Process, busy, run_benchmark
from loadtest.programs import ROOT
from loadtest.server import start
from loadtest.verdicts import clean, peers
from loadtest.verdicts.clean import Cleaned
from loadtest.verdicts.proxy import TWICE, Altered, Proxy

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
ROWS: Final = ("clean", "peers", "altered", "churn", "freeze")
ALTERED_SECONDS: Final = 120.0
ALTERED_RATE: Final = 1_000  # queries a second, for a proxy in Python
ALTERED_GAP: Final = 0.04  # seconds between two answers that are altered
ALTERED_SERVICES: Final = 100  # so that a proxy sees answers again after a change
LEAST_KINDS: Final = 50
CONTENT: Final = "stale, missing, extra or wrong in content"
_OF_CONTENT: Final = (
    "stale", "early", "missing", "extra", "wrong answer", "wrong rcode", "wrong additional"
)  # fmt: skip
_CALM: Final = 3.0  # seconds at the begin and at the end in which nothing is altered
_SEED: Final = 11
_EVERY: Final = 1.0  # seconds between two looks at the memory
_GRACE: Final = 120.0


class Told(NamedTuple):
    """Times of the wall clock, in seconds: before and after the server was told to freeze."""

    before: float
    after: float


class Ran(NamedTuple):
    """A run: its report, the most memory that the generator had in octets, and when the server was frozen."""

    report: dict[str, Any]
    memory: int
    frozen: Told | None = None
    altered: Sequence[Altered] = ()


def run(
    folder: Path, rate: int, seconds: float, churn: int, *, freezes: bool = False, gap: float = 0.0
) -> Ran:
    """Start the server, load it and perhaps freeze it in the middle; raise BenchmarkError.

    `gap`: the mean seconds between two answers that a proxy alters, 0 for none.
    """
    port, api, control, out = free_port(), free_port(), folder / "c.sock", folder / "report.json"
    out.unlink(missing_ok=True)
    serve, text = (*HSDNS, "serve", "-control", str(control)), corefile(port, api, ())
    proxy = Proxy(port, _CALM, seconds - 2 * _CALM, gap, _SEED) if gap else None
    asked, services = (port, SERVICES) if proxy is None else (proxy.port, ALTERED_SERVICES)
    words = churn_words(
        {"hsdns": asked}, api, f"services={services} endpoints={ENDPOINTS}", str(rate), churn,
        "-time", f"{seconds:g}s", "-max-time", f"{seconds:g}s", "-arrival", f"burst={BURST}", "-probes", "0",
        "-edns", "1232", "-wait", f"{START:g}s", "-json", str(out),
    )  # fmt: skip
    frozen, memory, cpu = None, 0, (0.0, 0.0)
    with (
        proxy or nullcontext(),
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
    print(f"CPU time: the server {cpu[0]:.1f} s, the generator {cpu[1]:.1f} s")
    return Ran(report, memory, frozen, [] if proxy is None else proxy.altered)


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
    reasons = verdicts["undecided"] | verdicts["unjudged"]
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
    if frozen is None or not verdicts["episodes"]:
        return [Checked("the freeze was not found", holds=False)]
    begin = datetime.fromisoformat(ran.report["started"]).timestamp()
    episode = max(verdicts["episodes"], key=lambda each: each["count"])
    since, length = begin + episode["since_s"], episode["until_s"] - episode["since_s"]
    error = max(0.0, frozen.before - since, since - frozen.after)
    stalest = max(each["us"] or 0 for each in verdicts["stale_age"]) / 1e6
    other = {word: verdicts["counts"][word] for word in BAD if word != "stale"}
    return [
        Checked(
            f"the freeze was found {error * 1000:.1f} ms from when the server was told (which took"
            f" {(frozen.after - frozen.before) * 1000:.1f} ms), at most {AGE * 1000:g}; {verdicts['counts']['stale']:,}"
            f" stale answers, by up to {stalest:.3f} s, asked for until {length:.3f} s after it",
            error <= AGE,
        ),
        Checked(", ".join(f"{count} {word}" for word, count in other.items()), not any(other.values())),
    ]  # fmt: skip


def judge_altered(ran: Ran) -> list[Checked]:
    """What is to be said of a run with a proxy: each verdict as often as the proxy made it, and no other."""
    (server,) = ran.report["servers"]
    expected = Counter(_class_of(each.kind.verdict) for each in ran.altered)
    verdicts, found = server["verdicts"], Counter[str]()
    for word in ("stale", "early", "missing", "extra"):
        found[_class_of(word)] += verdicts["counts"][word]
    for each in verdicts["wrong"]:
        found[_class_of(f"wrong {each['field']}")] += each["count"]
    for reason, count in verdicts["unjudged"].items():
        found[f"unjudged {reason}"] = count
    for second in server["per_second"]:
        for why, count in second["unmatched"].items():
            found[f"unanswered {why}"] += count
    differences = [
        f"{word}: {found[word]} of {expected[word]}"
        for word in sorted({*found, *expected})
        if found[word] != expected[word]
    ]
    kinds = len({each.kind.name for each in ran.altered})
    counts, undecided = server["counts"], verdicts["undecided"]
    lost = sum(
        count
        for word, count in expected.items()
        if word.startswith("unanswered") and word != TWICE.verdict
    )
    return [
        Checked(f"{len(ran.altered):,} of {counts['answered']:,} answers were altered, of {kinds} kinds, under"
                f" {verdicts['changes']:,} changes", kinds >= LEAST_KINDS),
        Checked(f"found with another verdict, or not: {', '.join(differences) or 'none'}", not differences),
        Checked(f"{counts['lost']} queries stayed unanswered, for {lost} replies that were none",
                counts["lost"] == lost),
        Checked(f"{sum(undecided.values())} undecided ({undecided})",
                sum(undecided.values()) <= UNDECIDED * counts["answered"]),
    ]  # fmt: skip


def _class_of(verdict: str) -> str:
    """The verdict; those about the content of the answer are one, because of a change nearby it may be another one."""
    return CONTENT if verdict in _OF_CONTENT else verdict


def judge_clean(found: Cleaned) -> list[Checked]:
    """What is to be said of right answers."""
    told = ", ".join(f"{count:,} {word}" for word, count in found.verdicts.items())
    judged = sum(found.verdicts.values())
    print(f"{judged / found.cpu:,.0f} answers judged in a second of CPU time ({found.cpu:.1f} s)")
    return [
        Checked(f"of {judged:,} right answers: {told}; under {found.changes:,} changes",
                found.verdicts["right"] == judged),
    ]  # fmt: skip


def main() -> int:
    """Run it; return the exit status: 0 if all holds, 1 if something does not."""
    parser = argparse.ArgumentParser(prog="python -m loadtest.verdicts", description=__doc__)
    add = parser.add_argument
    add("rows", nargs="*", choices=(*ROWS, []), help="default: all")
    add(
        "--answers",
        type=int,
        default=ANSWERS,
        help="of the rows clean and churn (default: %(default)s)",
    )
    add("--rate", type=int, default=RATE, help="a second (default: %(default)s)")
    add("--churn", type=int, default=CHURN, help="a second (default: %(default)s)")
    add(
        "--seconds",
        type=float,
        default=ALTERED_SECONDS,
        help="of the row altered (default: %(default)s)",
    )
    add("--busy", type=int, default=0, help="busy loops beside (default: none)")
    options = parser.parse_args()
    checked: list[Checked] = []
    rows, rate, churn = options.rows or ROWS, options.rate, options.churn
    with tempfile.TemporaryDirectory(prefix="verdicts-") as name, busy(options.busy):
        folder = Path(name)
        if "clean" in rows:
            checked += judge_clean(clean.run(options.answers))
        if "peers" in rows:
            checked += peers.run(folder)
        if "altered" in rows:
            slow = min(rate, ALTERED_RATE)
            found = run(folder, slow, options.seconds, min(churn, slow // 5), gap=ALTERED_GAP)
            checked += judge_altered(found)
        if "churn" in rows:
            found = run(folder, rate, options.answers / rate, churn)
            checked += judge(found, options.answers)
        if "freeze" in rows:
            found = run(folder, rate, FREEZE_SECONDS, churn, freezes=True)
            checked += judge_freeze(found)
    return told(checked)


if __name__ == "__main__":
    sys.exit(run_benchmark("bench-verdicts", main))
