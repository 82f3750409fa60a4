"""Runs the compiled sender over UDP: makes its sockets, and its schedule ahead of time.

Path: sender_process.py -> here -> hsdns.fastpath (native/src/load_sender.rs), if it was compiled.
Rule 1: the first FIRST seconds of the schedule, at most MOST queries, are made before the run begins, the others during
        the run by a thread that yields to everything else, so that it delays no query.
Rule 2: schedule, order and questions are those of the Python twin (sender.py), and so are the outcomes.
"""

from __future__ import annotations

import os
import threading
from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Final

from hsdns.fastpath import LoadSender
from hsdns.load.plan import Plan
from hsdns.load.schedule import SECOND
from hsdns.load.udp import open_socket

if TYPE_CHECKING:
    from hsdns.fastpath._native import LoadSender as Compiled

FIRST: Final = 20  # seconds
MOST: Final = 1_000_000  # queries
# Due times, and numbers of questions.
Piece = tuple["array[int]", "array[int]"]
PIECE: Final = 4096  # queries
LEAST_NICE: Final = 19


class CompiledSender:
    """Carries out a plan; `first_ids` are the first IDs of the sockets."""

    def __init__(self, plan: Plan, first_ids: Sequence[int]) -> None:
        assert LoadSender is not None, "available() says so"
        self._sockets = [open_socket(plan.family, plan.address) for _ in first_ids]
        self._sender = LoadSender(
            plan.queries,
            kinds=plan.kinds,
            first_ids=list(first_ids),
            timeout=plan.timeout,
            replies=plan.replies,
            window=plan.window,
            most=plan.most,
        )
        pieces = pieces_of(plan)
        feed(self._sender, _first(pieces))
        self._rest = pieces

    def run(self, begin: int, stop: int, pipe: int) -> None:
        """Send everything until file descriptor `stop` is readable; write to the non-blocking `pipe`.  Call it once."""
        numbers = [each.fileno() for each in self._sockets]
        feeding = threading.Thread(target=self._feed_rest)
        feeding.start()
        try:
            with suppress(BrokenPipeError):
                self._sender.run(numbers, stop, pipe, begin)
        finally:
            feeding.join()
            for sock in self._sockets:
                sock.close()

    def _feed_rest(self) -> None:
        with suppress(OSError, AttributeError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LEAST_NICE)
        feed(self._sender, self._rest)
        self._sender.end_feed()


def available() -> bool:
    """Whether the compiled sender exists."""
    return LoadSender is not None


def pieces_of(plan: Plan) -> Iterator[Piece]:
    """The due times and numbers of questions of the plan, PIECE at a time."""
    times, numbers = plan.times(), plan.order()
    while due := array("q", islice(times, PIECE)):
        yield due, array("I", islice(numbers, len(due)))


def feed(sender: Compiled, pieces: Iterator[Piece]) -> None:
    """Pass pieces to a sender until it takes no more."""
    for times, numbers in pieces:
        if not sender.feed(times.tobytes(), numbers.tobytes()):
            return


def _first(pieces: Iterator[Piece]) -> Iterator[Piece]:
    for piece in islice(pieces, MOST // PIECE):
        yield piece
        if piece[0][-1] > FIRST * SECOND:
            return
