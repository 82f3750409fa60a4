"""Addresses, tokens and endpoints."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from hsdns.apiserver.access import Access, Endpoint, InCluster, Pem, TokenFile, server_url
from hsdns.apiserver.transport import Unreachable
from tests.support.tables import columns, values

TABLES = Path(__file__).with_name("tables.txt")


@pytest.mark.parametrize(
    ("given", "expected"), columns(Path(__file__).with_name("addresses.txt"), "addresses")
)
def test_server_url(given: str, expected: str) -> None:
    text, secure = given.removesuffix(" tls"), given.endswith(" tls")
    if expected != "refused":
        assert server_url(text, secure=secure) == expected
        return
    sentence = f'"{text}" is not the address of an API server; write it like https://10.96.0.1:443'
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        server_url(text, secure=secure)


def test_an_address_with_a_password_is_refused_and_not_shown() -> None:
    with pytest.raises(ValueError, match="must not contain a user name or a password") as caught:
        server_url("https://me:hunter2@host", secure=True)
    assert "hunter2" not in str(caught.value)


def test_secrets_are_in_no_repr() -> None:
    access = Access(
        "https://host",
        key=Pem(pem="SECRET"),
        certificate=Pem(pem="SECRET"),
        authorization="Bearer SECRET",
        headers=(("Impersonate-User", "SECRET"),),
        proxy="http://me:SECRET@proxy",
    )
    assert "https://host" in repr(access)
    assert "SECRET" not in repr(access)


class Setting:
    """A token file with its clock and warnings."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "token"
        self.now = 1000.0
        self.warnings: list[str] = []
        self.token = TokenFile(str(self.path), lambda: self.now, self.warnings.append)


def test_a_file_that_is_gone_is_a_warning_once(tmp_path: Path) -> None:
    setting = Setting(tmp_path)
    setting.path.write_text("first")
    setting.token.authorization()
    setting.path.unlink()
    for _ in range(3):
        setting.now += 60
        assert setting.token.authorization() == "Bearer first"
    assert setting.warnings == [
        f"cannot read the token file {setting.path}: No such file or directory; "
        "still using the previous token"
    ]
    setting.path.write_text("second")
    setting.now += 60
    assert setting.token.authorization() == "Bearer second"
    setting.path.unlink()
    setting.now += 60
    setting.token.authorization()
    assert len(setting.warnings) == 2


def environment(host: str = "10.96.0.1", port: str = "443") -> dict[str, str]:
    return {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}


def in_cluster(folder: Path, variables: dict[str, str], now: float = 0.0) -> InCluster:
    return InCluster(variables, lambda: now, lambda sentence: None, str(folder))


def mount(folder: Path) -> None:
    (folder / "token").write_text("abc\n")
    (folder / "ca.crt").write_text("a CA")


@pytest.mark.parametrize(("host", "server"), values(TABLES, "access"))
def test_access(tmp_path: Path, host: str, server: str) -> None:
    mount(tmp_path)
    found = in_cluster(tmp_path, environment(host))
    assert found.check() == []
    assert found.server == server
    assert asyncio.run(found.current()) == Access(
        server, Pem(str(tmp_path / "ca.crt")), authorization="Bearer abc"
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


@pytest.mark.parametrize(
    ("urls", "files", "access"),
    [
        pytest.param(["https://host"], (), Access("https://host"), id="url"),
        pytest.param(["host:8080"], (), Access("http://host:8080"), id="no-scheme"),
        pytest.param(
            ["host"],
            ("c", "k", "a"),
            Access("https://host", Pem("a"), Pem("c"), Pem("k")),
            id="tls",
        ),
        pytest.param(["https://one", "https://two"], (), Access("https://one"), id="two"),
    ],
)
def test_access_of_endpoint(urls: list[str], files: tuple[str, ...], access: Access) -> None:
    endpoint = Endpoint(urls, *files)
    assert endpoint.server == access.server
    assert asyncio.run(endpoint.current()) == access
    endpoint.invalidate(access)
    assert asyncio.run(endpoint.current()) == access


def test_check(tmp_path: Path) -> None:
    good = tmp_path / "pem"
    good.write_text("a PEM")
    missing = str(tmp_path / "missing")
    assert Endpoint(["https://host"], str(good), str(good), str(good)).check() == []
    assert Endpoint(["https://host", "https://two"], str(good), missing, str(good)).check() == [
        'only the first endpoint, "https://host", is used; "https://two" has no effect',
        f"cannot read {missing} for TLS: No such file or directory",
    ]
    assert Endpoint(["http://host"], missing, missing, missing).check() == [
        '"tls" has no effect on http://host; write https://'
    ]
