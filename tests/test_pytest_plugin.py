import os
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from hsdns.pytest_plugin import PlainFinder, pytest_load_initial_conftests, pytest_unconfigure

ROOT = Path(__file__).resolve().parents[1]
pytestmark = [pytest.mark.slow, pytest.mark.sockets]

TESTS = {
    "scopes": """
import pytest
from hsdns.testing import Cluster
pytestmark = pytest.mark.hsdns_cluster(demo=True)
seen = set()

@pytest.mark.parametrize("time", range(2))
def test_each(hsdns_cluster: Cluster, hsdns_module_cluster, hsdns_session_cluster, time) -> None:
    seen.add((hsdns_cluster.port, hsdns_module_cluster.port, hsdns_session_cluster.port))
    assert hsdns_cluster["consul-server"] and hsdns_module_cluster["consul-server"]
    hsdns_session_cluster.wait_answer("consul-server", [])

@pytest.mark.hsdns_cluster("web.yaml")
def test_marker(hsdns_cluster) -> None:
    assert hsdns_cluster["web"]

def test_seen() -> None:
    each, module, session = ({row[at] for row in seen} for at in range(3))
    assert (len(each), len(module), len(session)) == (2, 1, 1), seen
""",
    "loops": """
import asyncio, socket, trio, pytest

async def use(cluster, look_up) -> None:
    web = cluster.service("web", headless=True).endpoints("10.0.0.1", "10.0.0.2")
    with cluster.patch():
        web["10.0.0.1"].not_ready()
        found = await look_up("web", 80, type=socket.SOCK_STREAM)
    assert [each[4][0] for each in found] == ["10.0.0.2"]
    cluster.queries.assert_asked("web", "A", times=1)

async def with_asyncio(cluster) -> None:
    await use(cluster, asyncio.get_running_loop().getaddrinfo)

@pytest.mark.parametrize("run", [lambda of: asyncio.run(with_asyncio(of)), lambda of: trio.run(use, of, trio.socket.getaddrinfo)], ids=["asyncio", "trio"])
def test_loops(hsdns_cluster, run) -> None:
    run(hsdns_cluster)

def test_pod(hsdns_cluster) -> None:
    hsdns_cluster.service("web", headless=True).endpoints("10.0.0.1")
    with hsdns_cluster.pod() as pod:
        assert pod.run(["getent", "hosts", "web"]).returncode == 0
    hsdns_cluster.queries.assert_asked("web", from_=pod)
""",
    "async": """
import anyio, socket, pytest
pytestmark = pytest.mark.anyio

@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param

async def test_lookup(hsdns_cluster) -> None:
    web = hsdns_cluster.service("web", headless=True).endpoints("10.0.0.1", "10.0.0.2")
    with hsdns_cluster.patch(), hsdns_cluster.fault("nodata", qtype="AAAA") as fault:
        web["10.0.0.1"].not_ready()
        found = await anyio.getaddrinfo("web", 80, type=socket.SOCK_STREAM)
    assert [each[4][0] for each in found] == ["10.0.0.2"]
    assert fault.hits == 1
""",
    "unused": """
import sys

def test_nothing_is_loaded() -> None:
    assert sorted(name for name in sys.modules if name.split(".")[0] == "hsdns") == ["hsdns", "hsdns.pytest_plugin"]
""",
    "plain": """
from importlib.machinery import SourceFileLoader
import hsdns.testing.cluster, helper

def test_hsdns_is_imported_as_ever() -> None:
    assert type(hsdns.testing.cluster.__loader__) is SourceFileLoader
    assert type(helper.__loader__) is not SourceFileLoader
""",
    "blocked": """
import socket, pytest, pytest_socket

@pytest.mark.filterwarnings("ignore:A test tried")
def test_other_hosts_stay_blocked(hsdns_cluster) -> None:
    with socket.socket() as sock, pytest.raises(pytest_socket.SocketConnectBlockedError):
        sock.connect(("192.0.2.1", 80))
""",
    "fails": """
import socket

def test_queries(hsdns_cluster) -> None:
    hsdns_cluster.queries.assert_asked("web", "A")

def test_hits(hsdns_cluster) -> None:
    hsdns_cluster.service("web", headless=True).endpoints("10.0.0.1")
    with hsdns_cluster.fault("drop", qtype="AAAA", times=1) as fault, hsdns_cluster.patch():
        socket.getaddrinfo("web", 80, socket.AF_INET)
    assert fault.hits == 1

def test_call(hsdns_cluster) -> None:
    hsdns_cluster.fault("drpp")

def test_client(hsdns_cluster) -> None:
    with hsdns_cluster.fault("nxdomain", qtype="A", named="gone"), hsdns_cluster.patch():
        socket.gethostbyname("web")
""",
}
WEB = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}\n"
# Beside "plain": what pytest does by itself for the packages of a plugin that is installed.
CONFTEST = 'import pytest; pytest.register_assert_rewrite("hsdns.testing", "helper")'
# What "fails" prints of each failure: lines that begin so.
FAILURES = [
    """\
>       hsdns_cluster.queries.assert_asked("web", "A")
E       AssertionError: no query web A came; no query came at all

test_fails.py:""",
    """\
>       assert fault.hits == 1
E       assert 0 == 1
E         the fault hit 0 of 1 query: drop type AAAA
E           ... s  127.0.0.1  udp  web.default.svc.cluster.local A  NOERROR

test_fails.py:""",
    """\
>       hsdns_cluster.fault("drpp")
E       hsdns.testing.errors.ClusterError: the fault "drpp": "drpp" is no action of a fault; did you mean "drop"?

test_fails.py:""",
    """\
E           socket.gaierror: [Errno -2] Name or service not known

test_fails.py:""",
    """\
 Last queries of hsdns_cluster -------------------------
... s  127.0.0.1  udp  web.default.svc.cluster.local A  NXDOMAIN  by gone
""",
]
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
    (folder / f"test_{name}.py").write_text(TESTS[name])
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
    for failure in FAILURES if name == "fails" else ():
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
