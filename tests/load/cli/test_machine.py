"""What a machine did during a run, from files like those of /proc."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

import pytest
from msgspec.structs import astuple

from hsdns.load.cli.machine import Observer
from hsdns.load.counters import MachineTimes
from hsdns.load.output.words import machine_words
from hsdns.load.results import Results
from tests.load.test_report import named, results

SENDER, COUNTING, SERVER, OTHER = 11, 12, 13, 14
HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n"


def udp(*sockets: tuple[str, int, int]) -> str:
    rows = (
        f" 1: {place} 00000000:0000 07 0:0 00:0 0 0 0 {inode} 2 0 {drops}\n"
        for place, inode, drops in sockets
    )
    return HEAD + "".join(rows)


def write(proc: Path, at: int) -> None:
    """Files of a machine on which, in each second, everything has gone on by so much as its number says."""
    files = {
        "stat": f"cpu  {at * 60} 0 {at * 40} 9 9 9 9 {at * 2} 0 0\ncpu0 1 2 3\n",
        "pressure/cpu": f"some avg10=0.00 avg60=0.00 avg300=0.00 total={at * 300_000}\nfull avg10=0 total=0\n",
        f"{SENDER}/schedstat": f"1 {at * 30_000_000} 5\n",
        "net/udp": udp(("0100007F:0035", 101, at * 4), ("00000000:0035", 102, at), ("0200007F:0035", 103, at * 9)),
    }  # fmt: skip
    for pid, ticks in ((SENDER, 50), (COUNTING, 5), (SERVER, 20), (OTHER, 7)):
        files[f"{pid}/stat"] = (
            f"{pid} (a (b) c) {'T' if at == 3 else 'S'} 1 1 1 0 -1 0 0 0 0 0 {at * ticks} {at} 0 0 20 0 1\n"
        )
    for name, text in files.items():
        (proc / name).parent.mkdir(parents=True, exist_ok=True)
        (proc / name).write_text(text)


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """The files of the first second, and the sockets that are open."""
    write(tmp_path, 1)
    for pid, inode in ((SERVER, 101), (SERVER, 102), (OTHER, 103)):
        (tmp_path / str(pid) / "fd").mkdir(exist_ok=True)
        os.symlink(f"socket:[{inode}]", tmp_path / str(pid) / "fd" / str(inode))
    return tmp_path


def seen(proc: Path, host: str = "127.0.0.1", port: int = 53) -> list[MachineTimes]:
    """Two seconds; each file says more at each time."""
    found = Results([], 0)
    observer = Observer(SENDER, COUNTING, host, port, is_udp=True)
    ticks = count()
    observer.proc, observer.clock = proc, lambda: next(ticks) * 1_100_000_000
    observer.see(None, 0.0)
    for at, seconds in ((2, 1.1), (3, 1.9), (4, 2.5)):
        write(proc, at)
        observer.see(found, seconds)
    write(proc, 5)
    observer.see(found, 2.6, is_over=True)
    return [each.machine for each in found.seconds.values()]


def test_every_second(proc: Path) -> None:
    first, second, end = seen(proc)
    assert first == MachineTimes(1_100_000, 10**6, 20_000, 300_000, 30_000, 510_000, 60_000, 210_000, 5, 0)  # fmt: skip
    assert (second.elapsed, second.stopped, second.others) == (
        2_200_000,
        1_100_000,
        2 * (10**6 - 780_000 + 20_000),
    )
    assert astuple(second)[1:-1] == tuple(2 * each for each in astuple(end)[1:-1])


@pytest.mark.parametrize(("host", "port"), [("", 53), ("127.0.0.1", 54), ("::1", 53)])
def test_a_server_that_is_not_found(proc: Path, host: str, port: int) -> None:
    """It is on another machine, or no socket is at its port."""
    first, *_ = seen(proc, host, port)
    assert (first.server, first.overflowed, first.others) == (None, None, None)


def test_in_words() -> None:
    """What is not told is named, unless nothing is."""
    server = named(results())
    server.machine = MachineTimes(10**6, 2_000_000, 0, sender=800_000, overflowed=7)
    assert machine_words(server) == [
        "CPU time: sender 800 ms, counting not known, server not known, all processes 2.00 s, "
        "without a CPU: sender not known, some task (/proc/pressure/cpu) not known, stolen by the hypervisor 0 us",
        "no room in sockets of the server: 7 dropped",
    ]
    server.machine = MachineTimes()
    assert machine_words(server) == []
