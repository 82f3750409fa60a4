"""The questions that took longest."""

from __future__ import annotations

from hsdns.server.control.top import MOST_SLOW, slowest
from tests.server.control.top.seen import TURN, seen
from tests.support.coroutines.eager import finish


def test_slowest() -> None:
    found = [
        seen("a.example NOERROR", seconds=0.002),
        seen("A.example NOERROR", seconds=0.0315),
        seen("a.example NOERROR AAAA", seconds=0.5),
        seen("a.example NOERROR", seconds=0.001),
    ]
    assert finish(slowest(found, TURN)) == [
        {"name": "a.example.", "type": "AAAA", "duration_ms": 500.0, "server": "dns://:53"},
        {"name": "A.example.", "type": "A", "duration_ms": 31.5, "server": "dns://:53"},
    ]
    many = [seen(f"n{number}.example NOERROR") for number in range(MOST_SLOW + 1)]
    assert len(finish(slowest(many, TURN))) == MOST_SLOW
