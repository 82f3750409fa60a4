"""The manifest files of a folder, their order, and which changes are relevant."""

from __future__ import annotations

import io
import os
import shlex
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
from tests.support.tables import Row, columns, rows

HERE = Path(__file__).parent


def write(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")


@pytest.mark.parametrize("row", rows(HERE / "manifest_folders.txt"))
def test_manifest_paths(tmp_path: Path, row: Row) -> None:
    files, paths = map(shlex.split, row.given.splitlines())
    write(tmp_path, *files)
    remarks: list[str] = []
    listed = manifest_paths([os.path.normpath(tmp_path / path) for path in paths * 2], remarks)
    found = [os.path.relpath(path, tmp_path) for path in listed]
    shown = [
        f"? {each.replace(f'{tmp_path}/', '').replace(str(tmp_path), '.')}" for each in remarks
    ]
    assert [shlex.join(found) or "none", *shown] == row.expected


def test_links_to_folders_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    write(tmp_path, "real/a.yaml")
    (tmp_path / "real" / "up").symlink_to(tmp_path)
    (tmp_path / "also").symlink_to(tmp_path / "real")
    listed = [os.path.relpath(path, tmp_path) for path in manifest_paths([str(tmp_path)])]
    assert listed == ["also/a.yaml", "real/a.yaml"]


@pytest.mark.parametrize(
    ("error", "listed"),
    [(PermissionError, ["closed", "open/a.yaml"]), (FileNotFoundError, ["open/a.yaml"])],
)
def test_a_folder_that_cannot_be_read_is_listed_for_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[OSError], listed: list[str]
) -> None:
    write(tmp_path, "closed/b.yaml", "open/a.yaml")
    names = os.listdir

    def listdir(folder: str) -> list[str]:
        if folder.endswith("closed"):
            raise error
        return names(folder)

    monkeypatch.setattr(os, "listdir", listdir)
    assert [os.path.relpath(each, tmp_path) for each in manifest_paths([str(tmp_path)])] == listed


def test_fingerprint_sees_what_links_lead_to(tmp_path: Path) -> None:
    write(tmp_path, "..1/a.yaml", "..2/a.yaml")
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "a.yaml").symlink_to("..data/a.yaml")
    before = fingerprint([str(tmp_path)])
    assert fingerprint([str(tmp_path)]) == before
    (tmp_path / "..new").symlink_to("..2")
    (tmp_path / "..new").rename(tmp_path / "..data")
    assert fingerprint([str(tmp_path)]) != before


@pytest.mark.parametrize(("given", "expected"), columns(HERE / "relevant_changes.txt", "changes"))
def test_is_relevant(tmp_path: Path, given: str, expected: str) -> None:
    write(tmp_path, "notes.md", "dump.txt", "sub/x.yaml", ".git/index")
    changed, *paths = (str(tmp_path / path) for path in given.split())
    assert str(is_relevant(changed, paths)) == expected


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
