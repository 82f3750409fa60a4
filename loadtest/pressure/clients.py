"""Attackers and honest clients: processes that print one line of JSON when they have ended.

Path: rows.py (which) -> run.py, soak.py -> here -> asker.c, attackers.py, `hsdns load`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Final, NamedTuple, Self

from loadtest.dns import service_name
from loadtest.generators import counts_of, load_words, write_names
from loadtest.pressure.machine import lower_priority, raise_priority
from loadtest.process import BenchmarkError
from loadtest.programs import ROOT, compile_c
from loadtest.server import Ports

HEAVY: Final = "127.0.0.2"  # the address of the attackers
HONEST: Final = "127.0.0.1"
DOH_CLIENTS: Final = 4
_GRACE = 15.0
A: Final = 1
SRV: Final = 33
BIG: Final = "BIG"  # stands in a name for the Service with BIG_ENDPOINTS
BIG_ENDPOINTS: Final = 1_000


class Tools(NamedTuple):
    """The compiled programs, a folder for files of names, and the name that BIG stands for in them."""

    asker: Path
    upstream: Path
    folder: Path
    big: str

    def names(self, key: str, lines: Sequence[str], qtype: int) -> Path:
        """Write a file of names, all for one type."""
        path = self.folder / f"{key}.names"
        path.write_text("".join(f"{line.replace(BIG, self.big)} {qtype}\n" for line in lines))
        return path


def compile_tools(folder: Path, big: str) -> Tools:
    """Compile the C programs into a folder; raise BenchmarkError."""
    here = Path(__file__).parent
    asker, upstream = (compile_c(here / f"{name}.c", folder) for name in ("asker", "upstream"))
    return Tools(asker, upstream, folder, big)


class Counts(NamedTuple):
    """The counts of a client at its end; microseconds from query to reply.

    `all_p99_us` is that of all queries: one without a reply counts with its timeout of a second.
    """

    offered: int
    sent: int
    answered: int
    failed: int = 0  # of the answered: SERVFAIL or REFUSED
    p50_us: float = 0.0
    p99_us: float = 0.0
    worst_us: float = 0.0
    sent_away: int = 0
    all_p99_us: float = 0.0

    @property
    def share(self) -> float:
        """The share of the sent queries that were answered without a failure."""
        return (self.answered - self.failed) / self.sent if self.sent else 0.0


@dataclass(frozen=True)
class Presser:
    """An attacker: a process that ends by itself."""

    def words(self, tools: Tools, ports: Ports, seconds: float) -> Sequence[str]:
        """The command that attacks for some seconds."""
        raise NotImplementedError

    def scaled(self, share: float) -> Self:
        """The same attacker at a share of its rate."""
        return replace(self, rate=self.rate * share)  # type: ignore[attr-defined, call-arg] # all have one


@dataclass(frozen=True)
class Flood(Presser):
    """Queries over UDP; in names `*` and `#` stand for the parts that differ in each query (asker.c)."""

    key: str
    names: tuple[str, ...]
    rate: float
    source: str = HEAVY
    qtype: int = A

    def words(self, tools: Tools, ports: Ports, seconds: float) -> Sequence[str]:
        """The command."""
        names = tools.names(self.key, self.names, self.qtype)
        return (str(tools.asker), *map(str, (ports.dns, self.rate, seconds, names)), self.source)


@dataclass(frozen=True)
class Attack(Presser):
    """Clients over HTTP or HTTPS; `kind` and `rate` as in attackers.py."""

    kind: str
    rate: float = 1.0
    clients: int = 1
    is_doh: bool = False

    def words(self, tools: Tools, ports: Ports, seconds: float) -> Sequence[str]:
        """The command."""
        port, name = ports.doh if self.is_doh else ports.health, service_name("team-0", "web-0")
        words = (self.kind, port, seconds, self.clients, self.rate, name)
        return (sys.executable, "-m", "loadtest.pressure.attackers", *map(str, words))


def doh_attack(kind: str) -> Attack:
    """Four clients of DNS over HTTPS; `kind` is one of attackers.ATTACKS, whose rate is scaled."""
    return Attack(kind, clients=DOH_CLIENTS, is_doh=True)


@dataclass(frozen=True)
class OverTcp(Presser):
    """Queries for new names over one TCP connection, by `hsdns load`."""

    suffix: str
    rate: float

    def words(self, tools: Tools, ports: Ports, seconds: float) -> Sequence[str]:
        """The command."""
        # Names that no earlier run has queried.
        first, count = time.time_ns(), ceil(self.rate * seconds)
        names = (f"n{number}.{self.suffix}" for number in range(first, first + count))
        path = write_names(tools.folder / "over-tcp.names", names)
        over = ("-transport", "tcp", "-connections", "1", "-timeout", "2s", "-wait", "10s")
        return load_words(ports.dns, path, self.rate, seconds, *over)


class Client:
    """A running client; a context manager that ends it.

    `honest`: it has priority over attackers.  `yields`: it leaves the cores to the server, as if it had its own.
    """

    def __init__(
        self, words: Sequence[str], seconds: float, *, honest: bool = False, yields: bool = False
    ) -> None:
        self._what = " ".join(words[:4])
        self._seconds = seconds
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            words, stdout=pipe, stderr=pipe, cwd=ROOT, text=True, start_new_session=yields
        )
        if honest:
            raise_priority(self._process.pid)
        if yields:
            lower_priority(self._process.pid)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def counts(self) -> Counts:
        """Wait for the end and return its counts; raise BenchmarkError."""
        try:
            out, said = self._process.communicate(timeout=self._seconds + _GRACE)
        except subprocess.TimeoutExpired:
            raise BenchmarkError(f"{self._what} does not end") from None
        if self._process.returncode != 0:
            raise BenchmarkError(f"{self._what} failed: {said[-500:]}")
        return read_counts(out)


def read_counts(text: str) -> Counts:
    """Read a line of JSON; raise BenchmarkError."""
    try:
        found = json.loads(text)
        return Counts(**(counts_of(found) if "servers" in found else found))
    except (ValueError, TypeError, KeyError):
        raise BenchmarkError(f"a client says {text[:200]!r}, which are no counts") from None
