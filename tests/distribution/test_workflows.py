""".github, the hook for pre-commit and the GitHub Action, which run what there is; and the Makefile's environment."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
ACTIONLINT = shutil.which(
    "actionlint", path=os.pathsep.join([os.environ.get("PATH", ""), str(Path.home() / "go/bin")])
)
# A commit, since tags and branches can be moved; dependabot renews it with the comment.
PINNED_ACTION = re.compile(r"uses: (\./[\w./-]+|[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+)")
PINNED_IMAGE = re.compile(r"[\w./-]+:\d+\.\d+\.\d+-[\w-]+@sha256:[0-9a-f]{64}")
MANIFEST_OF = {
    "pip": "*.txt",
    "cargo": "Cargo.toml",
    "github-actions": ".github/workflows/*.yml",
    "docker": "Dockerfile",
}


def load(path: Path) -> dict[str, Any]:
    found = yaml.safe_load(path.read_text())
    assert isinstance(found, dict)
    return found


def jobs(path: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = load(path)["jobs"]
    return found


def steps(path: Path) -> Iterator[dict[str, Any]]:
    for job in jobs(path).values():
        yield from job.get("steps", ())


def needed(path: Path, name: str) -> set[str]:
    """The jobs that must have succeeded before this one, those of theirs included."""
    found = jobs(path)[name].get("needs", [])
    direct = {found} if isinstance(found, str) else set(found)
    return direct.union(*(needed(path, each) for each in direct))


@pytest.mark.skipif(
    ACTIONLINT is None,
    reason="actionlint is not installed: go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.12",
)
@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_actionlint(workflow: Path) -> None:
    assert ACTIONLINT is not None
    found = subprocess.run(
        [ACTIONLINT, "-no-color", "-shellcheck=", str(workflow)],
        check=False, capture_output=True, text=True, cwd=ROOT, timeout=60,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_what_it_runs_is_there(workflow: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    ran = 0
    for step in steps(workflow):
        words = shlex.split(step.get("run", ""))
        if words[:1] == ["make"]:
            assert set(words[1:]) <= targets, step
        elif words and "/" in words[0] and "$" not in words[0]:
            assert os.access(ROOT / words[0], os.X_OK), step
        for word in words:
            assert not word.endswith(".py") or (ROOT / word).is_file(), step
        ran += bool(words)
    assert ran


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_it_is_limited(workflow: Path) -> None:
    """It has the least rights, ends in time, and uses actions of one commit."""
    assert load(workflow)["permissions"] == {"contents": "read"}
    for name, job in jobs(workflow).items():
        if "uses" in job:
            assert (ROOT / job["uses"]).is_file(), name
        else:
            assert job["timeout-minutes"] <= 120, name
    for used in re.findall(r"\buses:.*", workflow.read_text()):
        assert PINNED_ACTION.fullmatch(used), used
    for step in steps(workflow):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


def test_an_image_is_built_on_others_that_nobody_can_move() -> None:
    text = (ROOT / "Dockerfile").read_text()
    stages, given = set[str](), dict(re.findall(r"^ARG (\w+)=(\S+)$", text, re.M))
    for image, stage in re.findall(r"^FROM (\S+)(?: AS (\w+))?$", text, re.M):
        name = given.get(image.strip("${}"), image)
        assert name in {"scratch", *stages} or PINNED_IMAGE.fullmatch(name), image
        stages.add(stage)
    for image in re.findall(r"--from=(\S+)", text):
        assert image in stages, image


def test_ci_runs_on_every_python_that_is_supported() -> None:
    job = jobs(ROOT / ".github/workflows/ci.yml")["run"]
    named = re.findall(r"Python :: (3\.\d+)$", "\n".join(PROJECT["project"]["classifiers"]), re.M)
    assert job["strategy"]["matrix"]["python"] == named
    assert "for python in $(PYTHON) " in (ROOT / "Makefile").read_text()


def test_a_release_is_tested_and_built_before_anything_is_published() -> None:
    path = ROOT / ".github/workflows/release.yml"
    before = {"check", "ci", "dist", "wheels"}
    publishing = {name for name, job in jobs(path).items() if "permissions" in job}
    assert publishing == {"packages", "image", "release"}
    for name in publishing:
        assert before <= needed(path, name), name
    assert {"packages", "image"} <= needed(path, "release")
    secrets = re.findall(r"secrets\.(\w+)", path.read_text())
    assert set(secrets) == {"GITHUB_TOKEN"}  # trusted publishing needs no other


def test_dependencies_that_are_renewed_are_there() -> None:
    found = load(ROOT / ".github/dependabot.yml")
    assert found["version"] == 2
    renewed = {}
    for update in found["updates"]:
        folders = update.get("directories") or [update["directory"]]
        renewed[update["package-ecosystem"]] = folders
        for folder in folders:
            manifests = list(
                (ROOT / folder.strip("/")).glob(MANIFEST_OF[update["package-ecosystem"]])
            )
            assert manifests, update
    assert renewed.keys() == MANIFEST_OF.keys()
    locks = {
        f"/{path.parent.relative_to(ROOT).as_posix()}"
        for path in ROOT.glob("native/**/Cargo.lock")
        if "target" not in path.parts
    }
    assert set(renewed["cargo"]) == locks


# --- the hook and the action ---

TARGET = "{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {type: ExternalName, externalName: 10.1.2.3}}"


def load_yaml(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text())


def test_files_of_the_hook() -> None:
    (hook,) = load_yaml(".pre-commit-hooks.yaml")
    checked = "a.yaml deploy/b.yml c.json Corefile dns/Corefile.lab".split()
    others = ["a.yaml.txt", "NoCorefile"]
    assert [each for each in (*checked, *others) if re.search(hook["files"], each)] == checked


def test_the_action_annotates_what_is_found(tmp_path: Path) -> None:
    """The script of its step, with a pipx that runs the package of this tree."""
    action = load_yaml("action.yml")
    (step,) = action["runs"]["steps"]
    python = f"PYTHONPATH={ROOT} exec {sys.executable}"
    pipx = tmp_path / "bin" / "pipx"
    pipx.parent.mkdir()
    pipx.write_text(f'#!/bin/sh\necho "$3" >spec\nshift 3\nshift\n{python} -m hsdns "$@"\n')
    pipx.chmod(0o755)
    (tmp_path / "a.yaml").write_text(TARGET)
    (tmp_path / " b $(exit 9).yaml").write_text(TARGET.replace("10.1.2.3", "db.example.com"))
    inputs = {name.upper(): each["default"] for name, each in action["inputs"].items()}
    assert {value.split(".")[1].split()[0].upper() for value in step["env"].values()} == set(inputs)
    environ = {
        **os.environ,
        **inputs,
        "GITHUB_ACTION_PATH": str(ROOT),
        "PATHS": "a.yaml\n b $(exit 9).yaml\n",
        "PATH": f"{pipx.parent}:{os.environ['PATH']}",
    }
    done = subprocess.run(
        ["bash", "-c", step["run"]],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith(
        f"::error file=a.yaml,line=1,col={TARGET.index('10.1') + 1},title=HS131 "
    )
    assert done.stdout.count("::error") == 1
    assert (tmp_path / "spec").read_text() == f"{ROOT}\n"


# --- the Makefile's environment: when the server is installed again ---

PROGRAM = '#!/bin/sh\necho "$*" >> "$CALLS"\n'
INSTALL = "-m pip --quiet --no-input install --no-deps --no-build-isolation --editable ."

with_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with an environment whose Python only notes what it should do, and a PATH without cargo."""
    tree = tmp_path / "tree"
    for name in (
        "Makefile",
        "pyproject.toml",
        "setup.py",
        "requirements/run.txt",
        "native/Cargo.toml",
    ):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tree / name)
    for name in ("native/Cargo.lock", "native/src/lib.rs", "hsdns/__init__.py", ".venv/made"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).touch()
    for path in (tree / ".venv/bin/python", tree / ".venv/bin/hsdns", tmp_path / "cargo/cargo"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PROGRAM)
        path.chmod(0o755)
    (tmp_path / "bin").mkdir()
    for name in ("make", "sh", "find", "cat", "echo", "touch"):
        found = shutil.which(name)
        assert found, name
        (tmp_path / "bin" / name).symlink_to(found)
    return tree


def serve(tree: Path, *, cargo: bool) -> list[str]:
    """What `make serve` does with the Python of the environment."""
    calls = tree.parent / "calls"
    calls.write_text("")
    path = f"{tree.parent}/cargo:{tree.parent}/bin" if cargo else f"{tree.parent}/bin"
    subprocess.run(
        ["make", "serve"], check=True, capture_output=True, cwd=tree, timeout=30,
        env={"PATH": path, "CALLS": str(calls)},
    )  # fmt: skip
    return calls.read_text().splitlines()


@with_make
def test_once_cargo_is_there_it_compiles(tree: Path) -> None:
    assert INSTALL in serve(tree, cargo=False)
    assert serve(tree, cargo=False) == ["serve"]
    assert INSTALL in serve(tree, cargo=True)
    assert serve(tree, cargo=True) == ["serve"]


def test_every_target_is_explained() -> None:
    text = (ROOT / "Makefile").read_text()
    phony = re.findall(r"^\.PHONY: (.+)$", text, re.MULTILINE)[0].split()
    explained = re.findall(r"^([a-z-]+):.*## ", text, re.MULTILINE)
    assert sorted(phony) == sorted(explained)
