"""The files of a cluster of a scenario's own; test_fault_run.py serves one."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import msgspec
import pytest

from hsdns.cli.fault import PAGE
from hsdns.cli.fault_run import OwnCluster, free_port
from hsdns.cli.running_server import ServerError
from hsdns.fault_scenarios.scenario import Step, load


@pytest.mark.sockets
def test_a_port_is_free_at_each_address() -> None:
    port = free_port(("127.0.0.1", "127.0.0.2"))
    for address in ("127.0.0.1", "127.0.0.2"):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            with socket.socket(socket.AF_INET, kind) as sock:
                sock.bind((address, port))


class Cluster(OwnCluster):
    """Without a server."""

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(load(name))
        self._objects = folder

    @property
    def files(self) -> list[str]:
        return sorted(path.name for path in self._objects.iterdir())


def test_each_object_is_a_file_that_a_step_replaces_or_deletes(tmp_path: Path) -> None:
    cluster = Cluster("negative-rollout", tmp_path)
    cluster.change(Step(apply=load("negative-rollout").manifests))
    files = ["Service-shop-db.yaml", "StatefulSet-shop-db.yaml"]
    assert cluster.files == files
    cluster.change(load("negative-rollout").steps[0])
    assert cluster.files == files
    assert "replicas: 1" in (tmp_path / files[1]).read_text()
    cluster.change(Step(delete=("StatefulSet shop/db",)))
    assert cluster.files == files[:1]


@pytest.mark.parametrize(
    ("name", "addresses"),
    [("ndots-storm", "127.0.0.1"), ("nodelocal-restart", "127.0.0.1 127.0.0.2")],
)
def test_each_block_of_its_corefile_is_bound_to_loopback(
    name: str, addresses: str, tmp_path: Path
) -> None:
    lines = Cluster(name, tmp_path)._corefile().splitlines()
    blocks = [at for at, line in enumerate(lines) if line[:1].strip() and line.endswith("{")]
    assert len(blocks) == 2
    assert {lines[at + 1] for at in blocks} == {f"    bind {addresses}"}
    assert f'        source manifests "{tmp_path}"' in lines


@pytest.mark.slow
@pytest.mark.sockets
def test_rules_about_the_watch_need_an_api() -> None:
    scenario = load("slices-forbidden")
    with OwnCluster(scenario) as cluster:
        text = cluster._corefile()
        assert ("endpoint http://127.0.0.1:" in text, "source manifests" in text) == (True, False)
        body = json.dumps({"rule": scenario.steps[0].add[0]}).encode()
        (rule,) = cluster.server.lines(PAGE, "POST", body)
        assert (rule["state"], rule["name"]) == ("standing", "denied")


@pytest.mark.slow
@pytest.mark.sockets
def test_what_keeps_it_from_starting_is_said() -> None:
    scenario = msgspec.structs.replace(load("ndots-storm"), corefile=". {\n    kuberntes\n}\n")
    with (
        pytest.raises(ServerError, match=r"its own cluster did not start: .*kuberntes"),
        OwnCluster(scenario),
    ):
        pass
