"""The modules of Testcontainers, with the libraries of their languages, against a stand-in for an engine."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import dns.message
import dns.query
import pytest

from hsdns.testing import Do
from tests.deploy.engine import running_engine
from tests.deploy.rendered import DEPLOY
from tests.support.tables import values

TABLES = Path(__file__).with_name("tables.txt")

FOLDER = DEPLOY / "testcontainers"
pytestmark = [pytest.mark.night, pytest.mark.sockets]
# What a module needs that is not in the tree: how its package manager says so.
LACKING = ("module lookup disabled", "ERR_MODULE_NOT_FOUND", "in offline mode")


@pytest.fixture
def environ() -> Iterator[dict[str, str]]:
    with running_engine() as found:
        yield found | {"GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOTOOLCHAIN": "local"}


@pytest.mark.parametrize(("language", "command"), values(TABLES, "module"))
def test_module(language: str, command: str, environ: dict[str, str], tmp_path: Path) -> None:
    program, *words = command.format(out=tmp_path).split()
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    ran = subprocess.run([program, *words], cwd=FOLDER / language, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)  # fmt: skip
    if any(each in ran.stdout for each in LACKING):
        pytest.skip(f"{program} has not fetched what deploy/testcontainers/{language} needs")
    assert ran.returncode == 0, ran.stdout


def test_python(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    container = pytest.importorskip("hsdns.testing.container", exc_type=ModuleNotFoundError)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    query = dns.message.make_query("web.shop.svc.cluster.local", "A")
    with container.HsdnsContainer(FOLDER / "manifests") as cluster:
        assert cluster.add_fault(Do.NXDOMAIN)["state"] == "active"
        (host, port), over_tcp = cluster.dns(), cluster.dns("tcp")
        assert dns.query.udp(query, host, port=port).rcode() == dns.rcode.NXDOMAIN
        assert [(each["name"], each["hits"]) for each in cluster.faults()] == [("nxdomain-1", 1)]
        cluster.remove_fault("nxdomain-1")
        reply = dns.query.tcp(query, over_tcp[0], port=over_tcp[1])
        assert [each.to_text() for each in reply.answer] == ["web.shop.svc.cluster.local. 30 IN A 10.0.0.1"]  # fmt: skip
