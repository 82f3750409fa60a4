"""Programs that look names up with a library of another file, in their own way.

Path: model.look_up() -> here -> glibc.py, go.py, cares.py.
Rule: a program has its own entry if it sends other packets than its library, or keeps what it heard for another time.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from math import inf
from random import Random
from typing import ClassVar, Final

from hsdns.resolver import cares, glibc, go
from hsdns.resolver.cares import CAres
from hsdns.resolver.glibc import Glibc
from hsdns.resolver.go import Go
from hsdns.resolver.model import (
    LIBC_TYPES,
    STILL_WAITING,
    Arrival,
    Keeps,
    Model,
    Result,
    Waiting,
    together,
)
from hsdns.resolver.resolv_conf import Reader, switches
from hsdns.wire.iana import ADDRESSES, Rcode, RRType

CODES: Final = {
    cares.NODATA: "ENODATA",
    cares.NOT_FOUND: "ENOTFOUND",
    cares.TIMEOUT: "ETIMEOUT",
    cares.NO_CONTACT: "ECONNREFUSED",
    cares.MISFORMATTED: "EFORMERR",
    cares.ERRORS[Rcode.SERVFAIL]: "ESERVFAIL",
    cares.ERRORS[Rcode.NOTIMP]: "ENOTIMP",
    cares.ERRORS[Rcode.REFUSED]: "EREFUSED",
}
UNAVAILABLE: Final = "UNAVAILABLE: Unable to resolve host"


CANCELLED: Final = "DNS query cancelled"


def _until(
    model: Model, lookup: Waiting, end: float
) -> Generator[float | None, Arrival | None, Result | None]:
    """Run a lookup until a time; None if it has not ended."""
    arrival = None
    while model.now < end:
        try:
            deadline = lookup.send(arrival)
        except StopIteration as ended:
            return ended.value  # type: ignore[no-any-return] # StopIteration has no type for it
        arrival = yield end if deadline is None else min(deadline, end)
    return None


class NodeResolve(CAres):
    """dns.resolve() and its kin of Node 20, with c-ares 1.34; measured, src/cares_wrap.cc.

    A name is asked as it is, four times with each server, and any reply is taken.  The event loop looks once a second
    at what is late.
    """

    name = "node-resolve"
    reader = Reader(
        "Node", switches("rotate"), timeout=2, attempts=4, most_servers=1 << 30, searches=False, numbers=("timeout",)
    )  # fmt: skip
    used_by = "Node's dns.resolve*, dns.promises.resolve*, dns.reverse"
    keeps = Keeps()
    has_edns = caches = checks_replies = False
    tick = 1.0

    def lookup(self, name: str, types: Sequence[int]) -> Waiting:
        """Ask for one type, A of both families, as dns.resolve() without a type does."""
        result = yield from super().lookup(name, types[:1])
        return result._replace(error=CODES.get(result.error, result.error))


class Envoy(CAres):
    """STRICT_DNS of Envoy 1.40; measured, dns_resolver/cares/dns_impl.cc.

    With dns_lookup_family AUTO, the default, A is looked up if no name of the search list has AAAA records.  It has its
    own timeout and number of tries, and goes on with its socket after a timeout.
    """

    name = "envoy"
    reader = Reader(
        "Envoy", switches("rotate"), timeout=5, attempts=4, most_servers=1 << 30, numbers=("ndots",)
    )
    used_by = "Envoy's STRICT_DNS clusters"
    types = ADDRESSES
    keeps = Keeps(
        5,
        5,
        "STRICT_DNS queries every 5 s (dns_refresh_rate), or after the TTL with respect_dns_ttl",
    )
    caches = leaves_late_socket = False

    def lookup(self, name: str, types: Sequence[int]) -> Waiting:
        """Look up AAAA through the whole search list, then A; the errors are names of its counters."""
        self._sockets.clear()
        result = Result((), "", "")
        for rrtype in sorted(types, reverse=True):
            result = yield from self._walk(name, [rrtype])
            if result.addresses:
                return result
        is_missing = result.error in (cares.NODATA, cares.NOT_FOUND)
        return result._replace(error="update_no_rebuild" if is_missing else "update_failure")


class EnvoyTtl(Envoy):
    """STRICT_DNS of Envoy 1.40 with respect_dns_ttl; measured."""

    name = "envoy-ttl"
    used_by = "Envoy's clusters with respect_dns_ttl"
    keeps = Keeps(0, inf, "with respect_dns_ttl it queries when the TTL ends")


class EnvoyLogical(Envoy):
    """LOGICAL_DNS of Envoy 1.40; measured, clusters/logical_dns/logical_dns_cluster.cc."""

    name = "envoy-logical"
    used_by = "Envoy's LOGICAL_DNS clusters"
    keeps = Keeps(
        5, 5, "LOGICAL_DNS queries every 5 s (dns_refresh_rate); open connections stay in use"
    )

    def lookup(self, name: str, types: Sequence[int]) -> Waiting:
        """Take the first address; any error is a failure."""
        result = yield from super().lookup(name, types)
        error = result.error and "update_failure"
        return result._replace(addresses=result.addresses[:1], error=error)


class GrpcCore(CAres):
    """gRPC C-core of grpcio 1.85, with c-ares; measured."""

    name = "grpc-core"
    used_by = "gRPC in Python, C++ and Ruby"
    types = ADDRESSES
    keeps = Keeps(30, 30, "it looks a name up again when a connection breaks, at most every 30 s")
    has_edns = caches = leaves_late_socket = False
    tick, behind = 1.0, 0.0

    def lookup(self, name: str, types: Sequence[int]) -> Waiting:
        """Look up A and AAAA side by side, each through the search list on its own.

        When c-ares closes the socket of a server that failed, at its next look, all that still runs is cancelled.
        """
        self._begin()  # with a channel of its own
        ended: list[Result] = []
        lookup = together(self, {each: self._noted(name, each, ended) for each in types})
        arrival, end, server = None, inf, 0
        while self.now < end:
            try:
                until = lookup.send(arrival)
            except StopIteration:
                break
            if arrival is not None and arrival[1].is_closed:
                self.outbox.clear()
                end = self.now
            elif arrival is None:
                moved = any(each.server != server for each in self.outbox)
                again = self.now and any(each.transport == "tcp" for each in self.outbox)
                end = self.now if again else min(end, self.now + self.tick) if moved else end
            if self.now < end:
                server = self.outbox[-1].server if self.outbox else server
                arrival = yield min(until or end, end)
        else:
            ended.append(Result((), CANCELLED, f"{name}: c-ares closed a socket"))
        found = [address for result in ended for address in result.addresses]
        return next(
            (each._replace(addresses=tuple(found)) for each in ended if each.addresses), ended[-1]
        )

    def _noted(self, name: str, rrtype: int, ended: list[Result]) -> Waiting:
        result = yield from self._walk(name, [rrtype])
        ended.append(result)
        return result


class GrpcGo(Go):
    """grpc-go 1.85; measured."""

    name = "grpc-go"
    used_by = "gRPC in Go"
    types = ADDRESSES
    keeps = Keeps(30, 30, "it looks a name up again when a connection breaks, at most every 30 s")
    LONGEST: Final = 30.0  # seconds for both, ResolvingTimeout

    def lookup(self, name: str, types: Sequence[int]) -> Waiting:
        """Look up the addresses, then the service config, which is a TXT record, through the search list, too.

        It takes an error that is not temporary for no addresses.
        """
        end = self.now + self.LONGEST
        found = yield from _until(self, super().lookup(name, types), end)
        result = found or Result((), go.TIMEOUT, f"{name}: no result in {self.LONGEST:g} seconds")
        if isinstance(result.error, go.Temporary):
            return result
        yield from _until(self, super().lookup(f"_grpc_config.{name}", [RRType.TXT]), end)
        return result._replace(error="produced zero addresses" if result.error else "")


class NodeLookup(Glibc):
    """dns.lookup() of Node 20: getaddrinfo() in two of the four threads of libuv; measured, lib/dns.js."""

    name = "node-lookup"
    types: ClassVar[tuple[int, ...]] = LIBC_TYPES
    used_by = "Node's dns.lookup, http and net"
    most_threads = 2  # half of UV_THREADPOOL_SIZE, slow_work_thread_threshold() in threadpool.c
    keeps = Keeps(why="it keeps no answers; open connections of an agent stay in use")

    def lookup(self, name: str, types: Sequence[int]) -> Waiting:
        """Look a name up; the errors are codes."""
        result = yield from super().lookup(name, types)
        codes = {"": "", glibc.AGAIN: "EAI_AGAIN", STILL_WAITING: STILL_WAITING}
        return result._replace(error=codes.get(result.error, "ENOTFOUND"))


class NodeFetch(NodeLookup):
    """fetch() of Node 20, undici 6: dns.lookup(), of which a connection waits for ten seconds; measured."""

    name = "node-fetch"
    used_by = "Node's fetch and undici"
    types = ADDRESSES
    looks_at_own_address = True
    LONGEST: Final = 10.5  # seconds: the timeout of a connection, at which it looks each 0.5 s

    def lookup(self, name: str, types: Sequence[int]) -> Waiting:
        """Look a name up, and give up when the connection does."""
        lookup = super().lookup(name, self.own(types))
        result = yield from _until(self, lookup, self.now + self.LONGEST)
        if result is not None:
            return result
        self._is_single = self._reopens = False  # the next thread is in no mode yet
        return Result(
            (), "UND_ERR_CONNECT_TIMEOUT", f"{name}: no result in {self.LONGEST:g} seconds"
        )


class PythonSocket(Glibc):
    """socket.getaddrinfo() and gethostbyaddr() of CPython; measured."""

    name = "python-socket"
    types: ClassVar[tuple[int, ...]] = LIBC_TYPES
    used_by = "CPython's socket, requests, urllib3"

    def lookup(self, name: str, types: Sequence[int]) -> Waiting:
        """Look a name up; for an address the errors are those of gethostbyaddr()."""
        result = yield from super().lookup(name, types)
        own = {glibc.NONAME: "Unknown host", glibc.AGAIN: "Host name lookup failure"}
        is_address = types[0] == RRType.PTR
        return result._replace(error=own.get(result.error, result.error)) if is_address else result


class DotNet(Glibc):
    """System.Net.Dns of .NET 8 on Linux: getaddrinfo(); measured, pal_networking.c."""

    name = "dotnet"
    types: ClassVar[tuple[int, ...]] = LIBC_TYPES
    used_by = ".NET's Dns and HttpClient"
    keeps = Keeps(
        why="it keeps no answers; HttpClient keeps using a connection until PooledConnectionLifetime"
    )

    def lookup(self, name: str, types: Sequence[int]) -> Waiting:
        """Look a name up; GetHostEntry() of an address then looks up the addresses of its name, and can do without."""
        result = yield from super().lookup(name, types)
        if types[0] == RRType.PTR and result.addresses:
            found = result.addresses[0].removesuffix(".")
            yield from super().lookup(found, ADDRESSES)
        again = result.error == glibc.AGAIN
        error = "Resource temporarily unavailable" if again else result.error and glibc.NONAME
        return result._replace(error=error)


class _Keeping(Glibc):
    """getaddrinfo() and a cache of the program's own."""

    types: ClassVar[tuple[int, ...]] = ADDRESSES
    most_kept: ClassVar[float] = inf  # seconds, of `keeps`
    keeps_errors: ClassVar[float] = 0.0  # seconds

    def __init__(self, text: str, random: Random) -> None:
        super().__init__(text, random)
        self._kept: dict[str, tuple[float, Result]] = {}

    def lookup(self, name: str, types: Sequence[int]) -> Waiting:
        """Look a name up, unless its result is known."""
        until, result = self._kept.get(name, (0.0, Result((), "", "")))
        if until <= self.now:
            result = yield from super().lookup(name, self.own(types))
            most = self.most_kept if result.addresses else self.keeps_errors
            self._kept[name] = self.now + min(self.keeps.least, most), result
        return result


