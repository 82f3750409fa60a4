"""docs/testing.md: what `$ pytest` prints, and the example for Docker Compose."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from hsdns.testing import Cluster
from tests.docs.test_examples import Fence, as_pattern, fences

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "testing.md"
FENCES = [*fences(PAGE), *fences(ROOT / "tests" / "docs" / "testing.md")]

pytestmark = [pytest.mark.slow, pytest.mark.sockets]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """All files of the page."""
    for fence in FENCES:
        if fence.title:
            path = tmp_path / fence.title
            path.parent.mkdir(exist_ok=True)
            path.write_text(fence.body)
    return tmp_path


def run(command: list[str | Path], folder: Path, **environ: str) -> str:
    """Run a program to its end; its output, with what it returned."""
    found = subprocess.run(command, cwd=folder, env={**os.environ, **environ}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)  # fmt: skip
    assert found.returncode in (0, 1), found.stdout
    return found.stdout


def run_pytest(folder: Path, *words: str) -> str:
    environ = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""}
    program = [sys.executable, "-m", "pytest", "-p", "hsdns.pytest_plugin", "-p", "no:cacheprovider"]  # fmt: skip
    return run([*program, *words], folder, **environ)


CONSOLES = [fence for fence in FENCES if fence.language == "console"]


@pytest.mark.parametrize("fence", CONSOLES, ids=str)
def test_pytest_prints_what_the_page_says(folder: Path, fence: Fence) -> None:
    command, _, expected = fence.body.partition("\n")
    dollar, program, *words = command.split()
    assert (dollar, program) == ("$", "pytest")
    printed = run_pytest(folder, *words)
    if "NoNamespaces" in printed or re.search(r"1 skipped", printed):
        assert os.environ.get("HSDNS_NAMESPACES") != "required", printed
        pytest.skip("namespaces are refused here")
    assert as_pattern(expected).fullmatch(printed), printed


@pytest.mark.parametrize("name", ["prices", "feed"])
def test_the_client_that_was_mended_passes(folder: Path, name: str) -> None:
    shutil.copy(folder / "fixed" / f"{name}.py", folder / f"{name}.py")
    assert "1 passed" in run_pytest(folder, "-q", f"test_{name}.py")


def test_compose(folder: Path) -> None:
    """The names in it fit together, and what a pod gets is what the client gets."""
    compose = yaml.safe_load((folder / "compose.yaml").read_text())
    dns, client = compose["services"]["dns"], compose["services"]["client"]
    ready = compose["services"]["ready"]
    assert dns["command"][1:3] == ["--conf", "/lab/Corefile"]
    assert dns["networks"]["lab"]["ipv4_address"] == client["dns"][0]
    assert f"http://{client['dns'][0]}:9160/ready" in ready["command"][-1]
    assert set(client["networks"]) == set(dns["networks"]) == set(ready["networks"]) == set(compose["networks"])  # fmt: skip
    with Cluster() as cluster, cluster.pod() as pod:
        lines = pod.run(["cat", "/etc/resolv.conf"]).stdout.splitlines()
    assert f"search {' '.join(client['dns_search'])}" in lines
    assert f"options {' '.join(client['dns_opt'])}" in lines
    docker = shutil.which("docker")
    if docker is not None:
        shown = subprocess.run([docker, "compose", "-f", "compose.yaml", "config", "--format", "json"], cwd=folder, capture_output=True, text=True, check=False)  # fmt: skip
        if shown.returncode == 0 and shown.stdout.startswith("{"):
            assert set(json.loads(shown.stdout)["services"]) == {"dns", "ready", "client"}
