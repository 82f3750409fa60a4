"""A zone of a master file that is read again when it changes.

Path: plugins/file.py and auto.py keep one for each zone.
Rule 1: what was served stays while the file cannot be read or has a fault, which is logged each time.
Rule 2: a change is a new serial, or with `by_mtime` a new time of the file; either way the whole zone changes at once.
Rule 3: files are read in a thread; what was read is put to use on the loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
from asyncio import sleep
from collections.abc import Callable

from hsdns.authority.master_file import SameSerial, read_zone
from hsdns.authority.zone import Zone, ZoneError
from hsdns.wire.name import Name


class FileZone:
    """One zone of one file; `current` is None until it has been read."""

    def __init__(
        self, origin: Name, path: str, log: logging.Logger, *, by_mtime: bool = False
    ) -> None:
        self.origin = origin
        self.path = path
        self.by_mtime = by_mtime
        self.current: Zone | None = None
        self._mtime_ns: int | None = None
        self._log = log

    def load(self) -> None:
        """Read the file for the first time; raise OSError or ZoneError."""
        found = self._read()
        if found is not None:
            self.current, self._mtime_ns = found

    async def watch(self, seconds: float, changed: Callable[[Name], None]) -> None:
        """Look at the file every so many seconds; `changed` hears of each new version."""
        while True:
            await sleep(seconds)
            if await self.look():
                changed(self.origin)

    async def look(self) -> bool:
        """Read the file where it is new, and tell whether it was; log why it could not be read."""
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
        """The zone and the time of its file; None where neither is new."""
        mtime_ns = os.stat(self.path).st_mtime_ns
        if self.by_mtime and mtime_ns == self._mtime_ns:
            return None
        served = None if self.by_mtime or self.current is None else self.current.serial
        try:
            return read_zone(self.path, self.origin, served), mtime_ns
        except SameSerial:
            return None


def describe(error: OSError | ZoneError) -> str:
    """What is wrong with a file, for the operator."""
    if isinstance(error, OSError):
        return f"cannot read {error.filename}: {error.strerror}"
    return str(error)
