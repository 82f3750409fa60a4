"""Keys that a mapping has twice: refused, with both lines."""

from __future__ import annotations

import pytest

from hsdns.sources import manifest_yaml
from hsdns.sources.manifest_file import read_manifest_file
from hsdns.sources.manifest_yaml import decode_json

SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n"
SET = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: db}\n"
OBJECT = '"apiVersion": "v1", "kind": "Service"'


@pytest.mark.parametrize(
    ("name", "text", "problems"),
    [
        pytest.param(
            "a.yaml", SERVICE + SET, ['a.yaml:4: the key "apiVersion" is already in line 1; write "---" between two objects'],
            id="two manifests in one document",
        ),
        pytest.param(
            "a.yaml",
            f"{SERVICE}spec:\n  type: ClusterIP\n  ports: []\n  type: NodePort\n---\n{SERVICE}{SET}",
            [
                'a.yaml:7: the key "type" is already in line 5; remove one of the two',
                'a.yaml:12: the key "apiVersion" is already in line 9; write "---" between two objects',
            ],
            id="each document by itself",
        ),
        pytest.param(
            "values.yaml", "image:\n  kind: a\n  kind: b\n",
            ['values.yaml:3: the key "kind" is already in line 2; remove one of the two'], id="no manifest",
        ),
        pytest.param(
            "a.yaml", "a: {8080: x, '8080': y}\n", ['a.yaml:1: the key "8080" is already in line 1; remove one of the two'],
            id="a number and its text",
        ),
        pytest.param(
            "a.yaml", "yes: 1\ntrue: 2\n", ['a.yaml:2: the key "true" is already in line 1; remove one of the two'],
            id="two words for true",
        ),
        pytest.param("a.yaml", "=: 1\n'=': 2\n", ['a.yaml:2: the key "=" is already in line 1; remove one of the two'], id="equals sign"),
        pytest.param(
            "a.yaml", "x: &x {a: 1}\ny:\n  <<: [*x, {b: 1, b: 2}]\n  a: 2\n",
            ['a.yaml:3: the key "b" is already in line 3; remove one of the two'], id="within a merge key",
        ),
        pytest.param("a.yaml", f"\"{'k' * 70}\": 1\n" * 2, [f'a.yaml:2: the key "{"k" * 60}..." is already in line 1; remove one of the two'], id="long key"),
        pytest.param("a.yaml", '"a\\nb": 1\n"a\\nb": 2\n', ['a.yaml:2: the key "a\\nb" is already in line 1; remove one of the two'], id="key of two lines"),
        pytest.param(
            "a.json", f'\n{{{OBJECT}, "metadata": {{"name": "a"}},\n "spec": {{}},\n "spec": {{}}\n}}',
            ['a.json:4: the key "spec" is already in line 3; remove one of the two'], id="JSON",
        ),
        pytest.param(
            "a.json",
            f'{{"apiVersion": "v1", "kind": "List", "items": [\n {{{OBJECT}, "metadata": {{"name": "a",\n "name": "b"}}}},\n'
            f' {{{OBJECT}, "metadata": {{"name": "a"}}}}]}}',
            ['a.json:3: the key "name" is already in line 2; remove one of the two'], id="JSON, in an item",
        ),
        pytest.param(
            "a.json",
            f'{{"apiVersion": "v1", "kind": "List",\n"items": [\n{{{OBJECT}, "metadata": {{"name": "a"}}}}],\n"items": [\n]}}',
            ['a.json:4: the key "items" is already in line 2; remove one of the two'], id="JSON, two lists of items",
        ),
    ],
)  # fmt: skip
def test_refused(name: str, text: str, problems: list[str]) -> None:
    assert read_manifest_file(text.encode(), name).problems == problems


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("x: &x {a: 1, b: 2}\ny: {<<: *x, a: 3}\nz: {a: 3, <<: *x}\n", id="merge key"),
        pytest.param(
            "x: &x {a: 1}\ny: &y {<<: *x, a: 2}\nz: {<<: *y, a: 3}\n",
            id="merge key of a mapping that has one",
        ),
        pytest.param(
            "x: &x {a: 1}\ny: &y {a: 2}\nz: {<<: [*x, *y]}\n", id="two mappings in a merge key"
        ),
        pytest.param("x: &x {a: 1}\ny: &y {b: 2}\nz: {<<: *x, <<: *y}\n", id="two merge keys"),
        pytest.param("a: {x: 1}\nb: {x: 1}\n", id="other mappings"),
        pytest.param(SERVICE + "---\n" + SERVICE, id="other documents"),
    ],
)
def test_accepted(text: str) -> None:
    assert read_manifest_file(text.encode(), "a.yaml").problems == []


def test_the_other_documents_are_read() -> None:
    found = read_manifest_file(f"{SERVICE}{SET}---\n{SET}".encode(), "a.yaml")
    assert [str(document) for document in found.documents] == ["StatefulSet default/db"]


def test_json_beyond_the_limits_of_yaml_has_no_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_yaml, "MAX_DEPTH", 2)
    text = f'{{{OBJECT}, "metadata": {{"labels": {{"a": {{}}}}, "name": "a", "name": "b"}}}}'
    assert read_manifest_file(text.encode(), "a.json").problems == [
        "a.json:1: a mapping has a key twice; remove one of the two"
    ]


def test_numbers_are_text_and_what_is_not_utf_8_is_not_decoded() -> None:
    digits = "1" * 5000
    assert decode_json(f'{{"a": [{digits}, 1.5, true]}}'.encode(), 1).value == {
        "a": [digits, "1.5", True]
    }
    assert decode_json(b'{"a": "\xff"}', 1) == (None, [])
