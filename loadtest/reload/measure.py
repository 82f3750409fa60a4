"""Reloads a server repeatedly and then ends it, while dnsperf sends queries over UDP and 50 TCP connections.

Path: `python -m loadtest.reload` -> here -> dnsperf twice, and the server under test.
Rule 1: everything is on loopback and bounded in time.  No query may be lost and no connection reset; dnsperf reports
        both.  /ready and /health are probed all the time and may not be refused before the end.
Rule 2: each reload changes the Corefile, so it creates new plugins and answer tables; one Corefile is invalid.
Rule 3: SIGTERM is sent while both dnsperfs run; they end within the lameduck period, like clients that switch to
        another server.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from loadtest.answering.dnsperf import counted
from loadtest.ports import free_port
from loadtest.process import BenchmarkError

RELOADS: Final = 20
PAUSE: Final = 0.5  # seconds between reloads
RATE: Final = 5000  # queries a second over UDP
TCP_RATE: Final = 1000
CONNECTIONS: Final = 50
LAMEDUCK: Final = 6
QUESTIONS: Final = """\
frontend.default.svc.cluster.local A
nope.default.svc.cluster.local A
www.example.org A
"""
COREFILE: Final = """\
.:{port} {{
    bind 127.0.0.1
    errors
    health 127.0.0.1:{health} {{
        lameduck {lameduck}s
    }}
    ready 127.0.0.1:{ready}
    kubernetes cluster.local {{
        source manifests {demo}
        ttl {turn}
    }}
    forward . 127.0.0.1:{upstream}
    cache {turn}
    loadbalance
}}
.:{upstream} {{
    bind 127.0.0.1
    whoami
}}
"""


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


class Probes:
    """Probes /ready and /health continuously and counts refusals; a context manager."""

    def __init__(self, pages: Mapping[str, int]) -> None:
        self.refused = 0
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=page) for page in pages.items()]

    def __enter__(self) -> Probes:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def end(self) -> None:
        """Stop probing."""
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, path: str, port: int) -> None:
        while not self._over.wait(0.02):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=2).close()
            except urllib.error.HTTPError:
                pass  # 503 is an answer, and the right one after SIGTERM
            except OSError:
                self.refused += 1


def measure(dnsperf: str, folder: Path) -> Outcome:
    """Run the benchmark once; raise BenchmarkError."""
    corefile, questions, log = folder / "Corefile", folder / "questions", folder / "log"
    questions.write_text(QUESTIONS)
    port, upstream, health, ready = (free_port() for _ in range(4))
    demo = Path(__file__).resolve().parents[2] / "hsdns" / "demo"

    def write(turn: int) -> None:
        corefile.write_text(
            COREFILE.format(
                port=port, upstream=upstream, health=health, ready=ready, demo=demo, turn=turn,
                lameduck=LAMEDUCK,
            )
        )  # fmt: skip

    write(5)
    seconds = RELOADS * PAUSE + LAMEDUCK / 2
    with log.open("wb") as out:
        server = subprocess.Popen(
            [sys.executable, "-m", "hsdns", "-conf", str(corefile)],
            stdout=out,
            stderr=out,
            env={**os.environ, "PYTHONPATH": str(demo.parents[1])},
        )
    asking: list[subprocess.Popen[str]] = []
    try:
        _wait_ready(ready, server, log)
        words = [dnsperf, "-s", "127.0.0.1", "-p", str(port), "-d", str(questions), "-t", "5"]
        words += ["-l", str(round(seconds)), "-T", "1"]
        asking += [
            _begin([*words, "-m", "udp", "-Q", str(RATE), "-c", "20"]),
            _begin([*words, "-m", "tcp", "-Q", str(TCP_RATE), "-c", str(CONNECTIONS)]),
        ]
        with Probes({"health": health, "ready": ready}) as probes:
            for turn in range(RELOADS):
                time.sleep(PAUSE)
                if turn == RELOADS // 2:
                    corefile.write_text(". {\n    nonsense\n}\n")
                else:
                    write(6 + turn)
                server.send_signal(signal.SIGUSR1)
            time.sleep(PAUSE)
            server.send_signal(signal.SIGTERM)
            texts = [each.communicate(timeout=seconds + 30)[0] for each in asking]
            probes.end()
        status = server.wait(timeout=LAMEDUCK + 15)
    finally:
        for each in asking:
            _kill(each)
        _kill(server)
    figures = [counted(text) for text in texts]
    sent = sum(each.sent for each in figures)
    resets = sum(reconnections(text) for text in texts)
    lost = sent - sum(each.completed for each in figures)
    return Outcome(sent, lost, resets, probes.refused, status, log.read_text())


def _begin(words: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _kill(process: subprocess.Popen[Any]) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()


def reconnections(text: str) -> int:
    """The number of connections that dnsperf reopened, and its messages about closed connections."""
    reported = sum(map(int, re.findall(r"Reconnections:\s+(\d+)", text)))
    return reported + len(re.findall(r"reset by peer|broken pipe", text, re.IGNORECASE))


def _wait_ready(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 15
    while server.poll() is None and time.monotonic() < deadline:
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=1),
        ):
            return
        time.sleep(0.05)
    raise BenchmarkError(f"the server does not come up: {log.read_text()[-500:]}")


def main(argv: Sequence[str] | None = None) -> int:
    """Print the result; return 1 if anything was lost."""
    parser = argparse.ArgumentParser(prog="python -m loadtest.reload", description=__doc__)
    parser.add_argument("--dnsperf", default=shutil.which("dnsperf"), help="the program")
    options = parser.parse_args(argv)
    if not options.dnsperf:
        print(
            "dnsperf is not on PATH; on Debian and Ubuntu: apt-get install dnsperf", file=sys.stderr
        )
        return 1
    with tempfile.TemporaryDirectory(prefix="reload-") as folder:
        try:
            found = measure(options.dnsperf, Path(folder))
        except BenchmarkError as error:
            print(error, file=sys.stderr)
            return 1
    print(
        f"{found.sent} queries at {RATE} a second over UDP and over {CONNECTIONS} TCP connections, "
        f"{RELOADS} reloads (one broken), 1 SIGTERM:\n"
        f"{found.lost} lost, {found.resets} connections reset, {found.refused_probes} probes refused, "
        f"exit status {found.status}"
    )
    if not found.is_good:
        print(found.log[-2000:], file=sys.stderr)
    return 0 if found.is_good else 1
