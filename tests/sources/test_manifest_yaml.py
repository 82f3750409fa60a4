"""Documents that are made to cost much, each of which was read until memory, time or the stack ran out."""

from __future__ import annotations

import json
from pathlib import Path
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
    ManifestLoader,
    TooLarge,
    decode_json,
    field_line,
    json_node,
    key_line,
)
from tests.support.tables import columns, section

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
    ],
)  # fmt: skip
def test_refused(text: str, problem: str) -> None:
    assert read_manifest_file(text.encode(), "a.yaml").problems == [f"a.yaml:{problem}"]


@pytest.mark.parametrize(
    "unit", [pytest.param("a,", id="keys-without-values"), pytest.param("[],", id="empty-lists")]
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
    loader = ManifestLoader(b"a: &a {x: 1}\nb: {" + b"<<: *a, " * 100 + b"z: 2, <<: {x: 3}}\n")
    node = loader.get_single_node()
    value = node.value[1][1]
    value.value = Counted(value.value)
    assert loader.construct_document(node) == {"a": {"x": 1}, "b": {"x": 3, "z": 2}}
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


LINES = Path(__file__).with_name("field_lines.txt")
TEXT = section(LINES, "text")


@pytest.mark.parametrize(("field", "line"), columns(LINES, "fields"))
def test_line(field: str, line: str) -> None:
    assert field_line(yaml.compose(TEXT, Loader=yaml.SafeLoader), field) == int(line)


@pytest.mark.parametrize(("place", "line"), columns(LINES, "keys"))
def test_line_of_a_key(place: str, line: str) -> None:
    parent, _, key = place.rpartition(" ")
    assert key_line(yaml.compose(TEXT, Loader=yaml.SafeLoader), parent, key) == int(line)


def test_json() -> None:
    text = json.dumps({"spec": {"ports": [{"port": 80}]}}, indent=1).encode()
    assert field_line(json_node(text), "spec.ports[0].port") == 5
    assert json_node(b"{") is None


def test_json_beyond_the_limits_of_yaml_has_no_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_yaml, "MAX_DEPTH", 2)
    text = '{"apiVersion": "v1", "kind": "Service", "metadata": {"labels": {"a": {}}, "name": "a", "name": "b"}}'
    assert read_manifest_file(text.encode(), "a.json").problems == [
        "a.json:1: a mapping has a key twice; remove one of the two"
    ]


def test_numbers_are_text_and_what_is_not_utf_8_is_not_decoded() -> None:
    digits = "1" * 5000
    assert decode_json(f'{{"a": [{digits}, 1.5, true]}}'.encode(), 1).value == {
        "a": [digits, "1.5", True]
    }
    assert decode_json(b'{"a": "\xff"}', 1) == (None, [])
