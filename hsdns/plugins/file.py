"""Serves zones from master files.

Path: step 5, after `kubernetes`; authority/ reads the files and finds the answers.
Source: CoreDNS 1.14.7 plugin/file.
Rule 1: a faulty file prevents the start.  A missing one does not, unless `reload 0` means that it would never be read;
        until it has been read, queries for its zones get SERVFAIL.
Rule 2: only names without records fall through.
Cacheable: yes, since it comes after `kubernetes`.  Its own answers are not `fresh`, and an alias into the cluster is
        marked as uncacheable, so neither is stored in the answer table.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, ClassVar, Final, Self

from hsdns.authority.answering import answer, longest
from hsdns.authority.file_zone import FileZone, describe
from hsdns.authority.outgoing import ZoneTransfer
from hsdns.authority.zone import ZoneError
from hsdns.chain import Handler, Next, Request
from hsdns.corefile.keys import zones_from_args
from hsdns.corefile.properties import Property, duration, flag, one, read_properties
from hsdns.corefile.tree import CorefileError, Directive
from hsdns.plugin import Block, Plugin, Runtime
from hsdns.plugins.hosts import read_fallthrough
from hsdns.plugins.transfer import Transfer
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import Reply, is_notify, unwritten
from hsdns.wire.name import Name

DEFAULT_RELOAD: Final = 60.0  # seconds
log = logging.getLogger("hsdns.plugin.file")


class File(Plugin):
    """Answers from the zones of master files."""

    name: ClassVar[str] = "file"
    cacheable = True
    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {
        "reload": Property(one(duration()), default=DEFAULT_RELOAD, syntax="DURATION"),
        "reload_by_mtime": Property(flag, default=False),
        "fallthrough": Property(read_fallthrough, default=(), syntax="[ZONES...]"),
        "upstream": Property(lambda line: True, default=False, syntax="[WORD...]"),
    }

    def __init__(
        self, zones: dict[Name, tuple[FileZone, float]], through: tuple[Name, ...]
    ) -> None:
        """Take each zone with the seconds between two checks of its file, 0 for none."""
        self.zones = zones
        self._through = through
        self._is_last = False
        self._transfer: Transfer | None = None

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Parse each `file DBFILE [ZONES...]` and read the files; options also apply to later directives."""
        zones: dict[Name, tuple[FileZone, float]] = {}
        for index, directive in enumerate(directives):
            options = read_properties(directives[: index + 1], cls.PROPERTIES)
            if not directive.args:
                raise CorefileError(
                    directive.name.position,
                    '"file" needs a master file, for example db.example.org',
                )
            for zone in zones_from_args(directive.args[1:]) or block.zones:
                path = block.path(directive.args[0].text)
                found = FileZone(zone, path, log, by_mtime=options["reload_by_mtime"])
                _load(found, directive, options["reload"], block)
                zones[zone] = found, options["reload"]
        options = read_properties(directives, cls.PROPERTIES)
        if options["upstream"]:
            block.warn(
                f'{directives[0].name.position}: "upstream" has no effect, as in CoreDNS 1.14.7'
            )
        return cls(zones, options["fallthrough"])

    def find_handlers(self, handlers: Sequence[Handler]) -> None:
        """Find `transfer`, and whether another handler follows."""
        self._is_last = handlers[-1] is self
        self._transfer = next((each for each in handlers if isinstance(each, Transfer)), None)

    async def start(self, runtime: Runtime) -> None:
        """Notify secondaries and start to watch the files."""
        self._runtime = runtime
        for origin, (zone, seconds) in self.zones.items():
            self._notify(origin)
            if seconds:
                runtime.spawn(zone.watch(seconds, self._notify), f"file {origin.to_text()}")

    def _notify(self, zone: Name) -> None:
        if self._transfer is not None:
            self._transfer.notify(zone)

    def transfer(self, zone: Name) -> ZoneTransfer | None:
        """All of a zone."""
        found = self.zones.get(zone)
        if found is None:
            return None
        current = found[0].current
        if current is None:
            raise LookupError(f"zone {zone.to_text()} has not been read yet")
        return ZoneTransfer(current.soa, current.records())

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Answer from the longest zone that contains the name."""
        query = request.query
        origin = longest(query.qname, self.zones)
        if origin is None:
            return unwritten(Rcode.REFUSED) if self._is_last else await next(request)
        if query.qtype in (RRType.AXFR, RRType.IXFR):
            return unwritten(Rcode.REFUSED)
        if is_notify(query):
            log.info(
                "plugin/file: Dropping notify from %s for %s",
                request.client.address,
                origin.to_text(),
            )
            return Reply(dropped=True)
        zone = self.zones[origin][0].current
        if zone is None:
            return unwritten(Rcode.SERVFAIL)
        reply, is_unknown = await answer(zone, request, self._runtime.resolve)
        if is_unknown and any(query.qname.is_at_or_below(each) for each in self._through):
            return await next(request)
        return reply


def _load(zone: FileZone, directive: Directive, seconds: float, block: Block) -> None:
    token = directive.args[0]
    try:
        zone.load()
    except ZoneError as error:
        raise CorefileError(token.position, f"cannot read the zone: {error}") from None
    except IsADirectoryError as error:
        raise CorefileError(
            token.position, f"{describe(error)}; name a file, or use auto for a directory"
        ) from None
    except OSError as error:
        if not seconds:
            raise CorefileError(
                token.position, f"{describe(error)}; with reload 0 it would never be read"
            ) from None
        block.warn(f"{token.position}: {describe(error)}; trying again every {seconds:g}s")
