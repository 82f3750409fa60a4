"""A report of few queries, as values and as text."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from hsdns.load.limits import read_limits
from hsdns.load.merge import merge
from hsdns.load.outcome import LOST
from hsdns.load.questions import Question
from hsdns.load.report import (
    FORMAT,
    KneeReport,
    Machine,
    PlanReport,
    Report,
    exit_status,
)
from hsdns.load.results import LimitReport, PropagationReport, Results, ServerReport
from hsdns.load.schedule import SECOND, Stage
from hsdns.load.verify.judge import BEHIND, RIGHT, STALE, UNDECIDED, Verdict
from hsdns.load.verify.verifier import Judged
from hsdns.wire.iana import RRType
from hsdns.wire.name import Name
from tests.load.test_results import LOOKED_UP, lookups

SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "load.schema.json"
MS = SECOND // 1000
NAME = Name.from_text("web.shop.svc.cluster.local.")
TARGET = "127.0.0.1 port 53"
PLAN = PlanReport(
    "UDP", [Stage(2, 100, 100)], "even", 1, 7, 4, 2000, 2, "2 questions", 0, 10
)  # fmt: skip
STARTED = "2026-01-01T00:00:00.000Z"
MACHINE = Machine("1.0", "3.11.2", "Linux", 2, "rust")


def results(*, lost: int = 0, late: int = 0, stale: bool = False) -> Results:
    kinds = (RRType.A, "service"), (RRType.SRV, "srv"), (RRType.AAAA, "never asked")
    found = Results([Question(NAME, *kind) for kind in kinds], 0)
    for number in range(200):
        planned = number * 10 * MS
        received = LOST if number < lost else planned + late * MS + 1 * MS
        found.add([(number % 2, 0x8400, 0, planned, planned + late * MS, received)])
        verdict = Verdict(RIGHT)
        if stale and number >= 190:
            verdict = Verdict(STALE, (number - 189) / 10)
        elif stale and number == 0:
            verdict = Verdict(UNDECIDED, 0.01, BEHIND)
        found.add_verdict(Judged(number % 2, planned / SECOND, planned / SECOND, verdict))
    found.add_changes([0.5, 1.5])
    return found


def report(
    found: Results,
    limits: str = "",
    ended: str = "",
    slack: float | None = 0.1,
    propagation: PropagationReport | None = None,
    **more: Results,
) -> Report:
    """A report of a server, and of more that have names."""
    read = read_limits(limits, verifies=True) if limits else []
    found.ended, found.propagation = ended, propagation
    servers = [
        named(each, name, f"127.0.0.{at} port 53")
        for at, (name, each) in enumerate({TARGET: found, **more}.items(), 1)
    ]
    return Report(FORMAT, STARTED, PLAN, MACHINE, servers).finish(slack, read)


def named(found: Results, name: str = "a", target: str = "a") -> ServerReport:
    found.name, found.target, found.lasted = name, target, 2.0
    return found.report()


@pytest.mark.parametrize(("limits", "status"), [("", 0), ("stale>0", 0), ("p50>1h", 2), ("p50>1h,right>0", 1)])  # fmt: skip
def test_a_generator_that_was_the_limit(limits: str, status: int) -> None:
    whole = report(results(late=5), limits)
    (found,) = whole.servers
    assert {each.why for each in found.latency} == {"generator"}
    assert found.refused.startswith("the generator was the limit: it was late by 5.00 ms at p50, ")
    assert exit_status(whole) == status


@pytest.mark.parametrize(
    ("knee", "limit", "status"),
    [
        (KneeReport(True, 2000, 2010, "", [], []), LimitReport("knee<5000", True, rate=2000), 1),
        (KneeReport(True, 5000, 5010, "", [], []), LimitReport("knee<5000", False, rate=5000), 0),
        (KneeReport(False, 5000, None, "", [], []), LimitReport("knee<5000", False, rate=5000), 2),
        (KneeReport(False, None, 4000, "", [], []), LimitReport("knee<5000", True, rate=4000), 1),
        (KneeReport(False, 2000, None, "", [], []), LimitReport("knee<5000", None), 2),
        (None, LimitReport("knee<5000", None), 2),
    ],
)
def test_a_limit_on_the_knee(knee: KneeReport | None, limit: LimitReport, status: int) -> None:
    limits = read_limits("knee<5000", verifies=False, finds_knee=True)
    found = Report(FORMAT, STARTED, PLAN, MACHINE, [named(results())], knee=knee)
    found.finish(None, limits)
    assert (found.knee, found.servers[0].limits) == (knee, [limit])
    assert exit_status(found) == status


def test_limits_on_lookups() -> None:
    limits = read_limits("lookup.p50>1ms,lookup.failed>50%", verifies=False, has_pods=True)
    measured = results()
    measured.lookups = lookups(*LOOKED_UP)
    found = Report(FORMAT, STARTED, PLAN, MACHINE, [named(measured)]).finish(None, limits)
    assert found.servers[0].limits == [
        LimitReport("lookup.p50>1ms", True, us=3001),
        LimitReport("lookup.failed>50%", False, count=1, whole=4),
    ]
    again = merge([("a", found)])
    assert again.servers[0].limits == found.servers[0].limits


def test_schema() -> None:
    """docs/load.schema.json is what the report is written by; print it anew if it is not."""
    schema = msgspec.json.schema(
        Report, schema_hook=lambda kind: msgspec.json.schema(list[tuple[int, int]])
    )
    for each in schema["$defs"].values():
        each["required"] = list(each["properties"])  # all is written
    assert json.loads(SCHEMA.read_text()) == json.loads(json.dumps(schema))


@pytest.mark.parametrize(
    ("limits", "ended", "status"),
    [("", "", 0), ("stale>0", "", 1), ("stale<0", "", 0), ("", "interrupted", 2), ("stale>0", "interrupted", 1)],
)  # fmt: skip
def test_limits_apply_to_each_server(limits: str, ended: str, status: int) -> None:
    whole = report(results(), limits, ended, frozen=results(stale=True))
    assert [each.name for each in whole.servers] == [TARGET, "frozen"]
    if limits == "stale>0":
        assert [each.limits[0].met for each in whole.servers] == [False, True]
    assert exit_status(whole) == status
