"""The order of the parts, and the API server of each.

Path: cli.py -> here -> startup.py, latency.py, churn.py -> report.Results.
Rule 1: starts and single writes use a real kube-apiserver if there is one, otherwise the in-test API server; streams
        of changes always come from the in-test one.
Rule 2: the cluster grows from size to size; it is not created again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from loadtest.bench import Progress
from loadtest.programs import PEER, Program
from loadtest.watch import churn, imports, latency, outage, startup
from loadtest.watch.churn import Load
from loadtest.watch.fake_api_process import FakeApiProcess
from loadtest.watch.real_api import RealApi
from loadtest.watch.report import Figure, Results
from loadtest.watch.startup import Api

IMPORTS, START, LATENCY, RETURN, CHURN, FLOOD = PARTS = (
    "imports",
    "start",
    "latency",
    "return",
    "churn",
    "flood",
)
_LATENCY_SIZE = 10_000  # Services; the first size that has as many, else the last


class Plan(NamedTuple):
    """The measurements to make."""

    parts: Sequence[str] = PARTS
    sizes: tuple[int, ...] = (1_000, 10_000)
    endpoints: int = 10
    rounds: int = 3
    long_idle: bool = True
    changes: int = 1_000
    rate: float = 100.0  # single writes a second
    loads: Mapping[str, Load] = MappingProxyType(
        {CHURN: Load(10_000, 1_000.0, 20.0, 500.0), FLOOD: Load(10_000, 5_000.0, 60.0)}
    )
    away: float = 20.0  # seconds for which the API server is killed
    outages: int = 3

    def quick(self) -> Plan:
        """A shorter plan of a minute or two."""
        return self._replace(
            sizes=(1_000,),
            rounds=1,
            long_idle=False,
            changes=100,
            outages=1,
            loads={
                part: load._replace(services=1_000, seconds=5.0 if part == CHURN else 10.0)
                for part, load in self.loads.items()
            },
        )


def run(
    plan: Plan,
    programs: list[Program],
    assets: str | None,
    context: dict[str, str],
    progress: Progress,
) -> Results:
    """Run the plan; raise BenchmarkError."""
    if PEER not in context:
        progress.log("CoreDNS is missing: HSDNS_PEER is not set and coredns is not on PATH")
        context[PEER] = "missing: HSDNS_PEER was not set and coredns not on PATH"
    found: dict[str, list[Figure]] = {part: [] for part in PARTS}
    if IMPORTS in plan.parts:
        found[IMPORTS] = imports.measure(programs, progress)
    if {START, LATENCY, RETURN} & set(plan.parts):
        with _api(plan, assets, progress) as api:
            context["watched in starts and single writes"] = api.title
            for services in _sizes(plan):
                api.create_up_to(services, progress)
                if START in plan.parts:
                    long_idle = plan.long_idle and services > 0
                    found[START] += startup.measure(
                        programs, api, services, plan.rounds, progress, long_idle=long_idle
                    )
                if services != latency_size(plan.sizes):
                    continue
                if LATENCY in plan.parts:
                    found[LATENCY] = latency.measure(
                        programs, api, services, plan.changes, plan.rate, progress
                    )
                if RETURN in plan.parts and isinstance(api, RealApi):
                    found[RETURN] = outage.measure(
                        programs, api, services, plan.away, plan.outages, progress
                    )
                elif RETURN in plan.parts:
                    progress.log("return is left out: it needs KUBEBUILDER_ASSETS")
    loads = {part: load for part, load in plan.loads.items() if part in plan.parts}
    if loads:
        with FakeApiProcess(plan.endpoints) as changing:
            context["watched in streams of changes"] = changing.title
            progress.log("loading the in-test API server")
            changing.create_up_to(max(load.services for load in loads.values()), progress)
            for part, load in loads.items():
                wide = load._replace(services=changing.services)  # changes go to all of them
                found[part] = churn.measure(programs, changing, wide, progress)
    return Results(context, [figure for part in PARTS for figure in found[part]])


def _api(plan: Plan, assets: str | None, progress: Progress) -> Api:
    """The API server for starts and single writes."""
    if assets is None:
        progress.log(
            "KUBEBUILDER_ASSETS is not set: the in-test API server takes the place of a real one"
        )
        return FakeApiProcess(plan.endpoints)
    progress.log("starting etcd and kube-apiserver")
    return RealApi(assets, plan.endpoints)


def _sizes(plan: Plan) -> list[int]:
    # An empty cluster first: nothing is deleted here.
    return [0, *sorted(plan.sizes)] if START in plan.parts else [latency_size(plan.sizes)]


def latency_size(sizes: Iterable[int]) -> int:
    """The size at which single writes are measured."""
    ordered = sorted(sizes)
    return next((size for size in ordered if size >= _LATENCY_SIZE), ordered[-1])
