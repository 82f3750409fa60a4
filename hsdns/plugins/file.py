"""Serve zones from master files.

Path: step 5, below `kubernetes`; authority/ reads the files and finds the answers.
Source: CoreDNS 1.14.7 plugin/file.
Rule 1: a file with a fault stops the start; one that is not there yet does not, unless `reload 0` says that nobody will
        look for it again.  Until it has been read its zones are SERVFAIL.
Rule 2: only names without records fall through.
Cacheable: yes, since it comes after `kubernetes`.  Its replies are not `fresh`, or uncacheable where an alias leads to
        the cluster, so the answer table stores none of them.
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
        """Take each zone with the seconds between two looks at its file, 0 for never."""
        self.zones = zones
        self._through = through
        self._is_last = False
        self._transfer: Transfer | None = None

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read each `file DBFILE [ZONES...]`, and the files; options hold for the directives after them too."""
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
        """Tell secondaries, and begin to look whether files changed."""
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
        """Answer from the longest zone that holds the name."""
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
            token.position, f"{describe(error)}; name a file, or use auto for a folder"
        ) from None
    except OSError as error:
        if not seconds:
            raise CorefileError(
                token.position, f"{describe(error)}; with reload 0 it is never looked for again"
            ) from None
        block.warn(f"{token.position}: {describe(error)}; it is looked for every {seconds:g}s")
