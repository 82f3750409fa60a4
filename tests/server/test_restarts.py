"""When the process restarts for its rules, with a scripted clock; and whole servers that are killed and end meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from hsdns.faults.rules import Rules, hits_metric
from hsdns.faults.words import read_rule
from hsdns.metrics import Registry
from hsdns.server import lifecycle
from hsdns.server.faults import Restarts
from tests.server.loopback import WHOAMI, ReloadableServer, running
from tests.support.clients.messages import query
from tests.support.clients.sockets import TcpClient, UdpClient
from tests.support.coroutines.event_loops import until
from tests.support.tables import values

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
