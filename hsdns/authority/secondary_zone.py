"""A zone of a primary, refreshed according to its SOA record (RFC 1034 section 4.3.5, RFC 1996).

Path: plugins/secondary.py has one for each zone.
Source: CoreDNS 1.14.7 plugin/secondary setup.go, plugin/file secondary.go: the pauses and their jitter.
Rule 1: the first transfer is retried after 0.25 s, then after twice the pause each time, at most 10 s.
Rule 2: afterwards the serial is queried every `refresh`, or `retry` after a failure; if no primary has replied for
        `expire`, the zone is no longer served.
Rule 3: primaries are tried in the order of the Corefile, until one replies.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import sleep
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from hsdns.authority.transfer import TransferError, fetch_zone, primary_serial
from hsdns.authority.zone import Zone, is_newer, timers_of
from hsdns.chain import Endpoint
from hsdns.corefile.keys import HostPort
from hsdns.wire.message import RR
from hsdns.wire.name import Name

FIRST_PAUSE: Final = 0.25  # seconds
MAX_PAUSE: Final = 10.0
REFRESH_JITTER: Final = 5.0
RETRY_JITTER: Final = 2.0


@dataclass(eq=False)
class SecondaryZone:
    """A zone and its primaries.

    `accept` is called with the records of each transfer, and may reject it with TransferError.
    """

    origin: Name
    primaries: tuple[Endpoint, ...]
    _log: logging.Logger
    _accept: Callable[[tuple[RR, ...]], None] = lambda records: None
    current: Zone | None = None
    _confirmed: float = 0.0  # when a primary last confirmed that this is the latest version
    _is_failing: bool = False
    _refreshing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _is_requested: bool = False

    def is_expired(self, now: float) -> bool:
        """Whether the zone has expired and must not be served."""
        if self.current is None or not self._is_failing:
            return False
        return now - self._confirmed >= timers_of(self.current.soa)[2]

    def take_over(self, other: SecondaryZone) -> None:
        """Copy the state of another one, to serve it until the first transfer."""
        self.current, self._confirmed = other.current, other._confirmed
        self._is_failing = other._is_failing

    async def run(
        self, clock: Callable[[], float], random: Random, changed: Callable[[Name], None]
    ) -> None:
        """Transfer the zone and refresh it, until cancelled; call `changed` for each new version."""
        pause = FIRST_PAUSE
        if self.current is not None:  # copied by take_over()
            await self.refresh(clock, changed)
        while self.current is None and not await self._first(clock, changed):
            self._log.warning(
                "plugin/secondary: zone %s: transfer from all primaries failed; retrying in %gs",
                self.origin.to_text(),
                pause,
            )
            await sleep(pause)
            pause = min(2 * pause, MAX_PAUSE)
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
        """Query the serial, and transfer the zone if it is newer; log errors.

        Any number of calls during a refresh cause one more.
        """
        self._is_requested = True
        if self._refreshing.locked():
            return
        async with self._refreshing:
            while self._is_requested:
                self._is_requested = False
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
                HostPort(*primary),
                zone.serial,
            )
            changed(self.origin)
            return True
        self._is_failing = self.current is not None
        return False
