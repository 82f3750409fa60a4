"""Has `hsdns load` verify the answers of `hsdns serve` under changes, and judges what it reports.

Path: here -> `hsdns serve`, and `hsdns load`, which makes the cluster up and changes it.
Rule 1: of ANSWERS answers none may be stale, early, missing, extra or wrong, and none may have been excused because
        states were forgotten or the cluster was not watched.  What is undecided is bounded (UNDECIDED).
Rule 2: the memory of the generator with all its processes is bounded (MEMORY): what it remembers of the cluster and of
        replies has a limit; of each second of the run it keeps two histograms, about 10 KB.
Rule 3: in a run of its own the server is frozen in the middle.  The report must then say since when, within AGE of the
        time at which the server was told.
Rule 4: in another run the same Services are asked for over many sockets at once, as fast as answers arrive, while each
        of them changes.  No answer may be older than one that had arrived before its query was sent.
Rule 5: in that run each change gives a Service an address that is higher than all before, so that an answer tells its
        state.  An answer is back in time if it is older than one that had arrived, at any socket and for any name of
        the Service, before its query was sent.
"""

from __future__ import annotations

import argparse
import json
import re
import selectors
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from hsdns.cli.running_server import RunningServer, ServerError
from hsdns.wire.edns import Edns
from hsdns.wire.encode import encode_query
from hsdns.wire.iana import RRType
from hsdns.wire.message import Query
from hsdns.wire.name import Name
from loadtest.apiserver.objects import namespace_of
from loadtest.bench import Progress
from loadtest.demo import BAD, corefile
from loadtest.dns import is_answering, query_of, service_name
from loadtest.figures import Checked, told
from loadtest.generators import HSDNS, churn_words
from loadtest.ports import free_port
from loadtest.process import BenchmarkError, Process, run_benchmark
from loadtest.programs import ROOT
from loadtest.server import start
from loadtest.watch.api_servers import FakeApiProcess

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
SLOWEST: Final = 2000  # answers a second that a server under changes gives at least
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
    begin = time.time() + START
    at = datetime.fromtimestamp(begin, UTC).isoformat()
    words = churn_words(
        {"hsdns": port}, api, f"services={SERVICES} endpoints={ENDPOINTS}", rate, churn,
        "-time", f"{seconds:g}s", "-max-time", f"{seconds:g}s", "-arrival", f"burst={BURST}", "-probes", "0",
        "-edns", "1232", "-wait", f"{START:g}s", "-start-at", at, "-live", "none", "-json", str(out),
    )  # fmt: skip
    frozen, memory, cpu = None, 0, (0.0, 0.0)
    with (
        start(folder, "hsdns", text, words=serve) as server,
        Process("load", words, folder, cwd=ROOT) as load,
    ):
        deadline = begin + seconds + _GRACE
        while load.is_running:
            with suppress(BenchmarkError):  # it has ended meanwhile
                memory = max(memory, load.memory().now)
                cpu = server.cpu(), load.cpu()
            server.check()
            if freezes and frozen is None and time.time() > begin + seconds / 2:
                frozen = freeze(control)
            if time.time() > deadline:
                raise BenchmarkError(f"hsdns load did not end:\n{load.printed()}")
            time.sleep(_EVERY)
        try:
            report = json.loads(out.read_text())
        except (OSError, ValueError):
            raise BenchmarkError(f"hsdns load wrote no report:\n{load.printed()}") from None
    return Ran(report, memory, cpu, frozen)


# --- answers that go back in time ---

ORDERED: Final = 5
OVER_UDP: Final = 12  # sockets
OVER_TCP: Final = 4
TIMEOUT: Final = 1.0  # seconds
# An A record whose address objects.py gives.
_CHANGED: Final = re.compile(rb"\x00\x04(\xac[\x10-\xff].{2})", re.DOTALL)


class Newest:
    """The newest state of each Service that any answer has shown."""

    def __init__(self) -> None:
        self.answers = self.back = 0
        self.worst = 0.0  # seconds between the newer answer and the older one
        self._seen: dict[int, tuple[bytes, float]] = {}

    def at(self, service: int) -> bytes:
        """The newest state that has arrived, for a query that is sent now."""
        return self._seen.get(service, (b"", 0.0))[0]

    def judge(self, service: int, newest: bytes, reply: bytes, now: float) -> None:
        """Count an answer to a query that was sent when `newest` was the newest state."""
        shown = max(_CHANGED.findall(reply), default=b"")
        last, since = self._seen.get(service, (b"", now))
        self.answers += 1
        if shown < newest:
            self.back += 1
            self.worst = max(self.worst, now - since)
        if shown > last:
            self._seen[service] = shown, now


