"""The manifest files of a folder, their order, and which changes are relevant."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hsdns.sources import manifest_folder as module
from hsdns.sources.manifest_folder import (
    fingerprint,
    is_relevant,
    manifest_paths,
    settings_remark,
    standard_input,
)


def write(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")


@pytest.mark.parametrize(
    ("files", "paths", "found"),
    [
        pytest.param(
            ["b.yaml", "a.yml", "c.json"], ["."], ["a.yml", "b.yaml", "c.json"], id="by name"
        ),
        pytest.param(["README.md", "a.yaml~", "a.yaml"], ["."], ["a.yaml"], id="other endings"),
        pytest.param(
            ["b/x.yaml", "a.yaml", "c.yaml"],
            ["."],
            ["a.yaml", "b/x.yaml", "c.yaml"],
            id="folders below",
        ),
        pytest.param([".git/a.yaml", ".b.yaml", "..data/c.yaml"], ["."], [], id="hidden"),
        pytest.param(["b/x.yaml", "a/x.yaml"], ["b", "a"], ["b/x.yaml", "a/x.yaml"], id="as given"),
        pytest.param(["dump.txt"], ["dump.txt"], ["dump.txt"], id="a file that is named"),
        pytest.param(["a.yaml"], ["a.yaml", "."], ["a.yaml"], id="each once"),
        pytest.param(["a.yaml"], ["gone", "a.yaml"], ["a.yaml"], id="missing"),
        pytest.param(
            [
                "a.yaml",
                "chart/Chart.yaml",
                "chart/templates/b.yaml",
                "chart/charts/c/d.yaml",
                "z.yaml",
            ],
            ["."],
            ["a.yaml", "z.yaml"],
            id="a chart",
        ),
        pytest.param(
            ["kustomization.yaml", "a.yaml"],
            ["."],
            ["a.yaml", "kustomization.yaml"],
            id="a kustomization",
        ),
    ],
)
def test_manifest_paths(
    tmp_path: Path, files: list[str], paths: list[str], found: list[str]
) -> None:
    write(tmp_path, *files)
    listed = manifest_paths([os.path.normpath(tmp_path / path) for path in paths])
    assert [os.path.relpath(path, tmp_path) for path in listed] == found


def test_links_to_folders_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    write(tmp_path, "real/a.yaml")
    (tmp_path / "real" / "up").symlink_to(tmp_path)
    (tmp_path / "also").symlink_to(tmp_path / "real")
    listed = [os.path.relpath(path, tmp_path) for path in manifest_paths([str(tmp_path)])]
    assert listed == ["also/a.yaml", "real/a.yaml"]


@pytest.mark.parametrize(
    ("files", "path", "remarks"),
    [
        pytest.param(["a.yaml"], ".", [], id="plain"),
        pytest.param(
            ["web/Chart.yaml", "web/charts/db/Chart.yaml"],
            "web",
            [
                "source manifests: web is a Helm chart, whose templates are not manifests, so it is not read; "
                "serve what it renders: helm template web web | hsdns serve --source manifests -"
            ],
            id="chart, with its own charts",
        ),
        pytest.param(
            ["b c/kustomization.yml"],
            ".",
            [
                "source manifests: ./b c holds a kustomization, and its files are read as they are; "
                "serve what it renders: kubectl kustomize './b c' | hsdns serve --source manifests -"
            ],
            id="kustomization below, to be quoted",
        ),
        pytest.param(
            ["Kustomization", "x/kustomization.yaml", ".git/kustomization.yaml"],
            ".",
            [
                "source manifests: . holds a kustomization, and its files are read as they are; "
                "serve what it renders: kubectl kustomize . | hsdns serve --source manifests -",
                "source manifests: ./x holds a kustomization, and its files are read as they are; "
                "serve what it renders: kubectl kustomize ./x | hsdns serve --source manifests -",
            ],
            id="two kustomizations",
        ),
    ],
)
def test_folders_that_are_to_be_rendered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: list[str], path: str, remarks: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, *files)
    found: list[str] = []
    manifest_paths([path, path], found)
    assert found == remarks


def test_fingerprint_sees_what_links_lead_to(tmp_path: Path) -> None:
    write(tmp_path, "..1/a.yaml", "..2/a.yaml")
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "a.yaml").symlink_to("..data/a.yaml")
    before = fingerprint([str(tmp_path)])
    assert fingerprint([str(tmp_path)]) == before
    (tmp_path / "..new").symlink_to("..2")
    (tmp_path / "..new").rename(tmp_path / "..data")
    assert fingerprint([str(tmp_path)]) != before


@pytest.mark.parametrize(
    ("changed", "paths", "expected"),
    [
        pytest.param("a.yaml", ["."], True, id="a manifest"),
        pytest.param("sub/a.json", ["."], True, id="a manifest below"),
        pytest.param("notes.md", ["."], False, id="another file"),
        pytest.param("newfolder", ["."], True, id="may be a folder"),
        pytest.param(".git/index", ["."], False, id="hidden folder"),
        pytest.param(".git/a.yaml", ["."], False, id="manifest in a hidden folder"),
        pytest.param("..data", ["."], True, id="a ConfigMap's link"),
        pytest.param("..data", ["sub"], False, id="not below the folder"),
        pytest.param("dump.txt", ["dump.txt"], True, id="the file that is named"),
        pytest.param("other.yaml", ["dump.txt"], False, id="a neighbour of that file"),
        pytest.param("..data", ["dump.txt"], True, id="a ConfigMap's link beside that file"),
        pytest.param("b.yaml", ["sub", "b.yaml"], True, id="any of the paths"),
    ],
)
def test_is_relevant(tmp_path: Path, changed: str, paths: list[str], expected: bool) -> None:
    write(tmp_path, "notes.md", "dump.txt", "sub/x.yaml", ".git/index")
    assert (
        is_relevant(str(tmp_path / changed), [str(tmp_path / path) for path in paths]) is expected
    )


# Which files of a folder are settings of other programs.


LEFT_OUT = (
    "app/a.json: it is neither JSON nor a manifest, which says its apiVersion; it is left out"
)
COMMENT = b'{"strict": true /* always */}'


@pytest.mark.parametrize(
    ("content", "path", "paths", "remark"),
    [
        pytest.param(COMMENT, "app/a.json", ["app"], LEFT_OUT, id="a comment"),
        pytest.param(b'{"a": 1,}', "app/a.json", ["app"], LEFT_OUT, id="a comma at the end"),
        pytest.param(b"\xff\xfe{", "app/a.json", ["app"], LEFT_OUT, id="not UTF-8"),
        pytest.param(COMMENT, "app/a.json", ["app/a.json", "app"], "", id="named"),
        pytest.param(COMMENT, "app/a.yaml", ["app"], "", id="YAML"),
        pytest.param(b'{"apiVersion": "v1" /* one */}', "app/a.json", ["app"], "", id="a manifest with a fault"),
        pytest.param(b'["a"]', "app/a.json", ["app"], "", id="JSON"),
        pytest.param(b" \n", "app/a.json", ["app"], "", id="empty"),
        pytest.param(b'{"n": ' + b"1" * 5_000 + b"}", "app/a.json", ["app"], "", id="a long number"),
        pytest.param(b"[" * 100_000, "app/a.json", ["app"], "", id="nested deeply"),
    ],
)  # fmt: skip
def test_settings(content: bytes, path: str, paths: list[str], remark: str) -> None:
    assert settings_remark(content, path, paths) == remark


# Standard input is read once.


@pytest.fixture(autouse=True)
def unread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give each test a standard input of its own."""
    standard_input.cache_clear()
    monkeypatch.setattr(module, "MAX_FILE_LEN", 100)
    yield
    standard_input.cache_clear()


def give(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_no_more_than_a_file_may_have_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    give(b"#" * 300, monkeypatch)
    standard_input()
    assert len(sys.stdin.buffer.read()) == 199
