"""Serves zones from all master files in a directory.

Path: step 5, after `file`; authority/ reads the files and finds the answers.
Source: CoreDNS 1.14.7 plugin/auto.
Rule 1: the name of a zone comes from the name of its file; files whose name gives no zone are ignored.
Rule 2: a faulty file is logged and affects only its own zone, which keeps its previous version if it has one.
Cacheable: yes, as `file`.

REGEXP and ORIGIN_TEMPLATE, which make zone names of file names:
Source: CoreDNS 1.14.7 plugin/auto regexp.go and walk.go; Go regexp.Expand.
Rule 1: the pattern is Go's (RE2, linear time) and not anchored.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from asyncio import sleep
from collections.abc import Sequence
from typing import Any, ClassVar, Final, NamedTuple, Self

from hsdns.authority.file_zone import FileZone, describe
from hsdns.authority.zone import ZoneError
from hsdns.chain import Next, Request
from hsdns.corefile.keys import zones_from_args
from hsdns.corefile.properties import Property, compile_pattern, duration, one, read_properties
from hsdns.corefile.tree import Directive, Line, Token
from hsdns.plugin import Block, Runtime
from hsdns.plugins.transfer import ZonePlugin
from hsdns.wire.message import Reply
from hsdns.wire.name import Name

DEFAULT_RELOAD: Final = 60.0  # seconds
log = logging.getLogger("hsdns.plugin.auto")
DEFAULT_REGEXP: Final = r"db\.(.*)"
DEFAULT_TEMPLATE: Final = "{1}"
_REFERENCE: Final = re.compile(r"\$?\{(\w+)\}|\$(\w+)|\$\$")


class OriginTemplate:
    """A pattern for file names and a template for their zones; raises ValueError if invalid."""

    def __init__(self, regexp: str = DEFAULT_REGEXP, template: str = DEFAULT_TEMPLATE) -> None:
        self._regexp = compile_pattern(regexp)
        if not self._regexp.groups:
            raise ValueError(f'"{regexp}" needs at least one group, such as "(.*)"')
        self._template = template

    def origin(self, file_name: str) -> Name | None:
        """Return the zone of a file in lower case; None if the file name does not match or gives no valid name."""
        match = self._regexp.search(file_name)
        if match is None:
            return None

        def group(reference: re.Match[str]) -> str:
            word = reference[1] or reference[2]
            if word is None:
                return "$"
            number = int(word) if word.isdigit() else self._regexp.groupindex.get(word, -1)
            return match.group(number) or "" if 0 <= number <= self._regexp.groups else ""

        try:
            return Name.from_text(_REFERENCE.sub(group, self._template)).lowered()
        except ValueError:
            return None


class Folder(NamedTuple):
    """A directory of master files, and the template that makes zone names of file names."""

    token: Token
    template: OriginTemplate


def read_folder(line: Line) -> Folder:
    """Parse `DIR [REGEXP ORIGIN_TEMPLATE]`."""
    if len(line.args) not in (1, 3):
        raise line.error(
            '"directory" takes a directory, or a directory, a regular expression for file names and a zone name, '
            f"found {len(line.args)} arguments"
        )
    try:
        return Folder(line.args[0], OriginTemplate(*(token.text for token in line.args[1:])))
    except ValueError as error:
        raise line.args[1].error(str(error)) from None


class Auto(ZonePlugin[FileZone]):
    """Answers from the zones of a directory."""

    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {
        "directory": Property(read_folder, syntax="DIR [REGEXP ORIGIN_TEMPLATE]"),
        "reload": Property(one(duration()), default=DEFAULT_RELOAD, syntax="DURATION", reads=1),
        "upstream": Property(lambda line: True, default=False, syntax="[WORD...]"),
    }

    def __init__(
        self, origins: tuple[Name, ...], path: str, template: OriginTemplate, seconds: float
    ) -> None:
        """Take the zones to answer for, the directory, and the seconds between two scans of it, 0 for none."""
        super().__init__({})
        self._origins = origins
        self._path = path
        self._template = template
        self._seconds = seconds

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Parse `auto [ZONES...]`; if a block has several, the last one counts for each option, as in CoreDNS."""
        options = read_properties(directives, cls.PROPERTIES)
        folder: Folder | None = options["directory"]
        where = directives[-1].name.position
        if folder is None:
            raise where.error('auto needs "directory" with the directory of the master files')
        path = block.path(folder.token.text)
        try:
            os.stat(path)
        except FileNotFoundError:
            block.warn(
                f"{folder.token.position}: directory {path} does not exist yet; auto keeps looking for it"
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise folder.token.error(f'cannot access directory "{path}": {reason}') from error
        if options["upstream"]:
            block.warn(f'{where}: "upstream" has no effect, as in CoreDNS 1.14.7')
        origins = zones_from_args(directives[-1].args) or block.zones
        return cls(origins, path, folder.template, options["reload"])

    async def start(self, runtime: Runtime) -> None:
        """Read the directory and start to watch it."""
        await super().start(runtime)
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

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Answer names in the zones of the directive."""
        if not any(request.query.qname.is_at_or_below(origin) for origin in self._origins):
            return await next(request)
        return await super().handle(request, next)


def _read(origin: Name, path: str) -> FileZone | None:
    zone = FileZone(origin, path, log)
    try:
        zone.load()
    except (OSError, ZoneError) as error:
        log.warning("plugin/auto: zone %s: %s", origin.to_text(), describe(error))
        return None
    return zone
