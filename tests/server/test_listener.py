"""What drains at one address: in which order, and for how long."""

import asyncio
from typing import Any

import pytest

from hsdns.server.listeners import DRAIN_TIMEOUT, LINGER_TIMEOUT, DrainConditions, Listener
from tests.server.stand_ins import ScriptedLoop


class Part:
    """UDP or TCP, of which the order of calls is wanted."""

    def __init__(self, log: list[str], name: str) -> None:
        self.log, self.name = log, name
        self.connections: set[int] = set()

    def __getattr__(self, called: str) -> Any:
        return lambda: self.log.append(f"{self.name} {called}")


def drained(listener: Listener, is_needed: bool, is_forced: bool = False) -> float:
    """Drain it; return how long that took."""
    loop = ScriptedLoop(lambda: None)
    try:
        conditions = DrainConditions(loop.time, lambda: is_forced, lambda: is_needed)
        loop.run_until_complete(listener.drain(conditions))
        return loop.now
    finally:
        loop.close()


@pytest.mark.parametrize(
    ("is_needed", "is_forced", "seconds"),
    [(False, False, 0.0), (True, True, 0.0), (True, False, DRAIN_TIMEOUT + LINGER_TIMEOUT)],
)
def test_time_limits(is_needed: bool, is_forced: bool, seconds: float) -> None:
    log: list[str] = []
    udp: Any = Part(log, "udp")
    tcp: Any = Part(log, "tcp")
    assert drained(Listener(udp, tcp), is_needed, is_forced) == pytest.approx(seconds, abs=0.05)
    assert log == ["tcp stop_accepting", "udp stop_reading", "tcp end", "udp close", "tcp close"]


def test_connections_have_a_second_to_end() -> None:
    tcp: Any = Part([], "tcp")
    tcp.connections.add(1)
    assert drained(Listener(None, tcp), is_needed=False) == pytest.approx(LINGER_TIMEOUT, abs=0.05)


def test_replaced_workers_take_what_has_arrived_meanwhile() -> None:
    log: list[str] = []
    udp: Any = Part(log, "udp")
    drained(Listener(udp, None), is_needed=False)
    assert log == ["udp stop_reading", "udp stop_reading", "udp close"]


def test_it_closes_whatever_goes_wrong() -> None:
    log: list[str] = []
    tcp: Any = Part(log, "tcp")

    def fail() -> None:
        raise RuntimeError("broken")

    tcp.end = fail
    with pytest.raises(RuntimeError, match="broken"):
        asyncio.run(
            Listener(None, tcp).drain(DrainConditions(lambda: 0.0, lambda: True, lambda: False))
        )
    assert log == ["tcp stop_accepting", "tcp close"]
