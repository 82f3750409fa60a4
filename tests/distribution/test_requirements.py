"""What pyproject.toml allows, and what requirements/*.txt pin: nothing older than the fix of a published advisory."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.support.tables import lines

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FIXED = dict(line.split()[:2] for line in lines(Path(__file__).with_name("advisories.txt")))


def version(text: str) -> tuple[int, ...]:
    numbers = [int(number) for number in text.split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def lowest() -> dict[str, set[str]]:
    """Each package that pyproject.toml names, with all its lower bounds."""
    groups = PROJECT["dependency-groups"].values()
    listed = [
        *PROJECT["build-system"]["requires"],
        *PROJECT["project"]["dependencies"],
        *(each for group in groups for each in group if isinstance(each, str)),
    ]
    found: dict[str, set[str]] = {}
    for each in listed:
        if named := re.match(r"([\w.-]+?)>=([\d.]+)", each):
            found.setdefault(named[1].lower(), set()).add(named[2])
    return found


@pytest.mark.parametrize("package", FIXED)
def test_no_version_with_a_known_advisory(package: str) -> None:
    texts = [path.read_text() for path in sorted((ROOT / "requirements").glob("*.txt"))]
    pinned = re.findall(rf"^{re.escape(package)}==([\d.]+)", "\n".join(texts), re.M)
    assert pinned
    for each in {*pinned, *lowest().get(package, ())}:
        assert version(each) >= version(FIXED[package]), each
