"""What the machine, the generator and a server on the same machine did in each second of a run, from /proc.

Path: cli/load.py calls Observer during a run -> here -> Results; pure functions over the text of the files.
Rule 1: a file that is missing, or of another user, gives None, and the report names it.
Rule 2: the processes of a server are those that have a socket open at its address, or at the wildcard address.  They
        are known only if that is an address of this machine.
Rule 3: CPU time is counted in ticks of 10 ms; the time in which the sender waited for a CPU is exact.
"""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from hsdns.load.counters import MachineTimes, add
from hsdns.load.results import Results

T = TypeVar("T")
PROC: Final = Path("/proc")
UDP_TABLES: Final = ("net/udp", "net/udp6")
TCP_TABLES: Final = ("net/tcp", "net/tcp6")
_TICK: Final = 10_000  # microseconds
_LISTENS: Final = "0A"
_SOCKET: Final = re.compile(r"socket:\[(\d+)\]")


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


def waited(schedstat: str) -> int:
    """Microseconds in which a thread was ready to run and waited for a CPU, from /proc/PID/schedstat."""
    return int(schedstat.split()[1]) // 1000


class Bound(NamedTuple):
    """A socket: its inode, the address and port that it is bound to, and how many datagrams it has dropped."""

    inode: str
    address: IPv4Address | IPv6Address
    port: int
    dropped: int


def sockets(table: str) -> list[Bound]:
    """The sockets of /proc/net/udp or udp6, or those of tcp or tcp6 that listen."""
    found = []
    for fields in map(str.split, table.splitlines()[1:]):
        is_udp = len(fields) == 13
        if is_udp or fields[3] == _LISTENS:
            place, _, port = fields[1].partition(":")
            words = [int(place[at : at + 8], 16) for at in range(0, len(place), 8)]
            address = ip_address(b"".join(each.to_bytes(4, sys.byteorder) for each in words))
            dropped = int(fields[12]) if is_udp else 0
            found.append(Bound(fields[9], address, int(port, 16), dropped))
    return found


def receiving(found: Iterable[Bound], host: str, port: int) -> set[str]:
    """The inodes of the sockets that receive what is sent to an address."""
    address = ip_address(host)
    return {
        each.inode
        for each in found
        if each.port == port
        and (each.address.is_unspecified or address in (each.address, getattr(each.address, "ipv4_mapped", None)))
    }


def is_own(host: str) -> bool:
    """Whether an address is one of this machine."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((host, 0))
        except OSError:
            return False
    return True


class Watched(NamedTuple):
    """The ID of the process that sends to a server, and the server's address, "" if that is of another machine."""

    sender: int
    host: str
    port: int
    is_udp: bool = True


class Observer:
    """Reads the files in `proc`; `counting` is the ID of the process that counts, `last` the last second."""

    def __init__(
        self, watched: Mapping[str, Watched], counting: int, last: int, proc: Path = PROC
    ) -> None:
        self._watched, self._counting, self._last, self._proc = watched, counting, last, proc
        # By the names of servers: their processes, their sockets, and those of the processes that send to them.
        self._servers: dict[str, list[int]] = {}
        self._sockets: dict[str, tuple[set[str], set[str]]] = {}
        self._before: dict[str, MachineTimes] = {}
        self._second = 0

    def see(
        self, servers: Mapping[str, Results], seconds: float, *, is_over: bool = False
    ) -> None:
        """Add what has happened since the last call to the second of that one, if another second has begun."""
        if self._before and int(seconds) <= self._second and not is_over:
            return
        for name in self._watched:
            before = self._before.get(name)
            if before is None:
                self._find(name)
            now = self._before[name] = self._times(name, seconds)
            if before is not None:
                second = servers[name].second(min(self._second, self._last))
                add(second.machine, now.since(before))
        self._second = int(seconds)

    def _find(self, name: str) -> None:
        """Find the sockets and processes of a server."""
        sender, host, port, is_udp = self._watched[name]
        theirs: set[str] = set()
        for table in UDP_TABLES if is_udp else TCP_TABLES:
            theirs |= receiving(self._read(table, sockets) or (), host, port) if host else set()
        open_in = self._open("[0-9]*") if theirs else []
        self._servers[name] = sorted({pid for pid, inode in open_in if inode in theirs})
        self._sockets[name] = {inode for _, inode in self._open(str(sender))}, theirs

    def _open(self, pids: str) -> Iterator[tuple[int, str]]:
        """The sockets that processes have open, by inode."""
        for file in self._proc.glob(f"{pids}/fd/*"):
            with suppress(OSError):
                if match := _SOCKET.fullmatch(os.readlink(file)):
                    yield int(file.parts[-3]), match[1]

    def _times(self, name: str, seconds: float) -> MachineTimes:
        sender, _, _, is_udp = self._watched[name]
        read = self._read
        ran = [read(f"{pid}/stat", cpu_of) for pid in self._servers[name]]
        bound = [each for table in UDP_TABLES for each in read(table, sockets) or ()] if is_udp else []
        dropped = [
            sum(each.dropped for each in bound if each.inode in inodes) if inodes and bound else None
            for inodes in self._sockets[name]
        ]
        return MachineTimes(
            round(seconds * 1e6),
            read("stat", busy),
            read("stat", stolen),
            read("pressure/cpu", pressure),
            read(f"{sender}/schedstat", waited),
            read(f"{sender}/stat", cpu_of),
            read(f"{self._counting}/stat", cpu_of),
            None if not ran or None in ran else sum(filter(None, ran)),
            *dropped,
        )

    def _read(self, file: str, value: Callable[[str], T]) -> T | None:
        try:
            return value((self._proc / file).read_text())
        except (OSError, ValueError, IndexError):
            return None
