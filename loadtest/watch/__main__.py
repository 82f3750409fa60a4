"""The benchmark of watches: `make bench-watch`, or `python -m loadtest.watch`: the parts in order.

Path: here -> parts.py -> report.py.
Rule 1: starts and single writes use a real kube-apiserver if there is one, otherwise the in-test API server; streams
        of changes always come from the in-test one.
Rule 2: the cluster grows from size to size; it is not created again.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from compileall import compile_dir
from types import MappingProxyType
from typing import NamedTuple

from loadtest import bench
from loadtest.bench import Measured, Progress
from loadtest.programs import PEER, ROOT, Program, hsdns_and_coredns
from loadtest.watch import parts
from loadtest.watch.api_servers import Api, FakeApiProcess, RealApi
from loadtest.watch.parts import Load
from loadtest.watch.report import NAME, Figure, Results, judge, rows, section, table

MAX_SERVICES = 100_000
START, LATENCY, RETURN, CHURN, FLOOD = PARTS = tuple("start latency return churn flood".split())
# Services; the last is the limit of Kubernetes.  If neither was chosen, the first size that has more, else the last.
_LATENCY_SIZES = (10_000, 15_000)


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
        loads = {
            part: load._replace(services=1_000, seconds=5.0 if part == CHURN else 10.0)
            for part, load in self.loads.items()
        }
        return self._replace(
            sizes=(1_000,), rounds=1, long_idle=False, changes=100, outages=1, loads=loads
        )


def measure_all(
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
    if {START, LATENCY, RETURN} & set(plan.parts):
        with _api(assets, progress) as api:
            context["watched in starts and single writes"] = api.title
            for services in (
                [0, *sorted(plan.sizes)] if START in plan.parts else latency_sizes(plan.sizes)
            ):
                api.create_up_to(services, plan.endpoints, progress)
                if START in plan.parts:
                    long_idle = plan.long_idle and services > 0
                    found[START] += parts.measure_starts(
                        programs, api, services, plan.rounds, progress, long_idle=long_idle
                    )
                if services not in latency_sizes(plan.sizes):
                    continue
                if LATENCY in plan.parts:
                    found[LATENCY] += parts.measure_writes(
                        programs, api, services, plan.changes, plan.rate, progress
                    )
                if services != latency_sizes(plan.sizes)[0]:
                    continue
                if RETURN in plan.parts and isinstance(api, RealApi):
                    found[RETURN] = parts.measure_outage(
                        programs, api, services, plan.away, plan.outages, progress
                    )
                elif RETURN in plan.parts:
                    progress.log("return is left out: it needs KUBEBUILDER_ASSETS")
    loads = {part: load for part, load in plan.loads.items() if part in plan.parts}
    if loads:
        with FakeApiProcess() as changing:
            context["watched in streams of changes"] = changing.title
            progress.log("loading the in-test API server")
            most = max(load.services for load in loads.values())
            changing.create_up_to(most, plan.endpoints, progress)
            for part, load in loads.items():
                wide = load._replace(services=changing.services)  # changes go to all of them
                found[part] = parts.measure_changes(programs, changing, wide, progress)
    return Results(context, [figure for part in PARTS for figure in found[part]])


def _api(assets: str | None, progress: Progress) -> Api:
    """The API server for starts and single writes."""
    if assets is None:
        progress.log(
            "KUBEBUILDER_ASSETS is not set: the in-test API server takes the place of a real one"
        )
        return FakeApiProcess()
    progress.log("starting etcd and kube-apiserver")
    return RealApi(assets)


def latency_sizes(sizes: Iterable[int]) -> list[int]:
    """The sizes at which single writes are measured, and at the first of them the return of the API server."""
    ordered = sorted(sizes)
    least = next((size for size in ordered if size >= _LATENCY_SIZES[0]), ordered[-1])
    return [size for size in ordered if size in _LATENCY_SIZES] or [least]


def measure(options: argparse.Namespace, words: list[str]) -> Measured:
    """Measure what was selected."""
    compile_dir(ROOT / "hsdns", quiet=1)  # as pip does, also where PYTHONDONTWRITEBYTECODE is set
    plan, programs = plan_of(options), hsdns_and_coredns(options.hsdns)
    cluster = f"{plan.endpoints} endpoints of each Service"
    context = bench.context("make bench-watch", words, programs, (), cluster)
    assets = os.environ.get("KUBEBUILDER_ASSETS") or None
    results = measure_all(plan, programs, assets, context, Progress(sys.stderr))
    sizes = [0, *plan.sizes] if START in plan.parts else plan.sizes
    verdicts = judge(rows(results.figures), plan.parts, sizes)
    written = section(results, table(verdicts))
    holds = all(each.holds for each in verdicts)
    return Measured(results, holds, NAME, written)


def parser() -> argparse.ArgumentParser:
    """Create the command line parser."""
    made = bench.arguments(
        "make bench-watch",
        "Compare hsdns with CoreDNS (HSDNS_PEER, else on PATH) as watchers of one API server.",
    )
    add = made.add_argument
    add("--parts", type=bench.among(PARTS), help=f"some of {','.join(PARTS)} (default all)")
    add("--sizes", type=_sizes, help="numbers of Services (default 1000,10000)")
    return made


def plan_of(options: argparse.Namespace) -> Plan:
    """Create the plan that the options describe; other options override --quick."""
    plan = Plan().quick() if options.quick else Plan()
    given = {name: getattr(options, name) for name in ("parts", "sizes")}
    return plan._replace(**{name: value for name, value in given.items() if value is not None})


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(map(bench.number(1, MAX_SERVICES), text.replace("_", "").split(",")))


if __name__ == "__main__":
    sys.exit(bench.run(parser(), measure))
