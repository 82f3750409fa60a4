import asyncio
from pathlib import Path

import pytest

from hsdns.apiserver.access import Access, InCluster
from hsdns.apiserver.transport import Unreachable


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
