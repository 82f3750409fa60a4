"""/version and /v1/server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hsdns import __version__
from hsdns.server.control import routes
from hsdns.server.control.routes import ROUTES
from tests.server.control.served import BLOCK, served

pytestmark = pytest.mark.sockets


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


async def test_version() -> None:

    async with served() as server:
        assert (await server.get("/version")).lines == [
            {"server": "hsdns", "version": __version__, "pid": os.getpid(), "api": ["v1"]}
        ]


def test_the_versions_are_those_of_the_routes() -> None:
    assert {
        path.split("/")[1] for path in ROUTES if path not in ("/", "/ready", "/version")
    } == set(routes.API)


async def test_server() -> None:

    async with served() as server:
        (found,) = (await server.get("/v1/server")).lines
        port, corefile = server.reloadable.port, server.reloadable.server.configuration.corefile
        assert found.pop("uptime_seconds") >= 0
        (block,) = found["kubernetes"]
        assert block.pop("last_change").endswith("+00:00")
        assert found == {
            "version": __version__,
            "pid": os.getpid(),
            "corefile": {"path": "Corefile", "digest": corefile.digest},
            "listeners": [
                {
                    "server": f"dns://127.0.0.1:{port}",
                    "scheme": "dns",
                    "host": "127.0.0.1",
                    "port": port,
                    "zones": ["cluster.local.", "in-addr.arpa."],
                }
            ],
            "server_blocks": [
                {
                    "keys": ["cluster.local", "in-addr.arpa"],
                    "zones": ["cluster.local.", "in-addr.arpa."],
                    "listeners": [f"dns://127.0.0.1:{port}"],
                    "plugins": ["bind", "control", "kubernetes"],
                }
            ],
            "kubernetes": [
                {
                    "zones": ["cluster.local.", "in-addr.arpa."],
                    "source": "manifests shop.yaml",
                    "ready": True,
                    "remark": "",
                    "services": 1,
                }
            ],
        }


async def test_a_cluster_that_is_not_read_yet() -> None:
    text = BLOCK.replace(
        "source manifests shop.yaml", "endpoint http://127.0.0.1:1\nstartup_timeout 0s"
    )

    async with served(text) as server:
        ((block,),) = [each["kubernetes"] for each in (await server.get("/v1/server")).lines]
        assert (block["ready"], block["last_change"], block["source"]) == (
            False, None, "http://127.0.0.1:1",
        )  # fmt: skip
