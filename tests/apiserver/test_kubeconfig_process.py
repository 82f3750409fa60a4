"""The process, run as a whole: its output for a kubeconfig."""

import asyncio
import base64
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from hsdns.apiserver.kubeconfig import COMMAND, plain_credentials, read_context
from tests.support.apiserver.scripted_http import (
    TLS_DATA,
    Said,
    ScriptedServer,
    said,
    server_context,
)
from tests.support.tables import Row, rows

JSON = "Content-Type: application/json"


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


def credential(**status: str) -> str:
    """Return the output of a plugin."""
    version = "client.authentication.k8s.io/v1"
    text = json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})
    return f"cat <<'EOF'\n{text}\nEOF"


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


@pytest.mark.parametrize("row", rows(Path(__file__).with_name("credentials.txt")))
def test_plain_credentials(tmp_path: Path, row: Row) -> None:
    given = yaml.safe_load(row.given)
    path = str(write(tmp_path, given["user"], given["cluster"]))
    found = plain_credentials(read_context(path, "c"), path)
    (expected,) = (yaml.safe_load(each.replace("FOLDER", str(tmp_path))) for each in row.expected)
    assert json.loads(msgspec.json.encode(found)) == {"server": "https://host:6443", **expected}


class TestPlugin:
    def test_certificate(self, tmp_path: Path) -> None:
        answer = credential(clientCertificateData="a certificate", clientKeyData="a key")
        user = {"exec": plugin(tmp_path, answer) | {"provideClusterInfo": True}}
        found = run(write(tmp_path, user))
        assert found["certificate"] == {"pem": "a certificate"}
        assert found["key"] == {"pem": "a key"}
        assert "expiry" not in found
        assert len(found["warnings"]) == 1
        assert "provideClusterInfo" in found["warnings"][0]

    def test_failure(self, tmp_path: Path) -> None:
        user = {"exec": plugin(tmp_path, "echo please log in first >&2", "exit 3")}
        path = write(tmp_path, user)
        assert run(path) == {
            "error": f'the exec plugin "{tmp_path}/login" of kubeconfig {path} gives no credentials: '
            "exec: process returned 3. please log in first"
        }

    @pytest.mark.parametrize(
        ("lines", "sentence"),
        [
            pytest.param(["echo hunter2"], "gives no credentials: exec: failed to decode process output", id="no-json"),
            pytest.param([credential()], "gave neither a token nor a certificate with its key", id="nothing"),
        ],
    )  # fmt: skip
    def test_no_credentials(self, tmp_path: Path, lines: list[str], sentence: str) -> None:
        found = run(write(tmp_path, {"exec": plugin(tmp_path, *lines)}))
        assert sentence in found["error"]
        assert "hunter2" not in found["error"]

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
    def test_a_valid_token(self, tmp_path: Path) -> None:
        token = jwt(4_000_000_000)
        config = OIDC | {"id-token": jwt(1), "refresh-token": "old"}
        path = write(tmp_path, {"auth-provider": {"name": "oidc", "config": config}})
        remembered = {"id-token": token, "refresh-token": "new"}
        found = run(path, stdin=json.dumps(remembered))
        assert found["authorization"] == f"Bearer {token}"
        assert found["expiry"] == 4_000_000_000.0
        assert found["remembered"] == remembered

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


class TestPackage:
    def test_the_models_of_the_api_are_not_loaded(self, tmp_path: Path) -> None:
        """Loaded whole, the package has more than a thousand modules."""
        path = write(tmp_path, {"token": "abc"})
        code = (
            "import atexit, os, sys; atexit.register(lambda: any("
            "name.startswith('kubernetes_asyncio.client.') for name in sys.modules) and os._exit(9));"
        )
        assert run(path, code=code)["authorization"] == "Bearer abc"

    def test_another_version_is_loaded_whole(self, tmp_path: Path) -> None:
        """A package whose configuration part needs its client."""
        package = tmp_path / "packages" / "kubernetes_asyncio"
        (package / "config").mkdir(parents=True)
        (package / "__init__.py").write_text("from kubernetes_asyncio import client, config")
        (package / "client.py").write_text("class Special: pass")
        (package / "config" / "__init__.py").write_text("")
        (package / "config" / "kube_config.py").write_text(
            "from kubernetes_asyncio.client import Special\n"
            "async def load_kube_config_from_dict(config, client_configuration, temp_file_path):\n"
            "    client_configuration.host = config['clusters'][0]['cluster']['server']\n"
            "    client_configuration.api_key['BearerToken'] = 'Bearer ' + Special.__name__\n"
        )
        found = run(write(tmp_path, {"token": "abc"}), folder=str(package.parent))
        assert found["authorization"] == "Bearer Special"


@pytest.mark.parametrize(
    ("user", "sentence"),
    [
        pytest.param({"client-key-data": "a"}, '"client-key-data" in kubeconfig PATH is not base64', id="base64"),
        pytest.param({"auth-provider": {"name": "azure"}}, 'kubeconfig PATH names the auth-provider "azure"; only gcp and oidc are supported; use an exec plugin instead', id="provider"),
        pytest.param({"auth-provider": {"name": "oidc", "config": {"idp-certificate-authority": "/gone"}}}, "cannot read /gone: No such file or directory", id="provider-ca"),
    ],
)  # fmt: skip
def test_errors(tmp_path: Path, user: dict[str, Any], sentence: str) -> None:
    path = write(tmp_path, user)
    assert run(path) == {"error": sentence.replace("PATH", str(path))}


@pytest.mark.parametrize(
    ("user", "cluster"),
    [
        pytest.param({"token": "abc"}, {"server": "https://one/", "tls-server-name": "x"}, id="token"),
        pytest.param({"token": "abc", "tokenFile": "token"}, {}, id="token file"),
        pytest.param({"username": "me", "password": "secret"}, {"insecure-skip-tls-verify": True}, id="password"),
        pytest.param({"username": "me", "password": "secret", "token": "abc"}, {}, id="token first"),
    ],
)  # fmt: skip
def test_plain_credentials_are_what_the_package_makes_of_it(
    user: dict[str, Any], cluster: dict[str, Any], tmp_path: Path
) -> None:
    path = str(write(tmp_path, user, cluster))
    expected = run(path)
    assert json.loads(msgspec.json.encode(plain_credentials(read_context(path), path))) == expected
