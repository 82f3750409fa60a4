"""What a wrong token costs: its client time, others nothing, the server a few octets."""

from __future__ import annotations

from math import inf

import pytest

from hsdns.http_page import FIRST_PAUSE, FORGOTTEN_AFTER, LONGEST_PAUSE, MAX_PAUSED, AccessToken

CLIENT, OTHER = b"\x7f\0\0\1", b"\x7f\0\0\2"
RIGHT = "secret-of-16-octets"


def guessed(times: int) -> tuple[AccessToken, float]:
    """A client tries as fast as it may; when it has tried so often."""
    token, now = AccessToken(RIGHT), 1000.0
    for _ in range(times):
        now += token.pause(CLIENT, now)
        assert not token.is_text("wrong", CLIENT, now)
    return token, now


@pytest.mark.parametrize(
    ("wrong", "after", "pause"),
    [
        (0, 0.0, 0.0),
        (1, 0.0, FIRST_PAUSE),
        (1, 0.04, FIRST_PAUSE - 0.04),
        (1, inf, 0.0),
        (2, 0.0, 2 * FIRST_PAUSE),
        (5, 0.0, 16 * FIRST_PAUSE),
        (6, 0.0, LONGEST_PAUSE),
        (1000, 0.0, LONGEST_PAUSE),
    ],
)
def test_pause(wrong: int, after: float, pause: float) -> None:
    token, now = guessed(wrong)
    assert token.pause(CLIENT, now + after) == pytest.approx(pause)
    assert token.pause(OTHER, now) == 0.0
    assert token.is_text(RIGHT, CLIENT, now + after), "it is right, however many were wrong"


@pytest.mark.parametrize(("quiet", "pause"), [(1.0, LONGEST_PAUSE), (FORGOTTEN_AFTER, FIRST_PAUSE)])
def test_wrong_ones_are_forgotten(quiet: float, pause: float) -> None:
    token, now = guessed(10)
    now += token.pause(CLIENT, now) + quiet
    assert not token.is_text("wrong", CLIENT, now)
    assert token.pause(CLIENT, now) == pytest.approx(pause)


def test_many_clients_take_no_memory() -> None:
    token = AccessToken(RIGHT)
    for number in range(3 * MAX_PAUSED):
        token.is_text("wrong", number.to_bytes(4), 0.0)
        token.is_text("wrong", CLIENT, 0.0)  # used meanwhile, so it stays
    assert len(token._pauses) == MAX_PAUSED
    assert token.pause(CLIENT, 0.0) > 0.0
    assert token.pause((0).to_bytes(4), 0.0) == 0.0
