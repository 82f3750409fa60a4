"""Findings and silences."""

from __future__ import annotations

import pytest

from hsdns.corefile.tree import Position
from hsdns.rules.judging import is_corefile, judge, read_files
from hsdns.rules.silence import SilenceFile, SilencePattern

TARGET = """apiVersion: v1
kind: Service
metadata: {{name: db{annotations}}}
spec:
  type: ExternalName{before}
  externalName: 10.1.2.3{after}
"""
FOUND = "HS131 6"


def findings(
    before: str = "", after: str = "", annotations: str = "", above: str = ""
) -> list[str]:
    text = above + TARGET.format(before=before, after=after, annotations=annotations)
    read = read_files([("a.yaml", text.encode())])
    found = judge(read.objects, read.silences)
    return [f"{each.rule.code} {each.remark.position.line}" for each in found.findings]


@pytest.mark.parametrize(
    ("silence", "found"),
    [
        ({}, [FOUND]),
        ({"after": "  # hsdns: ignore HS131 why"}, []),
        ({"before": "\n  # hsdns: ignore HS131 why"}, []),
        ({"above": "# hsdns: ignore HS131 why\n"}, []),
        ({"annotations": ', annotations: {"hsdns.io/ignore-HS131": why}'}, []),
        ({"after": "  # hsdns: ignore HS132 why"}, [FOUND, "HS003 6"]),
        ({"after": "  # hsdns: ignore HS131"}, [FOUND, "HS004 6"]),
        ({"after": "  # hsdns: ignore HS13 why"}, [FOUND, "HS003 6"]),
        ({"before": "  # hsdns: ignore HS131 why"}, ["HS003 5", FOUND]),
        ({"annotations": ', annotations: {"hsdns.io/ignore-HS133": why}'}, ["HS003 3", FOUND]),
        ({"annotations": ', annotations: {"hsdns.io/ignore-HS131": ""}'}, ["HS004 3", FOUND]),
    ],
)
def test_silences(silence: dict[str, str], found: list[str]) -> None:
    assert findings(**silence) == found


def test_order_is_that_of_files_and_lines() -> None:
    text = TARGET.format(before="", after="", annotations="").encode()
    read = read_files([("b.yaml", text), ("a.yaml", text + b"---\n" + text)])
    places = [each.remark.position[:2] for each in judge(read.objects).findings]
    assert places == [("a.yaml", 6), ("a.yaml", 13), ("b.yaml", 6)]


def test_a_silence_in_a_corefile_of_a_config_map() -> None:
    text = """apiVersion: v1
kind: ConfigMap
metadata: {name: coredns}
data:
  Corefile: |
    .:53 {
        forward . 127.0.0.1  # hsdns: ignore HS203 a sidecar
        forward . ::1
    }
"""
    read = read_files([("a.yaml", text.encode())])
    found = judge(read.objects, read.silences)
    errors = [each for each in found.findings if each.level == "error"]
    assert [(each.rule.code, each.remark.position.line) for each in errors] == [("HS203", 8)]
    assert [each.silenced for each in found.silenced] == ["a sidecar"]


@pytest.mark.parametrize(
    ("code", "object_", "reason", "found", "silenced"),
    [
        ("HS131", "Service db", "why", [], [("why", True)]),
        ("HS131", "Service db", "", [FOUND, "HS004 1"], []),
        ("HS131", "Service x", "why", [FOUND], []),
        ("HS132", "Service db", "why", [FOUND, "HS003 1"], []),
        ("HS132", "Service db", "", [FOUND, "HS004 1"], []),
        ("HS13", "Service x", "why", [FOUND, "HS003 1"], []),
    ],
)
def test_silences_of_a_file(
    code: str, object_: str, reason: str, found: list[str], silenced: list[tuple[str, bool]]
) -> None:
    text = TARGET.format(before="", after="", annotations="")
    objects = read_files([("a.yaml", text.encode())]).objects
    pattern = SilencePattern(Position("s.yaml", 1, 1), code, object_, "", reason)
    judgement = judge(objects, (), SilenceFile([pattern]))
    rows = [f"{each.rule.code} {each.remark.position.line}" for each in judgement.findings]
    assert rows == found
    assert [(each.silenced, each.is_outside) for each in judgement.silenced] == silenced


HIDDEN = """. {{
    kubernetes cluster.local{silence}
    forward . 192.0.2.1 192.0.2.2 {{
        max_concurrent 9
    }}
    ready
}}
"""


@pytest.mark.parametrize(
    ("silence", "preview", "found"),
    [
        ("", False, []),
        ("", True, ["HS241 2"]),
        ("  # hsdns: ignore HS241 why", False, []),
        ("  # hsdns: ignore HS241 why", True, []),
        ("  # hsdns: ignore HS241", False, ["HS004 2"]),
        ("  # hsdns: ignore HS242 why", False, []),
        ("  # hsdns: ignore HS242 why", True, ["HS241 2", "HS003 2"]),
    ],
)
def test_a_new_rule_is_checked_where_it_is_asked_for(
    silence: str, preview: bool, found: list[str]
) -> None:
    read = read_files([("Corefile", HIDDEN.format(silence=silence).encode())])
    judged = judge(read.objects, read.silences, preview=preview)
    assert [f"{each.rule.code} {each.remark.position.line}" for each in judged.findings] == found


# What is read of files, and what is told about the rest.


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
