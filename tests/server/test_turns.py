from __future__ import annotations

from collections.abc import Callable

import pytest

from hsdns.server.turns import SECONDS, STEPS, Turns


class Loop:
    """Turns that the test begins, and a clock that only steps move."""

    def __init__(self) -> None:
        self.now = 0.0
        self.next: list[Callable[[], None]] = []
        self.turns = Turns(lambda: self.now, self.next.append)

    def turn(self) -> None:
        """Begin the next turn."""
        calls, self.next[:] = list(self.next), []
        for call in calls:
            call()


class Steps:
    """A connection with a number of messages that take some time each."""

    def __init__(
        self, loop: Loop, count: int, seconds: float = 0.0, client: bytes | None = None
    ) -> None:
        self.taken = self.ended = 0
        self.client = id(self).to_bytes(8, "big") if client is None else client
        self.is_closed = False
        self._loop, self._left, self._seconds = loop, count, seconds

    def step(self) -> bool:
        self.taken += 1
        self._left -= 1
        self._loop.now += self._seconds
        return self._left > 0

    def end_turn(self) -> None:
        self.ended += 1

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize(
    ("counts", "seconds", "taken"),
    [
        pytest.param((1,), 0.0, [[1]], id="at-once"),
        pytest.param((STEPS,), 0.0, [[STEPS]], id="as-many-as-a-turn-has"),
        pytest.param((STEPS + 1,), 0.0, [[STEPS], [STEPS + 1]], id="one-more"),
        pytest.param((5,), SECONDS, [[1], [2], [3]], id="long-steps"),
        pytest.param((5,), SECONDS * 0.4, [[3], [5]], id="until-the-time-is-over"),
        pytest.param((200, 1), SECONDS, [[1, 0], [2, 0], [2, 1]], id="another-waits-for-one-step"),
        pytest.param((100, 100), 0.0, [[64, 0], [96, 32], [100, 92], [100, 100]], id="in-equal-parts"),
    ],
)  # fmt: skip
def test_steps(counts: tuple[int, ...], seconds: float, taken: list[list[int]]) -> None:
    loop = Loop()
    connections = [Steps(loop, count, seconds) for count in counts]
    for connection in connections:
        loop.turns.enter(connection)
    assert [each.taken for each in connections] == taken[0]
    for expected in taken[1:]:
        loop.turn()
        assert [each.taken for each in connections] == expected


def test_what_may_not_wait_is_called_after_each_step() -> None:
    loop, connection = Loop(), None
    found: list[int] = []
    connection = Steps(loop, 3, SECONDS * 0.6)
    loop.turns.between[None] = lambda: found.append(connection.taken)
    loop.turns.enter(connection)
    assert found == [1, 2]
    loop.turn()
    assert found == [1, 2, 3]


@pytest.mark.parametrize("heavy", [1, 5, 100])
def test_more_connections_of_a_client_are_no_more_steps(heavy: int) -> None:
    """However many a client has that are busy, another one takes every second step."""
    loop = Loop()
    busy = [Steps(loop, 10_000, SECONDS, b"busy") for _ in range(heavy)]
    other = Steps(loop, 10, SECONDS, b"other")
    for connection in (*busy, other):
        loop.turns.enter(connection)
    for _ in range(20):
        loop.turn()
    assert other.taken == 10
    assert sum(each.taken for each in busy) == 11
    assert max(each.taken for each in busy) <= 2 + 11 // heavy


def test_the_budget_of_a_turn_is_that_of_all_connections() -> None:
    loop = Loop()
    busy = [Steps(loop, 100, SECONDS / 4) for _ in range(50)]
    for connection in busy:
        loop.turns.enter(connection)
    for turn in range(1, 10):
        assert sum(each.taken for each in busy) == 4 * turn
        loop.turn()


def test_end_of_a_turn_that_enters_its_connection_waits_for_the_next_turn() -> None:
    loop = Loop()

    class Entering(Steps):
        def end_turn(self) -> None:
            super().end_turn()
            if self.ended < 3:
                loop.turns.enter(self)

    connection = Entering(loop, 1)
    loop.turns.enter(connection)
    assert (connection.taken, connection.ended) == (1, 1)
    loop.turn()
    assert (connection.taken, connection.ended) == (2, 2)


def test_end_of_a_turn_that_fails_closes_its_connection_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Failing(Steps):
        def end_turn(self) -> None:
            raise ValueError

    loop = Loop()
    loop.turns.enter(Steps(loop, 1, SECONDS))
    failing, other = Failing(loop, 1), Steps(loop, 1)
    loop.turns.enter(failing)
    loop.turns.enter(other)
    loop.turn()
    assert (failing.is_closed, other.ended, other.is_closed) == (True, 1, False)
    assert caplog.messages == ["a message cannot be handled; its connection is closed"]


def test_end_of_a_turn_comes_once_for_all_its_steps() -> None:
    loop = Loop()
    connection = Steps(loop, STEPS + 2)
    loop.turns.enter(connection)
    assert connection.ended == 1
    loop.turn()
    assert connection.ended == 2


def test_turns_end_when_no_one_has_anything() -> None:
    loop = Loop()
    loop.turns.enter(Steps(loop, 3))
    loop.turn()
    assert loop.next == []


def test_step_that_fails_closes_its_connection_only(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Steps):
        def step(self) -> bool:
            super().step()
            raise ValueError

    loop = Loop()
    failing, other = Failing(loop, 3, SECONDS), Steps(loop, 1)
    loop.turns.enter(failing)
    loop.turns.enter(other)
    loop.turn()
    assert (failing.taken, failing.is_closed, other.taken, other.is_closed) == (1, True, 1, False)
    assert caplog.messages == ["a message cannot be handled; its connection is closed"]


def test_step_may_enter_its_connection() -> None:
    """As where an answer comes at once."""
    loop = Loop()

    class Entering(Steps):
        def step(self) -> bool:
            has_more = super().step()
            if has_more:
                loop.turns.enter(self)
            return has_more

    connection = Entering(loop, 3)
    loop.turns.enter(connection)
    assert connection.taken == 3
