"""Manifest files: documents, skipped objects, and errors with their lines; manifest_files.txt has the cases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hsdns.cluster.objects import Service
from hsdns.sources import manifest_file
from hsdns.sources.manifest_file import MAX_PROBLEMS, read_manifest_file, wrong_type
from tests.support.tables import Row, rows


@pytest.mark.parametrize("row", rows(Path(__file__).with_name("manifest_files.txt")))
def test_files(row: Row) -> None:
    name, text = "a.yaml", row.given
    if text.startswith("-- "):
        name, _, text = text.removeprefix("-- ").partition("\n")
    found = read_manifest_file(text.encode(), name)
    documents = [f"{document} {document.where}" for document in found.documents]
    problems = [f"! {problem}" for problem in found.problems]
    assert [*documents, *problems, *(f"? {warning}" for warning in found.warnings)] == row.expected


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(b"a: 1\nb: \xff\n", "a.yaml:2: not YAML: ", id="not UTF-8"),
        pytest.param(b"a: 1\n\tb: 2\n", "a.yaml:2: not YAML: ", id="tab"),
        pytest.param(b"a: 1\nb: \x00\n", "a.yaml:2: not YAML: ", id="control character"),
        pytest.param(b"a: !!timestamp x\n", "a.yaml:1: a value cannot be read (", id="a time that is none"),
    ],
)  # fmt: skip
def test_hostile_content(content: bytes, problem: str) -> None:
    found = read_manifest_file(content, "a.yaml").problems
    assert [each[: len(problem)] for each in found] == ([problem] if problem else [])


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(b'{"kind":"List","items":[' * 10 + b"]}" * 10, "a.json:1: lists are nested too deeply; write the objects into one list", id="lists"),
        pytest.param(b'{"kind":"Pod","apiVersion":"v1","metadata":' + b"[" * 9000, "a.json:1: it is nested too deeply; correct the file", id="lists-in-a-field"),
        pytest.param(b'{"kind":"List","items":[' + b"[" * 9000, "a.json:1: it is nested too deeply; correct the file", id="lists-in-items"),
    ],
)  # fmt: skip
def test_hostile_json(content: bytes, problem: str) -> None:
    assert read_manifest_file(content, "a.json").problems == [problem]


def test_a_file_without_any_sense_is_not_reported_line_by_line() -> None:
    found = read_manifest_file(b"---\nkind: A\n" * 200, "a.yaml").problems
    assert len(found) == MAX_PROBLEMS + 1
    assert found[-1] == "a.yaml:200: the rest of the file is not read; correct these errors first"


def test_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_file, "MAX_FILE_LEN", 10)
    assert read_manifest_file(b"a: 1234567", "a.yaml").problems == []
    assert read_manifest_file(b"a: 12345678", "a.yaml").problems == [
        "a.yaml:1: the file is longer than 10 octets; split it"
    ]


@pytest.mark.parametrize(
    "name",
    [pytest.param("a.yaml", id="YAML"), pytest.param("a.json", id="JSON")],
)
def test_null_is_absent(name: str) -> None:
    manifest = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": None, "labels": None},
        "spec": {"ports": [{"port": 80, "targetPort": None}], "type": None},
        "status": None,
    }
    [document] = read_manifest_file(json.dumps(manifest).encode(), name).documents
    assert isinstance(document.object, Service)
    assert document.object.metadata.namespace == "default"
    assert document.object.spec.type == "ClusterIP"


# What msgspec says of a wrong type, in our words.


@pytest.mark.parametrize(
    ("message", "field", "sentence"),
    [
        ("Expected `int`, got `str` - at `$.spec.ports[0].port`", "spec.ports[0].port", "expected a whole number, found text; write the number without quotes"),
        ("Expected `str | null`, got `bool` - at `$.spec.a`", "spec.a", "expected text, found true or false; put it in quotes"),
        ("Expected `object`, got `array`", "object", "expected a mapping, found a list; correct the value"),
        ("Object missing required field `name` - at `$.metadata`", "metadata.name", "the field is missing; add it"),
        ("Object missing required field `metadata`", "metadata", "the field is missing; add it"),
        ("Number out of range - at `$.spec.a`", "spec.a", "number out of range; correct the value"),
    ],
)  # fmt: skip
def test_a_message_has_the_field_and_a_remedy(message: str, field: str, sentence: str) -> None:
    found = wrong_type(message)
    assert (found.field, str(found)) == (field, f"{field}: {sentence}")
