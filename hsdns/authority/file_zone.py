"""A zone of a master file that is reloaded when it changes.

Path: plugins/file.py and auto.py have one for each zone.
Rule 1: while the file is unreadable or invalid, the previous version is served; each attempt logs the error.
Rule 2: a change is a new serial or, with `by_mtime`, a new modification time; the whole zone is replaced at once.
Rule 3: files are read in a thread; the zone is replaced on the loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
from asyncio import sleep
from collections.abc import Callable
from dataclasses import dataclass

from hsdns.authority.master_file import SameSerial, read_zone
from hsdns.authority.zone import Zone, ZoneError
from hsdns.wire.name import Name


@dataclass(eq=False)
class FileZone:
    """A zone of a file; `current` is None until it has been loaded."""

    origin: Name
    path: str
    _log: logging.Logger
    by_mtime: bool = False
    current: Zone | None = None
    _mtime_ns: int | None = None

    def load(self) -> None:
        """Load the file for the first time; raise OSError or ZoneError."""
        found = self._read()
        if found is not None:
            self.current, self._mtime_ns = found

    async def watch(self, seconds: float, changed: Callable[[Name], None]) -> None:
        """Check the file every `seconds`, until cancelled; call `changed` for each new version."""
        while True:
            await sleep(seconds)
            if await self.reload():
                changed(self.origin)

    async def reload(self) -> bool:
        """Load the file if it has changed, and return whether it was loaded; log errors."""
        try:
            found = await asyncio.to_thread(self._read)
        except (OSError, ZoneError) as error:
            self._log.error(
                "plugin/file: zone %s: %s; still serving the previous version",
                self.origin.to_text(),
                describe(error),
            )
            return False
        if found is None:
            return False
        self.current, self._mtime_ns = found
        self._log.info(
            'plugin/file: Successfully reloaded zone "%s" in "%s" with %d SOA serial',
            self.origin.to_text(),
            self.path,
            self.current.serial,
        )
        return True

    def _read(self) -> tuple[Zone, int] | None:
        """Return the zone and the modification time of its file; None if unchanged."""
        mtime_ns = os.stat(self.path).st_mtime_ns
        if self.by_mtime and mtime_ns == self._mtime_ns:
            return None
        served = None if self.by_mtime or self.current is None else self.current.serial
        try:
            return read_zone(self.path, self.origin, served), mtime_ns
        except SameSerial:
            return None


def describe(error: OSError | ZoneError) -> str:
    """Return the message of an error in a file."""
    if isinstance(error, OSError):
        return f"cannot read {error.filename}: {error.strerror}"
    return str(error)
