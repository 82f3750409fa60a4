"""`hsdns doctor -against`: two clusters, each from a file or by a context."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hsdns import cli
from hsdns.sources import cluster_dump
from hsdns.sources.api_access import ApiAccess
from hsdns.sources.cluster_dump import ClusterDump

DUMP = """{"apiVersion": "v1", "kind": "List", "metadata": {"annotations": {"hsdns.io/unread": "{}"}}, "items": [
  {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "db", "namespace": "shop"},
   "spec": {"clusterIP": "None", "selector": {"app": "db"}}},
  {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": "shop"},
   "spec": {"serviceName": "db", "template": {}}}
]}
"""
OTHER = DUMP.replace('"app": "db"', '"app": "pg"').replace('"serviceName": "db"', '"serviceName": "pg"')  # fmt: skip
LINES = [
    "Service shop/db: spec.selector: here app=db, there app=pg",
    "StatefulSet shop/db: spec.serviceName: here db, there pg",
]
KUBECONFIG = """apiVersion: v1
kind: Config
current-context: a
contexts: [{name: a, context: {cluster: a, user: a}}, {name: b, context: {cluster: b, user: a}}]
clusters: [{name: a, cluster: {server: "https://192.0.2.1:6443"}}, {name: b, cluster: {server: "https://192.0.2.2:6443"}}]
users: [{name: a, user: {token: x}}]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "here.json").write_text(DUMP)
    (tmp_path / "there.json").write_text(OTHER)
    (tmp_path / "config").write_text(KUBECONFIG)
    return tmp_path


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The contexts and namespaces that were read; context b is the other cluster."""
    found: list[tuple[str, str]] = []
    make = ApiAccess.__call__

    def remember(access: ApiAccess, *around: Any) -> Any:
        found.append((str(access), ""))
        return make(access, *around)

    async def collect(transport: Any, namespace: str, progress: Any) -> ClusterDump:
        context = found[-1][0].removeprefix("config").strip()
        found[-1] = (context, namespace)
        dump = ClusterDump([], {})
        dump.add(*json.loads(OTHER if context == "b" else DUMP)["items"])
        return dump

    monkeypatch.setattr(ApiAccess, "__call__", remember)
    monkeypatch.setattr(cluster_dump, "collect", collect)
    return found


def last(here: str, there: str) -> str:
    return f"2 differences in 1 Service and 1 StatefulSet of {here} (here) and {there} (there)"


def test_two_contexts(asked: list[tuple[str, str]], capsys: pytest.CaptureFixture[str]) -> None:
    words = ["doctor", "shop/db", "-kubeconfig", "config", "-against", "b", "-save", "saved"]
    assert cli.main(words) == 1
    assert asked == [("", "shop"), ("b", "shop")]
    assert capsys.readouterr().out.splitlines() == [*LINES, "", last("cluster", "cluster b")]
    assert json.loads(Path("saved").read_text()) == json.loads(DUMP)


def test_a_file_and_a_context(
    asked: list[tuple[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "doctor",
        "-source",
        "manifests",
        "here.json",
        "-kubeconfig",
        "config",
        "-against",
        "b",
    ]
    assert cli.main(words) == 1
    assert asked == [("b", "")]
    assert capsys.readouterr().out.splitlines()[-1] == last("here.json", "cluster b")


def test_a_context_and_a_file_of_its_name(
    folder: Path, asked: list[tuple[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """The context is meant; the file is ./b."""
    (folder / "b").write_text(DUMP)
    words = ["doctor", "-kubeconfig", "config", "-context", "a", "-against"]
    assert cli.main([*words, "b"]) == 1
    assert cli.main([*words, "./b"]) == 0
    assert asked == [("a", ""), ("b", ""), ("a", "")]
    assert "of cluster a (here) and ./b (there)" in capsys.readouterr().out
