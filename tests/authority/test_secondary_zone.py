from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from random import Random

import pytest

from hsdns.authority import secondary_zone
from hsdns.authority.secondary_zone import SecondaryZone
from hsdns.authority.transfer import TransferError
from hsdns.authority.zone import Zone
from hsdns.chain import Endpoint
from hsdns.wire.message import RR
from hsdns.wire.name import Name
from tests.support.plugins.requests import rr

ORIGIN = Name.from_text("example.org.")
ONE, TWO = Endpoint("192.0.2.1", 53), Endpoint("192.0.2.2", 53)
log = logging.getLogger("test")


class Primaries:
    """Stands for transfer.py: the serial of each primary, None if it does not reply."""

    def __init__(self, **serials: int | None) -> None:
        self.serials = serials
        self.asked: list[str] = []

    def _serial(self, primary: Endpoint, what: str) -> int:
        name = {ONE: "one", TWO: "two"}[primary]
        self.asked.append(f"{what} {name}")
        serial = self.serials.get(name)
        if serial is None:
            raise TransferError(f"{name} does not answer")
        return serial

    async def primary_serial(self, origin: Name, primary: Endpoint) -> int:
        return self._serial(primary, "SOA")

    async def fetch_zone(self, origin: Name, primary: Endpoint) -> tuple[Zone, tuple[RR, ...]]:
        soa = rr(f"example.org. 60 IN SOA ns. host. {self._serial(primary, 'AXFR')} 100 20 500 1")
        return Zone(origin, [soa]), (soa, soa)


class Life:
    """A zone with scripted time: each sleep runs the next step, and the last one ends the test."""

    def __init__(
        self, primaries: Primaries, *steps: Callable[[], None], zone: SecondaryZone | None = None
    ) -> None:
        self.zone = zone or SecondaryZone(ORIGIN, (ONE, TWO), log)
        self.now = 1000.0
        self.slept: list[float] = []
        self.heard: list[Name] = []
        self._steps = list(steps)
        self._primaries = primaries

    def live(self, monkeypatch: pytest.MonkeyPatch) -> Life:
        monkeypatch.setattr(secondary_zone, "primary_serial", self._primaries.primary_serial)
        monkeypatch.setattr(secondary_zone, "fetch_zone", self._primaries.fetch_zone)
        monkeypatch.setattr(secondary_zone, "sleep", self._sleep)
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(self.zone.run(lambda: self.now, Random(1), self.heard.append))
        return self

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        if not self._steps:
            raise asyncio.CancelledError
        self._steps.pop(0)()

    @property
    def serial(self) -> int | None:
        return None if self.zone.current is None else self.zone.current.serial


def nothing() -> None:
    """Let time pass."""


def test_the_first_transfer_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    primaries = Primaries()
    life = Life(primaries, *[nothing] * 7, lambda: primaries.serials.update(two=7)).live(
        monkeypatch
    )
    assert life.slept[:8] == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    assert (life.serial, life.heard) == (7, [ORIGIN])
    assert primaries.asked == ["AXFR one", "AXFR two"] * 9


def test_it_is_refreshed(monkeypatch: pytest.MonkeyPatch) -> None:
    primaries = Primaries(one=7)
    life = Life(primaries, nothing, lambda: primaries.serials.update(one=8)).live(monkeypatch)
    assert primaries.asked == ["AXFR one", "SOA one", "SOA one", "AXFR one"]
    assert (life.serial, len(life.heard)) == (8, 2)
    assert all(100 <= seconds <= 105 for seconds in life.slept)


def test_an_older_serial_is_not_transferred(monkeypatch: pytest.MonkeyPatch) -> None:
    primaries = Primaries(one=7)
    life = Life(primaries, lambda: primaries.serials.update(one=6)).live(monkeypatch)
    assert (life.serial, primaries.asked) == (7, ["AXFR one", "SOA one"])


def test_the_next_primary_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    primaries = Primaries(one=7, two=8)
    life = Life(primaries, lambda: primaries.serials.update(one=None)).live(monkeypatch)
    assert primaries.asked == ["AXFR one", "SOA one", "SOA two", "AXFR one", "AXFR two"]
    assert life.serial == 8


def test_it_expires_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    primaries = Primaries(one=7)
    expired: list[bool] = []

    def look() -> None:
        expired.append(life.zone.is_expired(life.now))

    def down() -> None:
        primaries.serials.update(one=None)

    def up() -> None:
        look()
        primaries.serials.update(one=7)

    life = Life(primaries, down, *[look] * 25, up, look)
    life.live(monkeypatch)
    assert (expired[0], expired[24], expired[25], expired[26]) == (False, True, True, False)
    first = expired.index(True)
    assert 500 <= sum(life.slept[: first + 2]) <= 522 + 105
    assert all(20 <= seconds <= 22 for seconds in life.slept[2:20])


def test_a_transfer_may_be_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(records: tuple[RR, ...]) -> None:
        raise TransferError("not wanted")

    zone = SecondaryZone(ORIGIN, (ONE,), log, refuse)
    assert Life(Primaries(one=7), zone=zone).live(monkeypatch).serial is None


def test_what_was_taken_over_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    primaries = Primaries(one=7)
    old = Life(primaries).live(monkeypatch).zone
    new = SecondaryZone(ORIGIN, (ONE,), log)
    new.take_over(old)
    life = Life(primaries, zone=new).live(monkeypatch)
    assert (life.serial, primaries.asked) == (7, ["AXFR one", "SOA one"])


def test_wishes_that_come_meanwhile_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    primaries = Primaries(one=7)
    zone = Life(primaries).live(monkeypatch).zone
    primaries.asked.clear()

    async def primary_serial(origin: Name, primary: Endpoint) -> int:
        await asyncio.sleep(0)
        return await primaries.primary_serial(origin, primary)

    async def run() -> None:
        monkeypatch.setattr(secondary_zone, "primary_serial", primary_serial)
        await asyncio.gather(*(zone.refresh(lambda: 0.0, lambda zone: None) for _ in range(20)))

    asyncio.run(run())
    assert primaries.asked == ["SOA one"] * 2
