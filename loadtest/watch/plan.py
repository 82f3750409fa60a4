"""The order of the parts, and the API server of each.

Path: cli.py -> here -> startup.py, latency.py, churn.py -> report.Results.
Rule 1: starts and single writes use a real kube-apiserver if there is one, otherwise the in-test API server; streams
        of changes always come from the in-test one.
Rule 2: the cluster grows from size to size; it is not created again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from loadtest.bench import Progress
from loadtest.programs import PEER, Program
from loadtest.watch import churn, imports, latency, outage, startup
from loadtest.watch.churn import Churn, Load
from loadtest.watch.fake_api_process import FakeApiProcess
from loadtest.watch.latency import Latency
from loadtest.watch.load import create_up_to
from loadtest.watch.outage import Outage
from loadtest.watch.real_api import RealApi
from loadtest.watch.report import Results
from loadtest.watch.startup import Api, Startup

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
    churn: Load = Load(10_000, 1_000.0, 20.0, 500.0)
    flood: Load = Load(10_000, 5_000.0, 60.0)
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
            churn=self.churn._replace(services=1_000, seconds=5.0),
            flood=self.flood._replace(services=1_000, seconds=10.0),
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
    started: list[Startup] = []
    delays: list[Latency] = []
    streams: list[Churn] = []
    imported = imports.measure(programs, progress) if IMPORTS in plan.parts else []
    outages: list[Outage] = []
    if {START, LATENCY, RETURN} & set(plan.parts):
        with ExitStack() as stack:
            api, more = _api(plan, assets, progress, stack)
            context["watched in starts and single writes"] = api.title
            for services in _sizes(plan):
                more(services)
                if START in plan.parts:
                    started += startup.measure(
                        programs,
                        api,
                        services,
                        plan.rounds,
                        progress,
                        long_idle=plan.long_idle and services > 0,
                    )
                if LATENCY in plan.parts and services == latency_size(plan.sizes):
                    delays = latency.measure(
                        programs,
                        api,
                        services,
                        plan.changes,
                        plan.rate,
                        progress,
                        controlled=isinstance(api, FakeApiProcess),
                    )
                if RETURN in plan.parts and services == latency_size(plan.sizes):
                    if isinstance(api, RealApi):
                        outages = outage.measure(
                            programs, api, services, plan.away, plan.outages, progress
                        )
                    else:
                        progress.log("return is left out: it needs KUBEBUILDER_ASSETS")
    loads = {CHURN: plan.churn, FLOOD: plan.flood}
    wanted = [load for part, load in loads.items() if part in plan.parts]
    if wanted:
        with FakeApiProcess(plan.endpoints) as changing:
            context["watched in streams of changes"] = changing.title
            progress.log("loading the in-test API server")
            changing.create_up_to(max(load.services for load in wanted), progress)
            for wanted_load in wanted:
                load = wanted_load._replace(services=changing.services)  # changes go to all of them
                streams += churn.measure(programs, changing, load, progress)
    return Results(context, started, delays, streams, imported, outages)


def _api(
    plan: Plan, assets: str | None, progress: Progress, stack: ExitStack
) -> tuple[Api, Callable[[int], None]]:
    """Start the API server for starts and single writes; return it with the function that grows the cluster."""
    if assets is None:
        progress.log(
            "KUBEBUILDER_ASSETS is not set: the in-test API server takes the place of a real one"
        )
        fake = stack.enter_context(FakeApiProcess(plan.endpoints))
        return fake, lambda services: fake.create_up_to(services, progress)
    progress.log("starting etcd and kube-apiserver")
    real = stack.enter_context(RealApi(assets))
    created = 0

    def more(services: int) -> None:
        nonlocal created
        create_up_to(real.access, created, services, plan.endpoints, progress)
        created = max(created, services)

    return real, more


def _sizes(plan: Plan) -> list[int]:
    # An empty cluster first: nothing is deleted here.
    return [0, *sorted(plan.sizes)] if START in plan.parts else [latency_size(plan.sizes)]


def latency_size(sizes: Iterable[int]) -> int:
    """The size at which single writes are measured."""
    ordered = sorted(sizes)
    return next((size for size in ordered if size >= _LATENCY_SIZE), ordered[-1])
