"""A loop whose time passes only where all wait."""

from __future__ import annotations

import asyncio
import time

import pytest

from hsdns.fault_scenarios.play import Stuck, VirtualLoop


def test_an_hour_takes_no_time_and_timers_end_in_order() -> None:
    ended: list[tuple[str, float]] = []

    async def wait(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        ended.append((name, round(asyncio.get_running_loop().time(), 6)))

    async def run() -> None:
        await asyncio.gather(wait("long", 3600), wait("short", 0.5), wait("none", 0))

    began = time.monotonic()
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(run())
    assert ended == [("none", 0.0), ("short", 0.5), ("long", 3600.0)]
    assert time.monotonic() - began < 600  # far from an hour on the slowest machine


def test_what_can_never_happen_is_an_error() -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        forever = runner.get_loop().create_future()

        async def run() -> None:
            await forever

        with pytest.raises(Stuck):
            runner.run(run())
        forever.set_result(None)
