"""Kubeconfigs, and when their process runs."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hsdns.apiserver.access import Access, Endpoint, InCluster, Pem, TokenFile, server_url
from hsdns.apiserver.kubeconfig import (
    COMMAND,
    MARGIN,
    PAUSE,
    Context,
    Kubeconfig,
    KubeconfigError,
    plain_credentials,
    read_context,
)
from hsdns.apiserver.redaction import HIDDEN, MAX_SECRETS, Redaction
from hsdns.apiserver.transport import Unreachable
from tests.support.apiserver.scripted_http import (
    TLS_DATA,
    Said,
    ScriptedServer,
    said,
    server_context,
)
from tests.support.coroutines.event_loops import until
from tests.support.tables import Row, columns, rows, values

TABLES = Path(__file__).with_name("tables.txt")

# Stands for the real process: prints the file `answer`, adds what it was given to the file `runs`.
STAND_IN = """
import json, os, sys
folder = sys.argv[1]
with open(folder + "/runs", "a") as runs:
    runs.write(json.dumps([sys.argv[2:], json.loads(sys.stdin.read()), os.getpid()]) + "\\n")
answer = open(folder + "/answer").read()
if answer.startswith("hang"):
    if not os.fork():
        open(folder + "/child", "w").write(str(os.getpid()))
    open(folder + "/fifo").read()
if answer.startswith("crash"):
    sys.exit("Traceback\\nKeyError: 3")
