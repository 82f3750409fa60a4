"""Measures how long a handler blocks the event loop, without the time of the plugins after it.

Path: plugins/python awaits a handler through it.
Rule: a turn is the time between two waits of the handler, in which the loop answers no other query.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from types import FrameType, coroutine
from typing import Any


class Turns:
    """The turns of one call; `longest` in seconds, and the `place` in the handler where that turn ended.

    `clock` gives monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float], frame: FrameType | None = None) -> None:
        self.longest = 0.0
        self.place = ""
        self._clock = clock
        self._frame = frame
        self._elsewhere = 0.0  # time of later plugins in the current turn

    def own(self, call: Coroutine[Any, Any, Any]) -> Awaitable[Any]:
        """Await the handler."""
        return _step(call, self._clock, self._begin, self._end)

    def elsewhere(self, call: Awaitable[Any]) -> Awaitable[Any]:
        """Await `next` for the handler, without counting its turns."""
        return _step(call, self._clock, lambda: None, self._exclude)

    def _begin(self) -> None:
        self._elsewhere = 0.0

    def _end(self, seconds: float) -> None:
        if seconds - self._elsewhere > self.longest:
            self.longest = seconds - self._elsewhere
            self.place = place_of(self._frame) if self._frame is not None else ""

    def _exclude(self, seconds: float) -> None:
        self._elsewhere += seconds


def place_of(frame: FrameType) -> str:
    """Return the current line of a frame, `FILE:LINE`; after the call has ended, its last line."""
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


@coroutine
def _step(
    call: Awaitable[Any],
    clock: Callable[[], float],
    begin: Callable[[], None],
    end: Callable[[float], None],
) -> Generator[Any, Any, Any]:
    """Await a call, and report each of its turns."""
    turns = call.__await__()
    resume = partial(turns.send, None)
    while True:
        begin()
        began = clock()
        try:
            waiting = resume()
        except StopIteration as stop:
            return stop.value
        finally:
            end(clock() - began)
        try:
            sent = yield waiting
        except BaseException as error:
            resume = partial(turns.throw, error)
        else:
            resume = partial(turns.send, sent)
