"""Merges the reports of several generators into one.

Path: cli/merge.py reads reports -> here -> results.py, and make_report() as after a run.
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
    Machine,
    OfServer,
    PlanReport,
    Report,
    Run,
    ServerReport,
    make_report,
)
from hsdns.load.results import PropagationReport, Results, VerdictReport
from hsdns.load.schedule import read_portion
from hsdns.wire.iana import type_from_text

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
    limits = _limits_of(first)
    run = Run(
        min(report.started for _, report in ordered),
        msgspec.structs.replace(first.plan, part=""),
        _machine([report.machine for _, report in ordered]),
        slack,
        limits,
    )
    made = make_report(run, servers)
    return msgspec.structs.replace(made, generators=sum(report.generators for _, report in ordered))


def results_of(server: ServerReport) -> Results:
    """The results of a server from its report; the run begins at 0."""
    found, server = Results([], 0), deepcopy(server)
    found.kinds = {(each.group, type_from_text(each.type)): each for each in server.kinds}
    found.seconds = {each.second: each for each in server.per_second}
    found.verdicts = server.verdicts or VerdictReport()
    found.stale = {(each.name, each.type): each for each in found.verdicts.stale_names}
    found.lookups = server.lookups or found.lookups
    found.connections = server.connections or found.connections
    return found


def _server(servers: Sequence[ServerReport], names: Sequence[str], missing: str) -> OfServer:
    first, whole = servers[0], results_of(servers[0])
    for server in servers[1:]:
        other = results_of(server)
        for second in other.seconds.values():
            second.changes = 0
        whole.merge(other)
    ended = [
        f"{name}: {each.ended}" for name, each in zip(names, servers, strict=True) if each.ended
    ]
    if len(servers) == 1:
        ended = [first.ended] if first.ended else []
    told = "; ".join([*ended, missing] if missing else ended)
    seconds = max(each.seconds for each in servers)
    return OfServer(first.name, first.target, told, seconds, whole, _propagation(servers))


def _propagation(servers: Sequence[ServerReport]) -> PropagationReport | None:
    """How long changes took to show, from all generators that followed them; None if none did."""
    found = [each.propagation for each in servers if each.propagation is not None]
    if not found:
        return None
    whole = PropagationReport()
    for each in found:
        add(whole, each)
    return whole.finish()


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
    fields = {
        field: ", ".join(dict.fromkeys(getattr(each, field) for each in machines))
        for field in ("hsdns", "python", "system", "sockets_by")
    }
    return Machine(
        fields["hsdns"],
        fields["python"],
        fields["system"],
        max(each.processors for each in machines),
        fields["sockets_by"],
    )
