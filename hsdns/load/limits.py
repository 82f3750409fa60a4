"""Limits of a run: `p99>5ms,stale>0,loss>0.1%`.

Path: cli/load.py reads -fail-if -> here -> report.py, which states the limits that are met and the exit status.
Rule 1: a limit is met if its comparison is true; then the run has failed.
Rule 2: a percentile that is lost is above every limit; one that is withheld decides nothing (`unknown`), unless its
        upper bound does, or a lower percentile that is stated: no percentile is below that.
Rule 3: a latency is decided if it and the time from the sending to the reply, without the generator's lateness, are on
        the same side of the limit; a number of lost queries if those of unknown cause make no difference.
Rule 4: if the knee was not found, a limit on it is decided only if all its possible rates give the same result.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from hsdns.corefile.properties import parse_duration
from hsdns.corefile.tree import did_you_mean
from hsdns.load.errors import LoadError
from hsdns.load.histogram import LATE, NOTHING, PERCENTS, Percentile, name_of
from hsdns.load.verify.judge import RIGHT, VERDICTS

_FORM: Final = re.compile(r"\s*([a-z0-9_.]+)\s*(<=|>=|<|>)\s*([^\s:]+)(\s*:\s*abort)?\s*")
_OPERATORS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_NO_FIGURE: Final = Percentile("", None, NOTHING)
_OPPOSITE: Final[Mapping[str, str]] = {">": "<=", ">=": "<", "<": ">=", "<=": ">"}
KNEE_FLAG: Final = "--knee-limits"
KNEE_LIMITS: Final = "p99>5ms,loss>0.01%"
LATENCIES: Final = tuple(map(name_of, PERCENTS))
LATENESS: Final = tuple(f"late.{name}" for name in LATENCIES)
LOSS: Final = "loss"
COUNTS: Final = (LOSS, "errors", "servfail", "refused", "nxdomain", "truncated", "unmatched")
LOOKUP_LATENCIES: Final = tuple(f"lookup.{name}" for name in LATENCIES)
LOOKUP_COUNTS: Final = ("lookup.failed", "lookup.unfinished")
LOOKUPS: Final = (*LOOKUP_LATENCIES, *LOOKUP_COUNTS)
KNEE: Final = "knee"
_INFINITE: Final = float("inf")
METRICS: Final = (*LATENCIES, *LATENESS, *COUNTS, *VERDICTS, *LOOKUPS, KNEE)


class Limit(NamedTuple):
    """One limit; `unit` is "us" (microseconds), "%" (of all that count) or "" (a number).

    `aborts`: the run ends as soon as it is met.
    """

    text: str
    metric: str
    sign: str
    value: float
    unit: str
    aborts: bool = False


class Measured(NamedTuple):
    """The values that limits apply to: counts with the number that they are a share of, and percentiles.

    `lookups` are those of pods.  `knee` are its lowest and highest possible rate; equal if it was found.  `service` is
    the time from the sending; the loss of `unknown` queries may be the generator's.
    """

    counts: Mapping[str, tuple[int, int]]
    latency: Sequence[Percentile]
    lateness: Sequence[Percentile]
    lookups: Sequence[Percentile] = ()
    knee: tuple[float, float] = (0.0, float("inf"))
    service: Sequence[Percentile] = ()
    unknown: int = 0


def read_limits(
    text: str,
    *,
    verifies: bool,
    has_pods: bool = False,
    finds_knee: bool = False,
    flag: str = "--fail-if",
) -> list[Limit]:
    """Read -fail-if; raise LoadError.

    `verifies`: whether answers are judged, so that limits may be about verdicts; likewise lookups and the knee.
    """
    needed: dict[str, str] = {}
    if not verifies:
        needed |= dict.fromkeys(VERDICTS, "--verify, which judges the answers")
    if not has_pods:
        needed |= dict.fromkeys(LOOKUPS, "--pods, which look names up")
    if not finds_knee:
        needed[KNEE] = "--find-knee, which searches for it"
    return [_read(part, needed, flag) for part in text.split(",")]


def read_knee_limits(text: str, *, verifies: bool) -> list[Limit]:
    """Read -knee-limits; raise LoadError.

    These values rise with the rate and fail above their limit, so `p99<5ms` can only be the condition to hold; it is
    read as the limit `p99>=5ms`.
    """
    found = read_limits(text, verifies=verifies, finds_knee=True, flag=KNEE_FLAG)
    for limit in found:
        if limit.metric == KNEE:
            raise LoadError(
                f'{KNEE_FLAG}: "{limit.text}": the knee is what is searched for; give that to --fail-if'
            )
        if limit.aborts:
            raise LoadError(
                f'{KNEE_FLAG}: "{limit.text}": a step is ended by no limit; remove ":abort"'
            )
    return [
        _turned(each) if (each.sign in (">", ">=")) is (each.metric == RIGHT) else each
        for each in found
    ]


def _turned(limit: Limit) -> Limit:
    sign = _OPPOSITE[limit.sign]
    return limit._replace(text=limit.text.replace(limit.sign, sign, 1), sign=sign)


def is_met(limit: Limit, measured: Measured) -> bool | None:
    """Whether a limit's comparison is true; None if that is unknown."""
    found = possible(limit, measured)
    if found is None:
        return None
    compare = _OPERATORS[limit.sign]
    if limit.unit == "%":
        whole = measured.counts[limit.metric][1]
        lowest, highest = (compare(each * 100, round(limit.value * whole, 6)) for each in found)
    else:
        lowest, highest = (compare(each, limit.value) for each in found)
    return lowest if lowest is highest else None