class _Asker:
    """A socket with one query at a time."""

    def __init__(self, port: int, number: int, is_tcp: bool) -> None:
        self.is_tcp, self._number, self._sent = is_tcp, number, 0
        kind = socket.SOCK_STREAM if is_tcp else socket.SOCK_DGRAM
        self.sock = socket.socket(socket.AF_INET, kind)
        self.sock.connect(("127.0.0.1", port))
        self.service, self.newest, self.at = 0, b"", 0.0

    def ask(self, questions: Sequence[Sequence[bytes]], newest: Newest, now: float) -> None:
        """Send the next query."""
        self._sent += 1
        turn = self._sent + self._number
        self.service = turn % len(questions)
        forms = questions[self.service]
        wire = self._id() + forms[turn // len(questions) % len(forms)]
        self.newest, self.at = newest.at(self.service), now
        self.sock.send(len(wire).to_bytes(2, "big") + wire if self.is_tcp else wire)

    def answer(self) -> bytes | None:
        """The reply to the last query; None for another one."""
        reply = self.sock.recv(4096)
        reply = reply[2:] if self.is_tcp else reply
        return reply if reply[:2] == self._id() else None

    def _id(self) -> bytes:
        return (self._sent & 0xFFFF).to_bytes(2, "big")


def name_of(service: int) -> str:
    """The name of a Service."""
    return service_name(namespace_of(service), f"web-{service}")


def questions(service: int) -> list[bytes]:
    """Queries about a Service, without ID: for its addresses, its ports and its endpoint, each in two forms."""
    name = name_of(service)
    endpoint, port = f"web-{service}-0.{name}", f"_http._tcp.{name}"
    asked = [(name, RRType.A), (name, RRType.SRV), (port, RRType.SRV), (endpoint, RRType.A)]
    return [
        encode_query(Query.ask(Name.from_text(each), qtype, edns=edns), 0)[2:]
        for each, qtype in asked
        for edns in (None, Edns(1232, do=True))
    ]


def watch(port: int, answers: int, seconds: float) -> tuple[Newest, Counter[str]]:
    """Ask until there are so many answers, or for so long; return what was seen, and the queries without answer."""
    newest, lost = Newest(), Counter[str]()
    asked = [questions(service) for service in range(ORDERED)]
    askers = [_Asker(port, each, is_tcp=each >= OVER_UDP) for each in range(OVER_UDP + OVER_TCP)]
    end = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        for asker in askers:
            selector.register(asker.sock, selectors.EVENT_READ, asker)
            asker.ask(asked, newest, time.monotonic())
        while newest.answers < answers and (now := time.monotonic()) < end:
            for key, _ in selector.select(TIMEOUT):
                asker, now = key.data, time.monotonic()
                reply = asker.answer()
                if reply is not None:
                    newest.judge(asker.service, asker.newest, reply, now)
                    asker.ask(asked, newest, now)
            for asker in askers:
                if now - asker.at > TIMEOUT:
                    lost["tcp" if asker.is_tcp else "udp"] += 1
                    asker.ask(asked, newest, now)
    for asker in askers:
        asker.sock.close()
    return newest, lost


def run_order(folder: Path, serve: Sequence[str], answers: int, rate: float) -> Checked:
    """Watch a server's answers while an API server changes the Services; raise BenchmarkError."""
    port = free_port()
    with FakeApiProcess() as api:
        api.create_up_to(ORDERED, 1, Progress(sys.stderr))
        text = corefile(port, api.access.port, ())
        with start(folder, "server", text, words=serve) as server:
            is_up = partial(is_answering, port, query_of(name_of(0), "A"), tcp=True)
            server.wait_until(is_up, START, "does not answer")
            api.start_changes(rate, among=ORDERED)
            found, lost = watch(port, answers, _GRACE + answers / SLOWEST)
            changes, cpu = api.stop_changes(), server.cpu()
    return Checked(
        f"{found.back} of {found.answers:,} answers went back in time, by up to {found.worst * 1000:.2f} ms; under"
        f" {changes:,} changes, {rate:g} a second; over {OVER_UDP} sockets with UDP and {OVER_TCP} with"
        f" TCP; {lost.total()} without answer; the server used {cpu:.1f} s of CPU time",
        not found.back and found.answers >= answers,
    )  # fmt: skip


# --- runs under changes ---


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
    add("--order", action="store_true", help="only the run about answers that go back in time")
    add("--peer", help="another server's program, for the run with --order")
    options = parser.parse_args()
    checked: list[Checked] = []
    with tempfile.TemporaryDirectory(prefix="verdicts-") as name:
        folder, rate, churn = Path(name), options.rate, options.churn
        if not options.freeze:
            serve = (options.peer,) if options.peer else (*HSDNS, "serve")
            checked.append(run_order(folder, serve, options.answers, churn))
        if not options.freeze and not options.order:
            found = run(folder, rate, options.answers / rate, churn)
            checked += judge(found, options.answers)
        if not options.order:
            found = run(folder, rate, FREEZE_SECONDS, churn, freezes=True)
            checked += judge_freeze(found)
            used = "CPU time: the server {:.1f} s, the generator {:.1f} s, of the last run"
            print(used.format(*found.cpu))
    return told(checked)


if __name__ == "__main__":
    sys.exit(run_benchmark("bench-verdicts", main))
