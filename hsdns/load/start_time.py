"""The begin of a load by -start-at, so that several generators begin together.

Path: cli/load.py -> here.
Rule 1: a time of day has a time zone; `+TIME` is relative to now, or to the start of the Job.
Rule 2: a time in the past is an error: a generator that begins late is not in step with the others.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from hsdns.corefile.properties import parse_duration
from hsdns.load.errors import LoadError

MOST: Final = 86_400.0  # seconds from now


def read_start(text: str, now: float, origin: float | None = None) -> float:
    """Read -start-at; return seconds since 1970, like `now`; raise LoadError.

    `origin`: what `+TIME` is relative to; by default `now`.
    """
    if text.startswith("+"):
        seconds = parse_duration(text[1:])
        if seconds is None:
            raise LoadError(
                f'-start-at: "{text[1:]}" in "{text}" is no time; write one such as +30s'
            )
        start = (now if origin is None else origin) + seconds
    else:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            raise LoadError(
                f'-start-at: "{text}" is no time with a zone; write one such as 2026-01-31T12:00:00Z, or +30s'
            )
        start = moment.timestamp()
    if start < now:
        raise LoadError(
            f"-start-at {text}: that was at {_text(start)}, {now - start:.1f} s ago; "
            "give a later time, the same to all generators"
        )
    if start > now + MOST:
        raise LoadError(f"-start-at {text}: that is at {_text(start)}, more than a day from now")
    return start


def _text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
