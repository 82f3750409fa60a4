"""setup.py: what the sdist and the wheels hold, and that a wheel claims no more than it holds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

from deploy.distribution.build import Fault, check_sdist
from hsdns import __version__

ROOT = Path(__file__).resolve().parents[2]
FILES = ("CHANGELOG.md", "LICENSE", "MANIFEST.in", "README.md", "pyproject.toml", "setup.py")
# A cargo that is there, and fails as with a compiler that is too old; it leaves a trace.
BROKEN = '#!/bin/sh\necho called >> "$0.calls"\nexit 101\n'

pytestmark = pytest.mark.slow


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what packages are built of, with what must not be packed."""
    tree = tmp_path / "tree"
    without = shutil.ignore_patterns("__pycache__", "*.so")
    shutil.copytree(ROOT / "hsdns", tree / "hsdns", ignore=without)
    shutil.copytree(ROOT / "native/src", tree / "native/src")
    for name in (*FILES, "native/Cargo.toml", "native/Cargo.lock"):
        shutil.copyfile(ROOT / name, tree / name)
    (tree / "tests").mkdir()
    (tree / "tests/test_layout.py").touch()
    (tree / "hsdns/fastpath/_native.abi3.so").touch()  # of an editable install
    return tree


def build(
    tree: Path, what: str, *, cargo: str = "", **environ: str
) -> subprocess.CompletedProcess[str]:
    """Build as pip does, with only this cargo and rustc on PATH."""
    programs = tree.parent / "programs"
    programs.mkdir(exist_ok=True)
    for name in ("cargo", "rustc"):
        if cargo:
            (programs / name).write_text(cargo)
            (programs / name).chmod(0o755)
    code = f"from setuptools import build_meta; build_meta.build_{what}({str(tree.parent)!r})"
    return subprocess.run(
        [sys.executable, "-c", code],
        check=False, capture_output=True, text=True, cwd=tree, timeout=120,
        env={"PATH": str(programs), "HOME": str(tree.parent), "LANG": os.environ.get("LANG", "C.UTF-8"), **environ},
    )  # fmt: skip


def metadata_of(wheel: Path, name: str = "METADATA") -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (path,) = (each for each in archive.namelist() if each.endswith(f".dist-info/{name}"))
        return Parser().parsestr(archive.read(path).decode())


@pytest.mark.parametrize(
    ("cargo", "environ"),
    [
        pytest.param("", {}, id="no-cargo"),
        pytest.param(BROKEN, {}, id="cargo-fails"),
        pytest.param(BROKEN, {"HSDNS_NO_EXTENSIONS": "1"}, id="not-wanted"),
    ],
)
def test_without_the_compiled_part_it_is_for_every_platform(
    tree: Path, cargo: str, environ: dict[str, str]
) -> None:
    platform, cache = sysconfig.get_platform(), sys.implementation.cache_tag
    for name in (
        "lib",
        f"lib.{platform}-{cache}",
    ):  # of an earlier build, without extensions and with them
        (tree / "build" / name / "hsdns/fastpath").mkdir(parents=True)
        (tree / "build" / name / "hsdns/fastpath/_native.abi3.so").touch()
        (tree / "build" / name / "hsdns/gone.py").touch()
    found = build(tree, "wheel", cargo=cargo, **environ)
    assert found.returncode == 0, found.stderr
    (wheel,) = tree.parent.glob("*.whl")
    assert wheel.name == f"hsdns_server-{__version__}-py3-none-any.whl"
    assert metadata_of(wheel, "WHEEL").items()[2:] == [
        ("Root-Is-Purelib", "true"),
        ("Tag", "py3-none-any"),
    ]
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    packed = {name for name in names if name.startswith("hsdns/")}
    there = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "hsdns").rglob("*")
        if path.is_file() and path.suffix not in {".so", ".pyc"}
    }
    assert packed == there
    tried = (tree.parent / "programs/rustc.calls").exists()
    assert tried == (bool(cargo) and not environ)


def test_it_can_be_demanded(tree: Path) -> None:
    found = build(tree, "wheel", HSDNS_REQUIRE_EXTENSIONS="1")
    assert found.returncode != 0
    assert "can't find Rust compiler" in found.stderr
    assert not list(tree.parent.glob("*.whl"))


def test_sdist(tree: Path) -> None:
    """What both wheels are built of, and no test: they need the whole repository."""
    found = build(tree, "sdist")
    assert found.returncode == 0, found.stderr
    (sdist,) = tree.parent.glob("*.tar.gz")
    check_sdist(sdist)
    with tarfile.open(sdist) as archive:
        names = {each.name.partition("/")[2] for each in archive.getmembers() if each.isfile()}
    made = {name for name in names if ".egg-info/" in name} | {"PKG-INFO", "setup.cfg"}
    copied = {
        path.relative_to(tree).as_posix()
        for path in tree.rglob("*")
        if path.is_file() and path.suffix not in {".so", ".pyc"}
    }
    copied = {name for name in copied if not name.startswith("tests/") and ".egg-info/" not in name}
    assert names - made == copied
    with tarfile.open(sdist, "w:gz", compresslevel=0) as archive:
        archive.addfile(tarfile.TarInfo("hsdns_server-1/tests/test_a.py"))
    with pytest.raises(
        Fault, match=r"lacks CHANGELOG\.md, LICENSE, .*; MANIFEST\.in says what it holds"
    ):
        check_sdist(sdist)
