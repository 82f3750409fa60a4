"""Documents that are made to cost much, each of which was read until memory, time or the stack ran out."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hsdns.sources import manifest_yaml
from hsdns.sources.manifest_file import read_manifest_file
from hsdns.sources.manifest_yaml import (
    MAX_DEPTH,
    MAX_NODES,
    MAX_NUMBER_LEN,
    ManifestLoader,
    TooLarge,
    decode_json,
    field_line,
    json_node,
    key_line,
)

HEAD = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n"
TOO_MANY = "there are too many values for the length of the file; is it a manifest?"


def aliases(first: str, level: str, times: int = 9, levels: int = 8) -> str:
    """Each level stands for nine of the one before it; its first line is 4."""
    text = f"x0: &x0 {first}\n"
    for number in range(1, levels):
        text += f"x{number}: &x{number} " + level.format(", ".join([f"*x{number - 1}"] * times))
        text += "\n"
    return HEAD + text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(aliases("[a, a, a, a, a, a, a, a, a]", "[{}]"), f"9: the aliases of the file stand for more than {MAX_NODES} values; write it out", id="billion-laughs"),
        pytest.param(aliases("{a: b}", "{{<<: [{}]}}"), f"9: the aliases of the file stand for more than {MAX_NODES} values; write it out", id="merge-keys"),
        pytest.param(aliases("[a]", "[{}]", 1, 500), f"{4 + MAX_DEPTH - 1}: it is nested more than {MAX_DEPTH} levels deep through aliases; write it out", id="chain-of-aliases"),
        pytest.param(HEAD + "a: &x {b: [*x]}", "4: it contains itself through an alias; write it out", id="cycle"),
        pytest.param(HEAD + "a: " + "[" * 100_000, f"4: it is nested more than {MAX_DEPTH} levels deep; correct the file", id="deep-lists"),
        pytest.param("{a: " * 100_000, f"1: it is nested more than {MAX_DEPTH} levels deep; correct the file", id="deep-mappings"),
        pytest.param("- " * 100_000, f"1: it is nested more than {MAX_DEPTH} levels deep; correct the file", id="deep-block-lists"),
        pytest.param("? " * 100_000, f"1: it is nested more than {MAX_DEPTH} levels deep; correct the file", id="deep-keys"),
        pytest.param("a: 1" + ":1" * 50_000, f"1: a number has more than {MAX_NUMBER_LEN} characters; put it in quotes", id="base-60"),
        pytest.param("a: 1" + ":1" * 50_000 + ".5", f"1: a number has more than {MAX_NUMBER_LEN} characters; put it in quotes", id="base-60-float"),
        pytest.param("a: !!int " + "1" * 5_000, f"1: a number has more than {MAX_NUMBER_LEN} characters; put it in quotes", id="long-number"),
        pytest.param("{[a]: b}", "1: a key is not text; write a word", id="list-as-key"),
    ],
)  # fmt: skip
def test_refused(text: str, problem: str) -> None:
    assert read_manifest_file(text.encode(), "a.yaml").problems == [f"a.yaml:{problem}"]


@pytest.mark.parametrize(
    "unit",
    [pytest.param("a,", id="keys-without-values"), pytest.param("[],", id="empty-lists")],
)
@pytest.mark.parametrize(("limit", "length"), [(1000, 4500), (10, 500)])
def test_values_are_limited_by_the_length(
    unit: str, limit: int, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More of them would take 400 octets each, where the file has one or two."""
    monkeypatch.setattr(manifest_yaml, "MAX_NODES", limit)
    text = "{" + unit * (length // len(unit)) + "}"
    assert read_manifest_file(text.encode(), "a.yaml").problems == [f"a.yaml:1: {TOO_MANY}"]


def test_documents_count_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_yaml, "MAX_NODES", 100)
    assert read_manifest_file(b"---\n" * 99, "a.yaml").problems == []
    assert read_manifest_file(b"---\n" * 101, "a.yaml").problems == [f"a.yaml:1: {TOO_MANY}"]


