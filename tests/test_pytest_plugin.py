import os
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from hsdns.pytest_plugin import PlainFinder, pytest_load_initial_conftests, pytest_unconfigure
from tests.support.tables import section, sections

ROOT = Path(__file__).resolve().parents[1]
pytestmark = [pytest.mark.slow, pytest.mark.sockets]

TESTS = Path(__file__).with_name("pytest_plugin.txt")
WEB = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}\n"
# Beside "plain": what pytest does by itself for the packages of a plugin that is installed.
CONFTEST = 'import pytest; pytest.register_assert_rewrite("hsdns.testing", "helper")'
SOCKET = ("-p", "pytest_socket", "--disable-socket", "--allow-hosts=127.0.0.1")
XDIST = ("-p", "xdist.plugin", "-n", "2")
RUNS = [
    ("scopes", SOCKET, {"passed": 4}),
    ("loops", SOCKET, {"passed": 3}),
    ("loops", XDIST, {"passed": 3}),
    ("async", (*SOCKET, "-p", "anyio.pytest_plugin"), {"passed": 2}),
    ("unused", (), {"passed": 1}),
    ("plain", (), {"passed": 1}),
    ("blocked", SOCKET, {"passed": 1}),
    ("fails", (), {"failed": 4}),
]


def run(folder: Path, name: str, *flags: str) -> str:
    """Run one file with the plugin alone, as if it were loaded by its entry point."""
    (folder / f"test_{name}.py").write_text(section(TESTS, name))
    (folder / "web.yaml").write_text(WEB)
    if name == "plain":
        (folder / "conftest.py").write_text(CONFTEST)
        (folder / "helper.py").write_text("")
    environ = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""}  # fmt: skip
    command = [sys.executable, "-m", "pytest", "-q", "--strict-markers", "-W", "error", "-p", "no:cacheprovider", "-p", "hsdns.pytest_plugin"]  # fmt: skip
    return subprocess.run([*command, *flags, "."], cwd=folder, env=environ, text=True, capture_output=True, check=False).stdout  # fmt: skip


@pytest.mark.parametrize(("name", "flags", "expected"), RUNS, ids=[f"{row[0]}{'-'.join(row[1][1:2])}" for row in RUNS])  # fmt: skip
def test_run(tmp_path: Path, name: str, flags: tuple[str, ...], expected: dict[str, int]) -> None:
    printed = run(tmp_path, name, *flags)
    last = printed.strip().splitlines()[-1]
    found = {word: int(number) for number, word in re.findall(r"(\d+) (\w+?)s?\b", last.partition(" in ")[0])}  # fmt: skip
    if name == "loops" and os.environ.get("HSDNS_NAMESPACES") != "required" and "skipped" in found:
        expected = {"passed": expected["passed"] - 1, "skipped": 1}
    assert found == expected, printed
    for part in sections(TESTS) if name == "fails" else ():
        if part.startswith("failure "):
            failure = section(TESTS, part)
            assert re.search(re.escape(failure).replace(re.escape("..."), r"\S+"), printed), printed


def test_the_finder_is_taken_away() -> None:
    before = [*sys.meta_path]
    pytest_unconfigure()
    pytest_load_initial_conftests()
    assert sys.meta_path[0] is PlainFinder
    assert PlainFinder.find_spec("hsdnsx") is None
    pytest_unconfigure()
    assert PlainFinder not in sys.meta_path
    sys.meta_path[:] = before


def test_entry_point() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    (name,) = project["entry-points"]["pytest11"].values()
    assert callable(import_module(name).hsdns_cluster)
    assert not [each for each in project["dependencies"] if each.startswith("pytest")]
