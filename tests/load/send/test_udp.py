"""Which socket and ID a query has, and how many are needed; pool.txt has what UDP and connections do together."""

from __future__ import annotations

import pytest

from hsdns.load.send.udp import IDS, LEAST_WINDOW, RUN, sockets_for, window_for
from tests.load.stream_peers import Scene


def test_sockets_and_ids() -> None:
    """RUN queries from one socket, then as many from the next, with IDs in order from its first."""
    scene = Scene("udp", first_ids=(IDS - 1, 5))
    scene.step(f"ask {' '.join(map(str, range(2 * RUN + 1)))}")
    ids = [[int.from_bytes(each[:2], "big") for each in socket.sent] for socket in scene.sockets]
    assert ids == [[IDS - 1, *range(RUN)], [*range(5, 5 + RUN)]]


@pytest.mark.parametrize(
    ("fastest", "timeout", "least", "sockets"),
    [(100, 2, 1, 1), (100, 2, 4, 4), (30_000, 2, 1, 3), (100_000, 2, 4, 10)],
)
def test_sockets(fastest: float, timeout: float, least: int, sockets: int) -> None:
    assert sockets_for(fastest, timeout, least) == sockets


@pytest.mark.parametrize(
    ("fastest", "timeout", "burst", "window"),
    [(100, 2, 1, LEAST_WINDOW), (100_000, 2, 1, 600_001), (100, 2, 100_000, 100_600)],
)
def test_window(fastest: float, timeout: float, burst: int, window: int) -> None:
    assert window_for(fastest, timeout, burst) == window
