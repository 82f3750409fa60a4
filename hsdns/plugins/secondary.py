"""Serves zones transferred from primaries.

Path: step 5, after `auto`; authority/ transfers the zones and looks up the answers.
Source: CoreDNS 1.14.7 plugin/secondary; RFC 1034 section 4.3.5, RFC 1996, RFC 5936, RFC 9432.
Rule 1: until a zone has been transferred, and after it has expired, queries for it are answered with SERVFAIL.
Rule 2: a NOTIFY from a primary is answered and triggers a refresh; any other NOTIFY gets no reply.
Cacheable: yes, like `file`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from typing import Any, ClassVar, NamedTuple, Self

from hsdns.authority.secondary_zone import SecondaryZone
from hsdns.authority.transfer import TransferError
from hsdns.authority.zone import CatalogError, Member, Zone, read_catalog
from hsdns.chain import Endpoint
from hsdns.corefile.keys import read_fallthrough, zones_from_args
from hsdns.corefile.properties import Property, read_properties
from hsdns.corefile.tree import Directive, Line
from hsdns.plugin import Block, Plugin, Runtime
from hsdns.plugins.transfer import ZonePlugin, is_from, read_endpoint
from hsdns.wire.message import RR, Reply
from hsdns.wire.name import ROOT, Name

log = logging.getLogger("hsdns.plugin.secondary")


def _read_primaries(line: Line) -> tuple[Endpoint, ...]:
    """Read `from ADDRESS...`."""
    if len(line.args) < 2 or line.args[0].text != "from":
        raise line.error('secondary takes "transfer from ADDRESS..."')
    return tuple(map(read_endpoint, line.args[1:]))


class Wanted(NamedTuple):
    """A zone of the Corefile; `members` restricts the member zones of a catalog, None if it is not a catalog."""

    zone: Name
    primaries: tuple[Endpoint, ...]
    members: tuple[Name, ...] | None


class Dynamic(NamedTuple):
    """A member zone of a catalog."""

    catalog: Name
    label: bytes
    task: Awaitable[Any]


class Secondary(ZonePlugin[SecondaryZone]):
    """Answers from transferred zones."""

    not_loaded = "has not been transferred yet"
    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {
        "transfer": Property(_read_primaries, syntax="from ADDRESS...", repeat="extend"),
        "catalog": Property(
            lambda line: zones_from_args(line.args), syntax="[ZONES...]", repeat="collect"
        ),
        "fallthrough": Property(read_fallthrough, default=(), syntax="[ZONES...]"),
    }

    def __init__(self, wanted: Sequence[Wanted], through: tuple[Name, ...]) -> None:
        super().__init__({}, through)
        self._wanted = tuple(wanted)
        self._catalogs: dict[Name, tuple[Member, ...]] = {}
        self._dynamic: dict[Name, Dynamic] = {}
        self.zones = {
            each.zone: SecondaryZone(each.zone, each.primaries, log, self._acceptor(each))
            for each in wanted
        }

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read each `secondary [ZONES...]`."""
        wanted: dict[Name, Wanted] = {}
        for directive in directives:
            options = read_properties([directive], cls.PROPERTIES)
            primaries = tuple(options["transfer"])
            if not primaries:
                raise directive.error(
                    'secondary needs "transfer from" with the address of a primary'
                )
            lists = options["catalog"]
            members = None
            if lists:  # a `catalog` without zones allows all
                members = tuple(zone for line in lists for zone in line) if all(lists) else ()
            for zone in zones_from_args(directive.args) or block.zones:
                wanted[zone] = Wanted(zone, primaries, members)
        options = read_properties(directives, cls.PROPERTIES)
        return cls(tuple(wanted.values()), options["fallthrough"])

    def inherit(self, old: Plugin) -> bool:
        """Take over zones with the same primaries from the previous configuration.

        Catalogs are transferred again, because their members are created after a transfer.
        """
        if isinstance(old, Secondary):
            for wanted in self._wanted:
                zone, known = self.zones[wanted.zone], old.zones.get(wanted.zone)
                is_same = known is not None and known.primaries == zone.primaries
                if known is not None and is_same and wanted.members is None:
                    zone.take_over(known)
        return False

    async def start(self, runtime: Runtime) -> None:
        """Start transferring the zones in the background."""
        await super().start(runtime)
        for zone in self.zones.values():
            self._start_zone(zone)

    def _start_zone(self, zone: SecondaryZone) -> Awaitable[Any]:
        runtime = self._runtime
        keeping = zone.run(runtime.clock, runtime.random, self._notify)
        return runtime.spawn(keeping, f"secondary {zone.origin.to_text()}")

    def _usable(self, zone: SecondaryZone, now: float) -> Zone | None:
        if zone.is_expired(now):
            log.error("plugin/file: Zone %s is expired", zone.origin.to_text())
            return None
        return zone.current

    def _receive_notify(self, zone: SecondaryZone, client: Endpoint) -> Reply:
        shown = zone.origin.to_text()
        if not is_from(client, [primary.address for primary in zone.primaries]):
            log.info("plugin/file: Dropping notify from %s for %s", client.address, shown)
            return Reply(dropped=True)
        log.info("plugin/file: Notify from %s for %s: checking transfer", client.address, shown)
        refreshing = zone.refresh(self._runtime.clock, self._notify)
        self._runtime.spawn(refreshing, f"secondary {shown} after NOTIFY")
        return Reply(aa=True)

    # Catalogs

    def _acceptor(self, wanted: Wanted) -> Any:
        """Return the function that receives each transfer of a zone, and reads the members if it is a catalog."""
        if wanted.members is None:
            return lambda records: None

        def accept(records: tuple[RR, ...]) -> None:
            try:
                members = read_catalog(wanted.zone, records)
            except CatalogError as error:
                raise TransferError(str(error)) from None
            self._apply(wanted, members)

        return accept

    def _apply(self, wanted: Wanted, members: tuple[Member, ...]) -> None:
        """Add the member zones that a catalog lists, and remove those that it no longer lists."""
        catalog = wanted.zone
        self._catalogs[catalog] = members
        within = wanted.members or (ROOT,)
        allowed = [member for member in members if member.zone.longest_of(within) is not None]
        if len(allowed) < len(members):
            log.warning(
                "plugin/secondary: Skipped %d member zones from catalog %s: outside configured member zones",
                len(members) - len(allowed),
                catalog.to_text(),
            )
        for member in allowed:
            self._add_member(member, wanted)
        listed = {member.zone for member in allowed}
        for zone, dynamic in list(self._dynamic.items()):
            if dynamic.catalog == catalog and zone not in listed:
                self._remove_member(zone)
                shown = zone.to_text(), catalog.to_text()
                log.info("plugin/secondary: Removed catalog member zone %s from catalog %s", *shown)

    def _add_member(self, member: Member, wanted: Wanted) -> None:
        """Serve a member zone, unless it is in the Corefile, or in another catalog without a change of ownership."""
        zone, catalog = member.zone, wanted.zone
        shown = zone.to_text(), catalog.to_text()
        dynamic = self._dynamic.get(zone)
        previous: SecondaryZone | None = None
        if dynamic is not None and dynamic.catalog == catalog:
            if dynamic.label == member.label:
                return
        elif dynamic is not None:
            listed = self._catalogs.get(dynamic.catalog, ())
            source = next((each for each in listed if each.zone == zone), None)
            if source is None or source.new_owner != catalog:
                dynamic = None
            elif dynamic.label == source.label == member.label:
                previous = self.zones[zone]
        if dynamic is None and zone in self.zones:
            log.warning(
                "plugin/secondary: Skipping catalog member zone %s from %s: zone already exists",
                *shown,
            )
            return
        if dynamic is not None:
            self._remove_member(zone)
        found = self.zones[zone] = SecondaryZone(zone, wanted.primaries, log)
        if previous is not None:
            found.take_over(previous)
        self._dynamic[zone] = Dynamic(catalog, member.label, self._start_zone(found))
        log.info("plugin/secondary: Added catalog member zone %s from catalog %s", *shown)

    def _remove_member(self, zone: Name) -> None:
        dynamic = self._dynamic.pop(zone)
        del self.zones[zone]
        if isinstance(dynamic.task, asyncio.Task):
            dynamic.task.cancel()
