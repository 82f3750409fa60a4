"""What `hsdns lint` reads and imports; sessions/lint.md has what it prints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hsdns.lint.cli import read_paths


@pytest.mark.parametrize(
    "content",
    ['{"n": %s}' % ("9" * 5000), "[" * 100_000 + "]" * 100_000],
    ids=["a number of 5,000 digits", "lists in lists"],
)
def test_odd_json_is_no_settings(content: str, tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text(content)
    listed = read_paths([str(tmp_path)])
    assert (len(listed.files), listed.remarks) == (1, [])


@pytest.mark.timeout(20)
def test_aliases_of_a_kustomization_are_bounded(tmp_path: Path) -> None:
    """They stood for 9 to the power of 11 values."""
    levels = "".join(
        f"b{level}: &b{level} {{<<: [{', '.join([f'*b{level - 1}'] * 9)}]}}\n"
        for level in range(1, 12)
    )
    text = f"b0: &b0 {{x: 1}}\n{levels}patches: [{{path: patch.yaml}}]\n"
    (tmp_path / "kustomization.yaml").write_text(text)
    (tmp_path / "patch.yaml").touch()
    assert len(read_paths([str(tmp_path)]).files) == 2


def test_neither_a_server_nor_a_plugin_is_imported(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n")
    code = (
        "import sys; from hsdns import cli; cli.main(['lint', sys.argv[1]]); "
        "print([each for each in sys.modules if each.startswith(('hsdns.server', 'hsdns.plugins.', 'aiohttp', 'asyncio'))])"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
