"""What istioctl says about a cluster, in its dump."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hsdns.doctor.cli import add_analysis
from hsdns.lint import istioctl
from hsdns.lint.istioctl import NotRun
from hsdns.rules.diagnosis import diagnose
from hsdns.sources.cluster_dump import ClusterDump, unread_kinds

MESH = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"istio-injection": "enabled"}}}  # fmt: skip
MESSAGE = {"code": "IST0103", "level": "Warning", "message": "no proxy", "origin": "Pod web.shop", "reference": ""}  # fmt: skip


def dump(*items: dict[str, Any]) -> ClusterDump:
    return ClusterDump([*items], {})


def test_it_is_a_part_of_the_dump(monkeypatch: pytest.MonkeyPatch) -> None:
    called = []

    def analysis(words: list[str]) -> str:
        called.append(words)
        return json.dumps([MESSAGE])

    monkeypatch.setattr(istioctl, "analysis", analysis)
    found = dump(MESH)
    add_analysis(found, ("config", "lab"), "shop", runs=True)
    assert called == ["istioctl analyze --kubeconfig=config --context=lab --namespace shop".split()]
    diagnosis = diagnose("dump", found.encode(), unread_kinds(found.encode()))
    (said,) = diagnosis.mesh
    assert (str(said), diagnosis.objects) == ("warning IST0103 Pod web.shop: no proxy", 1)
    assert said.page == "https://istio.io/latest/docs/reference/config/analysis/ist0103/"
    assert "istioctl" not in diagnosis.reasons


@pytest.mark.parametrize(
    ("said", "runs", "reason"),
    [
        (NotRun("istioctl is not on PATH; run it"), True, "istioctl is not on PATH; run it"),
        ("x", True, "what istioctl printed is no JSON of istioctl analyze"),
        ("{}", True, "what istioctl printed is no JSON of istioctl analyze"),
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
    found = dump(MESH)
    add_analysis(found, ("config", ""), "", runs=runs)
    assert found == ClusterDump([MESH], {"istioctl": reason})


def test_without_a_mesh_nothing_is_said() -> None:
    quiet = dump({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "istio"}})
    before = quiet.encode()
    add_analysis(quiet, ("config", ""), "", runs=True)
    assert quiet.encode() == before
    assert "istioctl" not in diagnose("dump", before, {}).reasons
    assert diagnose("dump", dump(MESH).encode(), {}).reasons["istioctl"].startswith("it is not run with -from")  # fmt: skip
