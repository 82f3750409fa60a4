"""Counts, times and rates of a report as text.

Path: text.py, page.py, plots.py and comparison.py -> here.
"""

from __future__ import annotations

from collections.abc import Sequence

from hsdns.load.figures import Percentile, us_to_text
from hsdns.load.report import Counts, KneeStep, LimitReport, StageReport


def answers(counts: Counts) -> str:
    """Rcodes with their counts."""
    words = [f"{rcode} {count}" for rcode, count in counts.rcodes.items()]
    if counts.truncated:
        words.append(f"truncated {counts.truncated}")
    return ", ".join(words) or "none"


def percentiles(figures: Sequence[Percentile], only: Sequence[str] = ()) -> str:
    """Percentiles on one line; those without a figure with the reason."""
    words = [f"{each.name} {duration(each)}" for each in figures if not only or each.name in only]
    return "  ".join(words)


def duration(figure: Percentile) -> str:
    """A figure with its unit, or why there is none."""
    if figure.us is None:
        return figure.why if figure.why in ("lost", "never") else "-"
    return us_to_text(figure.us)


def age(ms: float) -> str:
    """The age of an answer, in milliseconds, so that it can be found in the log of a server."""
    return f"{ms / 1000:.3f} s" if ms >= 1000 else us_to_text(ms * 1000)


def since_begin(seconds: float) -> str:
    """A time in a run, in milliseconds."""
    return f"{seconds:.3f} s" if seconds >= 0 else f"{-seconds:.3f} s before the begin"


def share(count: int, whole: int) -> str:
    """A number and its share of a whole."""
    return f"{count} ({count / whole:.3%})" if count and whole else str(count)


def limited(limit: LimitReport) -> str:
    """The measured value of a limit."""
    if limit.count is not None:
        return share(limit.count, limit.whole or 0)
    if limit.us is not None:
        return us_to_text(limit.us)
    if limit.rate is not None:
        return f"{limit.rate:.10g}/s"
    return "lost" if limit.met is not None else "could not be told"


def knee_step(step: KneeStep) -> str:
    """The outcome of a step of a search for the knee."""
    word = {"generator": "the generator was the limit"}.get(step.outcome, step.outcome)
    figures = percentiles(step.latency, ("p50", "p99", "p99.9"))
    late = percentiles(step.lateness, ("p99",))
    return f"{word}, {figures}, lost {share(step.lost, step.sent)}, generator late by {late}"


def rates(stages: Sequence[StageReport]) -> str:
    """The rates of a schedule."""
    words = []
    for stage in stages:
        rate = (
            f"{stage.first:.10g}"
            if stage.first == stage.last
            else f"{stage.first:.10g}..{stage.last:.10g}"
        )
        words.append(f"{rate}/s for {stage.seconds:g} s")
    return ", then ".join(words)


def arrival(word: str, burst: int) -> str:
    """The arrival of queries."""
    return f"bursts of {burst}" if word == "burst" else word