def possible(limit: Limit, measured: Measured) -> tuple[float, float] | None:
    """The lowest and the highest value that the server may have had; None if nothing was measured."""
    if limit.metric == KNEE:
        return measured.knee
    if limit.unit == "us":
        figure = figure_of(limit, measured)
        if figure.why == NOTHING:
            return None
        if figure.why == LATE:
            stated = (_lowest(each, limit, measured) for each in _below(limit, measured))
            return max(stated, default=0), _INFINITE if figure.at_most is None else figure.at_most
        return _lowest(figure, limit, measured), _INFINITE if figure.us is None else figure.us
    count, whole = measured.counts[limit.metric]
    if limit.unit == "%" and not whole:
        return None
    return count - (measured.unknown if limit.metric == LOSS else 0), count


def figure_of(limit: Limit, measured: Measured) -> Percentile:
    """The percentile that a limit compares."""
    name = _name(limit)
    return next((each for each in _figures(limit, measured) if each.name == name), _NO_FIGURE)


def _figures(limit: Limit, measured: Measured) -> Sequence[Percentile]:
    if limit.metric in LATENESS:
        return measured.lateness
    return measured.lookups if limit.metric in LOOKUP_LATENCIES else measured.latency


def _name(limit: Limit) -> str:
    return limit.metric.removeprefix("late.").removeprefix("lookup.")


def _below(limit: Limit, measured: Measured) -> Iterator[Percentile]:
    """The percentiles below that of a limit that are stated; figures are in their order."""
    for each in _figures(limit, measured):
        if each.name == _name(limit):
            return
        if not each.why:
            yield each


def _lowest(figure: Percentile, limit: Limit, measured: Measured) -> float:
    """The least that a stated percentile may have been: that of a latency without the generator's lateness."""
    highest = _INFINITE if figure.us is None else figure.us
    if limit.metric not in LATENCIES:
        return highest
    service = next((each.us for each in measured.service if each.name == figure.name), None)
    return highest if service is None else min(service, highest)


def knee_rate(limit: Limit, measured: Measured) -> float | None:
    """The rate that decides a limit on the knee; None if none does."""
    met = is_met(limit, measured)
    if met is None:
        return None
    lowest, highest = measured.knee
    return lowest if (limit.sign in ("<", "<=")) is not met else highest


def aborted_by(limit: Limit) -> str:
    """The beginning of the reason for a run that the limit ended; the value follows."""
    return f"aborted by {limit.text.removesuffix(':abort')} ("


def has_aborted(limit: Limit, ended: str) -> bool:
    """Whether this limit ended a run; `ended` is the reason."""
    return limit.aborts and aborted_by(limit) in ended


def _read(part: str, needed: Mapping[str, str], flag: str) -> Limit:
    """Read a limit; `needed` has, for metrics that this run does not measure, what measures them."""
    match = _FORM.fullmatch(part)
    if match is None:
        raise LoadError(
            f'{flag}: "{part.strip()}" is not a limit; write a name, a comparison and a value, such as p99>5ms'
        )
    metric, sign, value, word = match.groups()
    aborts = word is not None
    if metric not in METRICS:
        meant = did_you_mean(metric, METRICS) or f"; there are {', '.join(METRICS)}"
        raise LoadError(
            f'{flag}: "{metric}" in "{part.strip()}" is nothing that is measured{meant}'
        )
    if metric in needed:
        raise LoadError(f'{flag}: "{metric}" needs {needed[metric]}')
    text = f"{metric}{sign}{value}{':abort' if aborts else ''}"
    if aborts and (metric in LOOKUPS or metric == KNEE):
        raise LoadError(
            f'{flag}: "{text}": what "{metric}" is, is known at the end; remove ":abort"'
        )
    if metric in LATENCIES or metric in LATENESS or metric in LOOKUP_LATENCIES:
        seconds = parse_duration(value)
        if seconds is None:
            raise LoadError(
                f'{flag}: "{value}" in "{text}" is not a duration; write one such as 5ms'
            )
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
    if metric == KNEE and unit:
        raise LoadError(
            f'{flag}: "{value}" in "{text}" is not a rate; write queries a second such as 5000'
        )
    if aborts and not unit and sign in ("<", "<="):
        raise LoadError(
            f'{flag}: "{text}": whether there are so few is known at the end; remove ":abort", or limit a share'
        )
    return Limit(text, metric, sign, number, unit, aborts)