def test_aliases_of_all_documents_count_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """1 MB of such documents stood for 20 million objects."""
    monkeypatch.setattr(manifest_yaml, "MAX_NODES", 100)
    document = (
        "---\nkind: List\nitems: [&a {apiVersion: v1, kind: ConfigMap}, *a, *a]\n"  # 20 nodes
    )
    assert read_manifest_file((document * 5).encode(), "a.yaml").problems == []
    assert read_manifest_file((document * 6).encode(), "a.yaml").problems == [
        "a.yaml:18: the aliases of the file stand for more than 100 values; write it out"
    ]


def test_a_single_document_has_the_limit_too() -> None:
    with pytest.raises(TooLarge):
        yaml.load(aliases("{a: b}", "{{<<: [{}]}}").encode(), ManifestLoader)  # noqa: S506, RUF100 - as above


class Counted(list[Any]):
    """A list that counts the pairs that a deletion moves."""

    moved = 0

    def __delitem__(self, at: Any) -> None:
        type(self).moved += len(self) - at
        super().__delitem__(at)


def test_time_for_merge_keys_grows_with_their_number() -> None:
    """4 MB of them took 6 s."""
    loader = ManifestLoader(b"a: &a {x: 1}\nb: {" + b"<<: *a, " * 100 + b"y: 2, <<: {x: 3}}\n")
    node = loader.get_single_node()
    value = node.value[1][1]
    value.value = Counted(value.value)
    assert loader.construct_document(node) == {"a": {"x": 1}, "b": {"x": 3, "y": 2}}
    assert Counted.moved <= 101


INDICATORS = st.sampled_from(
    [*"[]{},:-?&*!|>'\"%@#\n \t", "a", "1", "<<: ", "&a ", "*a ", "- ", "? ", ": ", "---\n", "!!int ", "!!set ",
     "!!omap ", "!!bool ", "!!binary ", "!!timestamp ", "!!float ", "kind: List\n", "items:\n", "1:1", "0x", "~"]
)  # fmt: skip


@given(st.lists(INDICATORS, max_size=60).map("".join) | st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    found = read_manifest_file(text.encode("utf-8", "surrogatepass"), "a.yaml")
    assert all(each.startswith("a.yaml:") for each in found.problems)


# Lines of fields, in YAML and JSON.


TEXT = """\
kind: Service
metadata:
  labels:
    app.kubernetes.io/name: web
    a/b: 1
spec:
  ports:
  - name: http
    port: 80
  - {name: dns,
     port: 53}
  base: &base
    type: x
  copy:
    <<: *base
"""


@pytest.mark.parametrize(
    ("field", "line"),
    [
        pytest.param("kind", 1, id="top"),
        pytest.param("spec.ports[0].port", 9, id="list item"),
        pytest.param("spec.ports[1].port", 11, id="flow style"),
        pytest.param("spec.ports[1]", 10, id="whole item"),
        pytest.param("metadata.labels[app.kubernetes.io/name]", 4, id="key with dots"),
        pytest.param("metadata.labels", 5, id="the label that is no text"),
        pytest.param("spec.ports[0].targetPort", 8, id="absent field"),
        pytest.param("spec.ports[7].port", 8, id="absent item"),
        pytest.param("status.phase", 1, id="absent parent"),
        pytest.param("kind.of.nothing", 1, id="below a scalar"),
    ],
)
def test_line(field: str, line: int) -> None:
    assert field_line(yaml.compose(TEXT, Loader=yaml.SafeLoader), field) == line


@pytest.mark.parametrize(
    ("parent", "key", "line"),
    [
        pytest.param("", "spec", 6, id="top, whose value is in the next line"),
        pytest.param("spec", "ports", 7, id="one level below"),
        pytest.param("spec.ports[1]", "port", 11, id="list item"),
        pytest.param("spec", "absent", 1, id="absent key"),
        pytest.param("absent[0].parent", "key", 1, id="absent parent"),
    ],
)
def test_line_of_a_key(parent: str, key: str, line: int) -> None:
    assert key_line(yaml.compose(TEXT, Loader=yaml.SafeLoader), parent, key) == line


def test_json() -> None:
    text = json.dumps({"spec": {"ports": [{"port": 80}]}}, indent=1).encode()
    assert field_line(json_node(text), "spec.ports[0].port") == 5
    assert json_node(b"{") is None


# Keys that a mapping has twice: refused, with both lines.


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
def test_refused_of_duplicate_keys(name: str, text: str, problems: list[str]) -> None:
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
