import asyncio
import socket

import dns.message
import pytest

from hsdns.cluster.objects import Event
from hsdns.testing import Cluster
from hsdns.testing.pod import ZONE
from hsdns.testing.queries import Query
from hsdns.testing.server import ServerThread
from tests.testing.asking import ask

pytestmark = pytest.mark.sockets
WEB = f"web.default.svc.{ZONE}"


def test_every_query_is_noted(cluster: Cluster) -> None:
    """Also the second one of a question, over either transport: there is no answer table."""
    cluster.service("web", headless=True).endpoints("10.0.0.1")
    for tcp in (False, False, True, True):
        ask(cluster, WEB.upper(), tcp=tcp)
    assert [(each.name, each.type, each.transport, each.rcode) for each in cluster.queries] == [
        (WEB, "A", transport, "NOERROR") for transport in ("udp", "udp", "tcp", "tcp")
    ]


def test_a_query_is_noted_before_its_sender_reads_the_reply(cluster: Cluster) -> None:
    """It waits for no reply at all: the assertion takes what has arrived."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for number in range(200):
            wire = dns.message.make_query(f"n{number}.{ZONE}", "AAAA").to_wire()
            sock.sendto(wire, (cluster.address, cluster.port))
            cluster.queries.assert_asked(f"n{number}.{ZONE}", "AAAA", times=1)


def test_it_runs_beside_a_loop_of_the_test(cluster: Cluster) -> None:
    async def test() -> list[str]:
        service = cluster.service("web", headless=True).endpoints("10.0.0.1")
        found = await asyncio.to_thread(ask, cluster, WEB)
        service.endpoints("10.0.0.2")
        return found + await asyncio.to_thread(ask, cluster, WEB)

    assert asyncio.run(test()) == ["10.0.0.1", "10.0.0.1", "10.0.0.2"]


def test_a_start_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[Event] = []
    noted: list[Query] = []
    thread = ServerThread(events, noted.append, ttl=99999)
    with pytest.raises(Exception, match="99999"):
        thread.start()
    thread.stop()
    assert not thread._thread.is_alive()
