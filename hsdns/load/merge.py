"""Merges the reports of several generators into one.

Path: cli/reports.py reads them -> here -> counters.add(), and Report.finish() as after a run.
Rule 1: counts and histograms are added slot by slot, without loss: the report is the one that a single generator would
        have written, except for the machines and the begin.
Rule 2: only reports of one plan are added: the portions of -part, or runs of the same plan.
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
from hsdns.load.report import (
    FORMAT,
    Machine,
    PlanReport,
    Report,
)
from hsdns.load.results import ServerReport
from hsdns.load.schedule import read_portion

OF_CLUSTER: Final = " questions of the cluster"  # as cli/load.py describes them
Named = tuple[str, Report]  # the name of its file, and the report


def merge(reports: Sequence[Named]) -> Report:
    """The report of all generators together; raise LoadError."""
    ordered = sorted(reports, key=lambda each: _index(each[1].plan))
    first_name, first = ordered[0]
    for name, report in ordered[1:]:
        _check_alike(first_name, first, name, report)
    missing = _missing(ordered)
    servers = [
        _server(
            [report.servers[at] for _, report in ordered], [_of(each) for each in ordered], missing
        )
        for at in range(len(first.servers))
    ]
    slack = first.servers[0].verdicts.slack_ms / 1000 if first.servers[0].verdicts else None
    return Report(
        FORMAT,
        min(report.started for _, report in ordered),
        msgspec.structs.replace(first.plan, part=""),
        _machine([report.machine for _, report in ordered]),
        servers,
        sum(report.generators for _, report in ordered),
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
    texts = ",".join(_limits(report))
    if not texts:
        return []
    return read_limits(
        texts,
        verifies=server.verdicts is not None,
        has_pods=True,
        finds_knee=report.knee is not None,
    )


def _index(plan: PlanReport) -> int:
    return read_portion(plan.part).part if plan.part else -1


def _of(named: Named) -> str:
    name, report = named
    return f"part {report.plan.part}" if report.plan.part else name


def _missing(reports: Sequence[Named]) -> str:
    """Which portions are missing, "" if none; raise LoadError for a duplicate one."""
    portions = [read_portion(report.plan.part) for _, report in reports if report.plan.part]
    if not portions:
        return ""
    if len(portions) < len(reports) or len({each.parts for each in portions}) > 1:
        told = ", ".join(f"{name}: {report.plan.part or 'all of it'}" for name, report in reports)
        raise LoadError(f"these are portions of different plans: {told}")
    found = [each.part for each in portions]
    if twice := next((each for each in portions if found.count(each.part) > 1), None):
        files = ", ".join(name for name, report in reports if report.plan.part == twice.to_text())
        raise LoadError(f"part {twice.to_text()} is there more than once: {files}")
    parts = portions[0].parts
    missing = [f"{number}/{parts}" for number in range(parts) if number not in found]
    return f"missing: part {', '.join(missing)}" if missing else ""


def _check_alike(first_name: str, first: Report, name: str, report: Report) -> None:
    """Raise LoadError if the reports have different plans."""
    if _alike(report.plan) != _alike(first.plan):
        told = differences(shown_together([(first_name, first), (name, report)]))
        raise LoadError(
            f"{name} is of another plan than {first_name}, so they cannot be added"
            + "".join(f"; {each}" for each in told)
        )
    for what, mine, theirs in (
        ("servers", _servers(first), _servers(report)),
        ("limits", _limits(first), _limits(report)),
        ("slack", _slacks(first), _slacks(report)),
    ):
        if mine != theirs:
            raise LoadError(
                f"{name} has other {what} than {first_name}, so they cannot be added: "
                f"{', '.join(theirs) or 'none'}, not {', '.join(mine) or 'none'}"
            )


def _alike(plan: PlanReport) -> PlanReport:
    """The fields of a plan that must be equal.  The cluster may change between two generators' reading of its names."""
    if OF_CLUSTER in plan.what:
        words = plan.what.partition(OF_CLUSTER)[2]
        return msgspec.structs.replace(plan, part="", questions=0, what=words)
    return msgspec.structs.replace(plan, part="")


def _servers(report: Report) -> list[str]:
    return [f"{each.name} ({each.target})" for each in report.servers]


def _limits(report: Report) -> list[str]:
    return [limit.limit for limit in report.servers[0].limits]


def _slacks(report: Report) -> list[str]:
    return [f"{each.verdicts.slack_ms:g} ms" for each in report.servers if each.verdicts]


def _machine(machines: Sequence[Machine]) -> Machine:
    """One machine, or what several have in common; the processors are those of the largest."""
    hsdns, python, system, sockets_by = (
        ", ".join(dict.fromkeys(getattr(each, field) for each in machines))
        for field in ("hsdns", "python", "system", "sockets_by")
    )
    processors = max(each.processors for each in machines)
    return Machine(hsdns, python, system, processors, sockets_by)
