"""One pass of an audit: queries all servers at the same time, and judges their answers as they arrive.

Path: cli/audit.py -> here -> load/send/process.py for each server -> answers.py.
Rule 1: a query is sent once over UDP; if the answer is truncated once more over TCP, and if it is lost once more, as a
        resolver does.  If a server has lost many queries, or IN_A_ROW of the repeated ones, the others are not
        repeated.
Rule 2: at any rate, no more queries wait for a server than it can accept: an audit checks answers, not load.
Rule 3: an interrupted pass keeps its results; the report omits questions that were not sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from hsdns.audit.answers import Answers
from hsdns.load.outcome import END
from hsdns.load.run import AHEAD, Sending
from hsdns.load.schedule import SECOND

TURN: Final = 0.01  # seconds to wait for one server before the others are checked
TICK: Final = 0.1  # seconds between two checks of answers that wait to be judged


MOST_AGAIN: Final = 1000  # lost queries of a server that are repeated, one by one
IN_A_ROW: Final = 3
# Repeats a query, over TCP if True; returns the reply with the times of query and arrival, or None.
AskAgain = Callable[[int, bool], tuple[bytes, float, float] | None]


class Asking(NamedTuple):
    """A server and its queries."""

    sending: Sending
    answers: Answers
    ask_again: AskAgain


def carry_out(
    servers: Sequence[Asking],
    show: Callable[[int], None],
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> bool:
    """Query all servers; return whether the pass is complete.

    `show` takes the number of finished questions of all servers; `clock` gives monotonic seconds.
    """
    is_whole = True
    for each in servers:
        each.sending.prepare()
    begin = round(clock() * SECOND) + AHEAD
    for each in servers:
        each.sending.start(begin)
    open_ = list(servers)
    while open_:
        try:
            for each in list(open_):
                for kind, content in each.sending.messages(TURN):
                    if kind == END and each in open_:
                        open_.remove(each)
                    each.answers.take(kind, content)
                each.answers.settle(clock())
            show(sum(each.answers.asked for each in servers))
        except KeyboardInterrupt:
            is_whole = False
            for each in servers:
                each.sending.stop()
    if is_whole:
        try:
            _again(servers)
        except KeyboardInterrupt:
            is_whole = False
    while any(each.answers.waits for each in servers):
        try:
            sleep(TICK)
            now = clock()
        except KeyboardInterrupt:
            is_whole, now = False, float("inf")
        for each in servers:
            each.answers.settle(now)
    return is_whole


def _again(servers: Sequence[Asking]) -> None:
    for each in servers:
        lost = each.answers.lost
        questions = [(question, True) for question in each.answers.truncated]
        if len(lost) <= MOST_AGAIN:
            questions += [(question, False) for question in lost]
        failures = 0
        for question, is_truncated in questions:
            found = each.ask_again(question, is_truncated)
            if found is not None:
                each.answers.take_again(question, *found)
            failures = failures + 1 if found is None else 0
            if failures == IN_A_ROW:
                break
