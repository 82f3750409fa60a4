"""A zone of a master file that is reloaded when it changes.

Path: plugins/file.py and auto.py have one for each zone.
Rule 1: while the file is unreadable or invalid, the previous version is served; each attempt logs the error.
Rule 2: a change is a new serial or, with `by_mtime`, a new modification time; the whole zone is replaced at once.
Rule 3: files are read in a thread; the zone is replaced on the loop.

Parser for master files (RFC 1035 section 5), on dnspython:
Rule 1: $INCLUDE, $ORIGIN, $TTL and $GENERATE are supported; records outside of the zone are ignored.
Rule 2: parsing stops at a SOA record with the serial that is already served, so that frequent checks are cheap.

Zone names from file names: REGEXP and ORIGIN_TEMPLATE of `auto`:
Source: CoreDNS 1.14.7 plugin/auto regexp.go and walk.go; Go regexp.Expand.
Rule 1: the pattern is Go's (RE2, linear time) and not anchored.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from asyncio import sleep
from collections.abc import Callable
from typing import Any, Final

import dns.exception
import dns.name
import dns.rdata
import dns.rdataclass
import dns.tokenizer
import dns.transaction
import dns.zonefile

from hsdns.authority.zone import Zone, ZoneError, serial_of
from hsdns.corefile.properties import compile_pattern
from hsdns.wire.iana import RRType
from hsdns.wire.message import RR
from hsdns.wire.name import Name


class SameSerial(Exception):
    """The file has the serial that is already served."""


def read_zone(path: str, origin: Name, served: int | None = None) -> Zone:
    """Read a zone; raise OSError, ZoneError, or SameSerial if its serial is `served`."""
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        collector = _Collector(origin, served)
        tokenizer = _Tokenizer(file, path)
        reader = dns.zonefile.Reader(tokenizer, dns.rdataclass.IN, collector, allow_include=True)
        try:
            reader.read()
        except dns.exception.DNSException as error:
            raise ZoneError(str(error) or f"{path}: {type(error).__name__}") from error
        except (UnicodeError, RecursionError) as error:
            raise ZoneError(f"{path}: {error}") from error
    try:
        return Zone(origin, collector.found)
    except ZoneError as error:
        raise ZoneError(f"{path}: {error}") from None


def to_rr(owner: dns.name.Name, ttl: int, rdata: dns.rdata.Rdata) -> RR:
    """Convert a record of dnspython."""
    wire = rdata.to_wire()
    assert wire is not None, "None only if a file is given"
    return RR(
        Name(owner.to_wire() or b"\0"), int(rdata.rdtype), ttl, bytes(wire), int(rdata.rdclass)
    )


class _Tokenizer(dns.tokenizer.Tokenizer):
    """Reports the line in which the last token began; dnspython reports that of its end, which is often the next."""

    _line = 1

    def get(self, want_leading: bool = False, want_comment: bool = False) -> dns.tokenizer.Token:
        line = self._line if self.ungotten_token is not None else self.line_number
        token = super().get(want_leading, want_comment)
        if not token.is_eol_or_eof():
            self._line = line
        return token

    def where(self) -> tuple[str, int]:
        return super().where()[0], self._line


class _Origin(dns.transaction.TransactionManager):
    """Tells dnspython the zone's origin and class."""

    def __init__(self, origin: Name) -> None:
        self.origin = dns.name.from_text(origin.to_text())

    def origin_information(self) -> tuple[dns.name.Name, bool, dns.name.Name]:
        return self.origin, False, self.origin

    def get_class(self) -> dns.rdataclass.RdataClass:
        return dns.rdataclass.IN


class _Collector(dns.transaction.Transaction):
    """Collects records one by one in file order, not in sets as dnspython's own transactions."""

    def __init__(self, origin: Name, served: int | None) -> None:
        super().__init__(_Origin(origin), True, False)
        self.found: list[RR] = []
        self._served = served

    def add(self, *args: Any) -> None:
        """Store the record of the arguments `owner, ttl, rdata`."""
        record = to_rr(*args)
        self.found.append(record)
        if record.rrtype == RRType.SOA and serial_of(record) == self._served:
            raise SameSerial

    def check_put_rdataset(self, check: Callable[..., None]) -> None:
        """Allow all combinations, as CoreDNS does, such as a CNAME beside other records."""

    def _set_origin(self, origin: dns.name.Name) -> None:
        """Ignore it: all names are absolute."""


class FileZone:
    """A zone of a file; `current` is None until it has been loaded."""

    def __init__(
        self, origin: Name, path: str, log: logging.Logger, *, by_mtime: bool = False
    ) -> None:
        self.origin = origin
        self.path = path
        self.by_mtime = by_mtime
        self.current: Zone | None = None
        self._mtime_ns: int | None = None
        self._log = log

    def load(self) -> None:
        """Load the file for the first time; raise OSError or ZoneError."""
        found = self._read()
        if found is not None:
            self.current, self._mtime_ns = found

    async def watch(self, seconds: float, changed: Callable[[Name], None]) -> None:
        """Check the file every `seconds`, until cancelled; call `changed` for each new version."""
        while True:
            await sleep(seconds)
            if await self.reload():
                changed(self.origin)

    async def reload(self) -> bool:
        """Load the file if it has changed, and return whether it was loaded; log errors."""
        try:
            found = await asyncio.to_thread(self._read)
        except (OSError, ZoneError) as error:
            self._log.error(
                "plugin/file: zone %s: %s; still serving the previous version",
                self.origin.to_text(),
                describe(error),
            )
            return False
        if found is None:
            return False
        self.current, self._mtime_ns = found
        self._log.info(
            'plugin/file: Successfully reloaded zone "%s" in "%s" with %d SOA serial',
            self.origin.to_text(),
            self.path,
            self.current.serial,
        )
        return True

    def _read(self) -> tuple[Zone, int] | None:
        """Return the zone and the modification time of its file; None if unchanged."""
        mtime_ns = os.stat(self.path).st_mtime_ns
        if self.by_mtime and mtime_ns == self._mtime_ns:
            return None
        served = None if self.by_mtime or self.current is None else self.current.serial
        try:
            return read_zone(self.path, self.origin, served), mtime_ns
        except SameSerial:
            return None


def describe(error: OSError | ZoneError) -> str:
    """Return the message of an error in a file."""
    if isinstance(error, OSError):
        return f"cannot read {error.filename}: {error.strerror}"
    return str(error)


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
