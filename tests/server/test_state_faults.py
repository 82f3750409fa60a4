"""Rules about the state of a cluster, in a whole server: which blocks they concern, and that nothing of them is left."""

from __future__ import annotations

import asyncio
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
from hsdns.server.faults import measure_behind
from tests.server.test_faults import BLOCKS, RIGHT, WEB, Timed, served
from tests.support.cluster.objects import service, upserts
from tests.support.coroutines.event_loops import DEADLINE
from tests.support.servers.memory_server import KUBERNETES, MemoryServer, cluster_objects

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
