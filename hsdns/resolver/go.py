"""Go's own resolver: programs built without cgo, and most others if their resolv.conf has no special options.

Path: model.look_up() -> here.
Source: measured with Go 1.26; golang/go src/net/dnsclient_unix.go, dnsconfig_unix.go.
Rule 1: A and AAAA are looked up independently, each from a socket of its own and with a new ID for each try.
Rule 2: each name gets all its attempts; then the next suffix is tried, whatever the error was.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from random import Random
from typing import Final

from hsdns.resolver.model import Answer, Arrival, Model, Result, Waiting, found_at, together, within
from hsdns.resolver.resolv_conf import Reader, switches
from hsdns.wire.iana import Rcode, type_to_text

EDNS_SIZE: Final = 1232  # and the octets that it reads of a reply over UDP
NO_HOST: Final = "no such host"
MISBEHAVING: Final = "server misbehaving"
LAME: Final = "lame referral"
CLOSED: Final = "EOF"
READER: Final = Reader(
    "Go",
    {
        **switches("rotate", "single-request", "use-vc", "edns0", "trust-ad", "no-reload"),
        "single-request-reopen": "single-request",
        "usevc": "use-vc",
        "tcp": "use-vc",
    },
)


class Temporary(str):
    """An error that may be gone the next time."""

    __slots__ = ()


TIMEOUT: Final = Temporary("i/o timeout")
FAILED: Final = Temporary(MISBEHAVING)
_Found = tuple[tuple[str, ...], str]  # addresses, or an error
_Try = Generator[float | None, Arrival | None, _Found]


class Go(Model):
    """The pure Go resolver of Go 1.26, measured."""

    name = "go"
    reader = READER
    used_by = "Go programs without cgo, and many with it; net.LookupSRV, LookupTXT and LookupAddr"

    def __init__(self, text: str, random: Random) -> None:
        super().__init__(text, random)
        self._lookups = 0  # for `rotate`

    def lookup(self, name: str, types: Sequence[int]) -> Waiting:
        """Try the names until one has an address."""
        last = Result((), "", "")
        for tried in self.names(name, types):
            found: list[str] = []
            for rrtype, (addresses, error) in (yield from self._query(tried, types)):
                found += addresses
                is_own = tried.rstrip(".") == name.rstrip(".")
                # An error takes precedence over NXDOMAIN, and the error for the name without a suffix over others.
                if error and (not last.error or (is_own and error != NO_HOST)):
                    last = Result((), error, f"{tried} {type_to_text(rrtype)}: {error}")
            if found:
                return found_at(tried, found, types)
        if last.error == NO_HOST:
            last = last._replace(why="no name tried has an address")
        return last

    def _query(
        self, name: str, types: Sequence[int]
    ) -> Generator[float | None, Arrival | None, list[tuple[int, _Found]]]:
        """Query the types at the same time, the last first, or one after the other; yield them as they end."""
        ended: list[tuple[int, _Found]] = []
        if "single-request" in self.conf.flags:
            for rrtype in types:
                found = yield from self._try(name, rrtype)
                ended.append((rrtype, found))
            return ended
        running = {rrtype: self._try(name, rrtype) for rrtype in reversed(types)}
        found_in_turn = yield from together(self, running)
        return found_in_turn

    def _try(self, name: str, rrtype: int) -> _Try:
        """Query the servers in turn, `attempts` times."""
        count = len(self.conf.nameservers)
        start = self._lookups if "rotate" in self.conf.flags else 0
        self._lookups += 1
        error = ""
        for _ in range(self.conf.attempts):
            for number in range(count):
                server = (start + number) % count
                addresses, error = yield from self._exchange(server, name, rrtype)
                if addresses or error == NO_HOST:
                    return addresses, error
        return (), error

    def _exchange(self, server: int, name: str, rrtype: int) -> _Try:
        qid = self.new_qid()
        transport = "tcp" if "use-vc" in self.conf.flags else "udp"
        while True:
            until = self.now + self.conf.timeout
            answer = yield from self.exchange(
                transport, server, qid, rrtype, name, until, EDNS_SIZE
            )
            if answer is None:
                return (), TIMEOUT
            if answer.is_closed:
                return (), CLOSED
            if transport == "tcp" or not answer.tc:
                size = 65535 if transport == "tcp" else EDNS_SIZE
                return within(answer, rrtype, name, size), _error(answer)
            transport = "tcp"


def _error(answer: Answer) -> str:
    if answer.rcode == Rcode.NXDOMAIN:
        return NO_HOST
    if answer.is_lame:
        return LAME
    if answer.rcode != Rcode.NOERROR:
        return FAILED if answer.rcode == Rcode.SERVFAIL else MISBEHAVING
    return "" if answer.addresses else NO_HOST
