"""A zone of a primary, refreshed according to its SOA record (RFC 1034 section 4.3.5, RFC 1996).

Path: plugins/secondary.py has one for each zone.
Source: CoreDNS 1.14.7 plugin/secondary setup.go, plugin/file secondary.go: the pauses and their jitter.
Rule 1: the first transfer is retried after 0.25 s, then after twice the pause each time, at most 10 s.
Rule 2: afterwards the serial is queried every `refresh`, or `retry` after a failure; if no primary has replied for
        `expire`, the zone is no longer served.
Rule 3: primaries are tried in the order of the Corefile, until one replies.

Parser for catalog zones, whose records list other zones (RFC 9432):
Source: RFC 9432; CoreDNS 1.14.7 plugin/pkg/catalog.
Rule 1: a catalog that violates RFC 9432 section 5.1 is rejected as a whole; the previous one stays in use.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import sleep
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Final, NamedTuple

from hsdns.authority.transfer import TransferError, fetch_zone, primary_serial
from hsdns.authority.zone import Zone, is_newer, timers_of
from hsdns.chain import Endpoint
from hsdns.corefile.keys import HostPort
from hsdns.wire.iana import RRClass, RRType
from hsdns.wire.message import RR
from hsdns.wire.name import Name

VERSION: Final = b"2"


class CatalogError(ValueError):
    """A violation of RFC 9432, as a sentence for the operator."""


class Member(NamedTuple):
    """A zone in a catalog; `label` is its unique ID, `new_owner` the catalog that it moves to (coo)."""

    label: bytes
    zone: Name
    new_owner: Name | None


def read_catalog(origin: Name, records: Iterable[RR]) -> tuple[Member, ...]:
    """Return the members of a catalog, sorted by label; raise CatalogError."""
    shown = origin.to_text()
    types: set[int] = set()
    versions: list[bytes] = []
    zones: dict[bytes, list[Name]] = {}
    new_owners: dict[bytes, list[Name]] = {}
    for record in records:
        if record.rrclass != RRClass.IN:
            raise CatalogError(f"catalog {shown} has a record of another class than IN")
        labels = record.owner.below(origin)
        if not labels:
            types.add(record.rrtype)
        elif labels == (b"version",) and record.rrtype == RRType.TXT:
            versions.append(_text(record.rdata))
        elif record.rrtype == RRType.PTR and labels[-1] == b"zones":
            target = Name(record.rdata).lowered()
            if len(labels) == 2:
                zones.setdefault(labels[0], []).append(target)
            elif len(labels) == 3 and labels[0] == b"coo":
                new_owners.setdefault(labels[1], []).append(target)
    if not types >= {RRType.SOA, RRType.NS}:
        raise CatalogError(f"catalog {shown} needs a SOA and an NS record")
    if versions != [VERSION]:
        found = ", ".join(version.decode(errors="replace") for version in versions) or "none"
        raise CatalogError(
            f"catalog {shown} must have exactly one version record, with 2, found {found}"
        )
    return _members(shown, zones, new_owners)


def _members(
    shown: str, zones: dict[bytes, list[Name]], new_owners: dict[bytes, list[Name]]
) -> tuple[Member, ...]:
    known: dict[Name, bytes] = {}
    members = []
    for label, targets in sorted(zones.items()):
        owners = new_owners.get(label, [])
        word = label.decode(errors="replace")
        if len(targets) != 1 or len(owners) > 1:
            raise CatalogError(f"member {word} of catalog {shown} has more than one zone or owner")
        zone = targets[0]
        if zone in known:
            raise CatalogError(f"catalog {shown} lists {zone.to_text()} twice")
        known[zone] = label
        members.append(Member(label, zone, owners[0] if owners else None))
    return tuple(members)


def _text(rdata: bytes) -> bytes:
    """Join the strings of a TXT record."""
    found, at = b"", 0
    while at < len(rdata):
        found += rdata[at + 1 : at + 1 + rdata[at]]
        at += 1 + rdata[at]
    return found


FIRST_PAUSE: Final = 0.25  # seconds
MAX_PAUSE: Final = 10.0
REFRESH_JITTER: Final = 5.0
RETRY_JITTER: Final = 2.0


class SecondaryZone:
    """A zone and its primaries.

    `accept` is called with the records of each transfer, and may reject it with TransferError.
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
        self._confirmed = 0.0  # when a primary last confirmed that this is the latest version
        self._is_failing = False
        self._log = log
        self._refreshing = asyncio.Lock()
        self._is_requested = False

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
