"""Hints: each on a Corefile that it is for, its neighbours without one, and no Corefile of the tree hinted at wrongly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from hsdns.assemble import assemble
from hsdns.corefile.tree import Errors
from hsdns.rules.checks.corefile_hints import hints
from tests.docs.test_examples import COREFILES, Fence, write_files
from tests.support.plugins.corefiles import parsed
from tests.support.scenarios.scenario import parse as parse_scenario
from tests.support.tables import Row, rows

ROOT = Path(__file__).resolve().parents[2]


def hinted(
    text: str, environ: Mapping[str, str] | None = None, *, path: str = "Corefile"
) -> list[str]:
    """The hints about a Corefile, which may have errors, too."""
    errors = Errors(collecting=True)
    corefile = parsed(text, path, environ, errors=errors)
    configuration = assemble(
        corefile,
        interfaces=lambda: {"lo": ["127.0.0.1"], "eth0": ["192.0.2.9"]},
        validating=True,
        warn=lambda sentence: None,
        errors=errors,
    )
    return [f"{at.line}:{at.column} {message}" for at, message in hints(corefile, configuration)]


@pytest.mark.parametrize("row", rows(Path(__file__).with_name("hints.txt")))
def test_hints(row: Row) -> None:
    text = row.given.replace("FOLDER", str(ROOT / "tests" / "data" / "tls"))
    assert hinted(text, {"SET": "/dev/null", "EMPTY": ""}) == row.expected


# Corefiles of the tree that do what is hinted at, each with the reason.
MEANT = {
    "tests/scenarios/file/fallthrough.md": "only what falls through reaches hosts, and nothing passes it"
}


# What deploy/components/sidecar sets.
POD = {"POD_NAMESPACE": "shop", "CLUSTER_DNS": "10.96.0.10"}


def corefiles() -> Iterator[tuple[str, str]]:
    """All files of the tree with a Corefile, but for the pages of docs."""
    for path in sorted((ROOT / "tests/scenarios").rglob("*.md")):
        if path.name != "README.md":
            yield path.relative_to(ROOT).as_posix(), parse_scenario(path).corefile
    for path in sorted((ROOT / "tests/stock").rglob("*Corefile*")):
        yield path.relative_to(ROOT).as_posix(), path.read_text()
    for path in sorted((ROOT / "deploy").rglob("configmap.yaml")):
        if not {"helm", "clusterloader2"} & set(path.parts):  # templates, of no other Corefile
            for document in yaml.safe_load_all(path.read_text()):
                yield path.relative_to(ROOT).as_posix(), document["data"]["Corefile"]


FOUND = list(corefiles())


def test_there_are_corefiles() -> None:
    assert len(FOUND) > 100
    assert set(MEANT) <= {path for path, _ in FOUND}


@pytest.mark.parametrize(("path", "text"), FOUND, ids=[path for path, _ in FOUND])
def test_no_corefile_of_the_tests_is_hinted_at_wrongly(
    path: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = (ROOT / path).parent
    monkeypatch.chdir(folder)
    text = text.replace("SCENARIO_FOLDER", str(folder)).replace("UPSTREAM_PORT", "5353")
    found = hinted(text, POD, path=str(folder / "Corefile"))
    assert bool(found) == (path in MEANT), found


@pytest.mark.parametrize("fence", COREFILES, ids=str)
def test_no_corefile_of_the_documentation_is_hinted_at(
    fence: Fence, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(fence.page)
    assert hinted(fence.body, path=fence.title or "Corefile") == []
