"""Part 5: the API server is killed and comes back: how soon the servers show what changed meanwhile.

Path: plan.py -> here -> real_api.py, server.py, latency.py's Patcher.
Rule 1: all servers watch at the same time, so that they see the same return.
Rule 2: the API server is back when it takes a write again, which is tried every 20 ms from its start on: so is its
        answer.  The state is current when an answer shows that write.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack
from math import inf
from statistics import median
from typing import Final

from loadtest.apiserver.objects import changed_address
from loadtest.bench import Progress
from loadtest.dns import a_record_of, question
from loadtest.process import BenchmarkError
from loadtest.programs import Program
from loadtest.server import ServerUnderTest
from loadtest.watch.access import WatchedSlice, slices
from loadtest.watch.latency import Patcher
from loadtest.watch.real_api import RealApi
from loadtest.watch.report import Figure, figures

TIMEOUT: Final = 120.0  # seconds for the API server to take a write, and for a server to show it
_PAUSE: Final = 0.02  # seconds between two tries of a write
_ASK_EVERY: Final = 0.005
_SETTLE: Final = 3.0  # seconds before the API server is killed
_NUMBER: Final = 1 << 17  # of the first address: one that no other part has written


def measure(
    programs: Sequence[Program],
    api: RealApi,
    services: int,
    away: float,
    rounds: int,
    progress: Progress,
) -> list[Figure]:
    """Kill the API server `rounds` times, for `away` seconds each."""
    times: dict[str, list[float]] = {each.name: [] for each in programs}
    with ExitStack() as stack:
        servers = [stack.enter_context(ServerUnderTest(each, api.access)) for each in programs]
        for server in servers:
            server.wait_answering()
        (target,) = slices(api.access, 1)
        for number in range(rounds):
            time.sleep(_SETTLE)
            progress.log(f"the API server is killed, for {away:.0f} s")
            api.kill()
            time.sleep(away)
            api.restart()
            address = changed_address(_NUMBER + number)
            since = _write(api, target, address)
            shown = _until_shown(servers, target, address, since)
            for server, seconds in zip(servers, shown, strict=True):
                times[server.name].append(inf if seconds is None else seconds)
                said = "not at all" if seconds is None else f"after {seconds:.2f} s"
                progress.log(f"{server.name}, round {number + 1}: current {said}")
    part = f"API server away for {away:.0f} s, {services:,} Services"
    what = "from its return until the state is current"
    return [
        figure
        for name, found in times.items()
        for figure in figures(
            part, name, (f"{what}, s", median(found), 2), (f"{what}, longest, s", max(found), 2)
        )
    ]


def _write(api: RealApi, target: WatchedSlice, address: str) -> float:
    """Replace an address as soon as the API server lets it be; return the time of its answer."""
    deadline = time.monotonic() + TIMEOUT
    while True:
        try:
            with Patcher(api.access) as patcher:
                patcher.send(target, 0, address)
                patcher.finish()
                return time.monotonic()
        except (OSError, BenchmarkError) as error:
            api.check()
            if time.monotonic() > deadline:
                raise BenchmarkError(f"the API server did not come back: {error}") from None
        time.sleep(_PAUSE)


def _until_shown(
    servers: Sequence[ServerUnderTest], target: WatchedSlice, address: str, since: float
) -> list[float | None]:
    """Ask all servers until each shows an address; the seconds that each took."""
    query, wanted = b"\0\1" + question(target.dns_name), a_record_of(address)
    shown: list[float | None] = [None] * len(servers)
    with ExitStack() as stack:
        socks = []
        for server in servers:
            sock = stack.enter_context(socket.socket(type=socket.SOCK_DGRAM))
            sock.connect(("127.0.0.1", server.port))
            sock.settimeout(1.0)
            socks.append(sock)
        while None in shown and time.monotonic() < since + TIMEOUT:
            for index, sock in enumerate(socks):
                if shown[index] is None:
                    sock.send(query)
                    try:
                        if wanted in sock.recv(65535):
                            shown[index] = max(0.0, time.monotonic() - since)
                    except TimeoutError:
                        continue
            time.sleep(_ASK_EVERY)
    return shown
