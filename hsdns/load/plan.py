"""The plan of a run: the servers that it loads, and what the process that sends gets for each, in one message.

Path: cli/settings.py reads --server -> here; cli/load.py makes the plan -> send/process.py -> send/loop.py.
Rule 1: without -tls-name, the certificate is verified for the server's address.
Rule 2: a server is `NAME=ADDRESS:PORT`; the default name is address and port, the default port is that of -p.
Rule 3: an address that is neither loopback nor private is refused unless -i-own-this names it, and a schedule above the
        ceilings unless its user lifts them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from itertools import cycle, islice
from random import Random
from typing import Final, NamedTuple

import msgspec

from hsdns.corefile.properties import duration_to_text
from hsdns.load.errors import LoadError
from hsdns.load.pods import PodPlan
from hsdns.load.questions import RandomLabels, Recorded, order
from hsdns.load.schedule import NEVER_LATE, WHOLE, Portion, Schedule
from hsdns.wire import printable

UDP: Final = "udp"
TCP: Final = "tcp"
DOT: Final = "dot"
DOH: Final = "doh"
TRANSPORTS: Final = {UDP: "UDP", TCP: "TCP", DOT: "DNS over TLS", DOH: "DNS over HTTPS"}
PORTS: Final = {UDP: 53, TCP: 53, DOT: 853, DOH: 443}
GET: Final = "get"
POST: Final = "post"
PATH: Final = "/dns-query"
STAYS: Final = -1  # an idle connection stays open


class StreamPlan(msgspec.Struct, frozen=True):
    """Connections over `transport`.

    At most `connections` at once, `pipeline` queries in flight on each, `queries` on each in all (0: any number), and
    `idle` nanoseconds until one without a query in flight is closed (STAYS: it stays open; with `queries`, 0).
    `for_truncated`: only UDP queries with a truncated answer are sent over them.
    """

    transport: str = TCP
    connections: int = 20
    pipeline: int = 100
    queries: int = 0
    idle: int = STAYS
    tls_ca: str = ""
    tls_name: str = ""
    tls_insecure: bool = False
    path: str = PATH
    method: str = POST
    for_truncated: bool = False

    @property
    def is_encrypted(self) -> bool:
        """Whether the connections use TLS."""
        return self.transport in (DOT, DOH)


def transport_words(streams: StreamPlan | None) -> str:
    """The transport of a load, as text."""
    if streams is None:
        return TRANSPORTS[UDP]
    if streams.for_truncated:
        return f"{TRANSPORTS[UDP]} (TCP for what is truncated)"
    return TRANSPORTS[streams.transport]


def authority(host: str, port: int) -> str:
    """The authority of a URL: host, and the port unless it is that of HTTPS."""
    name = f"[{host}]" if ":" in host else host
    return name if port == PORTS[DOH] else f"{name}:{port}"


class Plan(msgspec.Struct, frozen=True):
    """A run; `timeout` in nanoseconds, `address` in the socket module's form, `queries` without IDs.

    `weights` give how often each query is sent, `mixes` the same for each stage; empty: in order.  `replies`: whether
    they are wanted.  `kinds` are the numbers of the queries' kinds, for a sender that can count (results.kind_numbers);
    empty: it does not count.
    `recorded` has the times and the order of a recording in place of schedule and order.  `portion` is the part that
    this process sends: its number, and how many there are.  With `pods`, these look up names in place of `queries`, so
    the schedule is that of lookups.  `streams`: all queries, or those truncated over UDP, go over connections; None:
    over UDP.  `window` is how many queries over UDP may wait at once (udp.window_for); 0: the number of IDs.  At most
    `most` queries over UDP wait for their replies at once, and the schedule waits for room; 0: it never waits.
    `clients` are the source addresses of clients with a socket or connection each, "" for that of the system; none:
    sockets in turn.  `labels`: each query has a random one before its name.
    """

    family: int
    address: tuple[str | int, ...]
    queries: list[bytes]
    weights: list[float]
    schedule: Schedule
    timeout: int
    sockets: int
    replies: bool
    recorded: Recorded | None = None
    portion: Portion = WHOLE
    kinds: list[int] = []
    streams: StreamPlan | None = None
    pods: PodPlan | None = None
    window: int = 0
    most: int = 0
    mixes: list[list[float]] = []
    clients: list[str] = []
    labels: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether a sender that knows only datagrams, and sockets in turn, can carry it out."""
        return self.streams is None and not self.clients and not self.labels

    @property
    def late_after(self) -> int:
        """The nanoseconds after which a query is late; with `most`, none is."""
        return NEVER_LATE if self.most else self.schedule.late_after

    def times(self) -> Iterator[int]:
        """When each query is due, in nanoseconds from the begin; they never fall."""
        if self.recorded is not None:
            return self.portion.of(iter(array("q", self.recorded.times)))
        return self.schedule.times(self.portion)

    def asking(self) -> Iterator[int]:
        """The number of the client of each query."""
        found: Iterator[int] = cycle(range(len(self.clients) or 1))
        if self.recorded is not None:
            found = iter(array("I", self.recorded.clients))
        return self.portion.of(found)

    def labelled(self) -> Sequence[bytes]:
        """The queries; with `labels` each has a new label before its name whenever it is taken."""
        random = Random(f"{self.schedule.seed}/{self.portion.part}")
        return RandomLabels(self.queries, random) if self.labels else self.queries

    def order(self) -> Iterator[int]:
        """The indexes into `queries` in the order of sending; at least as many as there are times."""
        seed = self.schedule.seed
        found = order(len(self.queries), self.weights, seed)
        if self.mixes:
            drawn = [order(len(each), each, seed + at) for at, each in enumerate(self.mixes)]
            found = (next(drawn[at]) for at in self.schedule.stage_numbers())
        if self.recorded is not None:
            found = iter(array("I", self.recorded.order))
        return self.portion.of(found)


