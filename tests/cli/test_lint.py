"""What `hsdns lint` reads and imports; sessions/lint.md has what it prints."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from hsdns import cli
from hsdns.assemble import assemble
from hsdns.cli.source import options_of
from hsdns.corefile.tree import Errors
from hsdns.lint.cli import read_paths
from hsdns.lint.istioctl import MOST, NotRun, analysis, of_cluster, of_files
from hsdns.rules.checks.corefile_hints import hints
from hsdns.rules.rule import RETIRED, rules
from tests.docs.test_examples import COREFILES, Fence, write_files
from tests.support.plugins.corefiles import parsed
from tests.support.scenarios.scenario import parse as parse_scenario
from tests.support.tables import Row, rows


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


# Hints: each on a Corefile that it is for, its neighbours without one, and no Corefile of the tree hinted at wrongly.

ROOT = Path(__file__).resolve().parents[2]


def hinted(
    text: str, environ: Mapping[str, str] | None = None, *, path: str = "Corefile"
) -> list[str]:
    """The hints about a Corefile, which may have errors, too."""
    errors = Errors(collecting=True)
    corefile = parsed(text, path, environ, errors=errors)
    configuration = assemble(
        corefile,
        interfaces=lambda: {"lo": ["127.0.0.1"], "eth0": ["192.0.2.9"]},
        validating=True,
        warn=lambda sentence: None,
        errors=errors,
    )
    return [f"{at.line}:{at.column} {message}" for at, message in hints(corefile, configuration)]


@pytest.mark.parametrize("row", rows(Path(__file__).with_name("hints.txt")))
def test_hints(row: Row) -> None:
    text = row.given.replace("FOLDER", str(ROOT / "tests" / "data" / "tls"))
    assert hinted(text, {"SET": "/dev/null", "EMPTY": ""}) == row.expected


# Corefiles of the tree that do what is hinted at, each with the reason.
MEANT = {
    "tests/scenarios/file/fallthrough.md": "only what falls through reaches hosts, and nothing passes it"
}


# What deploy/components/sidecar sets.
POD = {"POD_NAMESPACE": "shop", "CLUSTER_DNS": "10.96.0.10"}


def corefiles() -> Iterator[tuple[str, str]]:
    """All files of the tree with a Corefile, but for the pages of docs."""
    for path in sorted((ROOT / "tests/scenarios").rglob("*.md")):
        if path.name != "README.md":
            yield path.relative_to(ROOT).as_posix(), parse_scenario(path).corefile
    for path in sorted((ROOT / "tests/stock").rglob("*Corefile*")):
        yield path.relative_to(ROOT).as_posix(), path.read_text()
    for path in sorted((ROOT / "deploy").rglob("configmap.yaml")):
        if not {"helm", "clusterloader2"} & set(path.parts):  # templates, of no other Corefile
            for document in yaml.safe_load_all(path.read_text()):
                yield path.relative_to(ROOT).as_posix(), document["data"]["Corefile"]


FOUND = list(corefiles())


def test_there_are_corefiles() -> None:
    assert len(FOUND) > 100
    assert set(MEANT) <= {path for path, _ in FOUND}


@pytest.mark.parametrize(("path", "text"), FOUND, ids=[path for path, _ in FOUND])
def test_no_corefile_of_the_tests_is_hinted_at_wrongly(
    path: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = (ROOT / path).parent
    monkeypatch.chdir(folder)
    text = text.replace("SCENARIO_FOLDER", str(folder)).replace("UPSTREAM_PORT", "5353")
    found = hinted(text, POD, path=str(folder / "Corefile"))
    assert bool(found) == (path in MEANT), found


@pytest.mark.parametrize("fence", COREFILES, ids=str)
def test_no_corefile_of_the_documentation_is_hinted_at(
    fence: Fence, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(fence.page)
    assert hinted(fence.body, path=fence.title or "Corefile") == []


# `hsdns rule`; sessions/rule.md has what it prints.


def test_the_list_has_the_retired(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    """On a terminal of 40 columns, where a title goes on below the second column."""
    monkeypatch.setitem(RETIRED, "HS900", "A thing is wrong; HS901 finds it")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    assert cli.main(["rule"]) == 0
    assert capsys.readouterr().out.endswith("\nHS900  retired  A thing is wrong; HS901\n       finds it\n")  # fmt: skip


def test_the_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["rule", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["code"] for each in found] == list(rules())
    assert all(
        set(each) == {"code", "name", "title", "level", "state", "repaired", "page"}
        for each in found
    )


# istioctl that cannot be run, and its command; sessions/lint-istioctl.md has what it prints.


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = tmp_path / "istioctl"
    found.touch(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return found


def test_a_program_that_hangs_is_ended(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program.write_text("#!/bin/sh\nexec tail -f /dev/null\n")
    monkeypatch.setattr("hsdns.lint.istioctl.LIMIT", 0.05)
    with pytest.raises(
        NotRun, match=r"^istioctl has not ended within 0\.05 s; run istioctl analyze"
    ):
        analysis(of_files(["a.yaml"]))


def test_a_program_that_cannot_be_started(program: Path) -> None:
    program.write_text("#!/none\n")
    with pytest.raises(
        NotRun, match=r"^istioctl could not be started: No such file or directory; run"
    ):
        analysis(of_files(["a.yaml"]))
    with pytest.raises(NotRun, match="too many files"):
        analysis(of_files(["a" * MOST]))


@pytest.mark.parametrize(
    ("access", "namespace", "words"),
    [
        ((), "", "istioctl analyze --all-namespaces"),
        (("config", "lab"), "shop", "istioctl analyze --kubeconfig=config --context=lab --namespace shop"),
    ],
)  # fmt: skip
def test_the_command_about_a_cluster(access: tuple[str, ...], namespace: str, words: str) -> None:
    assert " ".join(of_cluster(options_of(access), namespace)) == words