class NginxStart(_Keeping):
    """Names in the configuration of nginx 1.22, without `resolver`: getaddrinfo() when it starts; measured."""

    name = "nginx-start"
    used_by = "nginx without `resolver`: names in upstream and proxy_pass"
    looks_at_own_address = True
    keeps = Keeps(
        inf, inf, "without `resolver`, a name is looked up only when nginx starts or reloads"
    )


class Java(_Keeping):
    """InetAddress of OpenJDK 17: getaddrinfo() and a cache; measured."""

    name = "java"
    used_by = "Java's InetAddress and HttpClient"
    keeps = Keeps(
        30, 30, "the JVM keeps addresses for 30 s (networkaddress.cache.ttl; forever under a security manager)"
    )  # fmt: skip
    keeps_errors = 10.0  # networkaddress.cache.negative.ttl


class GrpcJava(Java):
    """gRPC Java 1.70, of InetAddress; measured.  It asks for TXT records only with enable_service_config."""

    name = "grpc-java"
    used_by = "gRPC in Java"
    most_kept = 30.0
    keeps = Keeps(
        77, 77, "it keeps addresses for 30 s, as the JVM does; a failed connect looks up again, less often each time"
    )  # fmt: skip

    def lookup(self, name: str, types: Sequence[int]) -> Waiting:
        """Look a name up; there is one error."""
        result = yield from super().lookup(name, types)
        return result._replace(error=result.error and UNAVAILABLE)
