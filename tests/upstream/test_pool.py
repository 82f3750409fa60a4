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


def test_sweep_closes_what_nobody_takes() -> None:
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


def test_closed_ones_are_not_kept_nor_taken() -> None:
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