MOST_RATE: Final = 100_000.0  # queries per second
MOST_SECONDS: Final = 3600.0
# The highest values of -max-rate and -max-time.
HIGHEST_RATE: Final = 10_000_000
# Loopback, link-local, private (RFC 1918, RFC 4193) and shared address space, which some clouds use (RFC 6598).
_OWN: Final[tuple[IPv4Network | IPv6Network, ...]] = tuple(
    ip_network(each)
    for each in (
        *("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10"),
        *("::1/128", "fc00::/7", "fe80::/10"),
    )
)  # fmt: skip


def check_target(address: str, owned: Sequence[str]) -> None:
    """Raise LoadError for an address that may not be the user's."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        raise LoadError(
            f'"{address}" is not an IP address; --server takes one, such as 127.0.0.1'
        ) from None
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    seen = found if mapped is None else mapped
    if any(seen.version == own.version and seen in own for own in _OWN) or address in owned:
        return
    raise LoadError(
        f"{address} is neither loopback nor private: load there is an attack unless the server is yours; "
        f"if it is, add --i-own-this {address}"
    )


def check_schedule(schedule: Schedule, most_rate: float, most_seconds: float) -> None:
    """Raise LoadError for a schedule above the ceilings."""
    if schedule.fastest > most_rate:
        raise LoadError(
            f"--rate: {schedule.fastest:.10g} queries a second are above the ceiling of {most_rate:.10g}; "
            f"--max-rate {schedule.fastest:.10g} lifts it"
        )
    if schedule.seconds > most_seconds:
        length = duration_to_text(schedule.seconds)
        raise LoadError(
            f"--time: {length} is above the ceiling of {duration_to_text(most_seconds)}; --max-time {length} lifts it"
        )


MOST_CLIENTS: Final = 20_000  # of the 28,000 ports that Linux gives by default
ANY: Final = "any"


def read_clients(text: str) -> tuple[str, ...]:
    """Read -clients: addresses, as NETWORK/LENGTH or one, or `any`, which is ""; raise LoadError."""
    if text == ANY:
        return ("",)
    try:
        network = ip_network(text)
    except ValueError as error:
        raise LoadError(
            f'--clients needs a network of this machine such as 127.1.0.0/24, or any; found "{text}" ({error})'
        ) from None
    return tuple(str(each) for each in islice(network.hosts(), MOST_CLIENTS))


class Target(NamedTuple):
    """A server; `host` is an address, not a name."""

    name: str
    host: str
    port: int


def read_targets(words: Sequence[str], port: int, owned: Sequence[str]) -> list[Target]:
    """Read the words of --server; raise LoadError, also for addresses that may not be the user's."""
    found: dict[str, Target] = {}
    for word in words:
        name, equals, place = word.rpartition("=")
        host, own_port = _host_and_port(place, port)
        check_target(host, owned)
        name = printable(name) if equals else place_to_text(host, own_port)
        if not name.strip():
            raise LoadError(
                f'--server: "{word}" has an empty name; write NAME=ADDRESS, or only ADDRESS'
            )
        if name in found:
            raise LoadError(
                f'--server: "{name}" is given twice; give each server its own name, as NAME=ADDRESS'
            )
        found[name] = Target(name, host, own_port)
    return list(found.values())


def place_to_text(host: str, port: int) -> str:
    """An address and a port as text."""
    return f"{host} port {port}"


def _host_and_port(place: str, port: int) -> tuple[str, int]:
    """An address with an optional port: 127.0.0.1:53, [::1]:53, ::1."""
    host, colon, digits = place.rpartition(":")
    has_port = colon and ((host.startswith("[") and host.endswith("]")) or ":" not in host)
    if not has_port:
        return place.removeprefix("[").removesuffix("]"), port
    if not (digits.isascii() and digits.isdigit() and 0 < int(digits) < 65_536):
        raise LoadError(
            f'--server: "{digits}" in "{place}" is not a port; write ADDRESS:PORT with one from 1 to 65535'
        )
    return host.removeprefix("[").removesuffix("]"), int(digits)
