"""What istioctl says about a cluster, in its dump."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.json import encode

from hsdns.doctor.cli import DumpRead, find_analysis
from hsdns.lint import istioctl
from hsdns.lint.istioctl import NotRun
from hsdns.rules.diagnosis import diagnose, subject_of
from hsdns.rules.judging import read_dump
from hsdns.rules.objects import Objects

MESH = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"istio-injection": "enabled"}}}  # fmt: skip
MESSAGE = {"code": "IST0103", "level": "Warning", "message": "no proxy", "origin": "Pod web.shop", "reference": ""}  # fmt: skip


def objects(*items: dict[str, Any]) -> Objects:
    return read_dump("dump", map(encode, items), 1).objects


def test_it_is_a_part_of_the_dump(monkeypatch: pytest.MonkeyPatch) -> None:
    called = []

    def analysis(words: list[str]) -> str:
        called.append(words)
        return json.dumps([MESSAGE])

    monkeypatch.setattr(istioctl, "analysis", analysis)
    read = DumpRead("dump", read_dump("dump", [encode(MESH)], 1), {})
    read.add(*find_analysis(read.files.objects, ("config", "lab"), "shop", runs=True)[0])
    assert called == ["istioctl analyze --kubeconfig=config --context=lab --namespace shop".split()]
    diagnosis = diagnose(subject_of(read.files, {}))
    (said,) = diagnosis.mesh
    assert (str(said), diagnosis.objects) == ("warning IST0103 Pod web.shop: no proxy", 1)
    assert said.page == "https://istio.io/latest/docs/reference/config/analysis/ist0103/"
    assert "istioctl" not in diagnosis.reasons


@pytest.mark.parametrize(
    ("said", "runs", "reason"),
    [
        (NotRun("istioctl is not on PATH; run it"), True, "istioctl is not on PATH; run it"),
        ("x", True, "what istioctl printed is not the JSON of istioctl analyze"),
        ("{}", True, "what istioctl printed is not the JSON of istioctl analyze"),
        ("[]", False, "left out by -istioctl=false"),
    ],
)
def test_why_it_says_nothing(
    said: object, runs: bool, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def analysis(words: list[str]) -> object:
        if isinstance(said, NotRun):
            raise said
        return said

    monkeypatch.setattr(istioctl, "analysis", analysis)
    assert find_analysis(objects(MESH), ("config", ""), "", runs=runs) == ([], {"istioctl": reason})


def test_without_a_mesh_nothing_is_said() -> None:
    quiet = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "istio"}}
    assert find_analysis(objects(quiet), ("config", ""), "", runs=True) == ([], {})
    assert "istioctl" not in diagnose(subject_of(read_dump("dump", [encode(quiet)], 1), {})).reasons
    reasons = diagnose(subject_of(read_dump("dump", [encode(MESH)], 1), {})).reasons
    assert reasons["istioctl"].startswith("it is not run with -source")