print(answer)
"""
KUBECONFIG = """
current-context: c
contexts:
- {name: c, context: {cluster: c, user: u}}
- {name: lab, context: {cluster: c, user: u}}
- {name: plain, context: {cluster: c, user: plain}}
users: [{name: u, user: {exec: {command: login}}}, {name: plain, user: {token: abc}}]
clusters: [{name: c, cluster: {server: "https://host"}}]
"""


class Setting:
    """A kubeconfig, the process that reads it, and both clocks."""

    def __init__(self, folder: Path, context: str = "", timeout: float = 20.0) -> None:
        self.folder = folder
        self.path = folder / "kubeconfig"
        self.path.write_text(KUBECONFIG)
        self.script = folder / "stand_in.py"
        self.script.write_text(STAND_IN)
        self.now, self.wall = 100.0, 1_000_000.0
        self.warnings: list[str] = []
        self.source = Kubeconfig(
            str(self.path),
            context,
            lambda: self.now,
            lambda: self.wall,
            self.warnings.append,
            command=(sys.executable, "-S", "-E", str(self.script), str(folder)),
            timeout=timeout,
        )

    def answers(self, **found: Any) -> None:
        (self.folder / "answer").write_text(json.dumps({"server": "https://host:6443"} | found))

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.wall += seconds

    async def authorization(self) -> str:
        return (await self.source.current()).authorization

    async def fault(self) -> str:
        with pytest.raises(Unreachable) as caught:
            await self.source.current()
        return str(caught.value)

    @property
    def runs(self) -> list[Any]:
        """Arguments, input and process ID of each run."""
        path = self.folder / "runs"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def test_access(tmp_path: Path) -> None:
    setting = Setting(tmp_path, "lab")
    assert setting.source.server == f"the API server of kubeconfig {setting.path}"
    setting.answers(
        authority={"path": "/ca"}, certificate={"pem": "cert\xff"}, key={"pem": "key"}, authorization="Bearer a",
        headers=[["Impersonate-User", "jane"]], tls_server_name="api", proxy="http://proxy", expiry=5e9,
        warnings=["take care"],
    )  # fmt: skip
    assert await setting.source.current() == Access(
        "https://host:6443", Pem("/ca"), Pem(pem="cert\xff"), Pem(pem="key"), "Bearer a",
        (("Impersonate-User", "jane"),), "api", False, "http://proxy", 5e9,
    )  # fmt: skip
    assert setting.source.server == "https://host:6443"
    assert setting.warnings == ["take care"]
    assert setting.runs[0][:2] == [[str(setting.path), "lab"], {}]


def fill(pipe: int) -> None:
    """Write until the reader closes its end."""
    while True:
        os.write(pipe, b"x")


class TestWhenItRuns:
    async def test_renewal_before_the_token_expires(self, tmp_path: Path) -> None:
        setting = Setting(tmp_path)
        setting.answers(authorization="Bearer a", expiry=setting.wall + 900)
        await setting.authorization()
        setting.answers(authorization="Bearer b", expiry=setting.wall + 1800)
        setting.pass_time(900 - MARGIN - 1)
        assert await setting.authorization() == "Bearer a"
        setting.pass_time(1)
        assert await setting.authorization() == "Bearer b"

    async def test_after_a_refusal(self, tmp_path: Path) -> None:
        """Several watches are refused at the same time: that causes one run only."""
        setting = Setting(tmp_path)
        setting.answers(authorization="Bearer a")
        refused = await setting.source.current()
        setting.answers(authorization="Bearer b")
        setting.pass_time(PAUSE)
        for _ in range(3):
            setting.source.invalidate(refused)
            assert await setting.authorization() == "Bearer b"
            setting.pass_time(PAUSE)
        assert len(setting.runs) == 2


async def pipes_closed(process: asyncio.subprocess.Process) -> None:
    """Wait until both pipes have ended, which is when nobody has their other ends, and let the loop close them."""
    for pipe in (process.stdout, process.stderr):
        assert pipe is not None
        await until(pipe.at_eof, "the end of a pipe")
    await asyncio.sleep(0)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[asyncio.subprocess.Process]:
    """The processes that have been started."""
    found, real = list[asyncio.subprocess.Process](), asyncio.create_subprocess_exec

    async def start(*words: str, **options: Any) -> asyncio.subprocess.Process:
        found.append(process := await real(*words, **options))
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
    return found


class TestFailure:
    async def test_valid_credentials_stay_in_use(self, tmp_path: Path) -> None:
        setting = Setting(tmp_path)
        setting.answers(authorization="Bearer a", expiry=setting.wall + 900)
        await setting.authorization()
        setting.answers(error="no login")
        setting.pass_time(900 - MARGIN)
        for _ in range(4):
            assert await setting.authorization() == "Bearer a"
            setting.pass_time(PAUSE)
        assert len(setting.runs) == 5
        assert setting.warnings == ["no login; still using the previous credentials"]
        setting.pass_time(MARGIN)
        assert await setting.fault() == "no login"

    @pytest.mark.parametrize(("answer", "sentence"), values(TABLES, "sentence"))
    async def test_sentence(self, tmp_path: Path, answer: str, sentence: str) -> None:
        setting = Setting(tmp_path)
        (tmp_path / "answer").write_text(answer)
        assert (await setting.fault()).startswith(sentence.replace("PATH", str(setting.path)))

    async def test_nothing_to_start(self, tmp_path: Path) -> None:
        path = tmp_path / "kubeconfig"
        path.write_text(KUBECONFIG)
        source = Kubeconfig(str(path), "", lambda: 0, lambda: 0, print, command=("/no/python",))
        with pytest.raises(Unreachable, match="cannot start /no/python to read kubeconfig"):
            await source.current()

    async def test_a_process_that_hangs_is_ended(
        self, tmp_path: Path, started: list[asyncio.subprocess.Process]
    ) -> None:
        os.mkfifo(tmp_path / "fifo")
        setting = Setting(tmp_path, timeout=0.01)
        (tmp_path / "answer").write_text("hang")
        assert await setting.fault() == (
            f"kubeconfig {setting.path} gave no credentials within 0.01 s; "
            "does its exec plugin wait for input?"
        )
        await pipes_closed(started[0])

    async def test_a_cancelled_wait_leaves_no_process_and_no_plugin(
        self, tmp_path: Path, started: list[asyncio.subprocess.Process]
    ) -> None:
        os.mkfifo(tmp_path / "fifo")
        setting = Setting(tmp_path)
        (tmp_path / "answer").write_text("hang")
        task = asyncio.create_task(setting.source.current())
        loop = asyncio.get_running_loop()
        # Opening waits until the process has opened the other end.
        writer = await loop.run_in_executor(None, os.open, tmp_path / "fifo", os.O_WRONLY)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # Both readers have closed their ends.
        with pytest.raises(BrokenPipeError):
            fill(writer)
        os.close(writer)
        with pytest.raises(ProcessLookupError):
            os.kill(setting.runs[0][2], 0)
        await pipes_closed(started[0])


async def test_token_file(tmp_path: Path) -> None:
    setting = Setting(tmp_path)
    token = tmp_path / "token"
    token.write_text("first")
    setting.answers(token_file=str(token))
    access = await setting.source.current()
    assert access.authorization == "Bearer first"
    token.write_text("second")
    setting.source.invalidate(access)
    assert await setting.authorization() == "Bearer second"
    token.write_text("third")
    setting.pass_time(60)
    assert await setting.authorization() == "Bearer third"
    assert len(setting.runs) == 1


class TestCheck:
    def test_missing_file(self, tmp_path: Path) -> None:
        setting = Setting(tmp_path)
        text = KUBECONFIG.replace("server:", "certificate-authority: gone, server:")
        setting.path.write_text(text)
        assert setting.source.check() == [
            f'cannot read {tmp_path}/gone ("certificate-authority"): No such file or directory'
        ]

    def test_missing_package(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "kubernetes_asyncio", None)
        with pytest.raises(ValueError, match='"kubeconfig" needs the Python package') as raised:
            Setting(tmp_path)
        assert str(raised.value) == (
            '"kubeconfig" needs the Python package kubernetes_asyncio; install it '
            '("pip install kubernetes_asyncio"), or build the image with "--build-arg KUBECONFIG=yes"'
        )
        Setting(tmp_path, "plain")  # which needs no plugin, and so no package


async def test_the_real_process(tmp_path: Path) -> None:
    """An exec plugin is run again when its token expires; the library is not loaded into this process."""
    plugin = tmp_path / "login"
    plugin.write_text(
        textwrap.dedent("""\
            #!/bin/sh
            echo . >> FOLDER/count
            n=$(wc -l < FOLDER/count)
            echo '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",'
            echo '"status": {"token": "t'$((n))'", "expirationTimestamp": "2030-01-01T00:0'$((n))':00Z"}}'
        """).replace("FOLDER", str(tmp_path))
    )
    plugin.chmod(0o700)
    path = tmp_path / "kubeconfig"
    path.write_text(
        KUBECONFIG.replace("{cluster: c}", "{cluster: c, user: u}")
        + "users: [{name: u, user: {exec: {command: ./login, "
        + "apiVersion: client.authentication.k8s.io/v1}}}]"
    )
    now, wall = [0.0], [1893456000.0 - 3600]
    before = "kubernetes_asyncio" in sys.modules
    source = Kubeconfig(str(path), "c", lambda: now[0], lambda: wall[0], print)
    assert (await source.current()).authorization == "Bearer t1"
    now[0] += 3600
    wall[0] += 3600
    assert (await source.current()).authorization == "Bearer t2"
    assert ("kubernetes_asyncio" in sys.modules) is before
    assert COMMAND[0] == sys.executable


GOOD = Path(__file__).with_name("kubeconfig.yaml").read_text()


def write(folder: Path, text: str) -> str:
    path = folder / "kubeconfig"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(("name", "expected"), values(TABLES, "context"))
def test_context(tmp_path: Path, name: str, expected: str) -> None:
    lab = Context(
        "lab",
        {"server": "https://one", "certificate-authority": str(tmp_path / "ca.crt")},
        {
            "token": "hunter2",
            "client-key": "/etc/key",
            "exec": {"command": str(tmp_path / "bin/login")},
        },
    )
    production = Context("production", {"server": "https://two"}, {})
    found = read_context(write(tmp_path, GOOD), name)
    assert found == {"lab": lab, "production": production}[expected]
    assert "hunter2" not in repr(found)


@pytest.mark.parametrize(("name", "sentence"), columns(TABLES, "contexts with a missing entry"))
def test_context_with_a_missing_entry(tmp_path: Path, name: str, sentence: str) -> None:
    with pytest.raises(KubeconfigError) as caught:
        read_context(write(tmp_path, GOOD), name)
    assert sentence in str(caught.value)


@pytest.mark.parametrize("row", rows(Path(__file__).with_name("bad_kubeconfigs.txt")))
def test_no_kubeconfig(tmp_path: Path, row: Row) -> None:
    path = write(tmp_path, row.given)
    with pytest.raises(KubeconfigError) as caught:
        read_context(path)
    assert [str(caught.value)] == [sentence.replace("PATH", path) for sentence in row.expected]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    with pytest.raises(KubeconfigError) as caught:
        read_context(missing)
    assert str(caught.value) == (
        f"cannot read kubeconfig {missing}: No such file or directory; correct the path or its permissions"
    )
    path = tmp_path / "kubeconfig"
    path.write_bytes(b"\xff")
    with pytest.raises(KubeconfigError) as caught:
        read_context(str(path))
    assert str(caught.value) == f"kubeconfig {path} is not valid UTF-8"


KNOWN = Redaction(
    ["Bearer s3cret-Token/with+chars==", "Basic amFuZTpodW50ZXIy", "pw", "a/b/c/d/e/f/g"]
)
CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/="


@pytest.mark.parametrize(
    ("text", "shown"), columns(Path(__file__).with_name("redacted.txt"), "texts")
)
def test_text(text: str, shown: str) -> None:
    assert KNOWN(text) == shown
    assert KNOWN(shown) == shown


@given(st.text(), st.text(CHARACTERS, min_size=9, max_size=200), st.text(), st.integers(9))
def test_no_part_of_a_known_token_is_left(before: str, token: str, after: str, length: int) -> None:
    part = token[:length]
    found = Redaction([f"Bearer {token}"])(f"{before} {part} {after}")
    assert part not in found.replace(HIDDEN, " ") or part in before + after


def test_renewed_tokens_are_known_for_a_while() -> None:
    found = Redaction()
    for number in range(MAX_SECRETS + 1):
        found.remember(f"Bearer {number:03}-is-the-token")
    assert found("000-is-the-token 001-is-the-token") == "000-is-the-token [hidden]"


# Addresses, tokens and endpoints.


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


class AccessSetting:
    """A token file with its clock and warnings."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "token"
        self.now = 1000.0
        self.warnings: list[str] = []
        self.token = TokenFile(str(self.path), lambda: self.now, self.warnings.append)


