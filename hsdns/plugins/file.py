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

from hsdns.authority.file_zone import FileZone, describe
from hsdns.authority.zone import ZoneError
from hsdns.chain import Endpoint
from hsdns.corefile.keys import read_fallthrough, zones_from_args
from hsdns.corefile.properties import Property, duration, flag, one, read_properties
from hsdns.corefile.tree import Directive
from hsdns.plugin import Block, Runtime
from hsdns.plugins.transfer import ZonePlugin
from hsdns.wire.message import Reply
from hsdns.wire.name import Name

DEFAULT_RELOAD: Final = 60.0  # seconds
log = logging.getLogger("hsdns.plugin.file")


class File(ZonePlugin[FileZone]):
    """Answers from the zones of master files."""

    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {
        "reload": Property(one(duration()), default=DEFAULT_RELOAD, syntax="DURATION", reads=1),
        "reload_by_mtime": Property(flag, default=False, reads=0, stops=True),
        "fallthrough": Property(read_fallthrough, default=(), syntax="[ZONES...]"),
        "upstream": Property(lambda line: True, default=False, syntax="[WORD...]"),
    }

    def __init__(
        self, zones: dict[Name, FileZone], through: tuple[Name, ...], seconds: dict[Name, float]
    ) -> None:
        """Take for each zone also the seconds between two checks of its file, 0 for none."""
        super().__init__(zones, through)
        self.seconds = seconds

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Parse each `file DBFILE [ZONES...]` and read the files; options also apply to later directives."""
        zones: dict[Name, FileZone] = {}
        seconds: dict[Name, float] = {}
        for index, directive in enumerate(directives):
            options = read_properties(directives[: index + 1], cls.PROPERTIES)
            if not directive.args:
                raise directive.error('"file" needs a master file, for example db.example.org')
            for zone in zones_from_args(directive.args[1:]) or block.zones:
                path = block.path(directive.args[0].text)
                found = FileZone(zone, path, log, by_mtime=options["reload_by_mtime"])
                _load(found, directive, options["reload"], block)
                zones[zone], seconds[zone] = found, options["reload"]
        options = read_properties(directives, cls.PROPERTIES)
        if options["upstream"]:
            block.warn(
                f'{directives[0].name.position}: "upstream" has no effect, as in CoreDNS 1.14.7'
            )
        return cls(zones, options["fallthrough"], seconds)

    async def start(self, runtime: Runtime) -> None:
        """Notify secondaries and start to watch the files."""
        await super().start(runtime)
        for origin, zone in self.zones.items():
            self._notify(origin)
            if seconds := self.seconds[origin]:
                runtime.spawn(zone.watch(seconds, self._notify), f"file {origin.to_text()}")

    def _receive_notify(self, zone: FileZone, client: Endpoint) -> Reply:
        shown = zone.origin.to_text()
        log.info("plugin/file: Dropping notify from %s for %s", client.address, shown)
        return Reply(dropped=True)


def _load(zone: FileZone, directive: Directive, seconds: float, block: Block) -> None:
    token = directive.args[0]
    try:
        zone.load()
    except ZoneError as error:
        raise token.error(f"cannot read the zone: {error}") from None
    except IsADirectoryError as error:
        raise token.error(f"{describe(error)}; name a file, or use auto for a directory") from None
    except OSError as error:
        if not seconds:
            raise token.error(f"{describe(error)}; with reload 0 it would never be read") from None
        block.warn(f"{token.position}: {describe(error)}; trying again every {seconds:g}s")
