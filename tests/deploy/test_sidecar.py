"""The sidecar's Corefile at work: its own namespace from its watch, all else from the cluster's DNS, by address."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from hsdns.assemble import assemble
from hsdns.corefile.parser import parse
from hsdns.plugins import ORDER
from hsdns.server.lifecycle import Server
from loadtest.apiserver.fake_api import FakeApi
from loadtest.ports import free_port
from tests.support.clients.messages import query, summary
from tests.support.clients.sockets import UdpClient
from tests.support.coroutines.event_loops import run

ROOT = Path(__file__).resolve().parents[2]
CLUSTER_DNS = """
.:UPSTREAM {
    bind 127.0.0.1
    hosts {
        10.96.0.99 db.shop.svc.cluster.local db.other.svc.cluster.local example.org
    }
}
"""

pytestmark = pytest.mark.sockets


def service(name: str, namespace: str, address: str) -> dict[str, Any]:
    return {
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterIP": address, "ports": [{"port": 80}]},
    }


async def answers(folder: Path, *questions: str) -> list[str]:
    found = yaml.safe_load((ROOT / "deploy/components/sidecar/configmap.yaml").read_text())
    upstream, port = free_port(), free_port()
    async with FakeApi() as api:
        for name in ("shop", "other"):
            api.apply({"kind": "Namespace", "metadata": {"name": name}})
        api.apply(service("web", "shop", "10.96.0.1"))
        api.apply(service("db", "other", "10.96.0.2"))
        text = found["data"]["Corefile"] + CLUSTER_DNS.replace("UPSTREAM", str(upstream))
        text = text.replace("cluster.local {\n", f"cluster.local {{\nendpoint {api.url}\n").replace(
            ":53 {", f":{port} {{"
        )
        for address in (":18080", ":18181", ":19153"):
            text = text.replace(f" {address}", f" 127.0.0.1:{free_port()}")
        (folder / "Corefile").write_text(text.replace("lameduck 5s", "lameduck 0s"))
        environ = {"POD_NAMESPACE": "shop", "CLUSTER_DNS": f"127.0.0.1:{upstream}"}
        server = Server(
            lambda: parse(str(folder / "Corefile"), environ=environ, known_directives=ORDER),
            lambda corefile: assemble(corefile, default_port=53, warn=lambda sentence: None),
        )
        await server.start()
        try:
            replies = []
            with UdpClient() as client:
                for qname in questions:
                    wire, _ = await client.ask(query(qname).to_wire(), ("127.0.0.1", port))
                    replies.append(summary(wire))
            return replies
        finally:
            await server.close()


def test_what_the_sidecar_answers(tmp_path: Path) -> None:
    own, none, other, outside = run(
        answers(
            tmp_path,
            "web.shop.svc.cluster.local",
            "db.shop.svc.cluster.local",
            "db.other.svc.cluster.local",
            "example.org",
        )
    )
    assert own == "1 NOERROR qr aa rd | web.shop.svc.cluster.local. 5 IN A 10.96.0.1 |  | "
    # The cluster's DNS has this name too; it is not asked for what this server knows itself.
    assert none.startswith(
        "1 NXDOMAIN qr aa rd |  | cluster.local. 5 IN SOA ns.dns.cluster.local. "
    )
    assert other == "1 NOERROR qr aa rd | db.other.svc.cluster.local. 30 IN A 10.96.0.99 |  | "
    assert outside == "1 NOERROR qr aa rd | example.org. 30 IN A 10.96.0.99 |  | "
