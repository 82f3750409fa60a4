"""A run: counts, judges and shows the messages of the sending processes until they end.

Path: cli/load.py -> here -> send/process.py, one for each server; results.py and verify/ process the messages.
Rule 1: an interrupted run keeps its measurements, and reports what ended it.
Rule 2: the cluster's watch, the judge and the terminal may be slow; the sending processes do not wait for them.
Rule 3: all servers have the same schedule and begin; the run of a server where everything fails ends alone.

Ends a run at a limit with `:abort`, as soon as it is known to be broken:
Rule 1: a count never falls, so it ends a run as soon as it is above its limit.
Rule 2: a percentile or a share is that of the last WINDOW seconds whose queries are all answered or lost.  No run ends
        before there are WINDOW such seconds: the first second of a server is not representative.
Rule 3: a figure that cannot be stated, because the generator was the limit, ends no run.  No clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from hsdns.load.counters import ConnectionsReport, LookupsReport, add, decode
from hsdns.load.errors import LoadError
from hsdns.load.histogram import us_to_text
from hsdns.load.limits import Limit, Measured, aborted_by, figure_of, is_met
from hsdns.load.outcome import (
    ANSWERS,
    CONNECTIONS,
    COUNTS,
    END,
    FORGET,
    LOOKUPS,
    OUTCOMES,
    QUESTION,
    REPLY,
    read_reply,
    unpack_numbers,
    unpack_outcomes,
    unpack_question,
)
from hsdns.load.questions import Question
from hsdns.load.results import (
    Results,
    limit_counts,
    mark_unknown,
    measured_of,
    together,
    without_histograms,
)
from hsdns.load.schedule import SECOND
from hsdns.load.verify.verifier import Verifier

WINDOW: Final = 5  # seconds
FAILING_AFTER: Final = 3  # seconds in which everything failed


class AbortWatch:
    """Checks results against the limits; a query is lost after `timeout` seconds."""

    def __init__(self, limits: Sequence[Limit], timeout: float) -> None:
        self._limits = [limit for limit in limits if limit.aborts]
        self._timeout = timeout
        self._seen = 0

    def see(self, results: Results, seconds: float) -> str:
        """Check `seconds` after the begin, at most once a second; return why the run must end, or ""."""
        now = int(seconds)
        if not self._limits or now == self._seen:
            return ""
        self._seen = now
        settled = int(seconds - self._timeout)
        window = None
        mark_unknown(results.seconds.values())
        if settled >= WINDOW:
            last = range(settled - WINDOW, settled)
            window = measured_of(
                together(results.seconds[at] for at in last if at in results.seconds)
            )
        whole = without_histograms(results.seconds.values())
        counted = Measured(limit_counts(whole), (), (), unknown=whole.counts.unknown)
        for limit in self._limits:
            measured = window if limit.unit else counted
            if measured is not None and is_met(limit, measured):
                return f"{aborted_by(limit)}{_value(limit, measured)})"
        return ""


def _value(limit: Limit, measured: Measured) -> str:
    if limit.unit == "us":
        us = figure_of(limit, measured).us
        return f"{'lost' if us is None else us_to_text(us)} over {WINDOW} s"
    count, whole = measured.counts[limit.metric]
    return f"{count / whole:.3%} over {WINDOW} s" if limit.unit else str(count)


class FailureWatch:
    """Detects a server where everything fails: only lost queries and errors for FAILING_AFTER seconds in a row."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._failing = 0
        self._seen = -1

    def see(self, results: Results, seconds: float) -> bool:
        """Check `seconds` after the begin; return whether the run should end."""
        # The newest whose queries are all answered or lost.
        number = int(seconds - self._timeout) - 1
        second = results.seconds.get(number)
        if second is None or number <= self._seen:
            return False
        self._seen, counts = number, second.counts
        if any(counts.rcodes.get(rcode) for rcode in _WELL):
            self._failing = 0
        elif counts.due:
            self._failing += 1
        return self._failing >= FAILING_AFTER


TICK: Final = 0.1  # seconds between two checks of what is not in a message
AHEAD: Final = 50_000_000  # nanoseconds from the start command to the begin
BEHIND: Final = 10.0  # seconds after the planned end by which a run must be over
INTERRUPTED: Final = "interrupted"
FELL_BEHIND: Final = "the generator fell behind its schedule"
FAILING: Final = f"every query failed for {FAILING_AFTER} seconds (--keep-going goes on)"
_WELL: Final = ("NOERROR", "NXDOMAIN")


class Sending(Protocol):
    """The interface of SenderProcess."""

    def prepare(self) -> None:
        """Prepare everything."""

    def start(self, begin: int) -> None:
        """Start the schedule at a time."""

    def messages(self, timeout: float | None) -> Iterator[tuple[bytes, bytes]]:
        """The messages that arrive within `timeout` seconds."""

    def stop(self) -> None:
        """Stop sending."""


class Loaded(NamedTuple):
    """A server under load: its name, its address in words, the process that sends to it, the judge of its answers."""

    name: str
    target: str
    sending: Sending
    verifier: Verifier | None = None


_Watches = tuple[AbortWatch, FailureWatch]


