"""Which files of a mesh are handed to istioctl; tests/cli/test_istioctl.py runs it."""

from __future__ import annotations

import pytest

from hsdns.cli import istioctl as lint_mesh
from hsdns.rules.judging import read_files

ISTIO = b"apiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {name: a}\n"


def test_files_without_an_object_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    called = []

    def analysis(words: list[str], given: bytes) -> bytes:
        called.append((words[3:], given))
        return b"[]"

    monkeypatch.setattr(lint_mesh, "analysis", analysis)
    files = {"a.yaml": ISTIO, "Corefile": b". {\n}\n", "values.yaml": b"a: 1\n", "in": ISTIO + b"---\n" + ISTIO}  # fmt: skip
    read = read_files(files.items())
    assert lint_mesh.mesh_findings(read.objects, files, "in") == ([], "")
    assert called == [(["a.yaml", "-"], files["in"])]
