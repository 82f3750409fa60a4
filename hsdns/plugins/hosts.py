"""Answers queries from a hosts file such as /etc/hosts, and from lines in the Corefile.

Path: step 5, before `kubernetes`.
Source: CoreDNS 1.14.7 plugin/hosts.
Rule 1: the lines form no zone, so there is no SOA record: an unknown name is SERVFAIL, not NXDOMAIN, unless
        `fallthrough` passes it on; a known name without the type of the question gets an empty answer without SOA.
Rule 2: a PTR query without an answer is always passed on; one with an answer need not be in a zone of the plugin.
Rule 3: the lines of the file and of the Corefile are combined, those of the file first.
Rule 4: cacheable: its own answers are not stored in the answer table, and those of later plugins are valid until the
        file changes.

The lines of a hosts(5) file: addresses by name, names by address:
Source: CoreDNS 1.14.7 plugin/hosts hostsfile.go and wildcard.go; hosts(5).
Rule: a table is immutable; reading a file again makes a new one.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar, Final, Self

from hsdns.chain import Next, Request
from hsdns.cluster.address import address_of, pack_address
from hsdns.cluster.freshness import plugin_counter
from hsdns.corefile.keys import read_fallthrough, zones_from_args
from hsdns.corefile.properties import (
    Property,
    duration,
    flag,
    integer,
    one,
    only_once,
    read_properties,
)
from hsdns.corefile.tree import Directive, did_you_mean
from hsdns.metrics import Gauge
from hsdns.plugin import Block, Plugin, Runtime
from hsdns.wire.iana import ADDRESSES, Rcode, RRType
from hsdns.wire.message import RR, Reply, unwritten
from hsdns.wire.name import Name


class HostsTable:
    """Lines of hosts(5), looked up by name and by address."""

    __slots__ = ("_by_address", "_by_name")

    def __init__(
        self, lines: Iterable[str], zones: Sequence[Name], *, reverse: bool = True
    ) -> None:
        """Take all names at or below the zones; lines without an address and words that are not names are skipped."""
        self._by_name: dict[tuple[int, bytes], list[bytes]] = {}
        self._by_address: dict[bytes, list[Name]] = {}
        for line in lines:
            words = line.partition("#")[0].split()
            packed = parse_address(words[0]) if len(words) > 1 else None
            if packed is None:
                continue
            rrtype = RRType.A if len(packed) == 4 else RRType.AAAA
            for word in words[1:]:
                try:
                    owner = Name.from_text(word).lowered()
                except ValueError:
                    continue
                if not any(owner.is_at_or_below(zone) for zone in zones):
                    continue
                self._by_name.setdefault((rrtype, owner.lower), []).append(packed)
                if reverse and not owner.lower.startswith(b"\1*"):
                    self._by_address.setdefault(packed, []).append(owner)

    def __len__(self) -> int:
        """The number of entries in both directions, including repeated ones (the metric coredns_hosts_entries)."""
        addresses = sum(map(len, self._by_name.values()))
        return addresses + sum(map(len, self._by_address.values()))

    @property
    def owners(self) -> list[Name]:
        """The names that have an address."""
        return [Name(lower) for lower in {lower for _, lower in self._by_name}]

    def addresses(self, qname: Name, rrtype: int) -> list[bytes]:
        """The A or AAAA data of a name, or of a wildcard that replaces its first label."""
        lower = qname.lower
        found = self._by_name.get((rrtype, lower))
        if found is None and len(lower) > 1:
            found = self._by_name.get((rrtype, b"\1*" + lower[1 + lower[0] :]))
        return found or []

    def names(self, packed: bytes) -> list[Name]:
        """The names of an address."""
        return self._by_address.get(packed, [])


def parse_address(text: str) -> bytes | None:
    """The octets of an address, without a zone (`fe80::1%eth0`)."""
    return pack_address(text.partition("%")[0])


DEFAULT_PATH: Final = "/etc/hosts"
_COUNTER: Final = plugin_counter(b"hosts")
_log = logging.getLogger("hsdns.plugin.hosts")


class Hosts(Plugin):
    """Answers A, AAAA and PTR for the names of a hosts file."""

    cacheable = True
    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {
        "ttl": Property(one(integer(1, 65535)), default=3600, syntax="SECONDS", reads=1),
        "no_reverse": Property(flag, default=False, reads=0, stops=True),
        "reload": Property(one(duration()), default=5.0, syntax="DURATION"),
        "fallthrough": Property(read_fallthrough, default=(), syntax="[ZONES...]"),
        "fallthrough_unsupported": Property(flag, default=False),
    }

    def __init__(
        self, path: str, zones: Sequence[Name], inline: Iterable[str], options: dict[str, Any]
    ) -> None:
        self.path = path
        self.zones = tuple(zones)
        self._ttl: int = options["ttl"]
        self._reverse = not options["no_reverse"]
        self._reload: float = options["reload"]
        self._through: tuple[Name, ...] = options["fallthrough"]
        self._unsupported_through: bool = options["fallthrough_unsupported"]
        self._inline = HostsTable(inline, self.zones, reverse=self._reverse)
        self._tables: tuple[HostsTable, ...] = (self._inline,)
        self._version: tuple[int, int] | None = None  # time in nanoseconds, and size
        self._gauges: tuple[Gauge, Gauge] | None = None  # once it has started

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Parse `hosts [FILE [ZONES...]]`; a missing file is only a warning, it may be created later."""
        directive = only_once(directives)
        path = DEFAULT_PATH
        if directive.args:
            path = block.path(directive.args[0].text)
            _check_file(directive, path, block.warn)
        zones = zones_from_args(directive.args[1:]) or block.zones
        inline, properties = _split_body(directive, cls.PROPERTIES, block.warn)
        options = read_properties([properties], cls.PROPERTIES)
        if options["fallthrough_unsupported"] and not options["fallthrough"]:
            raise directive.error(
                'property "fallthrough_unsupported" of hosts has no effect without "fallthrough"; add it'
            )
        made = cls(path, zones, inline, options)
        # Not in start(), which runs on the loop: a reloaded Corefile is read in a thread.
        made.read()
        return made

    async def start(self, runtime: Runtime) -> None:
        """Start to watch the file."""
        self._runtime = runtime
        self._gauges = (
            runtime.metrics.gauge("coredns_hosts_entries", ("hostsfile",)),
            runtime.metrics.gauge("coredns_hosts_reload_timestamp_seconds"),
        )
        self._report()
        if self._reload:
            runtime.look_every(self._reload, self._look)

    def _look(self) -> Callable[[], Callable[[], None]] | None:
        """Parse the file if it has changed, in a thread: a blocklist of 100,000 lines takes most of a second."""
        found = self._parse()
        return None if found is None else partial(self._change, *found)

    def _change(self, table: HostsTable, version: tuple[int, int]) -> Callable[[], None]:
        self._use(table, version)
        self._runtime.counters.bump(_COUNTER)
        return self._runtime.names_answered_first_changed

    def read(self) -> None:
        """Read the file if its time or size has changed; while it cannot be read, the previous content stays."""
        found = self._parse()
        if found is not None:
            self._use(*found)

    def _parse(self) -> tuple[HostsTable, tuple[int, int]] | None:
        """Return the content of the file, None if it has not changed.  Runs in a thread and changes no state."""
        try:
            # Before it is read: if it changes meanwhile, it is read again.
            status = os.stat(self.path)
            version = status.st_mtime_ns, status.st_size
            if version == self._version:
                return None
            with open(self.path, encoding="utf-8", errors="replace") as file:
                return HostsTable(file, self.zones, reverse=self._reverse), version
        except OSError as error:
            _log.debug("plugin/hosts: cannot read %s: %s", self.path, error.strerror)
            return None

    def _use(self, table: HostsTable, version: tuple[int, int]) -> None:
        """Answer from a new table, beginning with the next query."""
        self._tables, self._version = (table, self._inline), version
        self._report()

    def _report(self) -> None:
        if self._gauges is None or self._version is None:
            return
        of_entries, loaded = self._gauges
        entries = sum(map(len, self._tables))
        of_entries.set(entries, (self.path,))
        loaded.set(self._version[0] / 1e9)
        _log.debug("plugin/hosts: Parsed hosts file into %d entries", entries)

    def names_answered_first(self, zone: Name) -> tuple[Name, ...] | None:
        """The names of the lines in a zone, a wildcard as its parent name, and the zones without `fallthrough`."""
        found = {
            Name(name.lower[2:]) if name.lower.startswith(b"\1*") else name
            for table in self._tables
            for name in table.owners
        }
        for own in self.zones:
            if zone.is_at_or_below(own) and not self._passes(zone):
                return None
            if own.is_at_or_below(zone) and not self._passes(own):
                found.add(own)
        return tuple(name for name in found if name.is_at_or_below(zone))

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Answer from the lines; unknown names by Rule 1."""
        query = request.query
        qname, qtype = query.qname, query.qtype
        if request.dependencies is not None:
            request.dependencies.add(_COUNTER)
        if qtype == RRType.PTR:
            names = self._names(qname)
            if not names:
                return await next(request)
            return self._reply(qname, qtype, [target.wire for target in names])
        if not any(qname.is_at_or_below(zone) for zone in self.zones):
            return await next(request)
        is_address = qtype in ADDRESSES
        if not is_address and self._unsupported_through and self._passes(qname):
            return await next(request)
        found = self._addresses(qname, qtype) if is_address else []
        if not found and not self._exists(qname):
            if self._passes(qname):
                return await next(request)
            return unwritten(Rcode.SERVFAIL)
        return self._reply(qname, qtype, found)

    recompute = handle  # this plugin only changes the reply

    def _addresses(self, qname: Name, rrtype: int) -> list[bytes]:
        return [packed for table in self._tables for packed in table.addresses(qname, rrtype)]

    def _names(self, qname: Name) -> list[Name]:
        packed = address_of(qname)
        if packed is None:
            return []
        return [name for table in self._tables for name in table.names(packed)]

    def _exists(self, qname: Name) -> bool:
        return bool(self._addresses(qname, RRType.A) or self._addresses(qname, RRType.AAAA))

    def _passes(self, qname: Name) -> bool:
        return qname.longest_of(self._through) is not None

    def _reply(self, owner: Name, rrtype: int, found: Iterable[bytes]) -> Reply:
        return Reply(answer=tuple(RR(owner, rrtype, self._ttl, rdata) for rdata in found), aa=True)


def _check_file(directive: Directive, path: str, warn: Callable[[str], None]) -> None:
    token = directive.args[0]
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        warn(f"{token.position}: hosts file {path} does not exist yet; it is read when it does")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise token.error(f'cannot access hosts file "{path}": {reason}') from error
    else:
        if stat.S_ISDIR(status.st_mode):
            warn(f"{token.position}: hosts file {path} is a directory; write the path of a file")


def _split_body(
    directive: Directive, table: dict[str, Property[Any]], warn: Callable[[str], None]
) -> tuple[list[str], Directive]:
    """Separate lines of hosts(5) from properties; after `fallthrough` there are only properties."""
    inline, properties = [], []
    passed = False
    for line in directive.lines:
        word = line.name.text
        if word in table or passed:
            properties.append(line)
            passed = passed or word == "fallthrough"
            continue
        inline.append(" ".join((word, *(token.text for token in line.args))))
        if parse_address(word) is None:
            warn(
                f'{line.name.position}: "{word}" is neither a property of hosts nor an address, the line is skipped'
                f"{did_you_mean(word, table)}"
            )
        elif not line.args:
            warn(f'{line.name.position}: no name follows the address "{word}", the line is skipped')
    return inline, directive._replace(body=tuple(properties))
