from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from hsdns.upstream.connection import TCP, UDP, Connection
from hsdns.upstream.pool import MAX_IDLE, Pool


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def test_oldest_first_and_by_protocol() -> None:
    async def test() -> None:
        pool, first, second, stream = Pool(10.0, Clock()), Connection(), Connection(), Connection()
        pool.give(UDP, first)
        pool.give(UDP, second)
        pool.give(TCP, stream)
        assert len(pool) == 3
        assert [pool.take(UDP), pool.take(UDP), pool.take(UDP)] == [first, second, None]
        assert pool.take(TCP) is stream
        pool.close()

    run(test())


def test_expired_are_closed_at_the_next_take() -> None:
    async def test() -> None:
        clock = Clock()
        pool, old, young = Pool(10.0, clock), Connection(), Connection()
        pool.give(UDP, old)
        clock.now += 5.0
        pool.give(UDP, young)
        clock.now += 5.1
        assert pool.take(UDP) is young
        assert not old.is_open
        assert young.is_open
        pool.close()

    run(test())


def test_sweep_closes_unused_connections() -> None:
    async def test() -> None:
        clock = Clock()
        pool, old, young, dead = Pool(10.0, clock), Connection(), Connection(), Connection()
        pool.give(UDP, old)
        pool.give(TCP, dead)
        dead.is_open = False
        clock.now += 5.0
        pool.give(UDP, young)
        clock.now += 5.0
        pool.sweep()
        assert [old.is_open, young.is_open, len(pool)] == [False, True, 1]
        clock.now += 5.0
        pool.sweep()
        assert [young.is_open, len(pool)] == [False, 0]

    run(test())


def test_closed_connections_are_not_pooled() -> None:
    async def test() -> None:
        pool, gone, going = Pool(10.0, Clock()), Connection(), Connection()
        gone.close()
        pool.give(UDP, gone)
        assert len(pool) == 0
        pool.give(UDP, going)
        going.close()
        assert pool.take(UDP) is None
        pool.close()

    run(test())


def test_room() -> None:
    async def test() -> None:
        pool, connections = Pool(10.0, Clock()), [Connection() for _ in range(MAX_IDLE + 1)]
        for connection in connections:
            pool.give(UDP, connection)
        assert len(pool) == MAX_IDLE
        assert [connection.is_open for connection in connections] == [True] * MAX_IDLE + [False]
        pool.close()
        assert not any(connection.is_open for connection in connections)
        late = Connection()
        pool.give(UDP, late)
        assert [late.is_open, len(pool)] == [False, 0]

    run(test())


def test_old_ones_are_closed_however_busy() -> None:
    async def test() -> None:
        clock = Clock()
        pool, old, young = Pool(10.0, clock, max_age=15.0), Connection(), Connection()
        old.opened, young.opened = 90.0, 99.0
        for connection in (young, old):
            pool.give(UDP, connection)
        clock.now += 6.0
        assert pool.take(UDP) is young
        assert pool.take(UDP) is None
        assert [young.is_open, old.is_open] == [True, False]
        clock.now += 10.0
        pool.give(UDP, young)
        assert [young.is_open, len(pool)] == [False, 0]
        pool.close()

    run(test())


def test_sweep_closes_old_connections_behind_newer_ones() -> None:
    async def test() -> None:
        clock = Clock()
        pool, young, old = Pool(10.0, clock, max_age=15.0), Connection(), Connection()
        young.opened, old.opened = 99.0, 90.0
        for connection in (young, old):
            pool.give(TCP, connection)
        clock.now += 6.0
        pool.sweep()
        assert [young.is_open, old.is_open, len(pool)] == [True, False, 1]
        pool.close()

    run(test())


def test_max_idle_is_for_each_protocol() -> None:
    async def test() -> None:
        pool = Pool(10.0, Clock(), max_idle=1)
        connections = [Connection() for _ in range(4)]
        for protocol, connection in zip((UDP, UDP, TCP, TCP), connections, strict=True):
            pool.give(protocol, connection)
        assert [connection.is_open for connection in connections] == [True, False, True, False]
        pool.close()

    run(test())
