"""Ends a run at a limit with `:abort`, as soon as it is known to be broken.

Path: run.py calls it regularly -> here; the sentence becomes the reason for the end of the run.
Rule 1: a count never falls, so it ends a run as soon as it is above its limit.
Rule 2: a percentile or a share is that of the last WINDOW seconds whose queries are all answered or lost.  No run ends
        before there are WINDOW such seconds: the first second of a server is not representative.
Rule 3: a figure that cannot be stated, because the generator was the limit, ends no run.  No clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hsdns.load.figures import us_to_text
from hsdns.load.measured import limit_counts, measured_of
from hsdns.load.results import Results, Second
from hsdns.load.thresholds import Limit, Measured, aborted_by, figure_of, is_met

WINDOW: Final = 5  # seconds


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
        counted = _counts(results)
        settled = int(seconds - self._timeout)
        window = None
        if settled >= WINDOW:
            window = measured_of(_together(results, range(settled - WINDOW, settled)))
        for limit in self._limits:
            measured = Measured(counted, (), ()) if not limit.unit else window
            if measured is not None and is_met(limit, measured):
                return f"{aborted_by(limit)}{_value(limit, measured)})"
        return ""


def _value(limit: Limit, measured: Measured) -> str:
    if limit.unit == "us":
        us = figure_of(limit, measured).us
        return f"{'lost' if us is None else us_to_text(us)} over {WINDOW} s"
    count, whole = measured.counts[limit.metric]
    return f"{count / whole:.3%} over {WINDOW} s" if limit.unit else str(count)


def _counts(results: Results) -> dict[str, tuple[int, int]]:
    """The counts of all seconds, without histograms."""
    whole = Second()
    for second in results.seconds.values():
        whole.rcodes.update(second.rcodes)
        whole.verdicts.update(second.verdicts)
        whole.lost += second.lost
        whole.truncated += second.truncated
    return limit_counts(whole)


def _together(results: Results, numbers: range) -> Second:
    found = Second()
    for number in numbers:
        if number in results.seconds:
            found.merge(results.seconds[number])
    return found
