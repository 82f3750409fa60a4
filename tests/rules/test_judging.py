"""Findings and silences."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsdns.corefile.tree import Position
from hsdns.rules.judging import is_corefile, judge, read_files
from hsdns.rules.silence import SilenceFile, SilencePattern
from tests.support.tables import columns

TABLES = Path(__file__).with_name("tables.txt")

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


@pytest.mark.parametrize(("silence", "found"), columns(TABLES, "silences"))
def test_silences(silence: str, found: str) -> None:
    """Where a silence stands in the target, and the rules with their lines."""
    place, _, text = silence.partition(":")
    assert ", ".join(findings(**({place: text} if text else {}))) == found


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


@pytest.mark.parametrize(("entry", "expected"), columns(TABLES, "silences of a file"))
def test_silences_of_a_file(entry: str, expected: str) -> None:
    """Rule, object and reason of an entry."""
    code, object_, reason = (each.strip() for each in f"{entry} ".split(" | "))
    text = TARGET.format(before="", after="", annotations="")
    objects = read_files([("a.yaml", text.encode())]).objects
    pattern = SilencePattern(Position("s.yaml", 1, 1), code, object_, "", reason)
    judgement = judge(objects, (), SilenceFile([pattern]))
    rows = [f"{each.rule.code} {each.remark.position.line}" for each in judgement.findings]
    rows += [f"silenced: {each.silenced}" for each in judgement.silenced if each.is_outside]
    assert ", ".join(rows) == expected


HIDDEN = """. {{
    kubernetes cluster.local{silence}
    forward . 192.0.2.1 192.0.2.2 {{
        max_concurrent 9
    }}
    ready
}}
"""


@pytest.mark.parametrize(("given", "found"), columns(TABLES, "new rules"))
def test_a_new_rule_is_checked_where_it_is_asked_for(given: str, found: str) -> None:
    word, mark, silence = given.partition("  #")
    read = read_files([("Corefile", HIDDEN.format(silence=mark + silence).encode())])
    judged = judge(read.objects, read.silences, preview=word == "preview").findings
    rows = (f"{each.rule.code} {each.remark.position.line}" for each in judged)
    assert ", ".join(rows) == found


# What is read of files, and what is told about the rest.


@pytest.mark.parametrize(("given", "is_one"), columns(TABLES, "Corefiles"))
def test_what_a_corefile_is(given: str, is_one: str) -> None:
    """The name and the content of a file."""
    file, _, content = given.partition(" | ")
    assert is_corefile(file.strip(" |"), content.encode()) is (is_one == "yes")


@pytest.mark.parametrize(("content", "expected"), columns(TABLES, "what is not read"))
def test_what_is_not_read(content: str, expected: str) -> None:
    """Why a file is not checked, or that it is left out."""
    other = ("b.yaml", b"{apiVersion: v1, kind: Pod, metadata: {name: a}}")
    read = read_files([("a.yaml", content.encode()), other])
    assert [*read.unread, *["left out"] * len(read.left_out)] == [expected] * bool(expected)
    assert "Pod a" in map(str, read.objects.manifests)