def test_a_file_that_is_gone_is_a_warning_once(tmp_path: Path) -> None:
    setting = AccessSetting(tmp_path)
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
def test_access_by(tmp_path: Path, host: str, server: str) -> None:
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


@pytest.mark.parametrize(("variables", "sentence"), values(TABLES, "not in a cluster"))
def test_not_in_a_cluster(tmp_path: Path, variables: dict[str, str], sentence: str) -> None:
    mount(tmp_path)
    found = in_cluster(tmp_path, variables)
    (told,) = found.check()
    assert told.startswith(sentence)
    with pytest.raises(Unreachable) as caught:
        asyncio.run(found.current())
    assert str(caught.value) == told


@pytest.mark.parametrize(("urls", "files", "server"), values(TABLES, "endpoints"))
def test_access_of_endpoint(urls: list[str], files: list[str], server: str) -> None:
    pems = zip(("certificate", "key", "authority"), map(Pem, files), strict=False)
    endpoint, access = Endpoint(urls, *files), msgspec.structs.replace(Access(server), **dict(pems))
    assert endpoint.server == access.server
    assert asyncio.run(endpoint.current()) == access
    endpoint.invalidate(access)
    assert asyncio.run(endpoint.current()) == access


@pytest.mark.parametrize(("urls", "key", "sentences"), values(TABLES, "endpoints checked"))
def test_check(tmp_path: Path, urls: list[str], key: str, sentences: list[str]) -> None:
    (tmp_path / "pem").write_text("a PEM")
    found = Endpoint(urls, *(str(tmp_path / each) for each in ("pem", key, "pem"))).check()
    assert [each.replace(f"{tmp_path}/", "") for each in found] == sentences


