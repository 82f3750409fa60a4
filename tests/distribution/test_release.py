"""deploy/distribution/release.py: what may be released, and its notes."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.distribution.release import CannotRelease, notes

FILES = {
    "pyproject.toml": '[project]\nurls = {Source = "https://github.com/a/b"}\n',
    "hsdns/__init__.py": '"""Doc."""\n\n__version__ = "1.2.0"\n',
    "changes/README.md": "",
    "CHANGELOG.md": "# Changelog\n\n## 1.2.0 (2026-11-30)\n\n### Added\n\n- a: b.\n\n## 1.1.0 (2026-11-22)\n\n- c: d.\n",
}


def tree(folder: Path, **changed: str) -> Path:
    for name, text in {**FILES, **changed}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_notes(tmp_path: Path) -> None:
    assert notes(tree(tmp_path), "v1.2.0", "a/b") == "### Added\n\n- a: b.\n"


@pytest.mark.parametrize(
    ("tag", "repository", "changed", "sentence"),
    [
        pytest.param("v1.2.1", "a/b", {}, "the tag is v1.2.1, but hsdns/__init__.py has the version 1.2.0", id="tag"),
        pytest.param("v1.2.0", "fork/b", {}, "this is the repository fork/b, but the packages would link to https://github.com/a/b; set [project.urls] of pyproject.toml", id="fork"),
        pytest.param("v1.2.0", "a/b", {"changes/+x.fixed.md": "x: y.\n"}, "changes/+x.fixed.md is not in CHANGELOG.md yet; run .venv/bin/towncrier build --yes", id="change-note"),
        pytest.param("v1.2.0", "a/b", {"CHANGELOG.md": "# Changelog\n\n## 1.2.0rc1 (2026-11-29)\n"}, "CHANGELOG.md has no section 1.2.0", id="no-section"),
    ],
)  # fmt: skip
def test_refusals(
    tmp_path: Path, tag: str, repository: str, changed: dict[str, str], sentence: str
) -> None:
    with pytest.raises(CannotRelease) as raised:
        notes(tree(tmp_path, **changed), tag, repository)
    assert str(raised.value) == sentence
