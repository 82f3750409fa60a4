from __future__ import annotations

from pathlib import Path

import pytest

from hsdns.corefile.tree import CorefileError
from hsdns.plugins.shed import Shed
from tests.support.clients.sockets import UdpClient
from tests.support.plugins.setup import directives, make_block
from tests.support.servers.cluster_server import ClusterServer
from tests.support.servers.memory_server import ask, cluster_objects


@pytest.mark.parametrize("scheme", ["tls", "https"])
def test_blocks_with_keys_without_udp_are_refused(scheme: str) -> None:
    block = make_block()._replace(servers=("dns://:53", f"{scheme}://:853"))
    with pytest.raises(CorefileError) as caught:
        Shed.setup(directives("shed"), block)
    assert str(caught.value) == (
        f'Corefile:2:1: "shed" is for UDP, but {scheme}://:853 of this server block has none; '
        "move that key to a server block of its own"
    )


@pytest.mark.sockets
@pytest.mark.parametrize("name", ["shed", ""])
async def test_drops_of_its_server_are_a_metric(name: str, tmp_path: Path) -> None:
    text = f".:PORT {{\nbind 127.0.0.1\nprometheus 127.0.0.1:HTTP\n{name}\nwhoami\n}}\n"
    async with ClusterServer(tmp_path, text, cluster_objects()) as site:
        with UdpClient() as udp:
            assert await udp.ask(ask("a.example.org."), site.address)
        server = f"dns://127.0.0.1:{site.address[1]}"
        expected = {(server, "query"): 0.0, (server, "response"): 0.0} if name else {}
        assert site.value("coredns_shed_dropped_total") == expected
