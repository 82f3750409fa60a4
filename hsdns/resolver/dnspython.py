"""The resolver of dnspython: resolve_name() for addresses, resolve(..., search=True) or query() for other types.

Path: model.look_up() -> here.
Source: measured with 2.9; dns/resolver.py.
Rule 1: a server gets one query after the other, each from a socket of its own and with its own ID, with growing pauses
        between the rounds.  All of them together have five seconds; those of one family only as long as one query has.
Rule 2: a server that answers with an error is not asked again.
Rule 3: only NXDOMAIN leads to the next suffix.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import ClassVar, Final

from hsdns.resolver.model import ADDRESS_LEN, Arrival, Model, Result, Waiting, found_at
from hsdns.resolver.resolv_conf import Reader, switches
from hsdns.wire.iana import Rcode, RRType

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0  # seconds before the next round
NONAME: Final = "NXDOMAIN"
NODATA: Final = "NoAnswer"
FAILED: Final = "NoNameservers"
TIMEOUT: Final = "LifetimeTimeout"
READER: Final = Reader(
    "dnspython", switches("rotate", "edns0"), timeout=2, most_servers=1 << 30, numbers=("ndots", "timeout")
)  # fmt: skip

_Found = Generator[float | None, Arrival | None, tuple[tuple[str, ...], str]]


class Dnspython(Model):
    """dnspython 2.9, measured."""

    name = "dnspython"
    reader = READER
    used_by = "dns.resolver: Patroni"
    walks: ClassVar[bool] = True  # the search list, for other types than addresses
    lifetime: ClassVar[float] = 5.0  # seconds

    def names(self, name: str, types: Sequence[int]) -> list[str]:
        """Addresses are looked up without the search list."""
        walks = self.walks and types[0] not in ADDRESS_LEN
        return super().names(name, types) if walks else [name]

    def lookup(self, name: str, types: Sequence[int]) -> Waiting:
        """Look up the types one after the other, AAAA before A."""
        end = self.now + self.lifetime
        found: list[str] = []
        tried = name
        for rrtype in sorted(types, reverse=True):
            left = self.names(name, types)
            self._end = end
            if rrtype in ADDRESS_LEN:
                self._end = min(end, self.now + self.conf.timeout)
            records: tuple[str, ...] = ()
            error = NONAME
            while left and error == NONAME:
                tried = left.pop(0)
                records, error = yield from self._query(tried, rrtype)
            if error not in ("", NODATA):
                return Result((), error, f"{tried}: {error}")
            found += records
        return found_at(tried, found, types) if found else Result((), NODATA, f"{tried}: {NODATA}")

    def _query(self, name: str, rrtype: int) -> _Found:
        servers = list(range(len(self.conf.nameservers)))
        if "rotate" in self.conf.flags:
            self.random.shuffle(servers)
        left, pause = servers[:], FIRST_PAUSE
        while servers:
            if not left:
                left, until = servers[:], self.now + pause
                while (yield until) is not None:
                    pass
                pause = min(2 * pause, LONGEST_PAUSE)
            if self.now >= self._end:
                return (), TIMEOUT
            server, transport = left.pop(0), "udp"
            while True:
                until = min(self._end, self.now + self.conf.timeout)
                edns = 1232 if "edns0" in self.conf.flags else 0
                answer = yield from self.exchange(
                    transport, server, self.new_qid(), rrtype, name, until, edns
                )
                if answer is None or not answer.tc or transport == "tcp":
                    break
                transport = "tcp"
            if answer is None:
                continue
            if answer.rcode == Rcode.NXDOMAIN:
                return (), NONAME
            if answer.rcode == Rcode.NOERROR and not answer.is_closed:
                return answer.addresses, "" if answer.addresses else NODATA
            servers.remove(server)
        return (), FAILED


class MongoDb(Dnspython):
    """SRV and TXT lookups of PyMongo 4.20, with dnspython; measured, synchronous/srv_resolver.py."""

    name = "mongodb-srv"
    used_by = "mongodb+srv:// of PyMongo; other drivers query the name as given, too"
    types = (RRType.SRV, RRType.TXT)
    walks = False
    lifetime = 20.0

    def lookup(self, name: str, types: Sequence[int]) -> Waiting:
        """Look a name up; it may have no TXT record, or one."""
        result = yield from super().lookup(name, types)
        if types[0] == RRType.TXT and len(result.addresses) > 1:
            return Result((), "Only one TXT record is supported", result.why)
        is_missing = types[0] == RRType.TXT and result.error in (NONAME, NODATA)
        return result._replace(error="no TXT record") if is_missing else result
