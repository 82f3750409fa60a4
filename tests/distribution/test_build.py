"""deploy/distribution: what is refused to publish, a release without its uploads, and no dependency with an advisory."""

from __future__ import annotations

import hashlib
import re
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

from deploy.distribution.build import Fault, check_wheel, pythons
from deploy.distribution.release import CannotRelease, check, notes, rehearse, set_version
from hsdns import __version__
from tests.support.tables import lines

ROOT = Path(__file__).resolve().parents[2]
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


# --- release.py ---

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


def test_one_version_everywhere() -> None:
    (said,) = check(ROOT)
    assert said == f"all files have the version {__version__}"
    with pytest.raises(
        CannotRelease, match=r"^v1 is no version such as 0\.2\.0, 0\.2\.0rc1 or 0\.3\.0"
    ):
        list(set_version(ROOT, "v1"))


@pytest.mark.slow
def test_a_release_up_to_its_uploads(tmp_path: Path) -> None:
    """The packages, and a manifest that krew takes: its fields, and the checksum of the archive with these files."""
    said = list(rehearse(ROOT, tmp_path / "out"))
    version = __version__.partition(".dev")[0]
    assert f"all files have the version {version}" in said
    names = {path.name for path in (tmp_path / "out").iterdir()}
    plugin = f"kubectl-hsdns-{version}.tar.gz"
    assert names >= {"notes.md", "hsdns.yaml", plugin, f"hsdns_server-{version}.tar.gz", f"hsdns_server-{version}-py3-none-any.whl"}  # fmt: skip
    found = yaml.safe_load((tmp_path / "out/hsdns.yaml").read_text())
    assert (found.pop("apiVersion"), found.pop("kind")) == ("krew.googlecontainertools.github.com/v1alpha2", "Plugin")  # fmt: skip
    (platform,) = found["spec"].pop("platforms")
    assert len(found["spec"].pop("shortDescription").splitlines()) == 1
    assert found["spec"].keys() == {"version", "homepage", "description", "caveats"}
    assert (found["metadata"], found["spec"]["version"]) == ({"name": "hsdns"}, f"v{version}")
    archive = tmp_path / "out" / plugin
    with tarfile.open(archive) as tar:
        assert {each.name: oct(each.mode) for each in tar} == {"kubectl-hsdns": "0o755", "LICENSE": "0o644"}  # fmt: skip
    address = f"https://github.com/hsdns/hsdns/releases/download/v{version}/{plugin}"
    assert platform == {
        "selector": {"matchExpressions": [{"key": "os", "operator": "In", "values": ["darwin", "linux"]}]},
        "uri": address, "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(), "bin": "kubectl-hsdns",
        "files": [{"from": each, "to": "."} for each in ("kubectl-hsdns", "LICENSE")],
    }  # fmt: skip


# --- what pyproject.toml allows, and what requirements/*.txt pin ---

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FIXED = dict(line.split()[:2] for line in lines(Path(__file__).with_name("advisories.txt")))


def version(text: str) -> tuple[int, ...]:
    numbers = [int(number) for number in text.split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def lowest() -> dict[str, set[str]]:
    """Each package that pyproject.toml names, with all its lower bounds."""
    groups = PROJECT["dependency-groups"].values()
    listed = [
        *PROJECT["build-system"]["requires"],
        *PROJECT["project"]["dependencies"],
        *(each for group in groups for each in group if isinstance(each, str)),
    ]
    found: dict[str, set[str]] = {}
    for each in listed:
        if named := re.match(r"([\w.-]+?)>=([\d.]+)", each):
            found.setdefault(named[1].lower(), set()).add(named[2])
    return found


@pytest.mark.parametrize("package", FIXED)
def test_no_version_with_a_known_advisory(package: str) -> None:
    texts = [path.read_text() for path in sorted((ROOT / "requirements").glob("*.txt"))]
    pinned = re.findall(rf"^{re.escape(package)}==([\d.]+)", "\n".join(texts), re.M)
    assert pinned
    for each in {*pinned, *lowest().get(package, ())}:
        assert version(each) >= version(FIXED[package]), each
