"""A run: what the sending process tells is counted, judged and shown until it ends.

Path: cli/load.py -> here -> sender_process.py; results.py and verifier.py get what comes.
Rule 1: a run that is interrupted keeps what was measured, and says what ended it.
Rule 2: the cluster's watch, the judge and the terminal may be slow: the process that sends does not wait for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from hsdns.load.lookups import LOOKUPS
from hsdns.load.outcome import (
    END,
    FORGET,
    LOST,
    OUTCOMES,
    QUESTION,
    REPLY,
    unpack_outcomes,
    unpack_question,
)
from hsdns.load.questions import Question
from hsdns.load.results import Results
from hsdns.load.safety import FAILING_AFTER, FailureWatch
from hsdns.load.schedule import SECOND
from hsdns.load.verifier import Verifier
from hsdns.wire.iana import Rcode

TICK: Final = 0.1  # seconds between two looks at what is not told by the other process
BEHIND: Final = 10.0  # seconds after its end in which a run must be over
INTERRUPTED: Final = "interrupted"
FELL_BEHIND: Final = "the generator fell behind its schedule"
FAILING: Final = f"every query failed for {FAILING_AFTER} seconds (-keep-going goes on)"
_WELL: Final = (Rcode.NOERROR, Rcode.NXDOMAIN)


class Sending(Protocol):
    """What SenderProcess does."""

    def begin(self) -> int:
        """Begin; return the time."""

    def messages(self, timeout: float | None) -> Iterator[tuple[bytes, bytes]]:
        """What it tells within so many seconds."""

    def stop(self) -> None:
        """Have it send nothing more."""


class Watching(NamedTuple):
    """What else takes part in a run: a judge, the changes of the cluster so far, and what is shown meanwhile.

    `show` gets the results and the seconds since the begin; `keeps_going` even if every query fails.
    """

    verifier: Verifier | None = None
    changes: Callable[[], Iterable[float]] = tuple
    show: Callable[[Results, float], None] = lambda results, seconds: None
    keeps_going: bool = False


class Ended(NamedTuple):
    """What ended a run, "" if nothing did, and how long it was, in seconds."""

    why: str
    seconds: float
    results: Results


def carry_out(
    sending: Sending,
    questions: Sequence[Question],
    seconds: float,
    timeout: float,
    watching: Watching,
    clock: Callable[[], int],
    sleep: Callable[[float], None],
) -> Ended:
    """Run a schedule of so many seconds; `timeout` is that of a query, `clock` nanoseconds of the monotonic clock."""
    begin = sending.begin()
    results = Results(questions, begin)
    why = ""
    failures = FailureWatch()
    last = begin + round((seconds + timeout + BEHIND) * SECOND)
    is_over, shown = False, begin
    ended = begin + round(seconds * SECOND)
    while not is_over:
        try:
            for kind, content in sending.messages(TICK):
                is_over |= kind == END
                _take(kind, content, results, watching.verifier)
            now = clock()
            if now - shown >= TICK * SECOND:
                shown = now
                _judge_settled(results, watching.verifier, now / SECOND)
                watching.show(results, (now - begin) / SECOND)
                if (
                    not why
                    and not watching.keeps_going
                    and _is_failing(failures, results, now, timeout)
                ):
                    why, ended = FAILING, now
                    sending.stop()
            if not why and now > last:
                why, ended = FELL_BEHIND, now
                sending.stop()
        except KeyboardInterrupt:
            if not why:
                why, ended = INTERRUPTED, clock()
            sending.stop()
    verifier = watching.verifier
    try:
        while verifier is not None and verifier.waits:
            sleep(TICK)
            _judge_settled(results, verifier, clock() / SECOND)
    except KeyboardInterrupt:
        why = why or INTERRUPTED
        _judge_settled(results, verifier, float("inf"))
    results.add_changes(each for each in watching.changes() if each * SECOND < ended)
    return Ended(why, max(0.0, (ended - begin) / SECOND), results)


def _take(kind: bytes, content: bytes, results: Results, verifier: Verifier | None) -> None:
    if kind == OUTCOMES:
        results.add(unpack_outcomes(content))
        if verifier is None:
            return
        for question, flags, reply, planned, sent, received in unpack_outcomes(content):
            if received > LOST:
                times = planned / SECOND, sent / SECOND, received / SECOND
                judged = verifier.judge(question, flags, reply, *times)
                if judged is not None:
                    results.add_verdict(judged)
    elif kind == LOOKUPS:
        results.lookups.add(content)
    elif kind == QUESTION:
        _, asked = unpack_question(content)
        results.learn(asked)
        if verifier is not None:
            verifier.learn(asked)
    elif kind == REPLY and verifier is not None:
        number, question = int.from_bytes(content[:4], "big"), int.from_bytes(content[4:8], "big")
        verifier.remember(number, question, content[8:])
    elif kind == FORGET and verifier is not None:
        verifier.forget()


def _judge_settled(results: Results, verifier: Verifier | None, now: float) -> None:
    if verifier is not None:
        for judged in verifier.settled(now):
            results.add_verdict(judged)


def _is_failing(failures: FailureWatch, results: Results, now: int, timeout: float) -> bool:
    """Look at the newest second whose queries are all answered or lost."""
    number = int((now - results.begin) / SECOND - timeout) - 1
    second = results.seconds.get(number)
    if second is None:
        return False
    well = sum(second.rcodes[rcode] for rcode in _WELL)
    return failures.see(number, well, second.lost + second.not_sent + second.answered - well)
