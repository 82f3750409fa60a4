"""The process, run as a whole: its output for a kubeconfig."""

import asyncio
import base64
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hsdns.apiserver.kubeconfig import COMMAND, plain_access, read_context
from tests.support.apiserver.scripted_http import (
    TLS_DATA,
    Said,
    ScriptedServer,
    said,
    server_context,
)

JSON = "Content-Type: application/json"
DATA = base64.b64encode(b"a PEM").decode()


def write(folder: Path, user: dict[str, Any], cluster: dict[str, Any] | None = None) -> Path:
    """Write a kubeconfig with one context."""
    path = folder / "kubeconfig"
    content = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://host:6443"} | (cluster or {})}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(json.dumps(content))  # which is YAML
    return path


def plugin(folder: Path, *lines: str) -> dict[str, Any]:
    """Make an exec plugin, a script beside the kubeconfig."""
    path = folder / "login"
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o700)
    return {"apiVersion": "client.authentication.k8s.io/v1", "command": "./login"}


def run(
    path: Path | str, *context: str, stdin: str = "{}", code: str = "", folder: str = ""
) -> dict[str, Any]:
    """Run the process after `code`, with `folder` first in its import path."""
    command = list(COMMAND)
    command[2] = code + command[2]
    environment = dict(os.environ, PYTHONPATH=folder)
    done = subprocess.run(
        [*command, str(path), *context],
        input=stdin,
        env=environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.stderr == ""
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    assert done.returncode == (1 if "error" in found else 0)
    return found


NOTHING: dict[str, Any] = {
    "authority": None,
    "certificate": None,
    "key": None,
    "headers": [],
    "token_file": "",
    "warnings": [],
    "server": "https://host:6443",
    "insecure": False,
    "tls_server_name": "",
    "proxy": "",
    "authorization": "",
}


@pytest.mark.parametrize(
    ("cluster", "user", "expected"),
    [
        pytest.param({}, {}, {}, id="nobody"),
        pytest.param(
            {"certificate-authority": "ca.crt", "tls-server-name": "api", "proxy-url": "http://proxy:3128"},
            {"client-certificate-data": DATA, "client-key": "/etc/key", "token": "abc"},
            {
                "authority": {"path": "FOLDER/ca.crt"},
                "certificate": {"pem": "a PEM"},
                "key": {"path": "/etc/key"},
                "tls_server_name": "api",
                "proxy": "http://proxy:3128",
                "authorization": "Bearer abc",
            },
            id="all",
        ),
        pytest.param(
            {"insecure-skip-tls-verify": True},
            {"token": "abc", "tokenFile": "token", "as": "jane", "as-groups": ["a", "b"], "as-user-extra": {"x": ["y"]}},
            {
                "insecure": True,
                "token_file": "FOLDER/token",
                "headers": [
                    ["Impersonate-User", "jane"],
                    ["Impersonate-Group", "a"],
                    ["Impersonate-Group", "b"],
                    ["Impersonate-Extra-x", "y"],
                ],
            },
            id="token-file-and-impersonation",
        ),
        pytest.param({}, {"username": "jane", "password": "pw"}, {"authorization": "Basic amFuZTpwdw=="}, id="password"),
    ],
)  # fmt: skip
def test_found(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], expected: dict[str, Any]
) -> None:
    found = run(write(tmp_path, user, cluster), "c")
    text = json.dumps(NOTHING | expected).replace("FOLDER", str(tmp_path))
    assert found == json.loads(text)


class TestPlugin:
    def test_token_on_its_error_output_is_hidden(self, tmp_path: Path) -> None:
        said = '{"status": {"token": "hunter2"}} Authorization: Bearer s3cret-s3cret'
        user = {"exec": plugin(tmp_path, f"echo '{said}' >&2", "exit 3")}
        assert run(write(tmp_path, user))["error"].endswith(
            'gives no credentials: exec: process returned 3. {"status": {"token": "[hidden]"}} '
            "Authorization: Bearer [hidden]"
        )


