"""Workers on loopback: what their threads answer, what they hand over, how they end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from hsdns.assemble import ListenAddress
from hsdns.query import QueryProcessor
from hsdns.server.runtime import Tasks
from hsdns.server.transport.sockets import open_all
from tests.support.clients.messages import query
from tests.support.clients.sockets import UdpClient
from tests.support.coroutines.event_loops import DEADLINE
from tests.support.servers.function_processor import asked_address, processor
from tests.support.servers.stream_serving import admission
from tests.support.servers.udp_listeners import NEEDS_NATIVE

if TYPE_CHECKING:
    from hsdns.server.transport.udp import UdpWorkers

pytestmark = [pytest.mark.sockets, NEEDS_NATIVE]


@pytest.fixture
def workers() -> ModuleType:
    """The module, which needs the compiled twin."""
    from hsdns.server.transport import udp as found  # noqa: PLC0415 - it needs the compiled module

    return found


def thread_names() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("udp worker")]


def spin(condition: Any, what: str) -> None:
    """Wait without giving the loop a turn; the threads need neither it nor the GIL."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {DEADLINE} s"


@contextmanager
def serving(workers: ModuleType, answering: QueryProcessor, count: int = 1) -> Iterator[UdpWorkers]:
    opened = open_all(ListenAddress("127.0.0.1", 0), (), count)
    tasks = Tasks()
    server = workers.UdpWorkers(opened.udp, answering, admission(tasks.spawn, time.monotonic))
    server.start()
    try:
        yield server
    finally:
        if server.sock.fileno() >= 0:
            server.close()
        opened.close()
        assert thread_names() == []


def address_of(server: UdpWorkers) -> tuple[str, int]:
    return server.local.address, server.local.port


def received(server: UdpWorkers) -> list[int]:
    return [worker.statistics().received for worker in server._workers]


async def test_queue_that_is_full_drops_and_counts(
    workers: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hsdns.fastpath._native import MissQueue  # noqa: PLC0415 - as above

    room, sent = 8, 100
    monkeypatch.setattr("hsdns.fastpath._native.MissQueue", lambda: MissQueue(room))

    with serving(workers, processor(asked_address)) as server, UdpClient() as client:
        for number in range(sent):
            client.sock.sendto(query(number=number).to_wire(), address_of(server))
        spin(lambda: sum(received(server)) == sent, "all received")
        spin(lambda: server.statistics()[0] == sent - room, "all but a few dropped")
        first = {(await client.receive())[0][1] for _ in range(room)}
        assert len(first) == room
        for number in (200, 201):  # it is not stuck
            wire, _ = await client.ask(query(number=number).to_wire(), address_of(server))
            assert wire[1] == number
        assert server.statistics() == (sent - room, {})
        assert server.pending == 0
