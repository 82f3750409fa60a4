"""`hsdns doctor`: from a file, and from a cluster."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.json import encode

from hsdns import cli
from hsdns.apiserver.transport import Unreachable
from hsdns.doctor.cli import DumpRead, find_analysis
from hsdns.doctor.report import Screen
from hsdns.lint import istioctl
from hsdns.lint.istioctl import NotRun
from hsdns.rules.diagnosis import MAIN, diagnose, subject_of
from hsdns.rules.judging import read_dump
from hsdns.rules.objects import Objects
from hsdns.sources import cluster_dump
from hsdns.sources.cluster_dump import ClusterDump
from tests.support.apiserver.real_api import USER, RealApi, missing_assets

DUMP = """{"apiVersion": "v1", "kind": "List", "metadata": {"annotations": {"hsdns.io/unread": "{}"}}, "items": [
  {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "db", "namespace": "lab"},
   "spec": {"type": "ExternalName", "externalName": "10.1.2.3"}},
  {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "lab"},
   "spec": {"publishNotReadyAddresses": true, "selector": {"app": "web"}}},
  {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "lab", "labels": {"app": "web"}}}
]}
"""
KUBECONFIG = """apiVersion: v1
kind: Config
current-context: a
contexts: [{name: a, context: {cluster: a, user: a}}]
clusters: [{name: a, cluster: {server: "https://192.0.2.1:6443"}}]
users: [{name: a, user: {token: x}}]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "dump.json").write_text(DUMP)
    (tmp_path / "config").write_text(KUBECONFIG)
    return tmp_path


def test_a_cluster_is_read_and_saved(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    async def collect(transport: Any, namespace: str, progress: Any) -> ClusterDump:
        asked.append((transport.server, namespace))
        progress("services", 1)
        dump = ClusterDump([], {})
        dump.add(*json.loads(DUMP)["items"])
        return dump

    monkeypatch.setattr(cluster_dump, "collect", collect)
    assert (
        cli.main(["doctor", "lab", "-kubeconfig", "config", "-save", "saved.json", "-no-ask"]) == 1
    )
    first = capsys.readouterr()
    assert "\n- answers: left out by --no-ask\n" in first.out
    assert first.out.startswith("Objects\n✓ 3 objects read\n\nNames\n")
    assert first.err == ""
    assert asked == [("the API server of kubeconfig config", "lab")]
    assert cli.main(["doctor", "lab", "-source", "manifests", "saved.json"]) == 1
    read = first.out.removeprefix("Objects\n✓ 3 objects read\n\n")
    assert capsys.readouterr().out == read.replace("of cluster", "of saved.json")


def test_a_cluster_that_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def collect(*_: Any) -> ClusterDump:
        raise Unreachable("connection refused")

    monkeypatch.setattr(cluster_dump, "collect", collect)
    monkeypatch.setenv("KUBECONFIG", "config:other")
    assert cli.main(["doctor"]) == 2
    assert capsys.readouterr().err == (
        "looking at the cluster of the current context, a, of config\n"
        "the cluster could not be read: connection refused\n"
    )


@pytest.fixture(scope="module")
def api() -> Iterator[RealApi]:
    if missing := missing_assets():
        pytest.skip(missing)
    with RealApi() as found:
        for item in json.loads(DUMP)["items"][:2]:
            item["metadata"]["namespace"] = "default"
            item["spec"]["ports"] = [{"port": 80}]
            found.apply(item)
        yield found


EVERY = {each.plural: each for each in cluster_dump.KINDS}


def with_rights(api: RealApi, plurals: Collection[str]) -> None:
    """Let the account under test list these resources, and no others."""
    rules = [
        {"apiGroups": [each.group_version.rpartition("/")[0]], "resources": [plural], "verbs": ["list"]}
        for plural, each in EVERY.items()
        if plural in plurals
    ]  # fmt: skip
    path = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{USER}"
    assert api.ask("PATCH", path, {"rules": rules})[0] == 200
    while any(
        (api.ask("GET", f"{each.path('')}?limit=1", token=api.token)[0] == 200)
        is not (plural in plurals)
        for plural, each in EVERY.items()
    ):
        pass  # the authorizer sees the role a moment later


def access(name: str, api: RealApi, token: str = "") -> str:
    """A context, with its cluster and user, as elements for a kubeconfig."""
    authority = base64.b64encode(api.authority).decode()
    server = f"https://127.0.0.1:{api.port}"
    return json.dumps(
        {
            "contexts": {"name": name, "context": {"cluster": name, "user": name}},
            "clusters": {
                "name": name,
                "cluster": {"server": server, "certificate-authority-data": authority},
            },
            "users": {"name": name, "user": {"token": token or api.token}},
        }
    )


def kubeconfig(*contexts: str) -> str:
    """A kubeconfig with some contexts; the first is the current one."""
    found = [json.loads(each) for each in contexts]
    lists = {key: [each[key] for each in found] for key in ("contexts", "clusters", "users")}
    current = found[0]["contexts"]["name"]
    return json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": current, **lists})


@pytest.mark.sockets
@pytest.mark.slow
def test_each_right_that_is_missing_is_named(
    api: RealApi, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a real API server: rule by rule, what could not be checked, and for want of which right."""
    (folder / "config").write_text(kubeconfig(access("a", api)))
    words = ["doctor", "-kubeconfig", "config", "-no-ask"]
    for lacking in ("", *EVERY):
        with_rights(api, EVERY.keys() - {lacking})
        assert cli.main(words) == (2 if lacking in MAIN else 1), lacking
        told = capsys.readouterr().out
        said = {each for each in EVERY if f"{each}: no right to list {each} (403)" in told}
        assert said == {lacking} - {""}, told
    with_rights(api, EVERY.keys() - {"services"})
    assert cli.main(["doctor", "default", *words[1:]]) == 2
    assert capsys.readouterr().err.endswith("(services: no right to list services (403))\n")
    with_rights(api, ())
    assert cli.main(words) == 2
    assert capsys.readouterr().err == (
        "the cluster could not be read: no right to list services (403); "
        "for rights in one namespace, hsdns doctor NAMESPACE\n"
    )
    (folder / "config").write_text(kubeconfig(access("a", api, "another")))
    assert cli.main(words) == 2
    assert capsys.readouterr().err == (
        "the cluster could not be read: the server rejects the credentials (401)\n"
    )


@pytest.mark.parametrize(
    ("columns", "height", "colour"), [(80, 23, False), (60, 30, True), (132, 49, False), (0, 50, False), (0, None, False)]
)  # fmt: skip
def test_it_fits_the_screen_or_names_all(
    columns: int, height: int | None, colour: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    """Of a terminal no line is too long; elsewhere none is wrapped, and -o wide shows the rest."""
    screen = Screen(height, columns, colour=colour)
    monkeypatch.setattr(Screen, "of_output", lambda is_wide: screen)
    assert cli.main(["doctor", "-source", "demo", "-level", "note"]) == 1
    shown = capsys.readouterr().out
    lines = re.sub(r"\x1b\[\d+m", "", shown).splitlines()
    assert (shown != "\n".join([*lines, ""])) is colour
    assert len(lines) <= (height or 200)
    assert max(map(len, lines)) <= (columns or 1000)
    assert lines[0] == "Names"
    assert ("(-o wide)" in shown) is (height is not None)
    assert ("✗ search-1.search.shop.svc.cluster.local: " in shown) is (
        height is None or height == 50
    )


# What istioctl says about a cluster, in its dump.

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
        ("[]", False, "left out by --istioctl=false"),
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
    assert reasons["istioctl"].startswith("it is not run with --source")
