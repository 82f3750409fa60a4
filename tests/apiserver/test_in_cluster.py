import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hsdns.apiserver.access import Access, InCluster
from hsdns.apiserver.transport import Unreachable
from tests.support.apiserver.scripted_http import TLS_DATA

ROOT = Path(__file__).resolve().parent.parent.parent


def environment(host: str = "10.96.0.1", port: str = "443") -> dict[str, str]:
    return {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}


def in_cluster(folder: Path, variables: dict[str, str], now: float = 0.0) -> InCluster:
    return InCluster(variables, lambda: now, lambda sentence: None, str(folder))


def mount(folder: Path) -> None:
    (folder / "token").write_text("abc\n")
    (folder / "ca.crt").write_text("a CA")


@pytest.mark.parametrize(
    ("host", "server"),
    [
        pytest.param("10.96.0.1", "https://10.96.0.1:443", id="ipv4"),
        pytest.param("fd00::1", "https://[fd00::1]:443", id="ipv6"),
        pytest.param("kubernetes.default", "https://kubernetes.default:443", id="name"),
    ],
)
def test_access(tmp_path: Path, host: str, server: str) -> None:
    mount(tmp_path)
    found = in_cluster(tmp_path, environment(host))
    assert found.check() == []
    assert found.server == server
    assert asyncio.run(found.current()) == Access(
        server, authority=str(tmp_path / "ca.crt"), authorization="Bearer abc"
    )


def test_a_new_token_is_read_after_a_refusal(tmp_path: Path) -> None:
    mount(tmp_path)
    found = in_cluster(tmp_path, environment())
    access = asyncio.run(found.current())
    (tmp_path / "token").write_text("def")
    assert asyncio.run(found.current()).authorization == "Bearer abc"
    found.invalidate(access)
    assert asyncio.run(found.current()).authorization == "Bearer def"


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        pytest.param({}, 'not in a cluster: KUBERNETES_SERVICE_HOST is not set; give "endpoint URL" or', id="host"),
        pytest.param(environment(port=""), "not in a cluster: KUBERNETES_SERVICE_PORT is not set", id="port"),
        pytest.param(environment(port="x"), "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not a valid address: ", id="no-port"),
    ],
)  # fmt: skip
def test_not_in_a_cluster(tmp_path: Path, variables: dict[str, str], sentence: str) -> None:
    mount(tmp_path)
    found = in_cluster(tmp_path, variables)
    (told,) = found.check()
    assert told.startswith(sentence)
    with pytest.raises(Unreachable) as caught:
        asyncio.run(found.current())
    assert str(caught.value) == told


def test_nothing_mounted(tmp_path: Path) -> None:
    token, authority = in_cluster(tmp_path, environment()).check()
    assert "automountServiceAccountToken" in token
    assert str(tmp_path / "ca.crt") in authority
    with pytest.raises(Unreachable, match="cannot read the token file"):
        asyncio.run(in_cluster(tmp_path, environment()).current())


def test_nothing_heavy_is_imported(tmp_path: Path) -> None:
    """Kubeadm limits the pod to 70Mi of memory, which the library for kubeconfigs would use up alone."""
    mount(tmp_path)
    code = """
import asyncio, sys, time
from hsdns.apiserver.client import ApiClient
from hsdns.apiserver.access import InCluster
from hsdns.apiserver.transport import Unreachable
from hsdns.metrics import Registry

async def ask():
    variables = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1"}
    source = InCluster(variables, time.monotonic, print, sys.argv[1])
    client = ApiClient(source, Registry(), time.monotonic, print)
    try:
        async with client.get("/api/v1/services", {}):
            pass
    except Unreachable as error:
        print(error)
    await client.close()

asyncio.run(ask())
heavy = {"kubernetes_asyncio", "yaml", "prometheus_client", "hsdns.apiserver.kubeconfig"}
print(sorted(heavy & set(sys.modules)))
"""
    shutil.copy(TLS_DATA / "ca.pem", tmp_path / "ca.crt")
    found = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert found.stdout.splitlines() == [
        "https://127.0.0.1:1 refuses connections; is the API server running?",
        "[]",
    ]
