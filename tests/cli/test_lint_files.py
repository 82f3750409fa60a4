"""Which files of a folder are checked."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsdns.cli.lint import read_paths


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, content in {
        "app/a.yaml": "a",
        "app/Corefile": "c",
        "app/readme.md": "m",
        "app/.hidden/b.yaml": "b",
        "chart/Chart.yaml": "name: x",
        "chart/templates/a.yaml": "t",
        "chart/Corefile": "c",
        "overlay/kustomization.yaml": "patches: [{path: patch.yaml}]\npatchesStrategicMerge: [other.yaml, 'kind: X']\n",
        "overlay/patch.yaml": "p",
        "overlay/other.yaml": "p",
        "overlay/more.yaml": "m",
        "broken/kustomization.yaml": "[",
        "broken/a.yaml": "a",
        "data/list.json": '["a"]',
        "data/settings.json": '{"a": 1 /* one */}',
        "data/web.json": '{"apiVersion": "v1" /* one */}',
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    return tmp_path


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["app"], ["app/a.yaml", "app/Corefile"]),
        (["app/a.yaml", "app"], ["app/a.yaml", "app/Corefile"]),
        (["app/readme.md"], ["app/readme.md"]),
        (["overlay"], ["overlay/kustomization.yaml", "overlay/more.yaml"]),
        (["broken"], ["broken/a.yaml", "broken/kustomization.yaml"]),
    ],
)
def test_files(paths: list[str], names: list[str]) -> None:
    listed = read_paths(paths)
    assert [name for name, _ in listed.files] == names
    assert (listed.problems, listed.remarks) == ([], [])


def test_a_chart_is_left_out_and_told() -> None:
    listed = read_paths(["chart"])
    assert [name for name, _ in listed.files] == ["chart/Corefile"]
    assert listed.remarks == [
        "chart: it is a Helm chart, whose templates are not manifests; check what it renders: "
        "helm template chart | hsdns lint -"
    ]


def test_settings_with_comments_are_left_out_and_told() -> None:
    listed = read_paths(["data"])
    assert [name for name, _ in listed.files] == ["data/list.json", "data/web.json"]
    assert listed.remarks == [
        "data/settings.json: it is neither JSON nor a manifest, which says its apiVersion; it is left out"
    ]
    named = read_paths(["data/settings.json", "data"])
    assert named.remarks == []
    assert [name for name, _ in named.files] == [
        "data/settings.json",
        "data/list.json",
        "data/web.json",
    ]


@pytest.mark.parametrize(
    "content",
    ['{"n": %s}' % ("9" * 5000), "[" * 100_000 + "]" * 100_000],
    ids=["a number of 5,000 digits", "lists in lists"],
)
def test_odd_json_is_no_settings(folder: Path, content: str) -> None:
    (folder / "data" / "settings.json").write_text(content)
    listed = read_paths(["data"])
    assert listed.remarks == []
    assert "data/settings.json" in [name for name, _ in listed.files]


def test_what_cannot_be_read_is_told(folder: Path) -> None:
    (folder / "loop.yaml").symlink_to("loop.yaml")
    (folder / "socket.yaml").symlink_to("app/a.yaml")
    assert read_paths(["none", "loop.yaml"]).problems == [
        "none: there is no such file or folder; correct the path",
        "loop.yaml: there is no such file or folder; correct the path",
    ]


@pytest.mark.timeout(20)
def test_aliases_of_a_kustomization_are_bounded(folder: Path) -> None:
    """They stood for 9 to the power of 11 values."""
    levels = "".join(
        f"b{level}: &b{level} {{<<: [{', '.join([f'*b{level - 1}'] * 9)}]}}\n"
        for level in range(1, 12)
    )
    (folder / "overlay/kustomization.yaml").write_text(
        f"b0: &b0 {{x: 1}}\n{levels}patches: [{{path: patch.yaml}}]\n"
    )
    assert [name for name, _ in read_paths(["overlay"]).files][-1:] == ["overlay/patch.yaml"]
