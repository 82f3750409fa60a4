"""Manifest files: documents, skipped objects, and errors with their lines; manifest_files.txt has the cases."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from hsdns.cluster.objects import Service
from hsdns.sources import manifest_file
from hsdns.sources.manifest_check import wrong_type
from hsdns.sources.manifest_file import MAX_PROBLEMS, read_manifest_file
from tests.support.manifests.generated import generated
from tests.support.tables import Row, rows, values

TABLES = Path(__file__).with_name("tables.txt")


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
    found = read_manifest_file(b"---\nkind: A\n" * 200, "a.yaml")
    assert found.is_broken  # what is not read may have been served before
    assert len(found.problems) == MAX_PROBLEMS + 1
    assert (
        found.problems[-1]
        == "a.yaml:200: the rest of the file is not read; correct these errors first"
    )


def test_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_file, "MAX_FILE_LEN", 10)
    assert read_manifest_file(b"a: 1234567", "a.yaml").problems == []
    assert read_manifest_file(b"a: 12345678", "a.yaml").problems == [
        "a.yaml:1: the file is longer than 10 octets; split it"
    ]


@pytest.mark.parametrize(
    "name", [pytest.param("a.yaml", id="YAML"), pytest.param("a.json", id="JSON")]
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


@pytest.mark.parametrize(("message", "field", "sentence"), values(TABLES, "a message has the field and a remedy"))  # fmt: skip
def test_a_message_has_the_field_and_a_remedy(message: str, field: str, sentence: str) -> None:
    found = wrong_type(message)
    assert (found.field, str(found)) == (field, f"{field}: {sentence}")


# One object that is refused hides no other.


BROKEN = {
    "a value": lambda each: json.dumps(each | {"metadata": {**each["metadata"], "name": "A_B"}}),
    "a type": lambda each: json.dumps(each | {"metadata": []}),
    "no kind": lambda each: json.dumps({**each, "kind": None}),
    "no object": lambda each: json.dumps([each]),
    "no JSON": lambda each: json.dumps(each)[:-9],
}
FORMS: dict[str, Callable[[Sequence[str]], bytes]] = {
    "documents": lambda texts: "\n---\n".join(texts).encode(),
    "YAML": lambda texts: "---\n".join(map(as_yaml, texts)).encode(),
    "JSON lines": lambda texts: "\n".join(texts).encode(),
    "a List": lambda texts: f'{{"kind": "List", "apiVersion": "v1", "items": [{",".join(texts)}]}}'.encode(),
    "a List in YAML": lambda texts: ("kind: List\napiVersion: v1\nitems:\n" + "".join(f"- {text}\n" for text in texts)).encode(),
}  # fmt: skip


def as_yaml(text: str) -> str:
    try:
        return yaml.safe_dump(json.loads(text))
    except ValueError:
        return f"a: 1\n{text}\n"


@given(st.integers(0, 10_000), st.data())
def test_the_others_are_read_as_without_it(seed: int, data: st.DataObject) -> None:
    texts = [json.dumps(each) for each in generated(seed)]
    at = data.draw(st.integers(0, len(texts) - 1), "which one")
    way = data.draw(st.sampled_from(sorted(BROKEN)), "what is wrong")
    form = data.draw(st.sampled_from(sorted(FORMS)), "how they are written")
    if way == "no JSON":  # in a List there is no telling where the next one begins
        assume("List" not in form)
    bad = BROKEN[way](json.loads(texts[at]))
    others = [*texts[:at], *texts[at + 1 :]]
    name = "a.jsonl" if form == "JSON lines" else "a.yaml"
    found = read_manifest_file(FORMS[form]([*texts[:at], bad, *texts[at + 1 :]]), name)
    alone = read_manifest_file(FORMS[form](others), name)
    assert alone.problems == []
    assert [each._replace(where="") for each in found.documents] == [
        each._replace(where="") for each in alone.documents
    ]
    assert len(found.problems) == 1
