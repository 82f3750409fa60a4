"""Rules of a running server: which blocks they take out of the answer table, and that nothing of them is left."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from hsdns.assemble import Configuration
from hsdns.faults.rules import RuleError
from hsdns.metrics import Registry
from hsdns.server.faults import StandingFaults
from tests.server.loopback import fetch
from tests.server.test_processors import Made
from tests.support.clients.messages import summary
from tests.support.cluster.objects import service
from tests.support.coroutines.event_loops import DEADLINE, until
from tests.support.servers.cluster_server import BlockingClient, ClusterServer
from tests.support.servers.memory_server import KUBERNETES, ask, cluster_objects
from tests.support.servers.udp_listeners import each_kind
from tests.support.tables import columns

TABLES = Path(__file__).with_name("tables.txt")

BLOCKS = f"""cluster.local:PORT {{
    bind 127.0.0.1
    {KUBERNETES}
}}
example.org:PORT {{
    bind 127.0.0.1
    cache 60
    template IN A {{
        answer "{{{{ .Name }}}} 60 IN A 192.0.2.1"
    }}
}}
"""
WEB, OUTSIDE = "web.default.svc.cluster.local.", "www.example.org."
RIGHT = {WEB: "10.96.0.1", OUTSIDE: "192.0.2.1"}
WAYS = ("udp", "tcp")


class Asking:
    """A server with two blocks, and what it answers."""

    def __init__(self, site: ClusterServer, way: str) -> None:
        self.site, self._way = site, way

    async def ask(self, name: str, times: int = 4) -> tuple[set[str], float]:
        """The answers to a question that is asked several times, and how many came from the table."""
        before = self.site.hits()

        def ask() -> set[str]:
            with BlockingClient(self.site.address, self._way) as client:
                found = [summary(client.ask(name)).split() for _ in range(times)]
            return {words[1] if words[1] != "NOERROR" else _address(words) for words in found}

        return await asyncio.to_thread(ask), self.site.hits() - before

    def add(self, text: str) -> None:
        server = self.site.server
        assert server.faults is not None
        server.faults.add(text.split(), server.configuration)

    def clear(self) -> None:
        assert self.site.server.faults is not None
        self.site.server.faults.clear()


@contextlib.asynccontextmanager
async def served(tmp_path: Path, way: str = "udp") -> AsyncIterator[tuple[ClusterServer, Asking]]:
    """A server whose cluster has one Service."""
    objects = cluster_objects(service("default/web", "10.96.0.1"))
    async with ClusterServer(tmp_path, BLOCKS, objects, faults=True) as site:
        yield site, Asking(site, way)


def _address(words: list[str]) -> str:
    return next(word for word in words if word.count(".") == 3 and word[0].isdigit())


class Timed:
    """Rules with a scripted clock; `timers` are what call_later() was asked."""

    def __init__(self, text: str) -> None:
        self.now = 0.0
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.rebuilt = 0
        self.made = Made(text)
        self.metrics = Registry()
        process: Any = self
        self.faults = StandingFaults(process, random=Random(1))
        vars(self.faults)["_after"] = self._call_later

    @property
    def configuration(self) -> Configuration:
        return self.made.configuration

    def add(self, text: str) -> None:
        self.faults.add(text.split(), self.configuration)
        self.faults.place(self.made.runtime)

    @property
    def placed(self) -> str:
        """The keys of the blocks with rules."""
        return " ".join(
            block.keys[0].token.text for block in self.configuration.blocks if block.fault
        )

    def clock(self) -> float:
        return self.now

    def configurations(self) -> tuple[Configuration, ...]:
        return ()

    def place_faults(self) -> None:
        self.rebuilt += 1

    def _call_later(self, seconds: float, call: Callable[[], None]) -> Any:
        self.timers.append((seconds, call))
        return self

    def cancel(self) -> None:
        self.timers.clear()


TWO = "a.org {\nwhoami\n}\nb.org:54 {\nwhoami\n}\nreload.org {\nreload\n}\n"


@pytest.mark.parametrize(("text", "sentence"), columns(TABLES, "rules that are refused"))
def test_refused(text: str, sentence: str) -> None:
    timed = Timed(TWO)
    with pytest.raises(RuleError) as caught:
        timed.add(text)
    assert str(caught.value) == sentence
    assert (timed.rebuilt, timed.faults.rules.all) == (0, [])


# --- connections, misses, and the process ---


@pytest.mark.sockets
@each_kind
async def test_a_full_queue_sheds_what_the_table_does_not_know(kind: str, tmp_path: Path) -> None:
    async with served(tmp_path) as (site, asking):
        await asking.ask(WEB)
        asking.add("queue-full")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.sendto(ask(OUTSIDE), site.address)
            await until(lambda: site.total("hsdns_fault_hits_total") == 1, "a hit")
            assert await asking.ask(WEB) == ({RIGHT[WEB]}, 4)
            assert site.total("hsdns_udp_queue_drops_total") == 1
            with pytest.raises(BlockingIOError):
                client.recv(512, socket.MSG_DONTWAIT)
        asking.clear()
        answers, hits = await asking.ask(OUTSIDE)
        assert (answers, hits > 0) == ({RIGHT[OUTSIDE]}, True)


PAGES = BLOCKS.replace("    bind", "    health 127.0.0.1:HTTP\n    bind", 1)


async def refuses(site: ClusterServer) -> tuple[bool, bool, bool]:
    """Whether UDP, TCP and HTTP are closed: the kernel says so."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect(site.address)
        client.settimeout(DEADLINE)
        with contextlib.suppress(ConnectionRefusedError):
            client.send(ask(WEB))
            await asyncio.to_thread(client.recv, 512)
            return False, False, False
    found = [True]
    for port in (site.port, site.http):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            found.append(True)
        else:
            writer.close()
            found.append(False)
    return found[0], found[1], found[2]


@pytest.mark.sockets
@each_kind
async def test_a_dead_process_comes_back_cold(kind: str, tmp_path: Path) -> None:
    objects = cluster_objects(service("default/web", "10.96.0.1"))
    async with ClusterServer(tmp_path, PAGES, objects, faults=True) as site:
        for way in WAYS:
            for name in (WEB, OUTSIDE):
                await Asking(site, way).ask(name)
        reader, writer = await asyncio.open_connection(*site.address)
        await until(lambda: len(site.server.opener.shared.places) == 1, "a connection")
        before, cached = site.server.instance, site.total("coredns_cache_hits_total")
        site.objects[-1:] = [service("default/web", "10.96.0.9")]  # read anew
        faults, asking = site.server.faults, Asking(site, "udp")
        assert faults is not None
        asking.add("die 1h named gone")
        await until(lambda: faults.rules.standing["gone"].hits == 1, "killed")
        assert await reader.read() == b""
        writer.close()
        assert await refuses(site) == (True, True, True)
        assert faults.is_restarting
        assert [each.name for each in faults.rules.all] == ["gone"]
        assert faults.remove("gone", None).ended == "removed"
        await until(lambda: not faults.is_restarting, "back")
        assert site.server.instance is not before
        answers, hits = await asking.ask(OUTSIDE, 1)
        assert (answers, hits) == ({RIGHT[OUTSIDE]}, 0)  # the table, and `cache`, have nothing
        assert (await asking.ask(WEB, 1))[0] == {"10.96.0.9"}
        assert site.total("coredns_cache_hits_total") == cached
        assert (await fetch(site.http, "/health")).endswith("200 OK")
