"""What reads UDP at one address: the part that does not depend on where a miss comes from.

Path: step 7 for UDP, and the way from a miss of the answer table to query.py; udp.py and workers.py do the rest.
Rule 1: a fault costs the query that caused it, never the others of its batch.
Rule 2: the replies of a batch are sent together; those that come later are at the end of the turn of the loop.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

from hsdns import eager
from hsdns.chain import Endpoint
from hsdns.query import QueryProcessor
from hsdns.server.datagram import asked_endpoint, client_endpoint

log = logging.getLogger("hsdns.server")

BATCH_LEN: Final = 64  # datagrams in a turn of the loop
_LEAST_TRUE_SIZE: Final = 512  # octets; Linux counts more of its buffer for any datagram

Miss = tuple[int, bytes, bytes, bytes]  # index of the sender, query, client's address, control data


class Sender(Protocol):
    """What sends replies from one socket; it drops and counts those that the kernel does not take."""

    def send(self, replies: Any, /) -> None:
        """Send replies, each with the client's address and the control data of its query."""


class UdpListener:
    """What answers at one UDP address."""

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        processor: QueryProcessor,
        spawn: eager.Spawn,
        clock: Callable[[], float],
    ) -> None:
        self.sockets = list(sockets)
        self.local = Endpoint(*self.sock.getsockname()[:2])
        self.pending = 0  # queries that wait for an answer from elsewhere
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

    def statistics(self) -> tuple[int, dict[int, int]]:
        """Datagrams that were dropped because there were too many, and replies that were not sent, by errno."""
        raise NotImplementedError

    def _exchange_table(self) -> None:
        """Use the processor's table from the next batch on."""

    def _answer_all(self, misses: Iterable[Miss]) -> None:
        """Have queries answered that the table did not know, and send at once what is known at once."""
        self._is_collecting = True
        try:
            for miss in misses:
                self._answer(*miss)
        finally:
            self._is_collecting = False
            self._send()

    def _answer(self, index: int, wire: bytes, address: bytes, control: bytes) -> None:
        before = self.pending
        self.pending += 1
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
            self.pending = before  # whether or not the reply has been delivered
            log.exception("a query over UDP is lost to an error outside of the handlers")

    def _deliver(self, index: int, address: bytes, control: bytes, reply: bytes | None) -> None:
        if reply is None or self._is_closed:
            self.pending -= 1
            return
        self._out[index].append((reply, address, control))
        if self._is_collecting:
            self.pending -= 1
            return
        if not self._late:
            asyncio.get_running_loop().call_soon(self._send)
        self._late += 1  # pending until it is sent, or the socket may be closed before

    def _send(self) -> None:
        self.pending -= self._late
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
