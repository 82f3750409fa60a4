"""What is read of files, and what is told about the rest."""

from __future__ import annotations

import pytest

from hsdns.corefile.tree import Position
from hsdns.rules.judging import is_corefile, read_files

CONFIG_MAP = b"""apiVersion: v1
kind: ConfigMap
metadata: {name: coredns}
data:
  Corefile: |

    . {
        cache 30
    }
  quoted.server: ". {\\n cache 30\\n}"
  other: text
"""


@pytest.mark.parametrize(
    ("file", "content", "is_one"),
    [
        ("Corefile", b"", True),
        ("x/Corefile.lab", b"", True),
        ("dns.corefile", b"", True),
        ("a.yaml", b". {\n}", False),
        ("standard input", b"# comment\n\n.:53 {\n}", True),
        ("standard input", b"cluster.local:53 10.0.0.0/8 { # here", True),
        ("standard input", b"apiVersion: v1", False),
        ("standard input", b"spec: {", False),
        ("standard input", b"{\n", False),
    ],
)
def test_what_a_corefile_is(file: str, content: bytes, is_one: bool) -> None:
    assert is_corefile(file, content) is is_one


def test_corefiles_in_a_config_map_have_their_places() -> None:
    read = read_files([("a.yaml", CONFIG_MAP)])
    places = [
        corefile.at(directive.name.position)
        for corefile in read.objects.corefiles
        for _, directive in corefile.directives("cache")
    ]
    assert places == [Position("a.yaml", 8, 9), Position("a.yaml", 10, 18)]
    assert {each.owner for each in read.objects.corefiles} == {"ConfigMap coredns"}


@pytest.mark.parametrize(
    ("content", "unread", "left_out"),
    [
        (b"a: 'b", ["a.yaml:1: not YAML: found unexpected end of stream (column 6); correct the file"], 0),
        (b"kind: {{ .Values.kind }}\n", [], 1),
        (b"apiVersion: v1\nkind: Pod\nmetadata: {name: '{{x}}'}\n", [], 1),
        (b"apiVersion: v1\nmetadata: {}\n", ["a.yaml:1: kind is missing; every object needs apiVersion and kind"], 0),
        (b"apiVersion: v1\nkind: Service\nmetadata: {}\n", [], 0),
        (b"kind: Service\napiVersion: v1\nmetadata: {name: b}\nspec: {clusterIP: !vault x}\n", [], 1),
        (b"test: {script: [!reference [.setup, script]]}\n", [], 0),
    ],
)  # fmt: skip
def test_what_is_not_read(content: bytes, unread: list[str], left_out: int) -> None:
    read = read_files(
        [("a.yaml", content), ("b.yaml", b"{apiVersion: v1, kind: Pod, metadata: {name: a}}")]
    )
    assert read.unread == unread
    assert len(read.left_out) == left_out
    assert "Pod a" in map(str, read.objects.manifests)


def test_annotations_silence() -> None:
    content = b"{apiVersion: v1, kind: Pod, metadata: {name: a, annotations: {hsdns.io/ignore-HS131: why, b: c}}}"
    (silence,) = read_files([("a.yaml", content)]).silences
    assert (silence.code, silence.reason, silence.place) == ("HS131", "why", "Pod a")
