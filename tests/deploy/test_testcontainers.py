"""The modules of Testcontainers, with the libraries of their languages, against a stand-in for an engine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final

import dns.message
import dns.query
import pytest

from hsdns.testing import Do
from loadtest.ports import free_port
from tests.deploy.rendered import DEPLOY
from tests.support.clients.command import serving
from tests.support.tables import values

VERSION: Final = {"Version": "28.0.0", "ApiVersion": "1.44", "MinAPIVersion": "1.24", "Os": "linux", "Arch": "amd64"}  # fmt: skip
INFO: Final = {"ID": "x", "OperatingSystem": "none", "OSType": "linux", "MemTotal": 1 << 33, "NCPU": 1, "ServerVersion": "28.0.0", "Labels": []}  # fmt: skip
NETWORK: Final = {"Id": "b", "Name": "bridge", "Driver": "bridge", "IPAM": {"Config": [{"Gateway": "192.0.2.1", "Subnet": "192.0.2.0/24"}]}}  # fmt: skip
TIME: Final = "2026-01-02T03:04:05.000000000Z"


class Container:
    """A container: what it was created with, and its process."""

    def __init__(self, identity: str, created: dict[str, Any]) -> None:
        self.identity, self.created = identity, created
        self.process = ExitStack()
        self.ports: dict[str, str] = {}

    def start(self) -> None:
        dns, control = str(free_port()), str(free_port())
        self.ports = {"53/udp": dns, "53/tcp": dns, "9160/tcp": control}
        source, target, *_ = self.created["HostConfig"]["Binds"][0].split(":")
        changed = {"53": dns, "0.0.0.0:9160": f"127.0.0.1:{control}", target: source}
        environ = dict(each.split("=", 1) for each in self.created["Env"])
        words = [changed.get(word, word) for word in self.created["Cmd"]]
        self.process.enter_context(
            serving(*words, environ={"HSDNS_LISTEN": "127.0.0.1", **environ})
        )

    def inspect(self) -> dict[str, Any]:
        ports = {
            name: [{"HostIp": "127.0.0.1", "HostPort": each}] for name, each in self.ports.items()
        }
        state = {"Status": "running", "Running": True, "Pid": 1, "StartedAt": TIME, "ExitCode": 0}
        config = {key: value for key, value in self.created.items() if key[0].isupper()}
        network = {"NetworkID": "b", "IPAddress": "127.0.0.1", "Gateway": "127.0.0.1"}
        return {
            "Id": self.identity, "Name": "/x", "Created": TIME, "State": state, "Config": config, "Image": "sha256:0",
            "HostConfig": self.created["HostConfig"],
            "NetworkSettings": {"Ports": ports, "Networks": {"bridge": network}},
        }  # fmt: skip


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    containers: dict[str, Container]
    lacking: list[str]

    def log_message(self, *arguments: object) -> None: ...

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = re.sub(r"^/v[0-9.]+", "", self.path.partition("?")[0])
        status, found = self.find(path, body)
        text = (
            b""
            if found is None
            else found
            if isinstance(found, bytes)
            else json.dumps(found).encode()
        )
        self.send_response(status)
        self.send_header("Api-Version", VERSION["ApiVersion"])
        self.send_header("Content-Type", "application/json")
        if status != 204:
            self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    do_GET = do_POST = do_DELETE = do_HEAD = answer  # noqa: N815 - as http.server calls them

    def find(self, path: str, body: bytes) -> tuple[int, Any]:
        fixed: dict[str, Any] = {
            "/_ping": b"OK", "/version": VERSION, "/info": INFO, "/networks": [NETWORK], "/networks/bridge": NETWORK,
            "/images/json": [], "/images/create": b"", "/events": b"", "/auth": {},
        }  # fmt: skip
        if path in fixed:
            return 200, fixed[path]
        if path.startswith("/images/"):
            config: dict[str, Any] = {"Env": [], "ExposedPorts": {}}
            return 200, {
                "Id": "sha256:0",
                "RepoTags": [],
                "Created": TIME,
                "Os": "linux",
                "Config": config,
            }
        if path == "/containers/create":
            identity = f"{len(self.containers) + 1:064x}"
            self.containers[identity] = Container(identity, json.loads(body))
            return 201, {"Id": identity, "Warnings": []}
        if path == "/containers/json":
            return 200, [{**each.inspect(), "Ports": [], "State": "running", "Names": ["/x"]} for each in self.containers.values()]  # fmt: skip
        identity, _, what = path.removeprefix("/containers/").partition("/")
        container = self.containers.get(identity)
        if container is None or what not in ("", "start", "json", "logs", "stop", "kill", "wait"):
            self.lacking.append(f"{self.command} {self.path}")
            return 404, {"message": "nothing of that kind"}
        if what == "json":
            return 200, container.inspect()
        if what == "start":
            container.start()
        elif what in ("stop", "kill") or self.command == "DELETE":
            container.process.close()
        return (200, b"") if what == "logs" else (204, None)


@contextmanager
def running_engine() -> Iterator[dict[str, str]]:
    """The environment in which modules of Testcontainers use the engine."""
    handler: Any = type("Engine", (Handler,), {"containers": {}, "lacking": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        host = f"tcp://127.0.0.1:{server.server_address[1]}"
        try:
            flags = {
                f"TESTCONTAINERS_{each}": "true" for each in ("RYUK_DISABLED", "CHECKS_DISABLE")
            }
            yield {**os.environ, **flags, "DOCKER_HOST": host}
            assert handler.lacking == []
        finally:
            for each in handler.containers.values():
                each.process.close()
            server.shutdown()
            thread.join()


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
