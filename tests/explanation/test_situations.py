"""Situations that people report: each tool says the same of one, and none says anything of its repaired twin."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hsdns.corefile.mounted import COREFILE
from tests.support.clients.command import run_command
from tests.support.cluster.dumped import dump_of
from tests.support.manifests.documents import documents
from tests.support.tables import Row, rows

FILE, DUMP, CONF, NODE = "a.yaml", "dump.json", "Corefile", "node"


class Situation(NamedTuple):
    """The head of a row, and its objects."""

    ask: list[str]
    then: list[str]
    mends: list[tuple[str, str]]
    objects: str


def situation(text: str) -> Situation:
    head, _, objects = text.partition("\n---\n")
    lines = [line.partition(" ") for line in head.splitlines()]
    words = {key: rest for key, _, rest in lines if key != "mend"}
    ask = shlex.split(words.get("ask", ""))
    then = shlex.split(words["then"]) if "then" in words else ask
    if "corefile" in words:
        ask, then = [*ask, "-conf", CONF], [*then, "-conf", CONF]
    mends = [rest.replace("¶", "\n").partition(" => ")[::2] for key, _, rest in lines if key == "mend"]  # fmt: skip
    return Situation(ask, then, mends, objects)


def write(objects: str) -> None:
    Path(FILE).write_text(objects)
    Path(DUMP).write_bytes(dump_of(objects))
    Path(NODE).write_text("search WORKGROUP\nnameserver 10.0.0.1\n")
    for each in documents(objects):
        if each["kind"] == "ConfigMap":
            Path(CONF).write_text(each["data"][COREFILE])


def run(*words: str) -> dict[str, Any]:
    """The JSON that a command prints."""
    _, said = run_command([*words, "-o", "json"])
    found: dict[str, Any] = json.loads(said[said.index("{") :])
    return found


def explained(ask: list[str]) -> dict[str, Any]:
    has_source = "kubernetes" in Path(CONF).read_text() if CONF in ask else True
    return run("explain", *ask, *(["-source", "manifests", FILE] if has_source else []))


def findings(tool: str, *words: str, level: str = "warning") -> list[str]:
    found = run(tool, *words, "-level", level)
    told = [f"{tool} {each['name']}: {each['message']}" for each in found.get("failing", ())]
    return told + [
        f"{tool} {each['code']} {each['object']}: {each['field']}: {each['message']}"
        for each in found["findings"]
    ]


@pytest.mark.parametrize("row", rows(Path(__file__).with_name("situations.txt")))
def test_every_tool_says_the_same(
    row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    case = situation(row.given)
    write(case.objects)
    said, sentence = list[str](), ""
    if case.ask:
        found = explained(case.ask)
        sentence = found["cause"]
        said += [sentence, *([f"to do: {found['todo']}"] if found.get("todo") else [])]
        asked = found["name"].removesuffix(".")
        failing = {
            each["name"]: each for each in run("doctor", "-source", "manifests", DUMP)["failing"]
        }
        if asked in failing:
            said.append(f"doctor {failing[asked]['code'] or '-'}")
            # Of names that fail for one reason, the doctor prints that of the Service.
            *_, why = sentence.split("; ")[0].split(": ", 2)
            assert why in failing[asked]["message"]
    of_doctor = [each for each in row.expected if each.startswith("doctor ") and ": " in each]
    of_lint = [each for each in row.expected if each.startswith("lint ")]
    assert set(of_doctor) <= {*findings("doctor", "-source", "manifests", DUMP)}
    assert of_lint == [each for each in findings("lint", FILE) if of_lint]
    rest = [each for each in row.expected if each not in (*of_doctor, *of_lint)]
    assert said == rest
    if case.mends:
        objects = case.objects
        for old, new in case.mends:
            assert old in objects
            objects = objects.replace(old, new)
        write(objects)
        assert not case.ask or explained(case.then)["outcome"] not in ("does not resolve", "leads nowhere")  # fmt: skip
        assert [*findings("doctor", "-source", "manifests", DUMP), *findings("lint", FILE)] == []
