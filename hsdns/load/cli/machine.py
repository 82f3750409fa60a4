"""What the machine, the generator and a server on the same machine did in each second of a run, from /proc.

Path: cli/load.py calls Observer during a run -> here -> Results; pure functions over the text of the files.
Rule 1: a file that is missing, or of another user, gives None, and the report names it.
Rule 2: the processes of a server are those that have a socket open at its address, or at the wildcard address.  They
        are known only if that is an address of this machine.
Rule 3: CPU time is counted in ticks of 10 ms; the time in which the sender waited for a CPU is exact.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Final, TypeVar

from hsdns.load.counters import MachineTimes, add
from hsdns.load.results import Results

T = TypeVar("T")
PROC: Final = Path("/proc")
UDP: Final = ("net/udp", "net/udp6")
TCP: Final = ("net/tcp", "net/tcp6")
_TICK: Final = 10_000  # microseconds
_LISTENS: Final = "0A"


def busy(stat: str) -> int:
    """Microseconds in which CPUs ran processes, from /proc/stat."""
    return sum(map(int, stat.split(None, 4)[1:4])) * _TICK


def stolen(stat: str) -> int:
    """Microseconds in which CPUs were ready, but the hypervisor ran something else, from /proc/stat."""
    return int(stat.split(None, 9)[8]) * _TICK


def pressure(text: str) -> int:
    """Microseconds in which some task waited for a CPU, from /proc/pressure/cpu."""
    return int(text.partition("\n")[0].rpartition("total=")[2])


def cpu_of(stat: str) -> int:
    """Microseconds of CPU time of a process, from /proc/PID/stat; its name may have spaces and parentheses."""
    return sum(map(int, stat.rpartition(")")[2].split()[11:13])) * _TICK


def is_stopped(stat: str) -> bool:
    """Whether a process is stopped by a signal, from /proc/PID/stat."""
    return stat.rpartition(")")[2].split()[0] == "T"


def waited(schedstat: str) -> int:
    """Microseconds in which a thread was ready to run and waited for a CPU, from /proc/PID/schedstat."""
    return int(schedstat.split()[1]) // 1000


def receiving(table: str, host: str, port: int) -> set[str]:
    """The inodes of the sockets that receive what is sent to an address, from /proc/net/udp or tcp."""
    wanted, found = ip_address(host), set()
    for row in map(str.split, table.splitlines()[1:]):
        place, _, number = row[1].partition(":")
        words = [int(place[at : at + 8], 16) for at in range(0, len(place), 8)]
        bound = ip_address(b"".join(each.to_bytes(4, sys.byteorder) for each in words))
        is_any = bound.is_unspecified and bound.version >= wanted.version
        is_there = is_any or wanted in (bound, getattr(bound, "ipv4_mapped", None))
        if int(number, 16) == port and is_there and (len(row) == 13 or row[3] == _LISTENS):
            found.add(row[9])
    return found


def dropped(table: str, inodes: Collection[str]) -> int:
    """How many datagrams did not fit into some sockets, from /proc/net/udp."""
    rows = map(str.split, table.splitlines()[1:])
    return sum(int(row[12]) for row in rows if row[9] in inodes)


def is_own(host: str) -> bool:
    """Whether an address is one of this machine."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe, suppress(OSError):
        probe.bind((host, 0))
        return True
    return False


class Observer:
    """Watches the processes that send and count, by their IDs, and a server of this machine; "" for another machine."""

    proc: Path = PROC
    clock: Callable[[], int] = time.monotonic_ns

    def __init__(self, sender: int, counting: int, host: str, port: int, *, is_udp: bool) -> None:
        self._pids, self._place, self._is_udp = (sender, counting), (host, port), is_udp
        self._servers: set[int] = set()
        self._sockets: set[str] = set()  # of the server
        self._before: MachineTimes | None = None
        self._second = self._stopped = self._looked = 0

    def see(self, results: Results | None, seconds: float, *, is_over: bool = False) -> None:
        """Add what has happened since the last call, if another second has begun; the first call begins."""
        now = self.clock() // 1000
        if self._read(f"{self._pids[0]}/stat", is_stopped):
            self._stopped += now - self._looked
        self._looked = now
        if self._before is None:
            self._find(*self._place)
        elif int(seconds) <= self._second and not is_over:
            return
        times, before = self._times(now), self._before
        if before is not None and results is not None:
            add(results.second(self._second).machine, times.since(before))
        self._before, self._second = times, int(seconds)

    def _find(self, host: str, port: int) -> None:
        for table in (UDP if self._is_udp else TCP) if host else ():
            self._sockets |= self._read(table, lambda text: receiving(text, host, port)) or set()
        for file in self.proc.glob("[0-9]*/fd/*") if self._sockets else ():
            with suppress(OSError):  # it may be of another user, or just closed
                if os.readlink(file)[len("socket:[") : -1] in self._sockets:
                    self._servers.add(int(file.parts[-3]))

    def _times(self, now: int) -> MachineTimes:
        read = self._read
        sender, counting = self._pids
        ran = [read(f"{pid}/stat", cpu_of) or 0 for pid in self._servers]
        full = [read(table, lambda text: dropped(text, self._sockets)) for table in UDP]
        return MachineTimes(
            now,
            read("stat", busy),
            read("stat", stolen),
            read("pressure/cpu", pressure),
            read(f"{sender}/schedstat", waited),
            read(f"{sender}/stat", cpu_of),
            read(f"{counting}/stat", cpu_of),
            sum(ran) if ran else None,
            sum(filter(None, full)) if self._servers and self._is_udp else None,
            self._stopped,
        )

    def _read(self, file: str, value: Callable[[str], T]) -> T | None:
        with suppress(OSError, ValueError, IndexError):
            return value((self.proc / file).read_text())
        return None
