"""`hsdns doctor -recording`: what the search list has cost the names that were asked for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from hsdns import cli
from hsdns.recording.entry import FORMAT, VERSION

POD = """apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
status: {podIP: 10.244.1.7}
"""
LOOKUP = [
    ("api.stripe.com.shop.svc.cluster.local.", "NXDOMAIN"),
    ("api.stripe.com.svc.cluster.local.", "NXDOMAIN"),
    ("api.stripe.com.cluster.local.", "NXDOMAIN"),
    ("api.stripe.com.", "NOERROR"),
]


def record(path: Path, queries: Sequence[tuple[str, str | None]]) -> None:
    """Write a recording that is not compressed."""
    head = {"entry": "header", "format": FORMAT, "version": VERSION, "zones": ["cluster.local."]}
    lines = [head]
    for at, (name, rcode) in enumerate(queries):
        query = {"entry": "query", "at": at / 1000, "time": "", "client": "10.244.1.7", "transport": "udp"}  # fmt: skip
        lines.append({**query, "name": name, "type": "A", "rcode": rcode})
    lines.append({"entry": "end", "at": 9.0, "time": "", "reason": "interrupted"})
    path.write_text("".join(f"{json.dumps(each, separators=(',', ':'))}\n" for each in lines))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pod.yaml").write_text(POD)
    (tmp_path / "list.json").write_text(
        '{"kind": "List", "apiVersion": "v1", "items": [{"apiVersion": "v1", "kind": "Pod", '
        '"metadata": {"name": "web", "namespace": "shop"}, "status": {"podIP": "10.244.1.7"}}]}'
    )
    record(tmp_path / "shop.rec", [*LOOKUP * 5, ("lost.example.", None)])
    return tmp_path


FLAGS = ["-recording", "shop.rec", "-preview", "-level", "note"]


@pytest.mark.parametrize("dump", ["pod.yaml", "list.json"])
def test_what_the_search_list_costs(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["doctor", "-from", dump, *FLAGS])
    out = capsys.readouterr().out
    assert (
        "  HS176 Pod shop/web: 15 of 20 recorded queries asked with a search domain in vain, most of them for "
        "api.stripe.com (15, before 5 answers); write whole names with a dot at the end, or ndots:2 in "
        "dnsConfig.options, which would have saved 15 of 15\n"
    ) in out


def test_it_is_not_checked_without_a_recording(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["doctor", "-from", "pod.yaml", "-preview"])
    sentence = "not checked: HS176: queries: no recording is given; name one with -recording\n"
    assert sentence in capsys.readouterr().out
    cli.main(["doctor", "-from", "pod.yaml"])
    assert "HS176" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["-recording", "shop.rec"], "-recording is for HS176, which is a new rule; add -preview"),
        (["-recording", "none", "-preview"], "-recording none: it cannot be read: No such file or directory"),
        (["-recording", "pod.yaml", "-preview"], "-recording: pod.yaml is no recording of hsdns record"),
        (["-recording", "empty.rec", "-preview"], "-recording empty.rec: it has no queries; record without -queries=false while names are asked for"),
    ],
)  # fmt: skip
def test_bad_input(
    flags: list[str], sentence: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(folder / "empty.rec", [])
    assert cli.main(["doctor", "-from", "pod.yaml", *flags]) == 2
    assert capsys.readouterr().err == f"{sentence}\n"
