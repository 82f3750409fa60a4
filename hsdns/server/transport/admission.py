"""What clients may take of the server: places, credit for TLS, turns of the event loop, descriptors, waiting queries.

Path: step 1: tcp.py and http/pages.py give each connection a place, and with http/doh.py let it take turns;
udp.py bounds what waits.  Without sockets and clocks.
Rule: whatever one client takes, it takes from itself first; and a client is what client_of() says.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from heapq import heapify, heapreplace
from ipaddress import IPv6Address
from socket import AF_INET, inet_pton
from typing import Any, Final, NamedTuple, Protocol, Self

from hsdns import eager
from hsdns.chain import Endpoint
from hsdns.fastpath.miss_queue import CAPACITY as QUEUE_CAPACITY
from hsdns.metrics import Counter, Registry

log = logging.getLogger("hsdns.server")

# Places.
MAX_TRIES: Final = 16  # connections with queries in progress that are skipped for a new one
# A fifth of the 170 MiB that kubeadm allows; 500 clients may each leave a reply of 64 KB unread.
MAX_OCTETS: Final = 32 * 1024 * 1024
# Octets that a connection may have uncounted in each direction, so that ordinary messages cost nothing; with the most
# connections 16 MiB.
FREE_OCTETS: Final = 1024
# Credit, in seconds of the event loop.
CONNECTION: Final = 0.001  # seconds: for a handshake, with some reserve for a large key
FRAME: Final = 0.00001
OCTET: Final = 0.00000002
# The clients of a node may share an address, and all connect at once after the server has started.
CREDIT: Final = 0.5
CREDIT_A_SECOND: Final = 0.25
MANY: Final = 4
MAX_CREDIT_WAIT: Final = 2.0  # seconds, less than the timeout of most clients
MAX_REMEMBERED: Final = 1024
IPV4_LEN: Final = 4  # octets
# Turns.
STEPS: Final = 64  # in one iteration of the loop
SECONDS: Final = 0.0005  # after which no more steps begin in an iteration
_FEW: Final = 8
FAILED: Final = "a message cannot be handled; its connection is closed"
# Shares.
MAX_CLIENTS: Final = 8192  # idle 3.7 KB each over TCP, 30 MB in all; Places limits the rest
# A kubelet's probe sends its request 30 ms after it has connected; at 4,000 new connections a second 512 last 128 ms,
# and the 128 of a process with 512 descriptors 32 ms.
MAX_PAGES: Final = 512
# Upstreams; new connections that are accepted before others have closed.
MAX_RESERVED: Final = 4096 + 1024
# Pending queries.
# For one listener.  A forwarded query takes 10 KiB while it waits.
MAX_PENDING: Final = 4096
# Queue bound.
PERIOD: Final = 0.05  # seconds over which the rate is measured
GROWING: Final = 3  # periods
STANDING: Final = 0.5  # seconds
QUIET: Final = 1.0  # seconds
RECENT: Final = 10.0  # seconds
QUEUE_WAIT: Final = 0.01  # seconds
LEAST_QUEUE: Final = 64  # misses


class Held(Protocol):
    """A connection that has a place."""

    @property
    def pending(self) -> int:
        """The number of queries in progress."""


class Closable(Protocol):
    """Its transport."""

    def get_write_buffer_size(self) -> int:
        """The number of octets that wait to be sent."""

    def close(self) -> None:
        """Close after the written data have been sent."""

    def abort(self) -> None:
        """Close at once."""


class Places:
    """Limits the number of open connections and of the octets kept for them: at most `most`, with `octets` in all.

    Rule 1: if no place is free, the server closes a connection of the client with the most connections: the one that
            was silent longest, or the oldest if a query is in progress on all of them.  So a client with all places
            cannot keep other clients out.
    Rule 2: a connection with a query in progress is only closed for a client with fewer connections; otherwise the
            server refuses the new connection.
    Rule 3: the cost of a new connection does not depend on the number of places.
    Rule 4: what clients have sent and the server cannot handle yet, and what it has written and they do not read, is
            limited over all connections together.  Beyond MAX_OCTETS, the server closes connections of the client that
            has most octets, the one first that has had some for longest.  It goes on until an eighth is free, so that
            it sorts the clients once for many connections.

    With `within`, each connection also has a place in that one, which counts its octets and what is closed.
    `closed` counts those closed for new ones or for their octets, `refused` the new ones without a place.
    """

    def __init__(self, most: int, within: Places | None = None) -> None:
        self.most = most
        self._within = within
        self.octets = 0
        self.closed = self.refused = 0
        self._clients: dict[Held, bytes] = {}
        # The connections of each client, the one silent longest first.
        self._connections: dict[bytes, dict[Held, Closable]] = {}
        self._by_count: dict[int, dict[bytes, None]] = {}  # clients by their number of connections
        self._highest = 0
        # The connections with octets of each client, and the sum of these.
        self._holding: dict[bytes, dict[Held, int]] = {}
        self._sums: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._clients)

    def take(self, connection: Held, transport: Closable, address: str) -> bool:
        """Give a new connection a place, if necessary that of another one; return False if there is none."""
        client = client_of(address)
        if len(self._clients) >= self.most and not self._make_room(client):
            self.refused += 1
            return False
        if self._within is not None and not self._within.take(connection, transport, address):
            return False
        self._clients[connection] = client
        own = self._connections.setdefault(client, {})
        own[connection] = transport
        self._move(client, len(own) - 1, len(own))
        return True

    def touch(self, connection: Held) -> None:
        """Record that the client has just sent data."""
        client = self._clients.get(connection)
        if client is not None:
            own = self._connections[client]
            own[connection] = own.pop(connection)
        if self._within is not None:
            self._within.touch(connection)

    def release(self, connection: Held) -> None:
        """Free the place of a connection, if it still has one."""
        if self._within is not None:
            self._within.release(connection)
        client = self._clients.get(connection)
        if client is None:
            return
        self._count(connection, client, 0)
        del self._clients[connection]
        own = self._connections[client]
        del own[connection]
        if not own:
            del self._connections[client]
        self._move(client, len(own) + 1, len(own))

    def hold(self, connection: Held, octets: int) -> None:
        """Record how many octets are kept for a connection; if it is too much in all, close those of the heaviest."""
        if self._within is not None:
            self._within.hold(connection, octets)
            return
        client = self._clients.get(connection)
        if client is not None:
            self._count(connection, client, octets)
            if self.octets > MAX_OCTETS:
                self._shrink()

    def _count(self, connection: Held, client: bytes, octets: int) -> None:
        holding = self._holding.setdefault(client, {})
        more = octets - holding.get(connection, 0)
        if octets:
            holding[connection] = octets
        else:
            holding.pop(connection, None)
        self.octets += more
        if holding:
            self._sums[client] = self._sums.get(client, 0) + more
        else:
            del self._holding[client]
            self._sums.pop(client, None)

    def _shrink(self) -> None:
        heaviest = [(-octets, client) for client, octets in self._sums.items()]
        heapify(heaviest)
        while self.octets > MAX_OCTETS - MAX_OCTETS // 8:
            client = heaviest[0][1]
            connection = next(iter(self._holding[client]))
            self._close(connection, self._connections[client][connection], aborts=True)
            heapreplace(heaviest, (-self._sums.get(client, 0), client))

    def _make_room(self, client: bytes) -> bool:
        """Close a connection of the client with the most; return False if none may be closed."""
        for _ in range(min(MAX_TRIES, len(self._clients))):
            clients = self._by_count[self._highest]
            heaviest = next(iter(clients))
            own = self._connections[heaviest]
            connection = next(iter(own))
            if not connection.pending:
                self._close(connection, own[connection])
                return True
            own[connection] = own.pop(connection)
            clients[heaviest] = clients.pop(heaviest)
        if self._highest <= len(self._connections.get(client, ())) + 1:
            return False
        own = self._connections[next(iter(self._by_count[self._highest]))]
        self._close(*next(iter(own.items())))
        return True

    def _close(self, connection: Held, transport: Closable, *, aborts: bool = False) -> None:
        (self if self._within is None else self._within).closed += 1
        self.release(connection)
        if aborts or connection.pending or transport.get_write_buffer_size():
            transport.abort()
        else:
            transport.close()

    def _move(self, client: bytes, before: int, after: int) -> None:
        """Move a client to the place for its number of connections."""
        if before:
            clients = self._by_count[before]
            del clients[client]
            if not clients:
                del self._by_count[before]
        if after:
            self._by_count.setdefault(after, {})[client] = None
        if after > self._highest or (before == self._highest and before not in self._by_count):
            self._highest = after


def client_of(address: str) -> bytes:
    """The client that an address belongs to: itself, or its IPv6 /64, because one host may use all addresses of one."""
    if ":" not in address:
        return inet_pton(AF_INET, address)
    found = IPv6Address(address)  # a link-local address has a scope, which `packed` leaves out
    mapped = found.ipv4_mapped
    return mapped.packed if mapped is not None else found.packed[:8]


class Credit:
    """How fast the clients of an address may connect over TLS or HTTPS: its credit, in seconds of the event loop.

    It is charged before the TLS handshake, which costs more than the rest, and for the work for a connection that had
    to be closed.  `now` in seconds, of a monotonic clock.
    Rule 1: no address is refused for what a connection did, because it may be that of many clients: of a node, behind
            an ingress or SNAT.  Without credit, its connections begin later, in order.  One that would wait for more
            than MAX_CREDIT_WAIT is closed.
    Rule 2: a client is a whole address.  The addresses of an IPv6 /64 together have the credit of MANY, because one
            host may use all of them.
    Rule 3: at most MAX_REMEMBERED are remembered, those that have connected last.
    """

    def __init__(self) -> None:
        # The rest of each with the time of its last change, in the order of use; below 0 for connections that wait.
        self._left: dict[bytes, tuple[float, float]] = {}

    def connect(self, address: str, now: float) -> float | None:
        """Charge for a new connection; return after how many seconds it may begin, None if that is too long."""
        owners = _owners_of(address)
        longest = 0.0
        for owner, share in owners:
            longest = max(longest, -self._at(owner, share, now) / (CREDIT_A_SECOND * share))
        if longest > MAX_CREDIT_WAIT:
            return None
        for owner, share in owners:
            self._set(owner, self._at(owner, share, now) - CONNECTION, now)
        return longest

    def charge(self, address: str, frames: int, octets: int, now: float) -> None:
        """Charge for the work for a connection.

        However much it was, the next connection waits for MAX_CREDIT_WAIT at most.
        """
        for owner, share in _owners_of(address):
            left = self._at(owner, share, now)
            least = min(left, -MAX_CREDIT_WAIT * CREDIT_A_SECOND * share)
            self._set(owner, max(least, left - frames * FRAME - octets * OCTET), now)

    def _at(self, owner: bytes, share: int, now: float) -> float:
        left, since = self._left.get(owner, (CREDIT * share, now))
        return min(CREDIT * share, left + (now - since) * CREDIT_A_SECOND * share)

    def _set(self, owner: bytes, left: float, now: float) -> None:
        self._left.pop(owner, None)
        self._left[owner] = left, now
        if len(self._left) > MAX_REMEMBERED:
            del self._left[next(iter(self._left))]


def _owners_of(address: str) -> list[tuple[bytes, int]]:
    """The address, and the /64 that it is in; each with its share of credit."""
    client = client_of(address)
    if len(client) == IPV4_LEN:
        return [(client, 1)]
    return [(IPv6Address(address).packed, 1), (client, MANY)]


class TakesSteps(Protocol):
    """A connection with waiting messages."""

    @property
    def client(self) -> bytes:
        """Its client, as client_of() names it; it does not change."""

    def step(self) -> bool:
        """Handle one message; return whether the next one may follow."""

    def end_turn(self) -> None:
        """Write the replies of the steps in this iteration."""

    def close(self) -> None:
        """Close, after a failed step."""


class Turns:
    """Shares the event loop fairly between the connections of all clients.

    `call_soon` calls a function in the next iteration of the loop.  `between`: what to call after each step, by whom,
    because it may not wait for the others (udp.py).  One Turns serves all connections with DNS messages of the process,
    another one those to pages.
    Rule 1: one iteration of the loop makes at most STEPS steps and spends about SECONDS on them, however much has
            arrived on however many connections; then all other tasks of the loop run.
    Rule 2: clients make their steps one after the other, so a client with much work delays others by one step only.
            The connections of a client share its steps, so more connections do not get it more steps.
    """

    def __init__(
        self, clock: Callable[[], float], call_soon: Callable[[Callable[[], None]], object]
    ) -> None:
        self.between: dict[object, Callable[[], None]] = {}
        self._clock = clock
        self._call_soon = call_soon
        self._clients: deque[bytes] = deque()  # the client with the next step first
        self._lines: dict[bytes, deque[TakesSteps]] = {}  # of each client, never empty
        self._entered: set[TakesSteps] = set()
        self._left = STEPS
        self._spent = 0.0
        self._has_next = False
        self._is_running = False

    def enter(self, connection: TakesSteps) -> None:
        """Let a connection make steps from now on, as long as it has any; does nothing if it is entered already."""
        if connection not in self._entered:
            self._append(connection)
            self._run()

    @property
    def has_room(self) -> bool:
        """Whether a connection may make a step without a line, because no other waits."""
        return (
            not self._clients and not self._is_running and self._left > 0 and self._spent < SECONDS
        )

    def count(self, began: float) -> float:
        """Count a step that began at that time; return the time of its end."""
        for call in self.between.values():
            call()
        now = self._clock()
        self._left -= 1
        self._spent += now - began
        # After a few short steps no callback is scheduled, which would cost more; they count in the next iteration.
        if not self._has_next and (self._left < STEPS - _FEW or self._spent > SECONDS / _FEW):
            self._has_next = True
            self._call_soon(self._begin)
        return now

    def _append(self, connection: TakesSteps) -> None:
        self._entered.add(connection)
        line = self._lines.get(connection.client)
        if line is None:
            self._lines[connection.client] = deque((connection,))
            self._clients.append(connection.client)
        else:
            line.append(connection)

    def _pop(self) -> TakesSteps:
        client = self._clients.popleft()
        line = self._lines[client]
        connection = line.popleft()
        if line:
            self._clients.append(client)
        else:
            del self._lines[client]
        self._entered.discard(connection)
        return connection

    def _run(self) -> None:
        if self._is_running:  # a step, or end_turn(), has entered a connection
            return
        self._is_running = True
        stepped: dict[TakesSteps, None] = {}
        clients, entered = self._clients, self._entered
        before = self._clock()
        while clients and self._left > 0 and self._spent < SECONDS:
            connection = self._pop()
            stepped[connection] = None
            try:
                if connection.step() and connection not in entered:
                    self._append(connection)
            except Exception:
                log.exception(FAILED)
                connection.close()
            before = self.count(before)
        for connection in stepped:  # connections that these calls enter wait for the next iteration
            try:
                connection.end_turn()
            except Exception:
                log.exception(FAILED)
                connection.close()
        self._is_running = False
        if clients and not self._has_next:
            self._has_next = True
            self._call_soon(self._begin)

    def _begin(self) -> None:
        self._has_next = False
        self._left, self._spent = STEPS, 0.0
        if self._clients:
            self._run()


class Admission(NamedTuple):
    """What the listeners of a process share, and what admits their clients; those with TLS have a `credit`."""

    spawn: eager.Spawn
    clock: Callable[[], float]  # monotonic seconds
    places: Places
    turns: Turns
    rejected: Counter
    credit: Credit | None = None


class Shares(NamedTuple):
    """Divides the descriptors of the process: the limit for each kind of connection that clients open.

    They add up to less than the limit, so that one kind cannot use the descriptors of another.  The rest is for
    upstreams, the API server, files and listening sockets.
    """

    clients: Places
    pages: Places

    @classmethod
    def of(cls, limit: int) -> Self:
        """Divide a number of descriptors."""
        pages = max(8, min(MAX_PAGES, limit // 4))
        reserved = min(MAX_RESERVED, limit * 3 // 8)
        return cls(Places(max(16, min(MAX_CLIENTS, limit - pages - reserved))), Places(pages))

    def count_in(self, metrics: Registry) -> None:
        """Export the shares as metrics."""
        is_open = metrics.gauge("hsdns_connections", ("share",))
        most = metrics.gauge("hsdns_connections_max", ("share",))
        closed = metrics.counter("hsdns_connections_closed_total", ("share",))
        shares = {("clients",): self.clients, ("pages",): self.pages}
        for labels, places in shares.items():
            most.set(places.most, labels)

        def count() -> None:
            for labels, places in shares.items():
                is_open.set(len(places), labels)
                closed.values[labels] = places.closed

        metrics.before_collect(count)


class PendingQueries:
    """The UDP queries that wait for data from elsewhere: their number, in all and for each client that has any.

    A client (an IPv4 address or an IPv6 prefix of 64 bits) may have at most as many waiting queries as there is room
    left: a single client gets half of the room, and a client without a waiting query is accepted as long as there is
    any room.
    """

    def __init__(self, capacity: int = MAX_PENDING) -> None:
        self.total = 0
        self._capacity = capacity
        self._of: dict[bytes, int] = {}

    def add(self, client: bytes) -> bool:
        """Add a query; return False if it exceeds the limit."""
        own = self._of.get(client, 0)
        if own >= self._capacity - self.total:
            return False
        self._of[client] = own + 1
        self.total += 1
        return True

    def remove(self, client: bytes) -> None:
        """Remove a query that was added."""
        own = self._of[client]
        if own > 1:
            self._of[client] = own - 1
        else:
            del self._of[client]
        self.total -= 1


class QueueBound:
    """The capacity of a queue of misses, so that under lasting overload the queries that are answered are so soon.

    Times in monotonic seconds.
    Rule 1: a burst may fill the whole queue.  Only when a queue has grown in each of GROWING periods, or has not been
            empty for STANDING seconds, is its capacity lowered, to the number of queries that are answered in
            QUEUE_WAIT seconds: a longer queue would only delay every reply, in the end beyond the client's timeout.
            Time without iterations does not count: nothing came, or the process was stopped.
    Rule 2: the full capacity returns when nothing has been dropped for QUIET seconds.  For RECENT seconds after that,
            the capacity is lowered again as soon as the queue has not been empty for a PERIOD: otherwise, at the edge
            of overload, it would fill up every second.
    """

    def __init__(self, now: float) -> None:
        self.capacity = QUEUE_CAPACITY
        # When the period began, when the queue was last empty, when it last dropped a query.
        self._began = self._empty = self._quiet = self._noted = now
        self._has_left = False
        self._lifted = now - RECENT
        self._answered = 0  # in this period
        self._left = 0  # misses in the queue at the start of the period
        # Periods in a row in which the queue grew beyond what is answered in QUEUE_WAIT.
        self._grown = 0
        self._dropped = 0  # at the start of the period

    def note(self, now: float, answered: int, left: int, dropped: int) -> int | None:
        """Record an iteration of the loop: the queries answered, those left, and the total number of dropped ones.

        Return the new capacity, if it changes.
        """
        self._answered += answered
        if not (left and self._has_left) or now - self._noted >= STANDING:
            # What it has now came after a rest, of the clients or of this process.
            self._empty = now
        self._has_left, self._noted = left > 0, now
        if now - self._began < PERIOD:
            return None
        rate = self._answered / (now - self._began)
        is_dropping = dropped != self._dropped
        self._grown = self._grown + 1 if left > max(self._left, rate * QUEUE_WAIT) else 0
        self._began, self._answered, self._left, self._dropped = now, 0, left, dropped
        if is_dropping:
            self._quiet = now
        before = self.capacity
        if before == QUEUE_CAPACITY:
            standing = PERIOD if now - self._lifted < RECENT else STANDING
            if self._grown >= GROWING or now - self._empty >= standing:
                self.capacity, self._quiet = _bound(rate), now
        elif is_dropping:
            self.capacity = _bound(rate)
        elif now - self._quiet >= QUIET:
            self.capacity, self._lifted = QUEUE_CAPACITY, now
        return None if self.capacity == before else self.capacity


def _bound(rate: float) -> int:
    return min(max(int(rate * QUEUE_WAIT), LEAST_QUEUE), QUEUE_CAPACITY)


Connect = Callable[[Any], asyncio.Protocol]
Shed = Callable[[str, Endpoint, Endpoint], bool]


class ListenerFaults:
    """The effects of rules of faults (faults.py), shared by the listeners of a process.

    `connect` makes the protocol of a client of a TcpListener; `shed` tells whether to drop a query to a server, by its
    name in metrics, from a client to a local address.
    """

    def __init__(self) -> None:
        self.connect: Connect | None = None
        self.shed: Shed | None = None


NO_FAULTS: Final = ListenerFaults()  # for listeners without any rule
