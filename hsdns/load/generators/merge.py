"""Merges the reports of several generators into one.

Path: cli/reports.py reads them -> here -> counters.add(), and Report.finish() as after a run.
Rule 1: counts and histograms are added slot by slot, without loss: the report is the one that a single generator would
        have written, except for the machines and their clocks.
Rule 2: only reports of one run are added: portions of one plan that began at one time, each once.
Rule 3: all generators saw the same changes of the cluster, so the report has those of the first.  How long a change
        took to show was measured by each generator that followed it, and all these times are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Final

import msgspec

from hsdns.load.counters import add
from hsdns.load.errors import LoadError
from hsdns.load.limits import Limit, read_limits
from hsdns.load.output.words import differences, shown_together
from hsdns.load.report import FORMAT, Machine, PlanReport, Report
from hsdns.load.results import ServerReport
from hsdns.load.schedule import WHOLE, Portion, read_portion

OF_CLUSTER: Final = " questions of the cluster"  # as cli/load.py describes them
Named = tuple[str, Report]  # the name of its file, and the report


def merge(reports: Sequence[Named]) -> Report:
    """The report of all generators together; raise LoadError."""
    ordered = sorted(reports, key=lambda each: _portion(each[1]))
    first_name, first = ordered[0]
    for name, report in ordered[1:]:
        _check_alike(first_name, first, name, report)
    missing = _missing(ordered)
    servers = [
        _server(
            [report.servers[at] for _, report in ordered],
            [f"part {report.plan.part}" for _, report in ordered],
            missing,
        )
        for at in range(len(first.servers))
    ]
    slack = first.servers[0].verdicts.slack_ms / 1000 if first.servers[0].verdicts else None
    return Report(
        FORMAT,
        first.started,
        msgspec.structs.replace(first.plan, part=""),
        _machine([report.machine for _, report in ordered]),
        servers,
        sum(report.generators for _, report in ordered),
        digest=first.digest,
        clocks=[clock for _, report in ordered for clock in report.clocks],
    ).finish(slack, _limits_of(first))


def _server(servers: Sequence[ServerReport], names: Sequence[str], missing: str) -> ServerReport:
    whole, *others = deepcopy(servers)
    for other in others:
        for second in other.per_second:
            second.changes = 0
        add(whole, other)
    ended = [
        f"{name}: {each.ended}" for name, each in zip(names, servers, strict=True) if each.ended
    ]
    if not others:
        ended = [whole.ended] if whole.ended else []
    whole.ended = "; ".join([*ended, missing] if missing else ended)
    return whole


def _limits_of(report: Report) -> list[Limit]:
    """The limits of a report, parsed again from their texts."""
    server = report.servers[0]
    texts = ",".join(limit.limit for limit in server.limits)
    if not texts:
        return []
    return read_limits(
        texts,
        verifies=server.verdicts is not None,
        has_pods=True,
        finds_knee=report.knee is not None,
    )


def _portion(report: Report) -> Portion:
    return read_portion(report.plan.part) if report.plan.part else WHOLE


def _missing(reports: Sequence[Named]) -> str:
    """Which portions are missing, "" if none; raise LoadError for a duplicate one."""
    portions = [_portion(report) for _, report in reports]
    parts = portions[0].parts
    if any(each.parts != parts for each in portions):
        told = ", ".join(f"{name}: {report.plan.part or 'all of it'}" for name, report in reports)
        raise LoadError(f"these are portions of different plans: {told}")
    for each in portions:
        if portions.count(each) > 1:
            files = ", ".join(name for name, report in reports if _portion(report) == each)
            raise LoadError(f"part {each.part}/{parts} is there more than once: {files}")
    found = {each.part for each in portions}
    missing = [f"{number}/{parts}" for number in range(parts) if number not in found]
    return f"missing: part {', '.join(missing)}" if missing else ""


def _check_alike(first_name: str, first: Report, name: str, report: Report) -> None:
    """Raise LoadError if the reports are of different runs."""
    if report.digest != first.digest:
        told = differences(shown_together([(first_name, first), (name, report)]))
        raise LoadError(
            f"{name} is of another plan than {first_name}, so they cannot be added"
            + "".join(f"; {each}" for each in told)
        )
    if report.started != first.started:
        raise LoadError(
            f"{name} began at {report.started}, and {first_name} at {first.started}, so they are not portions of one "
            "run; generators that meet at --coordinate begin together"
        )


def alike(plan: PlanReport) -> PlanReport:
    """What all portions of a plan have in common.  The names of a cluster may change between two readings."""
    if OF_CLUSTER in plan.what:
        words = plan.what.partition(OF_CLUSTER)[2]
        return msgspec.structs.replace(plan, part="", questions=0, what=words)
    return msgspec.structs.replace(plan, part="")


def _machine(machines: Sequence[Machine]) -> Machine:
    """One machine, or what several have in common; the processors are those of the largest."""
    hsdns, python, system, sockets_by = (
        ", ".join(dict.fromkeys(getattr(each, field) for each in machines))
        for field in ("hsdns", "python", "system", "sockets_by")
    )
    processors = max(each.processors for each in machines)
    return Machine(hsdns, python, system, processors, sockets_by)
