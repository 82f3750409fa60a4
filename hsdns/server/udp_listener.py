"""What reads UDP at one address: the part that does not depend on where a miss comes from.

Path: step 7 for UDP, and the way from a miss of the answer table to query.py; udp.py and workers.py do the rest.
Rule 1: a fault costs the query that caused it, never the others of its turn.
Rule 2: the replies of a turn are sent together; those that come later leave at the end of
        the turn in which they come.
Rule 3: misses wait in a queue that is bounded and fair between clients (fastpath/miss_queue.py), and short under
        lasting overload (queue_bound.py).  A turn of the loop takes them from it for TURN seconds, and BATCH_LEN at
        most; then TCP, timers, health checks and all else that the server does gets its turn.  What waits for an
        answer from elsewhere is bounded too (pending_queries.py).
        What is too much is dropped and counted, as by the network.
        Names of Services have a queue of their own, and half of each turn: the cluster has so many and no more, and the
        table knows each of them once it was answered, but what can be made up is endless.
Rule 4: a miss that has waited is looked up again: after a change all who ask for a name miss until the first is
        answered, and the chain answers once for all of them.  What is known by then takes no turn from its client.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

from hsdns import eager
from hsdns.chain import Endpoint
from hsdns.fastpath.miss_queue import client_of
from hsdns.query import QueryProcessor
from hsdns.server.datagram import asked_endpoint, client_endpoint
from hsdns.server.listener_faults import NO_FAULTS
from hsdns.server.pending_queries import PendingQueries
from hsdns.server.queue_bound import QueueBound

log = logging.getLogger("hsdns.server")

BATCH_LEN: Final = 64  # datagrams in a turn of the loop
KNOWN: Final = 16  # of a client in its turn that the answer table knows by now: together as dear as one for the chain
TURN: Final = 0.0005  # seconds
_LEAST_TRUE_SIZE: Final = 512  # octets; Linux counts more of its buffer for any datagram

Miss = tuple[int, bytes, bytes, bytes]  # index of the sender, query, client's address, control data


class Sender(Protocol):
    """What sends replies from one socket; it drops and counts those that the kernel does not take."""

    def send(self, replies: Any, /) -> None:
        """Send replies, each with the client's address and the control data of its query."""


class Queue(Protocol):
    """Misses that wait, fair between clients."""

    @property
    def dropped(self) -> int:
        """How many were dropped."""

    def __len__(self) -> int: ...

    def take(self, most: int) -> list[Miss]:
        """Take the next, at most so many."""

    def give_turn_back(self) -> None:
        """Give the client of the last one taken its turn back."""

    def set_capacity(self, capacity: int) -> None:
        """Change how many may wait."""


