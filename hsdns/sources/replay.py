"""The source `replay FILE [NAME=VALUE...]`: a recording of `hsdns record`, with its changes at their times.

Path: the Corefile property `source replay FILE`, and --source -> here -> recording/playback.py -> deliver.
Rule 1: a file that cannot be replayed at all is an error; the intact part of a truncated or damaged file is served, and
        a warning says where it ends.
Rule 2: after the last change, its state is still served.
Rule 3: commands run on the event loop that runs watch(); when one returns, queries see its changes.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf, isfinite
from typing import Any, Final, NamedTuple, Self

from hsdns.cluster.objects import EndpointSlice, Event, Service
from hsdns.cluster.source import Deliver, Fault, Lead, ObjectIndex, Reading, Report, Surroundings
from hsdns.corefile.properties import duration, duration_to_text, number
from hsdns.corefile.tree import Token
from hsdns.recording.playback import Playback
from hsdns.recording.reader import BadRecording, Recording, Summary, summarise
from hsdns.sources import read_settings

MAX_SPEED: Final = 1_000_000
REDUCED: Final = Fault(
    "the recording begins with what the server had kept: selectors and endpoints that are not ready are not in it",
    "EndpointSlice",
)


def _truth(token: Token) -> bool:
    return token.one_of(("true", "false")) == "true"


SETTINGS: Final[dict[str, Callable[[Token], Any]]] = {
    "speed": number(0, MAX_SPEED),
    "at": duration(),
    "paused": _truth,
}


class Course(NamedTuple):
    """The position of a replay: `at` and `end` in seconds since it began, `applied` and `changes` as numbers.

    `problem` is a sentence if the recording is incomplete.
    """

    file: str
    recorded: str
    state: str  # running, paused, or over
    speed: float
    at: float
    end: float
    applied: int
    changes: int
    objects: int
    problem: str


class Replay:
    """A recording at a path.

    `speed` is the factor of the recording's time, 0 for no waiting; `at` is where to begin (seconds), None for the
    beginning; if `is_paused`, it waits there for a command.
    """

    def __init__(
        self, path: str, *, speed: float = 1.0, at: float | None = None, is_paused: bool = False
    ) -> None:
        self.path = path
        self.speed, self.at, self.is_paused = speed, at, is_paused
        self._stays = False
        self._playback: Playback | None = None
        self._summary: Summary
        self._index: ObjectIndex | None = None
        self._deliver: Deliver = lambda events: None
        self._clock: Callable[[], float] = lambda: 0.0
        self._commanded: asyncio.Event | None = None

    @classmethod
    def setup(cls, name: Token, args: Sequence[Token], base_dir: str) -> Self:
        """Parse the settings; raise CorefileError."""
        if not args or not args[0].text:
            raise name.error('source "replay" needs the file of a recording: replay FILE')
        values = read_settings(name, args[1:], SETTINGS)
        is_paused = values.pop("paused", False)
        path = os.path.normpath(os.path.join(base_dir, args[0].text))
        return cls(path, **values, is_paused=is_paused)

    def __str__(self) -> str:
        """Return the name of the source and its file."""
        return f"replay {self.path}"

    def check(self) -> list[str]:
        """A sentence about why the file cannot be replayed, if so."""
        try:
            with Recording.open(self.path):
                return []
        except BadRecording as error:
            return [f"source replay: {error}"]
        except OSError as error:
            return [f"source replay: {self.path} cannot be read: {error.strerror or error}"]

    @property
    def is_loaded(self) -> bool:
        """Whether the file could be read, so that commands are possible."""
        return self._playback is not None

    def at_its_end(self) -> None:
        """Stay at the end of the recording, or at the chosen position, for a command that reads names."""
        self.at = inf if self.at is None else self.at
        self._stays = True

    def load(self, deliver: Deliver, report: Report) -> None:
        """Deliver the initial state of the replay."""
        if faults := self.check():
            report(logging.ERROR, faults[0])
            return
        self._summary = found = summarise(self.path)
        if found.problem:
            report(logging.WARNING, f"source replay: {found.problem}; what is whole is replayed")
        if found.gaps:
            report(
                logging.WARNING,
                f"source replay: {found.gaps} events were lost when it was recorded",
            )
        recording = Recording.open(self.path)
        self._playback = playback = Playback(recording, speed=self.speed, is_paused=self.is_paused)
        self._deliver = deliver
        deliver(playback.begin(0.0))
        if self.at is not None:
            deliver(playback.go_to(self.at, 0.0))
        text = f"the state of {found.began} at {duration_to_text(_shown(playback.place(0.0)))}"
        report(
            logging.INFO,
            f"source replay: {self.path}: serving {text}; {found.changes - playback.applied} changes follow, "
            f"up to {duration_to_text(_shown(found.seconds))}",
        )
        if self._stays:
            playback.close()

    async def watch(self, deliver: Deliver, report: Report, around: Surroundings) -> None:
        """Deliver the changes as they are due; wait for commands, until cancelled."""
        playback = self._playback
        if playback is None or self._stays:
            await asyncio.Event().wait()  # until cancelled
            return
        self._deliver, self._clock = deliver, around.clock
        self._commanded = asyncio.Event()
        playback.resume(around.clock())
        try:
            await self._follow(playback, self._commanded)
            where = f"{self.path} ends here, after {playback.applied} changes"
            end, problem = playback.recording.end, playback.recording.problem
            why = f": {problem}" if problem else f" ({end.reason})" if end is not None else ""
            served = "its last state is served from now on"
            report(logging.INFO, f"source replay: {where}{why}; {served}")
            await asyncio.Event().wait()  # until cancelled
        finally:
            playback.close()

    async def _follow(self, playback: Playback, commanded: asyncio.Event) -> None:
        """Deliver the changes until the last one."""
        while not playback.is_over:
            commanded.clear()
            self._apply(playback.due(self._clock()))
            seconds = playback.wait(self._clock())
            if seconds == 0.0:
                await asyncio.sleep(0)
            elif not playback.is_over:
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds if isfinite(seconds) else None):
                        await commanded.wait()

    async def read(self, lead: Lead) -> Reading:
        """Find the objects for a question at this position of the recording."""
        if self._index is None and self._playback is not None:
            self._index = ObjectIndex(self._playback.objects.values())
        found = tuple(self._index.find(lead)) if self._index is not None else ()
        playback = self._playback
        is_reduced = playback is not None and any(
            playback.is_reduced(each) for each in found if isinstance(each, Service | EndpointSlice)
        )
        return Reading(found, (REDUCED,) if is_reduced else ())

    def silence(self, now: float) -> float:
        """Always 0: the file defines the state."""
        return 0.0

    async def pause(self) -> Course:
        """Stay at this position; call this and the other commands on the event loop that runs watch()."""
        return self._command(lambda playback, now: playback.pause(now))

    async def run(self) -> Course:
        """Continue."""
        return self._command(lambda playback, now: playback.run(now))

    async def set_speed(self, speed: float) -> Course:
        """Continue at another speed."""
        return self._command(lambda playback, now: playback.set_speed(speed, now))

    async def step(self, count: int) -> Course:
        """Pause, and apply the next `count` changes at once."""
        return self._command(lambda playback, now: self._apply(playback.step(count, now)))

    async def course(self) -> Course:
        """The position of the replay."""
        return self._command(lambda playback, now: None)

    def _command(self, act: Callable[[Playback, float], None]) -> Course:
        playback = self._playback
        assert playback is not None, "is_loaded was asked before"
        now = self._clock()
        act(playback, now)
        if self._commanded is not None:
            self._commanded.set()
        state = "over" if playback.is_over else "paused" if playback.is_paused else "running"
        found = self._summary
        return Course(
            self.path,
            found.began,
            state,
            playback.speed,
            _shown(playback.place(now)),
            found.seconds,
            playback.applied,
            found.changes,
            len(playback.objects),
            found.problem,
        )

    def _apply(self, events: list[Event]) -> None:
        if events:
            self._index = None
            self._deliver(events)


def _shown(seconds: float) -> float:
    return round(seconds, 3) if isfinite(seconds) else 0.0
