import asyncio
import socket
import threading

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


def test_what_cannot_be_read_is_not_noted(cluster: Cluster) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.sendto(b"\0" * 12, (cluster.address, cluster.port))
        ask(cluster, WEB)
    assert [each.name for each in cluster.queries] == [WEB]


def test_it_runs_beside_a_loop_of_the_test(cluster: Cluster) -> None:
    async def test() -> list[str]:
        service = cluster.service("web", headless=True).endpoints("10.0.0.1")
        found = await asyncio.to_thread(ask, cluster, WEB)
        service.endpoints("10.0.0.2")
        return found + await asyncio.to_thread(ask, cluster, WEB)

    assert asyncio.run(test()) == ["10.0.0.1", "10.0.0.1", "10.0.0.2"]


def test_its_thread_ends_with_a_client_that_stays(cluster: Cluster) -> None:
    with Cluster() as other, socket.create_connection((other.address, other.port)) as sock:
        (thread,) = (each for each in threading.enumerate() if each is other.server._thread)
        sock.sendall(b"\0")
    assert not thread.is_alive()


def test_a_start_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[Event] = []
    noted: list[Query] = []
    thread = ServerThread(events, noted.append, ttl=99999)
    with pytest.raises(Exception, match="99999"):
        thread.start()
    thread.stop()
    assert not thread._thread.is_alive()