def jwt(expiry: int) -> str:
    """An unsigned JSON web token."""
    claims = base64.urlsafe_b64encode(json.dumps({"exp": expiry}).encode()).decode().rstrip("=")
    return f"e30.{claims}.x"


OIDC = {"client-id": "me", "client-secret": "", "idp-issuer-url": "https://127.0.0.1:1"}


class TestOidc:
    @pytest.mark.sockets
    @pytest.mark.parametrize(
        "trusted", [pytest.param(True, id="trusted"), pytest.param(False, id="not-trusted")]
    )
    def test_refresh(self, tmp_path: Path, trusted: bool) -> None:
        """The secret is not sent to a provider with an invalid certificate."""
        token = jwt(4_000_000_000)

        async def main() -> tuple[dict[str, Any], int]:
            def answer(head: str) -> Said:
                body = {"id_token": token, "refresh_token": "new"}
                if "openid-configuration" in head:
                    body = {"token_endpoint": f"{server.url}/token"}
                return said("200 OK", json.dumps(body).encode(), "close", JSON)

            async with ScriptedServer(answer, server_context()) as server:
                config = OIDC | {"idp-issuer-url": server.url, "refresh-token": "old"}
                if trusted:
                    config["idp-certificate-authority"] = str(TLS_DATA / "ca.pem")
                path = write(tmp_path, {"auth-provider": {"name": "oidc", "config": config}})
                found = await asyncio.to_thread(run, path)
                return found, len(server.requests)

        found, requests = asyncio.run(main())
        if trusted:
            assert found["authorization"] == f"Bearer {token}"
            assert found["remembered"] == {"id-token": token, "refresh-token": "new"}
            assert found["expiry"] == 4_000_000_000.0
        else:
            assert "CERTIFICATE_VERIFY_FAILED" in found["error"]
            assert requests == 0


@pytest.mark.parametrize(
    ("user", "sentence"),
    [
        pytest.param({"client-key-data": "a"}, '"client-key-data" in kubeconfig PATH is not base64', id="base64"),
        pytest.param({"auth-provider": {"name": "azure"}}, 'kubeconfig PATH asks for the auth-provider "azure"; only gcp and oidc are supported; use an exec plugin instead', id="provider"),
        pytest.param({"auth-provider": {"name": "oidc", "config": {"idp-certificate-authority": "/gone"}}}, "cannot read /gone: No such file or directory", id="provider-ca"),
    ],
)  # fmt: skip
def test_errors(tmp_path: Path, user: dict[str, Any], sentence: str) -> None:
    path = write(tmp_path, user)
    assert run(path) == {"error": sentence.replace("PATH", str(path))}


@pytest.mark.parametrize(
    ("user", "cluster"),
    [
        pytest.param({}, {}, id="anonymous"),
        pytest.param({"token": "abc"}, {"server": "https://one/", "tls-server-name": "x"}, id="token"),
        pytest.param({"token": "abc", "tokenFile": "token"}, {}, id="token file"),
        pytest.param({"username": "me", "password": "secret"}, {"insecure-skip-tls-verify": True}, id="password"),
        pytest.param({"username": "me", "password": "secret", "token": "abc"}, {}, id="token first"),
        pytest.param({"client-certificate": "c.pem", "client-key-data": "YWJj"}, {"certificate-authority-data": "YWJj", "proxy-url": "http://p:1"}, id="certificate"),
        pytest.param({"token": "abc", "as": "jane", "as-groups": ["ops"], "as-user-extra": {"a": ["b"]}}, {}, id="impersonation"),
    ],
)  # fmt: skip
def test_plain_access_is_what_the_package_makes_of_it(
    user: dict[str, Any], cluster: dict[str, Any], tmp_path: Path
) -> None:
    path = str(write(tmp_path, user, cluster))
    expected = run(path)
    assert json.loads(json.dumps(plain_access(read_context(path), path))) == {
        key: value for key, value in expected.items() if key != "warnings"
    }