class RunOptions(NamedTuple):
    """The other inputs of a run: the changes of the cluster so far, and the display of results.

    `show` takes the results by name and the seconds since the begin; with `keeps_going` a run continues even if every
    query fails; those of the `limits` that abort end the run of a server.  `begin` is called when all is prepared, and
    returns a time of the clock, 0 for at once.  `meanwhile` is called repeatedly until the end, and so is
    `interrupted`, which returns True once to end the run.
    """

    changes: Callable[[], Iterable[float]] = tuple
    show: Callable[[Mapping[str, Results], float], None] = lambda results, seconds: None
    keeps_going: bool = False
    limits: Sequence[Limit] = ()
    begin: Callable[[], int] = lambda: 0
    meanwhile: Callable[[], None] = lambda: None
    interrupted: Callable[[], bool] = lambda: False


class _ServerRun:
    """The progress of one server's run; `results` say what ended it."""

    def __init__(self, loaded: Loaded, results: Results, end: int, watches: _Watches) -> None:
        self.sending, self.verifier = loaded.sending, loaded.verifier
        self.results = results
        self.abort, self.failures = watches
        self.end = end  # nanoseconds
        self.is_over = False

    def take(self, timeout: float) -> None:
        """Process the messages of the sending process for `timeout` seconds."""
        for kind, content in self.sending.messages(timeout):
            self.is_over |= kind == END
            self._take(kind, content)

    def _take(self, kind: bytes, content: bytes) -> None:
        results, verifier = self.results, self.verifier
        if kind == COUNTS:
            results.add_counts(content)
        elif kind == OUTCOMES:
            results.add(unpack_outcomes(content))
        elif kind == LOOKUPS:
            add(results.lookups, decode(content, LookupsReport))
        elif kind == CONNECTIONS:
            add(results.connections, decode(content, ConnectionsReport))
        elif kind == QUESTION:
            results.add_question(unpack_question(content)[1])
        if verifier is None:
            return
        if kind in (OUTCOMES, ANSWERS):
            right, others = verifier.judge_all(unpack_outcomes(content))
            results.add_right(right)
            for judged in others:
                results.add_verdict(judged)
        elif kind == QUESTION:
            verifier.add_question(unpack_question(content)[1])
        elif kind == REPLY:
            verifier.remember(*read_reply(content))
        elif kind == FORGET:
            verifier.forget(unpack_numbers(content))

    def check(self, seconds: float, now: int, *, keeps_going: bool) -> None:
        """End it `seconds` after the begin if a limit is met, or if everything fails."""
        if why := self.abort.see(self.results, seconds):
            self.stop(why, now)
        if (
            not keeps_going
            and not self.results.server.ended
            and self.failures.see(self.results, seconds)
        ):
            self.stop(FAILING, now)

    def stop(self, why: str, now: int) -> None:
        """End it early; the first reason is reported."""
        if not self.results.server.ended and not self.is_over:
            self.results.server.ended, self.end = why, now
        self.sending.stop()

    def settle(self, now: float) -> None:
        """Judge answers that have waited long enough; `now` in seconds."""
        for judged in () if self.verifier is None else self.verifier.settled(now):
            self.results.add_verdict(judged)


def carry_out(
    servers: Sequence[Loaded],
    questions: Sequence[Question],
    seconds: float,
    timeout: float,
    options: RunOptions,
    clock: Callable[[], int],
    sleep: Callable[[float], None],
) -> list[Results]:
    """Run a schedule of `seconds`; `timeout` is that of a query, `clock` gives nanoseconds of the monotonic clock.

    Raise LoadError.
    """
    for each in servers:
        each.sending.prepare()
    begin = options.begin() or clock() + AHEAD
    if (late := clock() - begin) > 0:
        raise LoadError(
            f"this generator heard {late / SECOND:.1f} s too late of the start; does it get too little CPU time?"
        )
    runs = []
    for each in servers:
        each.sending.start(begin)
        results = Results(questions, begin, each.name, each.target)
        watches = AbortWatch(options.limits, timeout), FailureWatch(timeout)
        runs.append(_ServerRun(each, results, begin + round(seconds * SECOND), watches))
    _follow(runs, begin, begin + round((seconds + timeout + BEHIND) * SECOND), options, clock)
    try:
        while any(run.verifier is not None and run.verifier.waits for run in runs):
            if options.interrupted():
                raise KeyboardInterrupt
            sleep(TICK)
            for run in runs:
                run.settle(clock() / SECOND)
    except KeyboardInterrupt:
        for run in runs:
            run.results.server.ended = run.results.server.ended or INTERRUPTED
            run.settle(float("inf"))
    for run in runs:
        run.results.add_changes(each for each in options.changes() if each * SECOND < run.end)
        run.results.server.seconds = round(max(0.0, (run.end - begin) / SECOND), 3)
    return [run.results for run in runs]


def _follow(
    runs: Sequence[_ServerRun], begin: int, last: int, options: RunOptions, clock: Callable[[], int]
) -> None:
    """Process messages until all runs have ended, `last` at the latest."""
    shown = {run.results.server.name: run.results for run in runs}
    looked = begin
    while running := [each for each in runs if not each.is_over]:
        try:
            if options.interrupted():
                raise KeyboardInterrupt
            for run in running:
                run.take(TICK / len(running))
            options.meanwhile()
            now = clock()
            seconds = (now - begin) / SECOND
            if now - looked >= TICK * SECOND:
                looked = now
                for run in runs:
                    run.settle(now / SECOND)
                options.show(shown, seconds)
                for run in running:
                    run.check(seconds, now, keeps_going=options.keeps_going)
            if now > last:
                for run in running:
                    run.stop(FELL_BEHIND, now)
        except KeyboardInterrupt:
            for run in runs:
                run.stop(INTERRUPTED, clock())