# The process, run as a whole: its output for a kubeconfig.

JSON = "Content-Type: application/json"


def write_file(folder: Path, user: dict[str, Any], cluster: dict[str, Any] | None = None) -> Path:
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
    command = [*command, str(path), *context]
    done = subprocess.run(command, input=stdin, env=environment, capture_output=True, text=True)
    assert done.stderr == ""
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    assert done.returncode == (1 if "error" in found else 0)
    return found


@pytest.mark.parametrize("row", rows(Path(__file__).with_name("credentials.txt")))
def test_plain_credentials(tmp_path: Path, row: Row) -> None:
    given = yaml.safe_load(row.given)
    path = str(write_file(tmp_path, given["user"], given["cluster"]))
    found = plain_credentials(read_context(path, "c"), path)
    (expected,) = (yaml.safe_load(each.replace("FOLDER", str(tmp_path))) for each in row.expected)
    assert json.loads(msgspec.json.encode(found)) == {"server": "https://host:6443", **expected}


class TestPlugin:
    def test_certificate(self, tmp_path: Path) -> None:
        answer = credential(clientCertificateData="a certificate", clientKeyData="a key")
        user = {"exec": plugin(tmp_path, answer) | {"provideClusterInfo": True}}
        found = run(write_file(tmp_path, user))
        assert found["certificate"] == {"pem": "a certificate"}
        assert found["key"] == {"pem": "a key"}
        assert "expiry" not in found
        assert len(found["warnings"]) == 1
        assert "provideClusterInfo" in found["warnings"][0]

    @pytest.mark.parametrize(("lines", "sentence"), values(TABLES, "plugins without credentials"))
    def test_no_credentials(self, tmp_path: Path, lines: list[str], sentence: str) -> None:
        path = write_file(tmp_path, {"exec": plugin(tmp_path, *lines)})
        login = f'the exec plugin "{tmp_path}/login" of kubeconfig {path} '
        error = run(path)["error"]
        assert error.startswith(f"{login}{sentence}")
        assert "hunter2" not in error


