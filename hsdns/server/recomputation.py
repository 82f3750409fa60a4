"""Recomputes replies as soon as an event has invalidated them, before the next query.

Path: stores and `cache` increment counters through here; answer_table/recompute.py has the names, writer.py computes
replies.
Rule 1: with a compiled answer table, this runs in the watch thread (watch_loop.py), at the end of the event.  So a new
        reply does not wait for other work of the main loop.  In pure Python it runs on the main loop, to which the
        table belongs.
Rule 2: it recomputes for at most TURN seconds before the thread checks for events again.
Rule 3: replies to an event that came alone are computed before the counters are incremented, and stored right after
        that: the next query gets the new reply, and none in between waits for the main loop.
Rule 4: the new table of a reload is filled with replies for the names that clients queried in the previous table, so
        that a reload does not cause a flood of misses.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from hsdns.answer_table.recompute import Key, key_of
from hsdns.answer_table.writer import AnswerTableWriter
from hsdns.cluster.freshness import ANYTHING
from hsdns.fastpath import IMPLEMENTATION, Versions
from hsdns.wire.decode import decode

TURN: Final = 0.0005  # seconds
MOST: Final = 4096  # counters that wait; only the first list of a cluster changes more
WARM_TIMEOUT: Final = 2.0  # seconds that a reload waits until its tables are filled
_LARGEST_USES: Final = 2  # of an entry that has just been replaced (AnswerTable.uses)

log = logging.getLogger("hsdns.server")


class Recomputation:
    """The counters of the process, and the replies to recompute when they are incremented.

    `writers` belong to the tables in use; `apart`: there is a watch thread.
    """

    def __init__(
        self, counters: Versions, clock: Callable[[], float], *, apart: bool = False
    ) -> None:
        self._is_apart = apart and IMPLEMENTATION == "rust"
        self.writers: tuple[AnswerTableWriter, ...] = ()
        self.versions = counters
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._holders: set[int] = set()  # the threads between hold() and release()
        self._moved: deque[int] = deque(maxlen=MOST)
        self._is_due = False
        self._waiting: dict[tuple[AnswerTableWriter, Key], None] = {}
        self._has_next_turn = False

    def attach_main(self) -> None:
        """Use the running loop, the main one, from now on, if replies are recomputed there."""
        if not self._is_apart:
            self._attach()

    def attach_apart(self) -> None:
        """Use the running loop, that of the watch thread, from now on, if replies are recomputed there."""
        if self._is_apart:
            self._attach()

    def _attach(self) -> None:
        self._thread = threading.get_ident()
        self._loop = asyncio.get_running_loop()

    def detach(self) -> None:
        """Use no loop any more: recompute nothing."""
        self._loop = None

    def bump(self, index: int) -> None:
        """Increment a counter; from any thread."""
        self.versions.bump(index)
        if self._loop is None or index == ANYTHING or threading.get_ident() in self._holders:
            return
        self._moved.append(index)
        self._begin_soon()

    def hold(self) -> None:
        """Begin an event of this thread."""
        self._holders.add(threading.get_ident())
        self.versions.hold()

    def release(self, *, more: bool = False) -> None:
        """End an event: recompute the replies that it invalidates, unless `more` follow, then show the increments."""
        self._holders.discard(threading.get_ident())
        try:
            if self._loop is not None:
                moved = [index for index in self.versions.held() if index != ANYTHING]
                if more or threading.get_ident() != self._thread:
                    self._moved.extend(moved)
                    if moved:
                        self._begin_soon()
                else:
                    self._recompute_all(moved)
        finally:
            self.versions.release()

    def settle(self, seconds: float) -> None:
        """Wait until the events of other threads are shown, for so long at most."""
        self.versions.settle(seconds)

    def read(self, index: int) -> int:
        """The value of a counter."""
        return self.versions.read(index)

    async def warm(self, old: AnswerTableWriter, new: AnswerTableWriter) -> None:
        """Fill a new table with replies for the names queried in the old one; wait at most WARM_TIMEOUT."""
        if self._loop is None:
            return
        warming = asyncio.run_coroutine_threadsafe(self._warm(old, new), self._loop)
        await asyncio.wait([asyncio.wrap_future(warming)], timeout=WARM_TIMEOUT)

    async def _warm(self, old: AnswerTableWriter, new: AnswerTableWriter) -> None:
        end = self._clock() + TURN
        for query in old.recomputed.queries():
            counters = self._compute(new, query, self._clock())
            if counters is not None:
                new.recomputed.add(key_of(decode(query)), query, counters)
            if self._clock() >= end:
                await asyncio.sleep(0)
                end = self._clock() + TURN

    def _call(self, function: Callable[[], None]) -> None:
        loop = self._loop
        with contextlib.suppress(RuntimeError):  # the loop is being closed
            if loop is None:
                return
            if threading.get_ident() == self._thread:
                loop.call_soon(function)
            else:
                loop.call_soon_threadsafe(function)

    def _begin_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._call(self._begin)

    def _begin(self) -> None:
        self._is_due = False
        self._recompute_all(())

    def _recompute_all(self, moved: Iterable[int]) -> None:
        """Recompute for TURN seconds what depends on these counters and those that wait."""
        if self._moved:
            moved = {*self._drain(), *moved}
        waiting = self._waiting
        for writer in self.writers:
            for key in writer.recomputed.invalidated(moved):
                waiting[writer, key] = None
        if waiting and not self._has_next_turn:
            self._take_some()

    def _drain(self) -> Iterable[int]:
        while self._moved:
            yield self._moved.popleft()

    def _take_some(self) -> None:
        """Recompute waiting replies for TURN seconds; the others in the next iteration of the loop."""
        waiting = self._waiting
        now = self._clock()
        end = now + TURN
        while waiting and now < end:
            writer, key = next(iter(waiting))
            del waiting[writer, key]
            if writer in self.writers:
                self._recompute(writer, key, now)
            now = self._clock()
        self._has_next_turn = bool(waiting)
        if waiting:
            self._call(self._take_some)

    def _recompute(self, writer: AnswerTableWriter, key: Key, now: float) -> None:
        """Recompute the reply for a name, or forget the name if no client has asked for it since."""
        names = writer.recomputed
        name = names.by_key.get(key)
        uses = None if name is None else writer.table.uses(name.query)
        counters = None
        if name is not None and uses is not None and uses > name.uses:
            counters = self._compute(writer, name.query, now)
        if uses is None or counters is None:
            names.forget(key)
        else:
            names.note_recomputed(key, counters, min(uses, _LARGEST_USES))

    def _compute(
        self, writer: AnswerTableWriter, query: bytes, now: float
    ) -> tuple[int, ...] | None:
        try:
            return writer.recompute(query, now)
        except Exception:
            log.exception(
                "a reply cannot be recomputed in advance; the next query for it computes it"
            )
            return None
