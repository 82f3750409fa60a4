"""UDP on the loop; what workers do too is in test_udp_listener.py."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hsdns.assemble import ListenAddress
from hsdns.server.runtime import Tasks
from hsdns.server.sockets import open_udp
from hsdns.server.udp import AGAIN, BATCH_LEN, TURN
from tests.support.servers.function_processor import asked_address, processor
from tests.support.servers.udp_listeners import listen_udp

pytestmark = pytest.mark.sockets


async def test_the_buffer_is_read_for_most_of_an_iteration_under_a_flood() -> None:
    """The kernel's buffer is one queue for all clients: while it is full, each of them waits for the others' queries."""
    now = 0.0
    read = 0
    answered: list[int] = []  # how many batches had been read

    class Flood:
        """A buffer that is never empty, of which a batch is read in an eighth of a turn."""

        def serve(self, table: object) -> list[tuple[bytes, bytes, bytes]]:
            nonlocal now, read
            now += TURN / 8
            read += 1
            return [(b"", b"", b"")] * BATCH_LEN

    sock = open_udp(ListenAddress("127.0.0.1", 0))
    server: Any = listen_udp("loop", [sock], processor(asked_address), Tasks().spawn, lambda: now)
    server._batch = Flood()
    server._take = lambda: answered.append(read)
    server._read_batch()
    server.close()
    assert answered[0] == 64


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(1.1 * AGAIN, [1, 2, 3]), (0.6 * AGAIN, [2])],
    ids=["long", "short"],
)
async def test_the_buffer_is_read_between_misses(seconds: float, expected: list[int]) -> None:
    """`expected`: how many misses had been answered at each reading."""
    now = 1.0
    answered = 0
    read: list[int] = []

    class Empty:
        def serve(self, table: object) -> list[tuple[bytes, bytes, bytes]]:
            read.append(answered)
            return []

    sock = open_udp(ListenAddress("127.0.0.1", 0))
    server: Any = listen_udp("loop", [sock], processor(asked_address), Tasks().spawn, lambda: now)
    server.start()
    server._batch = Empty()
    server._read()

    def answer(*miss: object) -> None:
        nonlocal now, answered
        now += seconds
        answered += 1

    server._answer = answer
    server._waiting[1].offer(0, [(b"query", b"", b"")] * 3)
    server._take()
    server.close()
    assert read == [0, *expected]


async def test_the_buffer_is_read_between_steps_of_connections() -> None:
    """What misses the table then is answered in the next iteration."""
    taken: list[int] = []

    class OneMiss:
        def serve(self, table: object) -> list[tuple[bytes, bytes, bytes]]:
            return [(b"query", b"", b"")]

    sock = open_udp(ListenAddress("127.0.0.1", 0))
    server: Any = listen_udp("loop", [sock], processor(asked_address), Tasks().spawn, lambda: 1.0)
    server.start()
    (read,) = server._between.values()
    server._batch = OneMiss()
    server._take = lambda: taken.append(len(server._waiting[1].take(9)))
    read()
    assert taken == []
    await asyncio.sleep(0)
    server.close()
    assert not server._between
    assert taken == [1]


async def test_an_error_costs_the_queries_of_one_iteration_only() -> None:
    taken: list[int] = []

    sock = open_udp(ListenAddress("127.0.0.1", 0))
    server: Any = listen_udp("loop", [sock], processor(asked_address), Tasks().spawn, lambda: 0.0)

    def take() -> None:
        taken.extend(each[0] for each in server._waiting[1].take(1))
        if len(taken) == 2:
            raise KeyError(taken)

    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    server._take = take
    server._waiting[1].offer(0, [(b"query", b"", b"")] * 3)
    server._read_batch()
    for _ in range(4):
        await asyncio.sleep(0)
    server.close()
    assert taken == [0, 0, 0]


async def test_closed_socket_is_not_read() -> None:
    """Its number may be another one's by then."""
    sock = open_udp(ListenAddress("127.0.0.1", 0))
    server = listen_udp("loop", [sock], processor(asked_address), Tasks().spawn, lambda: 0.0)
    server.start()
    server.close()
    server.stop_reading()
    assert sock.fileno() == -1
