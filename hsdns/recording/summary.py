"""Summarises a recording: it is read once, so that a replay can show its length.

Path: sources/replay.py, at the start -> here -> reader.py.
"""

from __future__ import annotations

from typing import NamedTuple

from hsdns.recording.entry import Gap, ObjectEvent, RecordedObject, State
from hsdns.recording.reader import Recording


class Summary(NamedTuple):
    """The start, the place of the last entry that is not a query (seconds), and the numbers of changes and gaps."""

    began: str
    seconds: float
    changes: int
    gaps: int
    problem: str


def summarise(path: str) -> Summary:
    """Read a recording to its end; raise BadRecording or OSError."""
    seconds, changes, gaps, is_first = 0.0, 0, 0, True
    with Recording.open(path) as recording:
        for entry in recording.without_queries():
            if isinstance(entry, RecordedObject):
                continue
            seconds = max(seconds, getattr(entry, "at", 0.0))
            if isinstance(entry, ObjectEvent):
                changes += 1
            elif isinstance(entry, State):
                changes += not is_first
                is_first = False
            elif isinstance(entry, Gap):
                gaps += entry.events
        return Summary(recording.header.began, seconds, changes, gaps, recording.problem)