def jwt(expiry: int) -> str:
    """An unsigned JSON web token."""
    claims = base64.urlsafe_b64encode(json.dumps({"exp": expiry}).encode()).decode().rstrip("=")
    return f"e30.{claims}.x"


OIDC = {"client-id": "me", "client-secret": "", "idp-issuer-url": "https://127.0.0.1:1"}


class TestOidc:
    def test_a_valid_token(self, tmp_path: Path) -> None:
        token = jwt(4_000_000_000)
        config = OIDC | {"id-token": jwt(1), "refresh-token": "old"}
        path = write_file(tmp_path, {"auth-provider": {"name": "oidc", "config": config}})
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
                path = write_file(tmp_path, {"auth-provider": {"name": "oidc", "config": config}})
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
        path = write_file(tmp_path, {"token": "abc"})
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
        found = run(write_file(tmp_path, {"token": "abc"}), folder=str(package.parent))
        assert found["authorization"] == "Bearer Special"


@pytest.mark.parametrize(("user", "sentence"), values(TABLES, "users that are wrong"))
def test_errors(tmp_path: Path, user: dict[str, Any], sentence: str) -> None:
    path = write_file(tmp_path, user)
    assert run(path) == {"error": sentence.replace("PATH", str(path))}


@pytest.mark.parametrize(("user", "cluster"), values(TABLES, "users"))
def test_plain_credentials_are_what_the_package_makes_of_it(
    user: dict[str, Any], cluster: dict[str, Any], tmp_path: Path
) -> None:
    path = str(write_file(tmp_path, user, cluster))
    expected = run(path)
    assert json.loads(msgspec.json.encode(plain_credentials(read_context(path), path))) == expected
