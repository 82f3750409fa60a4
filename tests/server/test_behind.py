"""The metric of how far rules keep answers behind, for rules of the control door and of Corefiles."""

from __future__ import annotations

from random import Random

from hsdns.faults.rules import Rules, hits_metric
from hsdns.faults.words import read_rule
from hsdns.metrics import Registry
from hsdns.plugins.fault import Fault
from hsdns.plugins.kubernetes.faults import hold
from hsdns.server.faults import measure_behind
from tests.support.cluster.objects import service, upserts
from tests.support.coroutines.eager import finish
from tests.support.servers.memory_server import KUBERNETES, MemoryServer

COREFILE = f".:53 {{\nfault freeze type A named written\nfault drop type TXT\n{KUBERNETES}}}\n"


def test_behind() -> None:
    server = MemoryServer(COREFILE, None)
    runtime, metrics = server.runtime, Registry()
    standing = Rules(Random(1), hits_metric(metrics))
    measure_behind(metrics, runtime.clock, lambda: [server.configuration], standing)

    def measured() -> dict[tuple[str, ...], float]:
        metrics.fold()
        return metrics.gauge("hsdns_fault_behind_seconds", "").values

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


def test_the_states_of_a_corefile_are_kept_while_it_runs() -> None:
    server = MemoryServer(COREFILE, None)
    (fault,) = (each for each in server.configuration.plugins if isinstance(each, Fault))
    (block,) = server.plugins
    assert block.state.replaced.is_kept
    finish(fault.stop())
    assert not block.state.replaced.is_kept
