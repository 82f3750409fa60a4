"""Limits that a run must hold: `p99>5ms,stale>0,loss>0.1%`.

Path: cli/load.py reads -fail-if -> here -> report.py states which are met, and with them the exit status.
Rule 1: a limit is met if its comparison holds; the run has failed then.
Rule 2: a percentile that was lost is above every limit; one that is refused decides nothing (`unknown`).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from hsdns.corefile.properties import parse_duration
from hsdns.corefile.tree import did_you_mean
from hsdns.load.errors import LoadError
from hsdns.load.figures import LOST, PERCENTS, Figure, name_of
from hsdns.load.judge import RIGHT, VERDICTS

_FORM: Final = re.compile(r"\s*([a-z0-9_.]+)\s*(<=|>=|<|>)\s*([^\s:]+)(\s*:\s*abort)?\s*")
_OPERATORS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_OPPOSITE: Final[Mapping[str, str]] = {">": "<=", ">=": "<", "<": ">=", "<=": ">"}
KNEE_FLAG: Final = "-knee-limits"
KNEE_LIMITS: Final = "p99>5ms,loss>0.01%"
LATENCIES: Final = tuple(map(name_of, PERCENTS))
LATENESS: Final = tuple(f"late.{name}" for name in LATENCIES)
COUNTS: Final = ("loss", "errors", "servfail", "refused", "nxdomain", "truncated")
METRICS: Final = (*LATENCIES, *LATENESS, *COUNTS, *VERDICTS)


class Limit(NamedTuple):
    """One limit; `unit` is "us" (microseconds), "%" (of all that counts) or "" (a number).

    `aborts`: a run ends as soon as it is met.
    """

    text: str
    metric: str
    sign: str
    value: float
    unit: str
    aborts: bool = False


class Measured(NamedTuple):
    """What limits are about: counts with what they are a share of, and percentiles."""

    counts: Mapping[str, tuple[int, int]]
    latency: Sequence[Figure]
    lateness: Sequence[Figure]


def read_limits(text: str, *, verifies: bool, flag: str = "-fail-if") -> list[Limit]:
    """Read -fail-if; raise LoadError.  `verifies`: whether answers are judged, so that verdicts can be limited."""
    return [_read(part, verifies, flag) for part in text.split(",")]


def read_knee_limits(text: str, *, verifies: bool) -> list[Limit]:
    """Read -knee-limits; raise LoadError.

    What rises with the rate fails above its limit, so `p99<5ms` can only say what has to hold: it is `p99>=5ms`.
    """
    found = read_limits(text, verifies=verifies, flag=KNEE_FLAG)
    for limit in found:
        if limit.aborts:
            raise LoadError(
                f'{KNEE_FLAG}: "{limit.text}": a step is ended by no limit; leave ":abort" out'
            )
    return [
        _turned(each) if (each.sign in (">", ">=")) is (each.metric == RIGHT) else each
        for each in found
    ]


def _turned(limit: Limit) -> Limit:
    sign = _OPPOSITE[limit.sign]
    return limit._replace(text=limit.text.replace(limit.sign, sign, 1), sign=sign)


def is_met(limit: Limit, measured: Measured) -> bool | None:
    """Whether a limit's comparison holds; None if that cannot be said."""
    compare = _OPERATORS[limit.sign]
    if limit.unit == "us":
        figure = figure_of(limit, measured)
        if figure.us is not None:
            return compare(figure.us, limit.value)
        return compare(float("inf"), limit.value) if figure.why == LOST else None
    count, whole = measured.counts[limit.metric]
    if limit.unit == "%":
        return compare(count * 100, round(limit.value * whole, 6)) if whole else None
    return compare(count, limit.value)


def figure_of(limit: Limit, measured: Measured) -> Figure:
    """The percentile that a limit is about."""
    figures = measured.lateness if limit.metric.startswith("late.") else measured.latency
    name = limit.metric.removeprefix("late.")
    return next(each for each in figures if name_of(each.percent) == name)


def aborted_by(limit: Limit) -> str:
    """What is said first of a run that the limit has ended; the value follows."""
    return f"aborted by {limit.text.removesuffix(':abort')} ("


def has_aborted(limit: Limit, ended: str) -> bool:
    """Whether it was this limit that ended a run; `ended` is what is said of it."""
    return limit.aborts and aborted_by(limit) in ended


def _read(part: str, verifies: bool, flag: str) -> Limit:
    match = _FORM.fullmatch(part)
    if match is None:
        raise LoadError(
            f'{flag}: "{part.strip()}" is no limit; write a name, a comparison and a value, such as p99>5ms'
        )
    metric, sign, value, word = match.groups()
    aborts = word is not None
    if metric not in METRICS:
        meant = did_you_mean(metric, METRICS) or f"; there are {', '.join(METRICS)}"
        raise LoadError(
            f'{flag}: "{metric}" in "{part.strip()}" is nothing that is measured{meant}'
        )
    if metric in VERDICTS and not verifies:
        raise LoadError(f'{flag}: "{metric}" needs -verify, which judges the answers')
    text = f"{metric}{sign}{value}{':abort' if aborts else ''}"
    if metric in LATENCIES or metric in LATENESS:
        seconds = parse_duration(value)
        if seconds is None:
            raise LoadError(f'{flag}: "{value}" in "{text}" is no time; write one such as 5ms')
        return Limit(text, metric, sign, round(seconds * 1e6, 3), "us", aborts)
    digits = value.removesuffix("%")
    try:
        number = float(digits)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise LoadError(
            f'{flag}: "{value}" in "{text}" is neither a number nor a share such as 0.1%'
        )
    unit = "%" if digits != value else ""
    if aborts and not unit and sign in ("<", "<="):
        raise LoadError(
            f'{flag}: "{text}": whether there are so few is told at the end; leave ":abort" out, or limit a share'
        )
    return Limit(text, metric, sign, number, unit, aborts)
