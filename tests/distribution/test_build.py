"""deploy/distribution/build.py: what it refuses to publish, and which Pythons it finds; `make dist` runs the whole."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from deploy.distribution.build import (
    Fault,
    check_wheel,
    pythons,
)

METADATA = "hsdns_server-1.dist-info/METADATA"
LIBRARY = "hsdns/fastpath/_native.abi3.so"


@pytest.mark.parametrize(
    ("name", "files", "compiled", "sentence"),
    [
        pytest.param("py3-none-any", {METADATA: "[a](https://a) [b](#b)"}, False, "", id="pure"),
        pytest.param("cp311-abi3-linux_x86_64", {METADATA: "", LIBRARY: ""}, True, "", id="compiled"),
        pytest.param("cp311-abi3-manylinux_2_28_aarch64", {METADATA: "", LIBRARY: ""}, True, "", id="manylinux"),
        pytest.param("cp311-abi3-linux_x86_64", {METADATA: ""}, True, "WHEEL lacks the compiled fast path", id="not-compiled"),
        pytest.param("py3-none-any", {METADATA: "", LIBRARY: ""}, False, "WHEEL holds the compiled fast path", id="left-over"),
        pytest.param("cp311-abi3-linux_x86_64", {METADATA: ""}, False, "the name WHEEL does not say what it holds", id="claims-a-platform"),
        pytest.param("cp311-cp311-linux_x86_64", {METADATA: "", LIBRARY: ""}, True, "the name WHEEL does not say what it holds", id="not-abi3"),
        pytest.param("py3-none-any", {METADATA: "", "tests/a.py": ""}, False, "WHEEL also holds tests/a.py", id="tests"),
        pytest.param("py3-none-any", {METADATA: "[a](docs/a.md) [b](b.md#c)"}, False, "WHEEL: its description links to ](docs/a.md), ](b.md#c)", id="links"),
    ],
)  # fmt: skip
def test_wheel(
    tmp_path: Path, name: str, files: dict[str, str], compiled: bool, sentence: str
) -> None:
    wheel = tmp_path / f"hsdns_server-1-{name}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    said = ""
    try:
        check_wheel(wheel, compiled=compiled)
    except Fault as fault:
        said = str(fault)
    assert said == sentence.replace("WHEEL", wheel.name)


def test_pythons(tmp_path: Path) -> None:
    """The first of each version; not those that are too old, too new, broken or something else."""
    for name, said in (
        ("a/python3", "echo 3 12"),
        ("a/python3.11", "exit 127"),
        ("a/python3.11-config", "echo 3 11"),
        ("a/python3.15", "echo 3 15"),
        ("b/python3.12", "echo 3 12"),
        ("b/python3.10", "echo 3 10"),
        (".pyenv/versions/3.13.0/bin/python3.13", "echo 3 13"),
    ):
        program = tmp_path / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\n{said}\n")
        program.chmod(0o755)
    path = f"{tmp_path}/gone::{tmp_path}/a:{tmp_path}/b"
    assert pythons(path, tmp_path) == {
        (3, 12): f"{tmp_path}/a/python3",
        (3, 13): f"{tmp_path}/.pyenv/versions/3.13.0/bin/python3.13",
    }
