"""A whole server under load: reloads, another number of workers and a signal to end lose no query."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from hsdns import chain
from hsdns.chain import Handler, Next, Request
from hsdns.cluster.objects import Upserted
from hsdns.plugins.whoami import Whoami
from hsdns.server.transport import listeners
from hsdns.wire.message import Reply
from loadtest.ports import free_port
from tests.server.loopback import (
    WHOAMI,
    Lameduck,
    ReloadableServer,
    default_signals,
    fetch,
    is_free,
    running,
    serving,
)
from tests.support.clients.messages import query, summary
from tests.support.clients.sockets import TcpClient, UdpClient
from tests.support.cluster.objects import service
from tests.support.coroutines.event_loops import until
from tests.support.servers.cluster_server import ClusterServer
from tests.support.servers.memory_server import KUBERNETES, ask, cluster_objects
from tests.support.servers.udp_listeners import NEEDS_NATIVE, each_kind, serving_with

pytestmark = pytest.mark.sockets

KEPT = f".:PORT {{\nbind 127.0.0.1\nprometheus 127.0.0.1:HTTP\nloadbalance\n{KUBERNETES}}}\n"


WEB = "web.default.svc.cluster.local."


OBJECTS = cluster_objects(service("default/web", "10.96.0.1"))


@NEEDS_NATIVE
@pytest.mark.parametrize("is_patient", [True, False])
async def test_another_number_of_workers_loses_no_query(
    is_patient: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel gives datagrams to the old sockets, too, until they close; the new ones' loop answers these."""
    monkeypatch.setattr(listeners, "DRAIN_TIMEOUT", 20.0 if is_patient else 0.0)
    monkeypatch.setattr(listeners, "LINGER_TIMEOUT", 20.0)
    text = WHOAMI.replace("whoami", "multisocket 2\nwhoami")

    with serving_with("workers"):
        go_on = asyncio.Event()

        async def wait(self: Handler, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
            await go_on.wait()
            return Reply(rcode=3)

        monkeypatch.setattr(Whoami, "handle", wait)
        monkeypatch.setattr(Whoami, "waits", True, raising=False)
        monkeypatch.setattr(chain, "_known", {})  # what is known of it
        async with running(ReloadableServer(tmp_path, text)) as reloadable:
            with ExitStack() as stack:
                held, *others = [stack.enter_context(UdpClient()) for _ in range(33)]
                held.sock.sendto(query().to_wire(), ("127.0.0.1", reloadable.port))
                (old,) = serving(reloadable.server).listeners.udp.values()
                await until(lambda: old.pending == 1, "a query in work")
                reloadable.write(text.replace("multisocket 2", "multisocket 3"))
                assert await reloadable.server.reload()
                (new,) = serving(reloadable.server).listeners.udp.values()
                assert new is not old
                for client in others:  # from many ports, so each socket gets some
                    client.sock.sendto(query().to_wire(), ("127.0.0.1", reloadable.port))
                if is_patient:
                    await until(lambda: new.pending == len(others), "the heir asked")
                assert old.pending == 1
                go_on.set()
                for client in (held, *others):
                    reply = summary((await client.receive())[0])
                    assert reply == "1 NXDOMAIN qr rd |  |  | "
                await until(lambda: old.sock.fileno() == -1, "the old sockets closed")


class Asked:
    """A dozen connections, and as many UDP clients, that ask as fast as they are answered; each reply is looked at."""

    CONNECTIONS = 12

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self.answered = self.repeated = 0
        self.over = False

    async def over_udp(self) -> None:
        with UdpClient() as client:
            number = 0
            while not self.over:
                number = number % 65_535 + 1
                wire, _ = await client.ask(ask(WEB, query_id=number), self.address)
                self.note(wire, number)
            self.repeated += len(client.repeated)

    async def over_tcp(self) -> None:
        async with TcpClient(self.address) as client:
            number = 0
            while not self.over:
                number = number % 65_535 + 1
                client.send(ask(WEB, query_id=number))
                self.note(await client.receive(), number)

    async def until(self, count: int) -> None:
        """Wait until so many were answered."""
        await until(lambda: self.answered > count, "queries answered")

    def note(self, wire: bytes, number: int) -> None:
        assert (int.from_bytes(wire[:2], "big"), wire[3] & 15) == (number, 0)
        self.answered += 1


@each_kind
async def test_reloads_and_one_sigterm_lose_nothing(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over UDP and open connections; ready says no from SIGTERM on, and answers flow through the lameduck period."""
    health, ready = free_port(), free_port()
    pages = f"health 127.0.0.1:{health} {{\nlameduck 30s\n}}\nready 127.0.0.1:{ready}\n"
    text = KEPT.replace("loadbalance", f"{pages}loadbalance")

    lameduck = Lameduck(monkeypatch)
    reloadable = ClusterServer(tmp_path, text, OBJECTS, workers=2)
    with default_signals(reloadable.server):
        await reloadable.server.start()
        served = asyncio.create_task(reloadable.server.run())
        try:
            asked = Asked(reloadable.address)
            async with asyncio.TaskGroup() as group:
                for _ in range(4):
                    group.create_task(asked.over_udp())
                for _ in range(asked.CONNECTIONS):
                    group.create_task(asked.over_tcp())
                for turn in range(6):
                    before = asked.answered
                    await asked.until(before + 60)
                    broken = turn == 3
                    reloadable.write(
                        ". {\nnonsense\n}\n"
                        if broken
                        else text.replace("pods", f"ttl {turn}\npods")
                    )
                    assert await reloadable.server.reload() is not broken
                    assert await fetch(ready, "/ready") == "HTTP/1.1 200 OK"
                os.kill(os.getpid(), signal.SIGTERM)
                await until(lambda: reloadable.server.stopping, "SIGTERM heard")
                assert await fetch(ready, "/ready") == "HTTP/1.1 503 Service Unavailable"
                assert await fetch(health, "/health") == "HTTP/1.1 200 OK"
                before = asked.answered
                reloadable.apply(Upserted(service("default/web", "10.96.0.99", version="2")))
                with UdpClient() as client:
                    wire, _ = await client.ask(ask(WEB), reloadable.address)
                assert "10.96.0.99" in summary(wire)
                await asked.until(before + 60)
                assert not served.done()
                asked.over = True
            lameduck.over.set()
            assert await served == 0
            assert not [
                each for each in threading.enumerate() if each.name.startswith("udp worker")
            ]
            assert is_free(reloadable.port)
        finally:
            await reloadable.server.close()
    assert reloadable.total("coredns_reload_failed_total") == 1
    more = reloadable.total("coredns_dns_requests_total") - asked.answered - 1
    assert 0 <= more <= asked.repeated
