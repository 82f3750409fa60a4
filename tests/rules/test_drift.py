"""How the Services of two sets of objects differ."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsdns.rules.drift import compare
from hsdns.rules.judging import read_files
from hsdns.rules.objects import Objects
from tests.support.tables import columns, values

TABLES = Path(__file__).with_name("tables.txt")

SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {{name: db, namespace: shop}}\nspec: {}\n"
SET = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {{name: db, namespace: shop}}\nspec: {}\n"
BARE = "apiVersion: v1\nkind: Service\nmetadata: {name: db}\nspec: {}\n"


def objects(*texts: str, file: str = "a.yaml") -> Objects:
    return read_files([(file, "---\n".join(texts).encode())]).objects


def drifted(manifest: str, sides: str) -> list[str]:
    here, there = (objects(manifest.format(spec)) for spec in sides.split(" | "))
    found = compare(here, there).differences
    return sorted(f"{each.field}: {each.here or '-'} / {each.there or '-'}" for each in found)


@pytest.mark.parametrize(("sides", "differences"), columns(TABLES, "Services that drift"))
def test_services(sides: str, differences: str) -> None:
    """Both specs, and each field that differs, here / there."""
    assert drifted(SERVICE, sides) == sorted(filter(None, differences.split("; ")))


@pytest.mark.parametrize(("sides", "differences"), columns(TABLES, "StatefulSets that drift"))
def test_stateful_sets(sides: str, differences: str) -> None:
    assert drifted(SET, sides) == sorted(filter(None, differences.split("; ")))


def test_an_object_without_a_namespace_is_that_of_its_name() -> None:
    other = SERVICE.format("{selector: {a: b}}")
    drift = compare(objects(BARE), objects(other))
    assert [(each.place, each.field) for each in drift.differences] == [
        ("Service shop/db", "spec.selector")
    ]
    two = objects(other, other.replace("shop", "lab"))
    assert [(each.place, each.here) for each in compare(objects(BARE), two).differences] == [
        ("Service db", "present"),
        ("Service shop/db", None),
        ("Service lab/db", None),
    ]
    assert compare(two, objects(BARE)).counts == {"Service": 3, "StatefulSet": 0}


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        (
            [BARE, BARE],
            "Service db is not compared: there it is at b.yaml:1 and b.yaml:6; compare files that have it once",
        ),
        (
            [BARE.replace("{}", "{type: 3}")],
            "Service db is not compared: the API server would refuse that of b.yaml:1; hsdns lint b.yaml says why",
        ),
    ],
)
def test_not_compared(texts: list[str], problem: str) -> None:
    drift = compare(objects(BARE), objects(*texts, file="b.yaml"))
    assert (drift.differences, drift.problems) == ([], [problem])


@pytest.mark.parametrize(("target", "sentence"), values(TABLES, "a target on no side"))
def test_a_target_on_no_side(target: str, sentence: str) -> None:
    with pytest.raises(ValueError, match="on either side") as caught:
        compare(objects(SERVICE.format("{}").replace("db", "database")), objects(), target)
    assert str(caught.value) == sentence
