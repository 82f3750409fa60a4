"""Has answers made again as soon as an event has ended them, before anybody asks.

Path: stores and `cache` bump counters through here; answer_table/renewal.py knows the names, writer.py makes replies.
Rule 1: where the answer table is compiled, this runs in the thread that follows the cluster (watch_loop.py), right
        after the event.  So the answer with a change does not wait for the main loop, whatever is in front of it there.
        In pure Python it runs on the main loop, to which the table belongs.
Rule 2: it takes TURN seconds at most between two looks for events, however many names an event has ended.
Rule 3: a table that is made for a reload begins with the answers that the one before was asked for lately, so that a
        reload is no flood of misses.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from hsdns.answer_table.renewal import Key
from hsdns.answer_table.writer import AnswerTableWriter
from hsdns.cluster.freshness import ANYTHING, Counters
from hsdns.fastpath import IMPLEMENTATION
from hsdns.wire.decode import decode

TURN: Final = 0.0005  # seconds
MOST: Final = 4096  # counters that wait; those of the first list of a cluster need not
WARM_TIMEOUT: Final = 2.0  # seconds that a reload waits for the answers of its tables
_LARGEST_USES: Final = 2  # of an entry that has just been replaced (AnswerTable.uses)

log = logging.getLogger("hsdns.server")


class Renewals:
    """The counters of the process, and what is due when they have moved.

    `writers` are those of the tables that are in use; `apart`: there is a thread that follows the cluster.
    """

    def __init__(
        self, counters: Counters, clock: Callable[[], float], *, apart: bool = False
    ) -> None:
        self._is_apart = apart and IMPLEMENTATION == "rust"
        self.writers: tuple[AnswerTableWriter, ...] = ()
        self._counters = counters
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._moved: deque[int] = deque(maxlen=MOST)
        self._is_due = False
        self._waiting: dict[tuple[AnswerTableWriter, Key], None] = {}
        self._has_next_turn = False

    def attach_main(self) -> None:
        """Run on the running loop, the main one, from now on, if it is the right one."""
        if not self._is_apart:
            self._attach()

    def attach_apart(self) -> None:
        """Run on the running loop, that of the watch, from now on, if it is the right one."""
        if self._is_apart:
            self._attach()

    def _attach(self) -> None:
        self._thread = threading.get_ident()
        self._loop = asyncio.get_running_loop()

    def detach(self) -> None:
        """Run no more."""
        self._loop = None

    def bump(self, index: int) -> None:
        """Increment a counter; from any thread."""
        self._counters.bump(index)
        if self._loop is not None and index != ANYTHING:
            self._moved.append(index)
            if not self._is_due:
                self._is_due = True
                self._call(self._begin)

    def read(self, index: int) -> int:
        """The value of a counter."""
        return self._counters.read(index)

    async def warm(self, old: AnswerTableWriter, new: AnswerTableWriter) -> None:
        """Have a table begin with what another one was asked for; wait at most WARM_TIMEOUT for it."""
        if self._loop is None:
            return
        warming = asyncio.run_coroutine_threadsafe(self._warm(old, new), self._loop)
        await asyncio.wait([asyncio.wrap_future(warming)], timeout=WARM_TIMEOUT)

    async def _warm(self, old: AnswerTableWriter, new: AnswerTableWriter) -> None:
        end = self._clock() + TURN
        for query in old.renewed.queries():
            counters = self._make(new, query)
            if counters is not None:
                new.renewed.add(decode(query), query, counters)
            if self._clock() >= end:
                await asyncio.sleep(0)
                end = self._clock() + TURN

    def _call(self, function: Callable[[], None]) -> None:
        loop = self._loop
        with contextlib.suppress(RuntimeError):  # it is being closed
            if loop is None:
                return
            if threading.get_ident() == self._thread:
                loop.call_soon(function)
            else:
                loop.call_soon_threadsafe(function)

    def _begin(self) -> None:
        self._is_due = False
        moved = set(self._drain())
        for writer in self.writers:
            for key in writer.renewed.ended(moved):
                self._waiting[writer, key] = None
        if not self._has_next_turn:
            self._take_some()

    def _drain(self) -> Iterable[int]:
        while self._moved:
            yield self._moved.popleft()

    def _take_some(self) -> None:
        """Make what waits again, for one turn; the rest in the next one."""
        end = self._clock() + TURN
        waiting = self._waiting
        while waiting:
            writer, key = next(iter(waiting))
            del waiting[writer, key]
            if writer in self.writers:
                self._renew(writer, key)
            if self._clock() >= end:
                break
        self._has_next_turn = bool(waiting)
        if waiting:
            self._call(self._take_some)

    def _renew(self, writer: AnswerTableWriter, key: Key) -> None:
        names = writer.renewed
        query = names.query(key)
        uses = None if query is None else writer.table.uses(query)
        if query is None or uses is None or not names.was_asked(key, uses):
            names.forget(key)
            return
        counters = self._make(writer, query)
        if counters is None:
            names.forget(key)
        else:
            names.renew(key, counters, min(uses, _LARGEST_USES))

    def _make(self, writer: AnswerTableWriter, query: bytes) -> tuple[int, ...] | None:
        try:
            return writer.renew(query, self._clock())
        except Exception:
            log.exception(
                "a reply cannot be made before it is asked for; the next query has it made"
            )
            return None
