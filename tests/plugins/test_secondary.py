from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hsdns.authority import secondary_zone
from hsdns.authority.transfer import TransferError
from hsdns.authority.zone import Zone
from hsdns.chain import Endpoint
from hsdns.plugins.secondary import Secondary
from hsdns.plugins.transfer import Transfer
from hsdns.plugins.whoami import Whoami
from hsdns.wire.iana import Rcode
from hsdns.wire.message import RR, Reply, unwritten
from hsdns.wire.name import Name
from tests.support.plugins.requests import make_request, next_with, reply, rr
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import set_up
from tests.support.tables import values

TABLES = Path(__file__).with_name("tables.txt")

BELOW = reply(["below. 1 IN A 192.0.2.1"])
NOTIFY = 4 << 11
ORG = Name.from_text("example.org.")
PRIMARY = "transfer from 192.0.2.1"


class Primaries:
    """Replaces authority/transfer.py: the records of each zone without its SOA record; `asked` lists the queries."""

    def __init__(self, **zones: list[str]) -> None:
        self.serial = 7
        self.zones = {
            Name.from_text(name.replace("_", ".")): records for name, records in zones.items()
        }
        self.asked: list[str] = []

    async def primary_serial(self, origin: Name, primary: Endpoint) -> int:
        self.asked.append(f"SOA {origin.to_text()}")
        return self.serial

    async def fetch_zone(self, origin: Name, primary: Endpoint) -> tuple[Zone, tuple[RR, ...]]:
        self.asked.append(f"AXFR {origin.to_text()}")
        if origin not in self.zones:
            raise TransferError("not here")
        name = origin.to_text()
        records = [
            rr(f"{name} 60 IN SOA ns. host. {self.serial} 100 20 500 1"),
            *map(rr, self.zones[origin]),
        ]
        return Zone(origin, records), tuple(records)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let zones wait forever for their next refresh."""

    async def sleep(seconds: float) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(secondary_zone, "sleep", sleep)


@pytest.fixture
def primaries(monkeypatch: pytest.MonkeyPatch) -> Primaries:
    found = Primaries(
        example_org=["www.example.org. 60 IN A 192.0.2.7", "*.w.example.org. 60 IN A 192.0.2.8"]
    )
    monkeypatch.setattr(secondary_zone, "primary_serial", found.primary_serial)
    monkeypatch.setattr(secondary_zone, "fetch_zone", found.fetch_zone)
    return found


async def settle() -> None:
    """Run all tasks until they wait."""
    for _ in range(50):
        await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def running(plugin: Secondary, *others: Transfer | Whoami) -> AsyncIterator[FakeRuntime]:
    runtime = FakeRuntime()
    plugin.find_handlers([plugin, *others])
    for each in (*others, plugin):
        await each.start(runtime)
    await settle()
    yield runtime
    await runtime.stop_tasks()


async def ask(
    plugin: Secondary,
    qname: str,
    qtype: str = "A",
    *,
    flags: int = 0x100,
    client: str = "127.0.0.1",
    now: float = 0.0,
) -> Reply:
    request = make_request(qname, qtype, flags=flags, client=client, now=now)
    return await plugin.handle(request, next_with(BELOW))


@pytest.mark.parametrize(
    ("body", "qname", "qtype", "expected"),
    [
        pytest.param("", "nope.example.org.", "A", Rcode.NXDOMAIN, id="unknown"),
        pytest.param("fallthrough", "nope.example.org.", "A", BELOW, id="fallthrough"),
        pytest.param(
            "fallthrough", "www.example.org.", "TXT", Rcode.NOERROR, id="fallthrough-not-for-types"
        ),
        pytest.param(
            "fallthrough x.example.org",
            "nope.example.org.",
            "A",
            Rcode.NXDOMAIN,
            id="fallthrough-zone",
        ),
        pytest.param("", "www.example.net.", "A", BELOW, id="outside"),
        pytest.param("", "example.org.", "AXFR", unwritten(Rcode.REFUSED), id="axfr"),
    ],
)
async def test_rcodes(
    primaries: Primaries, body: str, qname: str, qtype: str, expected: Reply | int
) -> None:
    plugin = set_up(Secondary, f"secondary example.org {{\n{PRIMARY}\n{body}\n}}")
    async with running(plugin, Whoami()):
        found = await ask(plugin, qname, qtype)
        assert (found if isinstance(expected, Reply) else found.rcode) == expected


async def test_servfail_before_the_first_transfer(primaries: Primaries) -> None:
    plugin = set_up(Secondary, f"secondary example.com {{\n{PRIMARY}\n}}")
    async with running(plugin):
        assert await ask(plugin, "www.example.com.") == unwritten(Rcode.SERVFAIL)
        with pytest.raises(LookupError, match=r"zone example\.com\. has not been transferred yet"):
            plugin.transfer(Name.from_text("example.com."))


async def test_servfail_after_expiry(primaries: Primaries, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = set_up(Secondary, f"secondary example.org {{\n{PRIMARY}\n}}")

    async def fail(origin: Name, primary: Endpoint) -> int:
        raise TransferError("down")

    async with running(plugin) as runtime:
        monkeypatch.setattr(secondary_zone, "primary_serial", fail)
        assert (await ask(plugin, "www.example.org.", now=1e6)).rcode == Rcode.NOERROR
        await plugin.zones[ORG].refresh(runtime.clock, lambda zone: None)
        assert (await ask(plugin, "www.example.org.", now=499.0)).rcode == Rcode.NOERROR
        assert await ask(plugin, "www.example.org.", now=500.0) == unwritten(Rcode.SERVFAIL)


@pytest.mark.parametrize(
    ("client", "expected", "asked"),
    [
        pytest.param(
            "192.0.2.1", Reply(aa=True), ["SOA example.org.", "AXFR example.org."], id="primary"
        ),
        pytest.param("192.0.2.2", Reply(dropped=True), [], id="other"),
    ],
)
async def test_notify(primaries: Primaries, client: str, expected: Reply, asked: list[str]) -> None:
    plugin = set_up(Secondary, f"secondary example.org {{\n{PRIMARY}\n}}")
    async with running(plugin):
        primaries.asked.clear()
        primaries.serial = 8
        assert await ask(plugin, "example.org.", "SOA", flags=NOTIFY, client=client) == expected
        await settle()
        assert primaries.asked == asked


async def test_a_reload_takes_over_transferred_zones(primaries: Primaries) -> None:
    text = f"secondary example.org {{\n{PRIMARY}\n}}"
    old, new, other = (
        set_up(Secondary, text),
        set_up(Secondary, text),
        set_up(Secondary, text.replace("2.1", "2.2")),
    )
    async with running(old):
        for plugin, expected in ((new, ORG), (other, None)):
            assert not plugin.inherit(old)
            current = plugin.zones[ORG].current
            assert (None if current is None else current.origin) == expected


# --- catalogs ---

HEAD = ["{0} 0 IN NS invalid.", 'version.{0} 0 IN TXT "2"']


def catalog(name: str, *members: str) -> list[str]:
    """Return the records of a catalog; a member is `LABEL ZONE [NEW-OWNER]`."""
    lines = [line.format(name) for line in HEAD]
    for member in members:
        label, zone, *owner = member.split()
        lines.append(f"{label}.zones.{name} 0 IN PTR {zone}")
        lines += [f"coo.{label}.zones.{name} 0 IN PTR {each}" for each in owner]
    return lines


async def update(plugin: Secondary, primaries: Primaries, name: str, *members: str) -> None:
    zone = Name.from_text(name)
    primaries.zones[zone] = catalog(name, *members)
    primaries.serial += 1
    await plugin.zones[zone].refresh(lambda: 0.0, lambda zone: None)
    await settle()


def names(plugin: Secondary) -> list[str]:
    return sorted(zone.to_text() for zone in plugin.zones)


async def test_members_are_added_and_removed(primaries: Primaries) -> None:
    primaries.zones[Name.from_text("cat.")] = catalog("cat.", "a example.org.", "b example.net.")
    plugin = set_up(Secondary, f"secondary cat {{\n{PRIMARY}\ncatalog\n}}")
    async with running(plugin) as runtime:
        assert names(plugin) == ["cat.", "example.net.", "example.org."]
        assert (await ask(plugin, "www.example.org.")).rcode == Rcode.NOERROR
        await update(plugin, primaries, "cat.", "b example.net.")
        assert names(plugin) == ["cat.", "example.net."]
        assert runtime.tasks["secondary example.org."].cancelled()
        primaries.zones[Name.from_text("cat.")] = ["cat. 0 IN NS invalid."]
        primaries.serial += 1
        await plugin.zones[Name.from_text("cat.")].refresh(runtime.clock, lambda zone: None)
        assert names(plugin) == ["cat.", "example.net."]


async def test_members_may_be_restricted(
    primaries: Primaries, caplog: pytest.LogCaptureFixture
) -> None:
    primaries.zones[Name.from_text("cat.")] = catalog(
        "cat.", "a a.example.org.", "b example.net.", "c example.org."
    )
    plugin = set_up(Secondary, f"secondary cat {{\n{PRIMARY}\ncatalog example.org\n}}")
    async with running(plugin):
        assert names(plugin) == ["a.example.org.", "cat.", "example.org."]
    assert (
        "plugin/secondary: Skipped 1 member zones from catalog cat.: outside configured member zones"
        in caplog.messages
    )


async def test_a_member_with_a_new_label_is_transferred_again(primaries: Primaries) -> None:
    primaries.zones[Name.from_text("cat.")] = catalog("cat.", "a example.org.")
    plugin = set_up(Secondary, f"secondary cat {{\n{PRIMARY}\ncatalog\n}}")
    async with running(plugin):
        first = plugin.zones[ORG]
        await update(plugin, primaries, "cat.", "a example.org.")
        assert plugin.zones[ORG] is first
        await update(plugin, primaries, "cat.", "b example.org.")
        assert plugin.zones[ORG] is not first


@pytest.mark.parametrize(("source", "target", "moves", "keeps"), values(TABLES, "a member of two catalogs"))  # fmt: skip
async def test_a_member_of_two_catalogs(
    primaries: Primaries,
    source: str,
    target: str,
    moves: bool,
    keeps: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    primaries.zones[Name.from_text("one.")] = catalog("one.", "a example.org.")
    primaries.zones[Name.from_text("two.")] = catalog("two.")
    plugin = set_up(Secondary, f"secondary one two {{\n{PRIMARY}\ncatalog\n}}")
    async with running(plugin):
        first = plugin.zones[ORG]
        await update(plugin, primaries, "one.", source)
        del primaries.zones[ORG]
        await update(plugin, primaries, "two.", target)
        assert (plugin.zones[ORG] is not first) is moves
        assert (plugin.zones[ORG].current is not None) is keeps
        await update(plugin, primaries, "one.")
        assert (ORG in plugin.zones) is moves
    clash = (
        "plugin/secondary: Skipping catalog member zone example.org. from two.: zone already exists"
    )
    assert (clash in caplog.messages) is not moves


async def test_a_zone_of_the_corefile_is_not_a_member(primaries: Primaries) -> None:
    primaries.zones[Name.from_text("cat.")] = catalog("cat.", "a example.org.")
    plugin = set_up(
        Secondary,
        f"secondary cat {{\n{PRIMARY}\ncatalog\n}}\nsecondary example.org {{\n{PRIMARY}\n}}",
    )
    async with running(plugin):
        first = plugin.zones[ORG]
        await update(plugin, primaries, "cat.")
        assert plugin.zones[ORG] is first
