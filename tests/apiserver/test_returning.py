"""How soon a server that was away is noticed, and what is asked of it meanwhile."""

import asyncio
from random import Random

import pytest

from hsdns.apiserver.transport import Away
from hsdns.apiserver.watcher import Returning


class Server:
    """Accepts connections from the one with this number on."""

    def __init__(self, accepts_from: int) -> None:
        self.accepts_from = accepts_from
        self.asked = 0

    async def reach(self) -> None:
        self.asked += 1
        if self.asked < self.accepts_from:
            raise Away("refused")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hsdns.apiserver.watcher.LOOK_EVERY", 0.0)


async def test_one_connection_serves_all_who_wait() -> None:
    server = Server(accepts_from=3)
    returning = Returning(server.reach, Random(1))
    async with asyncio.timeout(20):
        await asyncio.gather(*(returning.wait() for _ in range(4)))
    assert server.asked == 3
    async with asyncio.timeout(20):
        await returning.wait()
    assert server.asked == 4


async def test_nothing_is_asked_when_no_one_waits() -> None:
    server = Server(accepts_from=1 << 30)
    returning = Returning(server.reach, Random(1))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await returning.wait()
    before = server.asked
    for _ in range(20):
        await asyncio.sleep(0)
    assert server.asked == before


async def test_a_connection_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hsdns.apiserver.watcher.REACH_TIMEOUT", 0.001)
    asked: list[int] = []

    async def reach() -> None:
        asked.append(1)
        if len(asked) < 3:
            await asyncio.Event().wait()

    async with asyncio.timeout(20):
        await Returning(reach, Random(1)).wait()
    assert len(asked) == 3
