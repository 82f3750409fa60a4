"""Reloads a server repeatedly and then ends it, while dnsperf sends queries over UDP and 50 TCP connections.

Path: `python -m loadtest.reload` -> here -> dnsperf twice, and the server under test.
Rule 1: everything is on loopback and bounded in time.  No query may be lost and no connection reset; dnsperf reports
        both.  /ready and /health are probed all the time and may not be refused before the end.
Rule 2: each reload changes the Corefile, so it creates new plugins and answer tables; one Corefile is invalid.
Rule 3: SIGTERM is sent while both dnsperfs run; they end within the lameduck period, like clients that switch to
        another server.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from loadtest.generators import counted, dnsperf_words, write_names
from loadtest.ports import free_port
from loadtest.pressure.run import Probes
from loadtest.process import BenchmarkError, run_benchmark
from loadtest.programs import ROOT, configuration, which
from loadtest.server import start, status_of

RELOADS: Final = 20
PAUSE: Final = 0.5  # seconds between reloads
RATE: Final = 5000  # queries a second over UDP
TCP_RATE: Final = 1000
CONNECTIONS: Final = 50
LAMEDUCK: Final = 6
NAMES: Final = (
    *(f"{name}.default.svc.cluster.local" for name in ("frontend", "nope")),
    "www.example.org",
)
PROBE_EVERY: Final = 0.02  # seconds
PROBE_TIMEOUT: Final = 2.0


class Outcome(NamedTuple):
    """The result of a run."""

    sent: int
    lost: int
    resets: int
    refused_probes: int
    status: int
    log: str

    @property
    def is_good(self) -> bool:
        """Nothing lost, nothing reset, no probe refused, a clean end, and only the invalid reload failed."""
        bad = (self.lost, self.resets, self.refused_probes, self.status)
        return not any(bad) and self.log.count("Restart failed") == 1 and self.sent > 0


def measure(dnsperf: str, folder: Path) -> Outcome:
    """Run the benchmark once; raise BenchmarkError."""
    corefile = folder / "hsdns.Corefile"
    questions = write_names(folder / "questions", NAMES)
    ports = {name: free_port() for name in ("port", "upstream", "health", "ready")}
    demo = ROOT / "hsdns" / "demo"

    def text(turn: int) -> str:
        return configuration("reload.Corefile", **ports, demo=demo, turn=turn, lameduck=LAMEDUCK)

    seconds = RELOADS * PAUSE + LAMEDUCK / 2
    words = dnsperf_words(dnsperf, ports["port"], questions, seconds, timeout=5)
    health, ready = (partial(_is_served, ports[page], page) for page in ("health", "ready"))
    asking: list[subprocess.Popen[str]] = []
    with start(folder, "hsdns", text(5)) as server:
        server.wait_until(ready, 15, "is not ready")
        try:
            asking += [
                _begin([*words, "-m", "udp", "-Q", str(RATE)]),
                _begin([*words, "-m", "tcp", "-Q", str(TCP_RATE), "-c", str(CONNECTIONS)]),
            ]
            probed = partial(Probes, every=PROBE_EVERY, within=PROBE_TIMEOUT)
            with probed(health) as healths, probed(ready) as readies:
                for turn in range(RELOADS):
                    time.sleep(PAUSE)
                    is_broken = turn == RELOADS // 2
                    corefile.write_text(". {\n    nonsense\n}\n" if is_broken else text(6 + turn))
                    os.kill(server.pid, signal.SIGUSR1)
                time.sleep(PAUSE)
                os.kill(server.pid, signal.SIGTERM)
                texts = [each.communicate(timeout=seconds + 30)[0] for each in asking]
            status = server.wait(LAMEDUCK + 15)
        finally:
            for each in asking:
                if each.poll() is None:
                    each.kill()
                    each.wait()
        log = server.printed(1_000_000)
    counts = [counted(text) for text in texts]
    sent = sum(each.sent for each in counts)
    lost = sent - sum(each.completed for each in counts)
    refused = sum(each.result.sent - each.result.answered for each in (healths, readies))
    return Outcome(sent, lost, sum(map(reconnections, texts)), refused, status, log)


def _is_served(port: int, page: str) -> bool:
    """Whether there is an answer; 503 is one, and the right one after SIGTERM.  Raise OSError if it is refused."""
    return bool(status_of(port, f"/{page}", timeout=PROBE_TIMEOUT))


def _begin(words: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def reconnections(text: str) -> int:
    """The number of connections that dnsperf reopened, and its messages about closed connections."""
    reported = sum(map(int, re.findall(r"Reconnections:\s+(\d+)", text)))
    return reported + len(re.findall(r"reset by peer|broken pipe", text, re.IGNORECASE))


def main() -> int:
    """Print the result; return 1 if anything was lost."""
    dnsperf = which("dnsperf")
    if dnsperf is None:
        raise BenchmarkError(
            "dnsperf is not on PATH; on Debian and Ubuntu: apt-get install dnsperf"
        )
    with tempfile.TemporaryDirectory(prefix="reload-") as folder:
        found = measure(dnsperf, Path(folder))
    print(
        f"{found.sent} queries at {RATE} a second over UDP and over {CONNECTIONS} TCP connections, "
        f"{RELOADS} reloads (one broken), 1 SIGTERM:\n"
        f"{found.lost} lost, {found.resets} connections reset, {found.refused_probes} probes refused, "
        f"exit status {found.status}"
    )
    if not found.is_good:
        print(found.log[-2000:], file=sys.stderr)
    return 0 if found.is_good else 1


if __name__ == "__main__":
    sys.exit(run_benchmark("bench-reload", main))
