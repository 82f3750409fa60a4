"""The plan of a run for the process that sends, in one message.

Path: run.py makes it -> send/process.py -> send/loop.py.

The plan of a load over connections, for the process that sends:
Rule: without -tls-name, the certificate is verified for the server's address.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Final

import msgspec

from hsdns.load.pods import PodPlan
from hsdns.load.questions import Recorded, order
from hsdns.load.schedule import Portion, Schedule

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

    `weights` give how often each query is sent; empty: in order.  `replies`: whether they are wanted.  `kinds` are the
    numbers of the queries' kinds, for a sender that can count (results.kind_numbers); empty: it does not count.
    `recorded` has the times and the order of a recording in place of schedule and order.  `portion` is the part that
    this process sends: its number, and how many there are.  With `pods`, these look up names in place of `queries`, so
    the schedule is that of lookups.  `streams`: all queries, or those truncated over UDP, go over connections; None:
    over UDP.  `window` is how many queries over UDP may wait at once (udp.window_for); 0: the number of IDs.  At
    most `most` queries over UDP wait for their replies at once, and the schedule waits for room; 0: it never waits.
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
    portion: tuple[int, int] = (0, 1)
    kinds: list[int] = []
    streams: StreamPlan | None = None
    pods: PodPlan | None = None
    window: int = 0
    most: int = 0

    def times(self) -> Iterator[int]:
        """When each query is due, in nanoseconds from the begin; they never fall."""
        portion = Portion(*self.portion)
        if self.recorded is not None:
            return portion.of(iter(array("q", self.recorded.times)))
        return self.schedule.times(portion)

    def order(self) -> Iterator[int]:
        """The indexes into `queries` in the order of sending; at least as many as there are times."""
        found = order(len(self.queries), self.weights, self.schedule.seed)
        if self.recorded is not None:
            found = iter(array("I", self.recorded.order))
        return Portion(*self.portion).of(found)
