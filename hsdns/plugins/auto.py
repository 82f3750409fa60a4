"""Serves zones from all master files in a directory.

Path: step 5, after `file`; authority/ reads the files and finds the answers.
Source: CoreDNS 1.14.7 plugin/auto.
Rule 1: the name of a zone comes from the name of its file; files whose name gives no zone are ignored.
Rule 2: a faulty file is logged and affects only its own zone, which keeps its previous version if it has one.
Cacheable: yes, as `file`.
"""

from __future__ import annotations

import asyncio
import logging
import os
from asyncio import sleep
from collections.abc import Sequence
from typing import Any, ClassVar, Final, NamedTuple, Self

from hsdns.authority.answering import answer, longest
from hsdns.authority.file_zone import FileZone, describe
from hsdns.authority.outgoing import ZoneTransfer
from hsdns.authority.template import OriginTemplate
from hsdns.authority.zone import ZoneError
from hsdns.chain import Handler, Next, Request
from hsdns.corefile.keys import zones_from_args
from hsdns.corefile.properties import Property, duration, one, read_properties
from hsdns.corefile.tree import CorefileError, Directive, Line, Token
from hsdns.plugin import Block, Plugin, Runtime
from hsdns.plugins.transfer import Transfer
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import Reply, unwritten
from hsdns.wire.name import Name

DEFAULT_RELOAD: Final = 60.0  # seconds
log = logging.getLogger("hsdns.plugin.auto")


class Folder(NamedTuple):
    """A directory of master files, and the template that makes zone names of file names."""

    token: Token
    template: OriginTemplate


def read_folder(line: Line) -> Folder:
    """Parse `DIR [REGEXP ORIGIN_TEMPLATE]`."""
    if len(line.args) not in (1, 3):
        raise CorefileError(
            line.name.position,
            '"directory" takes a directory, or a directory, a regular expression for file names and a zone name, '
            f"found {len(line.args)} arguments",
        )
    try:
        return Folder(line.args[0], OriginTemplate(*(token.text for token in line.args[1:])))
    except ValueError as error:
        raise CorefileError(line.args[1].position, str(error)) from None


class Auto(Plugin):
    """Answers from the zones of a directory."""

    name: ClassVar[str] = "auto"
    cacheable = True
    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {
        "directory": Property(read_folder, syntax="DIR [REGEXP ORIGIN_TEMPLATE]"),
        "reload": Property(one(duration()), default=DEFAULT_RELOAD, syntax="DURATION"),
        "upstream": Property(lambda line: True, default=False, syntax="[WORD...]"),
    }

    def __init__(
        self, origins: tuple[Name, ...], path: str, template: OriginTemplate, seconds: float
    ) -> None:
        """Take the zones to answer for, the directory, and the seconds between two scans of it, 0 for none."""
        self.zones: dict[Name, FileZone] = {}
        self._origins = origins
        self._path = path
        self._template = template
        self._seconds = seconds
        self._is_last = False
        self._transfer: Transfer | None = None

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Parse `auto [ZONES...]`; if a block has several, the last one counts for each option, as in CoreDNS."""
        options = read_properties(directives, cls.PROPERTIES)
        folder: Folder | None = options["directory"]
        where = directives[-1].name.position
        if folder is None:
            raise CorefileError(
                where, 'auto needs "directory" with the directory of the master files'
            )
        path = block.path(folder.token.text)
        try:
            os.stat(path)
        except FileNotFoundError:
            block.warn(
                f"{folder.token.position}: directory {path} does not exist yet; auto keeps looking for it"
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise CorefileError(
                folder.token.position, f'cannot access directory "{path}": {reason}'
            ) from error
        if options["upstream"]:
            block.warn(f'{where}: "upstream" has no effect, as in CoreDNS 1.14.7')
        origins = zones_from_args(directives[-1].args) or block.zones
        return cls(origins, path, folder.template, options["reload"])

    def find_handlers(self, handlers: Sequence[Handler]) -> None:
        """Find `transfer`, and whether another handler follows."""
        self._is_last = handlers[-1] is self
        self._transfer = next((each for each in handlers if isinstance(each, Transfer)), None)

    async def start(self, runtime: Runtime) -> None:
        """Read the directory and start to watch it."""
        self._runtime = runtime
        await self.scan()
        if self._seconds:
            runtime.spawn(self._watch(), "auto")

    async def _watch(self) -> None:
        while True:
            await sleep(self._seconds)
            await self.scan()

    async def scan(self) -> None:
        """Scan the directory: add new zones, reload changed ones, and remove those whose files are gone."""
        files = await asyncio.to_thread(self._list)
        for origin in [origin for origin in self.zones if origin not in files]:
            del self.zones[origin]
            log.info("plugin/auto: Deleting zone `%s'", origin.to_text())
        for origin, path in files.items():
            known = self.zones.get(origin)
            if known is not None:
                known.path = path
                if await known.reload():
                    self._notify(origin)
            elif (zone := await asyncio.to_thread(_read, origin, path)) is not None:
                self.zones[origin] = zone
                log.info("plugin/auto: Inserting zone `%s' from: %s", origin.to_text(), path)
                self._notify(origin)

    def _list(self) -> dict[Name, str]:
        """The files of the directory by zone; if several give the same zone, the first in order.

        Directories that begin with two dots are skipped: Kubernetes keeps the files of a mounted ConfigMap there, with
        symbolic links to them in the directory itself.
        """
        found: dict[Name, str] = {}

        def warn(error: OSError) -> None:
            log.warning("plugin/auto: error reading %s: %s", error.filename, error.strerror)

        for folder, folders, names in os.walk(os.path.realpath(self._path), onerror=warn):
            folders[:] = sorted(name for name in folders if not name.startswith(".."))
            for name in sorted(names):
                origin = self._template.origin(name)
                path = os.path.join(folder, name)
                if origin is None:
                    continue
                if origin in found:
                    log.warning(
                        'plugin/auto: Multiple zone files match origin "%s": using "%s" instead of "%s"',
                        origin.to_text(),
                        found[origin],
                        path,
                    )
                else:
                    found[origin] = path
        return found

    def _notify(self, zone: Name) -> None:
        if self._transfer is not None:
            self._transfer.notify(zone)

    def transfer(self, zone: Name) -> ZoneTransfer | None:
        """All of a zone."""
        found = self.zones.get(zone)
        if found is None or found.current is None:
            return None
        return ZoneTransfer(found.current.soa, found.current.records())

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Answer from the longest zone that contains the name."""
        query = request.query
        if not any(query.qname.is_at_or_below(origin) for origin in self._origins):
            return await next(request)
        origin = longest(query.qname, self.zones)
        if origin is None:
            return unwritten(Rcode.REFUSED) if self._is_last else await next(request)
        zone = self.zones[origin].current
        if query.qtype in (RRType.AXFR, RRType.IXFR):
            return unwritten(Rcode.REFUSED)
        assert zone is not None, "added after it had been read"
        reply, _ = await answer(zone, request, self._runtime.resolve)
        return reply


def _read(origin: Name, path: str) -> FileZone | None:
    zone = FileZone(origin, path, log)
    try:
        zone.load()
    except (OSError, ZoneError) as error:
        log.warning("plugin/auto: zone %s: %s", origin.to_text(), describe(error))
        return None
    return zone
