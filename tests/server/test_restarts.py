"""When the process restarts for its rules, with a scripted clock; and whole servers that are killed and end meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from hsdns.assemble import Configuration
from hsdns.cluster.objects import Upserted
from hsdns.faults.rules import RuleError, Rules, hits_metric
from hsdns.faults.words import read_rule
from hsdns.metrics import Registry
from hsdns.plugins.fault import blocks_of, hold
from hsdns.server import lifecycle
from hsdns.server.faults import Restarts, StandingFaults, measure_behind
from tests.server.loopback import WHOAMI, ReloadableServer, fetch, running
from tests.server.test_processors import Made
from tests.support.clients.messages import query, summary
from tests.support.clients.sockets import TcpClient, UdpClient
from tests.support.cluster.objects import service, upserts
from tests.support.coroutines.event_loops import DEADLINE, until
from tests.support.servers.cluster_server import BlockingClient, ClusterServer
from tests.support.servers.memory_server import KUBERNETES, MemoryServer, ask, cluster_objects
from tests.support.servers.udp_listeners import each_kind
from tests.support.tables import columns, values

TABLES = Path(__file__).with_name("tables.txt")


class Scripted:
    """A process whose time the test lets pass; `done` is what has happened."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pending = 0
        self.serves = True
        self.changing = asyncio.Lock()
        self.done: list[str] = []
        self.rules = Rules(Random(1), hits_metric(Registry()))
        self._timers: list[tuple[float, Callable[[], None]]] = []
        self.restarts = Restarts(self.rules, self, lambda: self.now, self._call_later, self.ended)

    @property
    def instance(self) -> Any:
        return SimpleNamespace(listeners=[SimpleNamespace(pending=self.pending)])

    def spawn(self, coro: Coroutine[Any, Any, Any], name: str) -> None:
        self.task = asyncio.get_running_loop().create_task(coro)

    async def restart(
        self, dead: Callable[[], Awaitable[None]], wanted: Callable[[], bool]
    ) -> bool:
        async with self.changing:
            if not self.serves or not wanted():
                return False
            self.done.append(f"killed at {self.now:g}")
            await dead()
            self.done.append(f"back at {self.now:g}")
            return True

    def ended(self) -> None:
        self.rules.expire(self.now)
        self.restarts.look()

    def add(self, text: str) -> None:
        self.rules.add(self.rules.make(read_rule(text.split()), self.now, 600.0))
        self.restarts.look()

    def remove(self, name: str) -> None:
        self.rules.remove(name)
        self.restarts.look()

    async def until(self, when: float) -> None:
        """Let time pass, timer by timer."""
        await self.turns()
        while due := [each for each in self._timers if each[0] <= when]:
            first = min(due, key=lambda each: each[0])
            self._timers.remove(first)
            self.now = first[0]
            first[1]()
            await self.turns()
        self.now = when

    async def turns(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    def _call_later(self, seconds: float, call: Callable[[], None]) -> Any:
        timer = (self.now + seconds, call)
        self._timers.append(timer)

        def cancel() -> None:
            self._timers[:] = [each for each in self._timers if each is not timer]

        return SimpleNamespace(cancel=cancel)


@pytest.mark.parametrize(("rules", "done"), values(TABLES, "times"))
async def test_times(rules: list[str], done: str) -> None:
    process = Scripted()
    for each in rules:
        process.add(each)
    await process.until(100.0)
    assert ", ".join(process.done) == done
    assert sum(rule.hits for rule in process.rules.all) == done.count("killed")


async def test_a_process_that_ends_does_not_restart() -> None:
    process = Scripted()
    process.serves = False
    process.add("restart")
    await process.until(10.0)
    assert (process.done, process.rules.standing["restart-1"].hits) == ([], 0)


@pytest.mark.parametrize(
    ("rule", "ends"),
    [("restart", "removed"), ("die 1h for 5m", "expired"), ("die 5s pending 5", "answered")],
)
async def test_a_rule_that_ends_while_another_change_goes_on(
    rule: str, ends: str, caplog: pytest.LogCaptureFixture
) -> None:
    process = Scripted()
    process.pending = 9
    async with process.changing:
        process.add(f"{rule} named late")
        await process.turns()
        assert process.restarts.is_restarting
        if ends == "removed":
            process.remove("late")
        elif ends == "expired":
            process.now = 300.0
        else:
            process.pending = 0
    await process.turns()
    assert (process.done, process.restarts.is_restarting) == ([], False)
    assert "plugin/fault: the process is back" not in caplog.text
    process.add("restart after 10m for 20m")
    await process.until(3600.0)
    assert len(process.done) == 2


# --- whole servers ---


async def killed(reloadable: ReloadableServer, rule: str) -> None:
    """Add a rule, and wait until the process is dead by it, or already back."""
    server = reloadable.server
    assert server.faults is not None
    before = server.instance
    server.faults.add(rule.split(), server.configuration)
    await until(lambda: server.instance is not before, "killed")


@pytest.mark.sockets
async def test_a_corefile_that_is_broken_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is tried until it is served; nothing else could be."""
    monkeypatch.setattr(lifecycle, "START_INTERVAL", 0.001)

    async with running(ReloadableServer(tmp_path, WHOAMI, faults=True)) as reloadable:
        reloadable.write("{")
        await killed(reloadable, "restart")
        await until(lambda: caplog.text.count("does not start again") > 1, "tried twice")
        whole = tmp_path / "whole"  # to be there at once, whenever it is read
        whole.write_text(WHOAMI)
        whole.replace(reloadable.path)
        await until(lambda: reloadable.server.is_serving, "back")
        assert (await reloadable.ask()).startswith("1 NOERROR")


@pytest.mark.sockets
async def test_queries_that_wait_are_pending(tmp_path: Path) -> None:
    async with running(ReloadableServer(tmp_path, WHOAMI, faults=True)) as reloadable:
        faults, configuration = reloadable.server.faults, reloadable.server.configuration
        assert faults is not None
        faults.add("delay 1m name late.test".split(), configuration)
        rule = faults.add("die 0s pending 3 times 1".split(), configuration)
        address = ("127.0.0.1", reloadable.port)
        with UdpClient() as client:
            for _ in range(2):
                client.sock.sendto(query("late.test").to_wire(), address)
            async with TcpClient(address) as third:
                assert (rule.hits, (await reloadable.ask())[:9]) == (0, "1 NOERROR")
                third.send(query("late.test").to_wire())
                await until(lambda: rule.ended == "spent", "died and came back")
                assert await third.has_ended()
        assert (await reloadable.ask()).startswith("1 NOERROR")


# Rules of a running server: which blocks they take out of the answer table, and that nothing of them is left.

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


# Rules about the state of a cluster, in a whole server: which blocks they concern, and that nothing of them is left.

CLUSTERS = Path(__file__).with_name("state_faults.corefile").read_text()


@pytest.mark.sockets
async def test_a_frozen_state_outlives_a_reload(tmp_path: Path) -> None:
    """If the kubernetes block is as it was; else the rule begins with what the new block reads."""
    async with served(tmp_path) as (site, asking):
        asking.add("freeze")
        site.apply(Upserted(service("default/web", "10.96.0.2", version="2")))
        site.write(BLOCKS.replace("192.0.2.1", "192.0.2.2"))
        assert await site.server.reload()
        assert await asking.ask(WEB) == ({"10.96.0.1"}, 0)
        site.objects = cluster_objects(service("default/web", "10.96.0.3", version="3"))
        site.write(BLOCKS.replace("pods insecure", "pods insecure\nttl 7"))
        assert await site.server.reload()
        assert await asking.ask(WEB) == ({"10.96.0.3"}, 0)


@pytest.mark.sockets
async def test_a_rule_that_ends_while_a_reload_places_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path) as (site, asking):
        faults, loop = site.server.faults, asyncio.get_running_loop()
        assert faults is not None
        asking.add("freeze")
        touched, serving = faults._touched, site.server.configuration

        def touched_then_removed(configuration: Configuration) -> set[int]:
            found = touched(configuration)
            if configuration is not serving and faults.rules.standing:
                removed = asyncio.run_coroutine_threadsafe(clear(), loop)
                removed.result(DEADLINE)
            return found

        async def clear() -> None:
            faults.clear()

        monkeypatch.setattr(faults, "_touched", touched_then_removed)
        site.write(BLOCKS.replace("pods insecure", "pods insecure\nttl 7"))
        assert await site.server.reload()
        assert all(each.fault is None for each in site.server.configuration.blocks)
        answers, hits = await asking.ask(WEB)
        assert (answers, hits > 0) == ({RIGHT[WEB]}, True)
        site.apply(Upserted(service("default/web", "10.96.0.2", version="2")))
        blocks = blocks_of(site.server.configuration.plugins)
        assert [len(each.state.replaced) for each in blocks] == [0]


@pytest.mark.parametrize(
    ("first", "second"),
    [("freeze", "lag 5s"), ("flap 1s type A", "freeze type A"), ("drop", "freeze")],
)
def test_rules_that_exclude_each_other(first: str, second: str) -> None:
    timed = Timed(CLUSTERS)
    timed.add(first)
    with pytest.raises(RuleError) as caught:
        timed.add(second)
    action = first.removesuffix(" type A")
    assert str(caught.value) == (
        f'it excludes the rule "{action.split()[0]}-1" ({action}), which answers the same queries; remove one of the two'
    )


COREFILE = f".:53 {{\nfault freeze type A named written\nfault drop type TXT\n{KUBERNETES}}}\n"


def test_behind() -> None:
    server = MemoryServer(COREFILE, None)
    runtime, metrics = server.runtime, Registry()
    standing = Rules(Random(1), hits_metric(metrics))
    process: Any = SimpleNamespace(
        metrics=metrics, clock=runtime.clock, configurations=lambda: [server.configuration]
    )
    measure_behind(process, standing)

    def measured() -> dict[tuple[str, ...], float]:
        metrics.fold()
        return metrics.gauge("hsdns_fault_behind_seconds").values

    def add(text: str) -> None:
        standing.add(standing.make(read_rule(text.split()), runtime.clock(), None))
        hold(standing, standing, server.configuration.plugins, runtime.clock)

    runtime.now += 1.0
    add("lag 5s named late")
    assert measured() == {("written",): 0.0, ("late",): 0.0}
    runtime.now += 1.0
    server.apply(*upserts(service("default/web")))
    runtime.now += 2.0
    assert measured() == {("written",): 2.0, ("late",): 2.0}
    runtime.now += 3.5
    standing.clear()
    add("lag 1s named other")
    assert measured() == {("written",): 5.5, ("other",): 0.0}