class UdpListener:
    """What answers at one UDP address; `faults` is what rules of faults do at it.

    `queues` are those of the names of Services, and of all others.
    """

    faults = NO_FAULTS

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        processor: QueryProcessor,
        spawn: eager.Spawn,
        clock: Callable[[], float],
        queues: tuple[Queue, Queue],
    ) -> None:
        self.sockets = list(sockets)
        self.local = Endpoint(*self.sock.getsockname()[:2])
        self._waiting = queues
        self._bounds = QueueBound(clock()), QueueBound(clock())
        self._pending = PendingQueries()
        self._refused = 0  # because too many were pending
        self._has_left = False  # misses at the end of the last turn
        self._processor = processor
        self._spawn = spawn
        self._clock = clock
        self._senders: Sequence[Sender] = ()  # one for each socket
        self._out: list[list[tuple[bytes, bytes, bytes]]] = [[] for _ in self.sockets]
        self._is_collecting = False
        self._late = 0  # replies to send at the end of the turn
        self._is_closed = False  # the socket's number may be another one's then

    @property
    def sock(self) -> socket.socket:
        """The socket that was bound first, for its options; only this listener reads it."""
        return self.sockets[0]

    @property
    def pending(self) -> int:
        """How many queries wait for an answer from elsewhere."""
        return self._pending.total + self._late

    @property
    def is_wildcard(self) -> bool:
        """Whether it is bound to all addresses, so that each datagram says which of them was asked."""
        return self.local.address in ("0.0.0.0", "::")

    @property
    def processor(self) -> QueryProcessor:
        """What answers; it may be exchanged between two batches."""
        return self._processor

    @processor.setter
    def processor(self, processor: QueryProcessor) -> None:
        self._processor = processor
        self._exchange_table()

    def start(self) -> None:
        """Begin to read."""
        raise NotImplementedError

    def drain_to(self, successor: UdpListener) -> None:
        """Have a successor at the same address answer each query that this one has not begun, where it can."""

    def stop_reading(self) -> None:
        """Take what has already arrived, and no more; replies still go out."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop reading and release the port; what is still being answered is lost."""
        raise NotImplementedError

    def kill(self) -> None:
        """Close at once."""
        self.close()

    def statistics(self) -> tuple[int, dict[int, int]]:
        """Datagrams that were dropped because there were too many, and replies that were not sent, by errno."""
        raise NotImplementedError

    def _count_drops(self) -> int:
        """How many queries were dropped because too many waited."""
        return sum(each.dropped for each in self._waiting) + self._refused

    def _has_waiting(self) -> bool:
        """Whether any query waits."""
        return any(len(each) for each in self._waiting)

    def _exchange_table(self) -> None:
        """Use the processor's table from the next batch on."""

    def _take(self) -> None:
        """Answer what waits, for one turn of the loop."""
        self._answer_all(self._turn())

    def _turn(self) -> Iterator[Miss]:
        now = self._clock()
        middle, end, has_left = now + TURN / 2, now + TURN, False
        for queue, bound, until in zip(self._waiting, self._bounds, (middle, end), strict=True):
            answered = known = 0
            while answered < BATCH_LEN and now < until:
                taken = queue.take(1)
                if not taken:
                    break
                if self._has_left and self._answer_known(*taken[0], now):
                    known += 1
                    if known % KNOWN:
                        queue.give_turn_back()
                else:
                    yield taken[0]
                answered += 1
                now = self._clock()
            left = len(queue)
            has_left |= left > 0
            capacity = bound.note(now, answered, left, queue.dropped)
            if capacity is not None:
                queue.set_capacity(capacity)
        self._has_left = has_left

    def _answer_all(self, misses: Iterable[Miss]) -> None:
        """Have queries answered that the table did not know, and send at once what is known at once."""
        self._is_collecting = True
        try:
            for miss in misses:
                self._answer(*miss)
        finally:
            self._is_collecting = False
            self._send()

    def _answer_known(
        self, index: int, wire: bytes, address: bytes, control: bytes, now: float
    ) -> bool:
        """Answer what the answer table knows by now; False if it does not."""
        lookup = self._processor.lookup
        reply = lookup and lookup(wire, client=address, limit=None, now=now)
        if reply:
            self._out[index].append((reply, address, control))
        return bool(reply)

    def _answer(self, index: int, wire: bytes, address: bytes, control: bytes) -> None:
        shed = self.faults.shed
        if shed is not None:
            local = asked_endpoint(control, self.local)
            if shed(self._processor.server, client_endpoint(address), local):
                self._refused += 1
                return
        client = client_of(address)
        before = self._pending.total
        if not self._pending.add(client):
            self._refused += 1
            return
        try:
            eager.start(
                self._processor.answer(
                    wire,
                    client_endpoint(address),
                    asked_endpoint(control, self.local),
                    "udp",
                    self._clock(),
                ),
                functools.partial(self._deliver, index, address, control),
                self._spawn,
            )
        except Exception:
            if self._pending.total > before:  # the reply has not been delivered
                self._pending.remove(client)
            log.exception("a query over UDP is lost to an error outside of the handlers")

    def _deliver(self, index: int, address: bytes, control: bytes, reply: bytes | None) -> None:
        self._pending.remove(client_of(address))
        if reply is None or self._is_closed:
            return
        self._out[index].append((reply, address, control))
        if not self._is_collecting:
            if not self._late:
                asyncio.get_running_loop().call_soon(self._send)
            self._late += 1  # pending until it is sent, or the socket might be closed before

    def _send(self) -> None:
        self._late = 0
        for sender, out in zip(self._senders, self._out, strict=True):
            if out and not self._is_closed:
                sender.send(out)
            out.clear()
        self._processor.flush()


def batches_in(sock: socket.socket) -> int:
    """How many batches may lie in a socket's receive buffer, at most, with one more that shows the end.

    A listener that closes takes no more than these, or a client that goes on asking could keep it open.
    """
    size = sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    return size // (_LEAST_TRUE_SIZE * BATCH_LEN) + 2
