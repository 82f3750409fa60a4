"""What other programs read: facts.txt has what must stay."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.deploy.rendered import helm, kustomize
from tests.support.manifests.facts import by_kind, different, read
from tests.support.tables import section, sections

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("facts.txt")


@pytest.mark.parametrize("name", sections(TABLE))
def test_facts(name: str) -> None:
    program, _, path = name.rpartition(" ")
    if program and shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    if program == "kubectl":
        found = by_kind(kustomize(path.removeprefix("deploy/"), texts=True))
    elif program == "helm":
        found = by_kind(helm(str(Path(__file__).with_name("values.yaml")), texts=True))
    else:
        found = read(ROOT / path)
    assert different(found, section(TABLE, name)) == []
