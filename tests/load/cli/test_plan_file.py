"""Plan files: plans.txt has what is refused, and docs/load-plan.schema.json all keys.

`python -m tests.load.cli.test_plan_file` writes the schema anew.
"""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from hsdns.cli.command import Flag
from hsdns.load.cli.load import Load, questions_of
from hsdns.load.cli.plan_file import IN_STAGE
from hsdns.load.cli.settings import read_settings
from hsdns.load.plan import Plan
from hsdns.load.questions import Questions
from hsdns.load.schedule import SECOND
from hsdns.plugins.kubernetes import Kubernetes
from tests.load.cli.test_settings import rows
from tests.load.clusters import with_block

DOCS = Path(__file__).resolve().parents[3] / "docs"
SCHEMA = DOCS / "load-plan.schema.json"
PLANS = sorted((DOCS / "examples").glob("load-*.yaml"))


@pytest.mark.parametrize("row", rows("plans.txt"), ids=lambda row: row[0])
def test_refused(row: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("p.yaml").write_text(row[0])
    assert Load.main(["p.yaml"]) == 2
    assert capsys.readouterr().err.splitlines() == row[1:]


def test_flags_of_the_command_line_replace_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    path = tmp_path / "p.yaml"
    path.write_text(
        "{queries: q, server: {a: 127.0.0.1, b: 127.0.0.2}, timeout: soon, stages: [{rate: 5}]}"
    )
    found = Load.parse([str(path), "-server", "127.0.0.3", "-timeout=1s", "-rate", "7"])
    assert found is not None
    settings = read_settings(found)
    assert [each.host for each in settings.targets] == ["127.0.0.3"]
    assert (settings.timeout, settings.schedule.fastest, found.queries) == (1.0, 7.0, "q")
    assert Load.main([str(path), "-timeout", "x"]) == 2
    assert capsys.readouterr().err == '--timeout needs a time such as 10s, found "x"\n'


def test_stages_of_their_own() -> None:
    """Each has its arrival, its kinds of names and its changes."""
    path = DOCS / "examples" / "load-stages.yaml"
    flags = Load.parse([str(path)])
    assert flags is not None
    settings = read_settings(flags)
    schedule = settings.schedule

    async def choose(block: Kubernetes) -> Questions:
        return questions_of(settings, [block])

    found: Questions = with_block(choose)
    queries = [each.octets() for each in found.all]
    mixes = [list(each) for each in found.mixes]
    plan = Plan(2, (), queries, list(found.weights), schedule, 1, 1, False, mixes=mixes)
    times = list(plan.times())
    kinds: list[Counter[str]] = [Counter() for _ in schedule.stages]
    for at, number in zip(schedule.stage_numbers(), plan.order(), strict=True):
        kinds[at][found.all[number].group] += 1
    warm, burst, calm = schedule.stages
    assert [each.total() for each in kinds] == [round(each.area) for each in schedule.stages]
    assert [set(each) for each in kinds] == [{"service"}, {"headless", "srv"}, {"service"}]
    assert schedule.churn(flags.churn, 3.0) == [(3.0 + warm.seconds, 0.0), (burst.seconds, 50.0), (calm.seconds, 0.0)]  # fmt: skip
    ends = [warm.seconds * SECOND, (warm.seconds + burst.seconds) * SECOND]
    gaps = [
        {b - a for a, b in pairwise(t for t in times if low <= t < high)}
        for low, high in pairwise([0, *ends])
    ]
    assert len(gaps[0]) <= 2
    assert 0 in gaps[1]


def schema() -> dict[str, Any]:
    flags = {name: each for name, each in Load.flags().items() if not each.alias_of and name != "h"}
    keys = {name: described(each) for name, each in sorted(flags.items())}
    of_stage = {
        "type": "object",
        "additionalProperties": False,
        "properties": {each: keys[each] for each in IN_STAGE},
    }
    stages = {
        "type": "array",
        "minItems": 1,
        "items": of_stage,
        "description": "parts of the schedule, in place of rate and time",
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A plan of hsdns load", "type": "object",
        "additionalProperties": False, "properties": {**keys, "stages": stages},
    }  # fmt: skip


def test_schema() -> None:
    assert json.loads(SCHEMA.read_text()) == schema()
    for path in PLANS:
        assert yaml.safe_load(path.read_text()).keys() <= schema()["properties"].keys()


def described(flag: Flag) -> dict[str, Any]:
    """The schema of a key."""
    word: dict[str, Any] = {"type": ["string", "number"]}
    if flag.kind is bool:
        word = {"type": "boolean"}
    elif flag.kind is int:
        word = {"type": "integer", "minimum": flag.low, "maximum": flag.high}
    elif flag.choices:
        word = {"enum": list(flag.choices)}
    elif flag.kind is list or "=" in flag.argument or "," in flag.argument:
        words = {"type": "array", "items": {"type": ["string", "number"]}}
        mapping = {"type": "object", "additionalProperties": {"type": ["string", "number"]}}
        word = {"anyOf": [word, words, mapping]}
    return {"description": flag.help, **word}


if __name__ == "__main__":
    SCHEMA.write_text(json.dumps(schema(), indent=2) + "\n")
