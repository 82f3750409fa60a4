"""The pages of docs/fault-scenarios say what the files say."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import yaml

from hsdns.fault_scenarios.page import as_list, play_all, write
from hsdns.fault_scenarios.play import play
from hsdns.fault_scenarios.scenario import Asked, Scenario, Seen, Step, load, names
from tests.fault_scenarios.test_scenario import of

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "fault-scenarios"
INDEX = FOLDER / "index.md"
RENEW = "run: make scenario-pages"


def test_the_pages_are_those_of_the_files(tmp_path: Path) -> None:
    shutil.copy(FOLDER / "index.md", tmp_path)
    write(tmp_path)
    written = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert written == {path.name: path.read_text() for path in FOLDER.iterdir()}, RENEW


def test_the_index_shows_what_the_command_prints() -> None:
    (shown,) = re.findall(
        r"```text\n\$ hsdns fault matrix (\S+)\n(.*?)```", INDEX.read_text(), re.DOTALL
    )
    scenario = load(shown[0])
    (played,) = play_all([scenario])
    assert shown[1].splitlines() == list(as_list(played))


def test_the_scenario_of_the_index_is_one() -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", INDEX.read_text(), re.DOTALL)
    scenario = of(text)
    (seen,) = scenario.seen
    found = play(scenario, seen)
    assert (found.seconds, found.failed, found.wrong, found.queries) == (
        seen.seconds,
        seen.failed,
        seen.wrong,
        seen.queries,
    )


def test_the_index_describes_every_key() -> None:
    table = INDEX.read_text().partition("| key | meaning |")[2]
    described = set(re.findall(r"`\[*(\w+)\]*`", table))
    known = {
        *Scenario.__struct_fields__,
        *Step.__struct_fields__,
        *Asked.__struct_fields__,
        "version",
    }
    measured = {"seconds", "failed", "queries", "wrong", "recovered", "error"}
    assert known | {*Seen.__struct_fields__} - measured <= described | {"name"}


def test_the_navigation_has_them_in_order() -> None:
    text = (FOLDER.parents[1] / "mkdocs.yml").read_text().partition("\nnav:")[2]
    nav = yaml.safe_load(f"nav:{text}")["nav"]
    (listed,) = (each["Fault scenarios"] for each in nav if "Fault scenarios" in each)
    assert listed == ["fault-scenarios/index.md", *({name: f"fault-scenarios/{name}.md"} for name in names())]  # fmt: skip
