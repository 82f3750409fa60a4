"""A zone of a primary, kept up to date by its SOA record's times (RFC 1034 section 4.3.5, RFC 1996).

Path: plugins/secondary.py keeps one for each zone.
Source: CoreDNS 1.14.7 plugin/secondary setup.go, plugin/file secondary.go: the pauses and their jitter.
Rule 1: until the first transfer there is no zone; it is tried again after 0.25 s, then twice as long, at most 10 s.
Rule 2: then the serial is asked for every `refresh`; where that fails, every `retry`; once no primary has answered for
        `expire`, the zone is no longer served.
Rule 3: primaries are asked in the order of the Corefile, until one answers.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import sleep
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from hsdns.authority.address import endpoint_to_text
from hsdns.authority.incoming import TransferError, fetch_zone, primary_serial
from hsdns.authority.zone import Zone, is_newer, timers_of
from hsdns.chain import Endpoint
from hsdns.wire.message import RR
from hsdns.wire.name import Name

FIRST_PAUSE: Final = 0.25  # seconds
LONGEST_PAUSE: Final = 10.0
REFRESH_JITTER: Final = 5.0
RETRY_JITTER: Final = 2.0


class SecondaryZone:
    """One zone of one set of primaries.

    `accept` sees the records of each transfer and may refuse it with TransferError; `changed` hears of each version.
    """

    def __init__(
        self,
        origin: Name,
        primaries: Sequence[Endpoint],
        log: logging.Logger,
        accept: Callable[[tuple[RR, ...]], None] = lambda records: None,
    ) -> None:
        self.origin = origin
        self.primaries = tuple(primaries)
        self.current: Zone | None = None
        self._accept = accept
        self._confirmed = 0.0  # when a primary last said that this is the newest version
        self._is_failing = False
        self._log = log
        self._refreshing = asyncio.Lock()
        self._wanted = False

    def is_expired(self, now: float) -> bool:
        """Whether the zone is too old to be served."""
        if self.current is None or not self._is_failing:
            return False
        return now - self._confirmed >= timers_of(self.current.soa)[2]

    def take_over(self, other: SecondaryZone) -> None:
        """Go on with what another one has, until the first transfer."""
        self.current, self._confirmed = other.current, other._confirmed
        self._is_failing = other._is_failing

    async def keep(
        self, clock: Callable[[], float], random: Random, changed: Callable[[Name], None]
    ) -> None:
        """Fetch the zone and keep it up to date, for ever."""
        pause = FIRST_PAUSE
        if self.current is not None:  # taken over
            await self.refresh(clock, changed)
        while self.current is None and not await self._first(clock, changed):
            self._log.warning(
                "plugin/secondary: zone %s: the transfer failed from all primaries; retrying in %gs",
                self.origin.to_text(),
                pause,
            )
            await sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        while True:
            assert self.current is not None, "transferred"
            refresh, retry, _ = timers_of(self.current.soa)
            if self._is_failing:
                await sleep(retry + random.uniform(0, RETRY_JITTER))
            else:
                await sleep(refresh + random.uniform(0, REFRESH_JITTER))
            await self.refresh(clock, changed)

    async def _first(self, clock: Callable[[], float], changed: Callable[[Name], None]) -> bool:
        async with self._refreshing:
            return await self._transfer(clock, changed)

    async def refresh(self, clock: Callable[[], float], changed: Callable[[Name], None]) -> None:
        """Ask for the serial, and transfer the zone if it is newer; what goes wrong is logged.

        Called while that is going on, it only has it done once more, however often.
        """
        self._wanted = True
        if self._refreshing.locked():
            return
        async with self._refreshing:
            while self._wanted:
                self._wanted = False
                await self._check(clock, changed)

    async def _check(self, clock: Callable[[], float], changed: Callable[[Name], None]) -> None:
        serial = await self._primary_serial()
        if serial is None:
            self._is_failing = self.current is not None
        elif self.current is None or is_newer(serial, self.current.serial):
            await self._transfer(clock, changed)
        else:
            self._confirmed, self._is_failing = clock(), False

    async def _primary_serial(self) -> int | None:
        for primary in self.primaries:
            try:
                return await primary_serial(self.origin, primary)
            except TransferError as error:
                self._log.warning("plugin/file: zone %s: %s", self.origin.to_text(), error)
        return None

    async def _transfer(self, clock: Callable[[], float], changed: Callable[[Name], None]) -> bool:
        for primary in self.primaries:
            try:
                zone, records = await fetch_zone(self.origin, primary)
                self._accept(records)
            except TransferError as error:
                self._log.error("plugin/file: zone %s: %s", self.origin.to_text(), error)
                continue
            self.current = zone
            self._confirmed, self._is_failing = clock(), False
            self._log.info(
                "plugin/file: Transferred: %s from %s, serial %d",
                self.origin.to_text(),
                endpoint_to_text(primary),
                zone.serial,
            )
            changed(self.origin)
            return True
        self._is_failing = self.current is not None
        return False
