"""Parser for master files (RFC 1035 section 5), on dnspython.

Path: file_zone.py and plugins/auto.py read files -> zone.py.
Rule 1: $INCLUDE, $ORIGIN, $TTL and $GENERATE are supported; records outside of the zone are ignored.
Rule 2: parsing stops at a SOA record with the serial that is already served, so that frequent checks are cheap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dns.exception
import dns.name
import dns.rdata
import dns.rdataclass
import dns.tokenizer
import dns.transaction
import dns.zonefile

from hsdns.authority.zone import Zone, ZoneError, serial_of
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
