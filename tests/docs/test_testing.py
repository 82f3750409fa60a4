"""docs/testing.md: what `$ pytest` prints, and the examples in other languages, against a cluster."""

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from hsdns.testing import Cluster
from loadtest.ports import free_port
from tests.docs.test_examples import Fence, as_pattern, fences
from tests.support.clients.command import serving

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "testing.md"
FENCES = [*fences(PAGE)]
# Classes of Testcontainers with the methods that the example calls, for a compiler without its packages.
TESTCONTAINERS = ROOT / "tests/data/testcontainers"

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


class Served(NamedTuple):
    """The server of the page, as in its container."""

    environ: dict[str, str]
    control: str

    @property
    def hits(self) -> list[int]:
        """Those of all rules."""
        request = urllib.request.Request(f"http://{self.control}/v1/faults", headers={"Authorization": "Bearer secret-of-this-test"})  # fmt: skip
        with urllib.request.urlopen(request) as reply:
            return [json.loads(line)["hits"] for line in reply]


@pytest.fixture
def served(folder: Path) -> Iterator[Served]:
    compose = yaml.safe_load((folder / "compose.yaml").read_text())["services"]["dns"]
    port, control = str(free_port()), f"127.0.0.1:{free_port()}"
    text = (folder / "Corefile").read_text()
    (folder / "Corefile").write_text(text.replace(":53", f":{port}").replace("/lab", str(folder)))
    changed = {"/lab/Corefile": str(folder / "Corefile"), "0.0.0.0:9160": control}
    words = [changed.get(word, word) for word in compose["command"]]
    with serving(*words, environ=compose["environment"]):
        yield Served({"HSDNS": f"127.0.0.1:{port}", "HSDNS_CONTROL": control}, control)


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


@pytest.mark.parametrize(("name", "passed"), [("prices", "1 passed"), ("feed", "2 passed")])
def test_the_client_that_was_mended_passes(folder: Path, name: str, passed: str) -> None:
    shutil.copy(folder / "fixed" / f"{name}.py", folder / f"{name}.py")
    assert passed in run_pytest(folder, "-q", f"test_{name}.py")


def needs(program: str) -> str:
    """The path of a program; skip the test without it."""
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"{program} is not installed")
    return path


@pytest.mark.night
def test_go(folder: Path, served: Served) -> None:
    go = needs("go")
    run([go, "mod", "init", "lookup"], folder)
    environ = {**served.environ, "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local", "GOPROXY": "off"}
    assert run([go, "vet", "."], folder, **environ) == ""
    printed = run([go, "test", "-count=1", "."], folder, **environ)
    assert printed.startswith("ok  \tlookup"), printed
    assert served.hits == [1]


@pytest.mark.night
def test_node(folder: Path, served: Served) -> None:
    node = needs("node")
    printed = run([node, "--test", "lookup.test.mjs"], folder, **served.environ)
    assert re.search(r"^\S pass 1$", printed, re.MULTILINE), printed
    assert served.hits == [1]


@pytest.mark.night
def test_java(folder: Path, served: Served) -> None:
    """The container is not started; what is compiled is run against the cluster."""
    javac, java = needs("javac"), needs("java")
    sources: list[str | Path] = ["LookupTest.java", *TESTCONTAINERS.rglob("*.java")]
    assert run([javac, "-Xlint:all", "-d", "classes", *sources], folder) == ""
    printed = run([java, "-cp", "classes", "LookupTest"], folder, **served.environ)
    assert printed == ""
    assert served.hits == [1]


def test_compose(folder: Path) -> None:
    """The names in it fit together, and what a pod gets is what the client gets."""
    compose = yaml.safe_load((folder / "compose.yaml").read_text())
    dns, client = compose["services"]["dns"], compose["services"]["client"]
    ready = compose["services"]["ready"]
    assert dns["command"][1:3] == ["-conf", "/lab/Corefile"]
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
