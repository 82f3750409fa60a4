"""Datagrams: take a batch, answer, send.

Path: steps 1, 2 and 7 for UDP, on the loop; workers.py does them in threads where the compiled fast path is there.
Rule 1: the loop is recv -> answer -> send, at most BATCH_LEN datagrams a turn, so that timers and TCP get theirs.
Rule 2: the processor can be exchanged between two batches (a reload); the socket stays.
Rule 3: a datagram that cannot be sent is dropped and counted, as the network would drop it.
Rule 4: a fault costs the query that brought it up, never the others of its batch.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import socket
from collections.abc import Callable, Sequence
from typing import Final

from hsdns import eager
from hsdns.chain import Endpoint
from hsdns.fastpath import IMPLEMENTATION, Batch
from hsdns.query import QueryProcessor
from hsdns.server.datagram import asked_endpoint, client_endpoint

log = logging.getLogger("hsdns.server")

BATCH_LEN: Final = 64
_LEAST_TRUE_SIZE: Final = 512  # octets; Linux counts more of its buffer for any datagram


class UdpListener:
    """What answers at one UDP address."""

    def __init__(
        self,
        sock: socket.socket,
        processor: QueryProcessor,
        spawn: eager.Spawn,
        clock: Callable[[], float],
    ) -> None:
        self._processor = processor
        self._sock = sock
        self._spawn = spawn
        self._clock = clock
        self._local = Endpoint(*sock.getsockname()[:2])
        self._pending = 0
        self._is_closed = False  # the socket's number may be another one's then

    @property
    def is_wildcard(self) -> bool:
        """Whether it is bound to all addresses, so that each datagram says which of them was asked."""
        return self._local.address in ("0.0.0.0", "::")

    @property
    def processor(self) -> QueryProcessor:
        """What answers; it may be exchanged at any time."""
        return self._processor

    @processor.setter
    def processor(self, processor: QueryProcessor) -> None:
        self._processor = processor
        self._exchange()

    @property
    def sock(self) -> socket.socket:
        """The socket, for its options; only this listener reads it."""
        return self._sock

    @property
    def sockets(self) -> list[socket.socket]:
        """All sockets of the address."""
        return [self._sock]

    @property
    def local(self) -> Endpoint:
        """The bound address."""
        return self._local

    @property
    def pending(self) -> int:
        """How many queries wait for an answer from elsewhere."""
        return self._pending

    def start(self) -> None:
        """Begin to read."""
        raise NotImplementedError

    def leave_to(self, heir: UdpListener) -> None:
        """Let another one at the same address answer what this one would begin from now on, where it can."""

    def stop_reading(self) -> None:
        """Take what has already arrived, and no more; replies still go out."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop reading and give the port back; what is still being answered is lost."""
        raise NotImplementedError

    def statistics(self) -> tuple[int, dict[int, int]]:
        """Datagrams that were dropped because there were too many, and replies that were not sent, by errno."""
        raise NotImplementedError

    def _exchange(self) -> None:
        """Use the processor's table from now on."""

    def _answer(
        self, wire: bytes, address: bytes, control: bytes, deliver: Callable[[bytes | None], None]
    ) -> None:
        """Have a query answered that the table did not know; `deliver` takes the reply, now or later."""
        before = self._pending
        self._pending += 1
        try:
            eager.start(
                self._processor.answer(
                    wire,
                    client_endpoint(address),
                    asked_endpoint(control, self._local),
                    "udp",
                    self._clock(),
                ),
                deliver,
                self._spawn,
            )
        except Exception:
            self._pending = before  # whether or not `deliver` has counted
            log.exception("a query over UDP is lost to an error outside of the handlers")


class UdpServer(UdpListener):
    """Reads one bound UDP socket on the loop."""

    def __init__(
        self,
        sock: socket.socket,
        processor: QueryProcessor,
        spawn: eager.Spawn,
        clock: Callable[[], float],
    ) -> None:
        super().__init__(sock, processor, spawn, clock)
        self._batch = Batch(sock.fileno(), self.is_wildcard)
        self._out: list[tuple[bytes, bytes, bytes]] = []
        self._is_reading = False

    def start(self) -> None:
        """Begin to read."""
        asyncio.get_running_loop().add_reader(self._sock.fileno(), self._read_batch)

    def stop_reading(self) -> None:
        """Take what has already arrived, and no more; replies still go out."""
        asyncio.get_running_loop().remove_reader(self._sock.fileno())
        for _ in range(batches_in(self._sock)):
            before = self._batch.statistics().received
            if not self._is_closed:
                self._read_batch()
            if self._batch.statistics().received == before:
                break

    def close(self) -> None:
        """Stop reading and give the port back; what is still being answered is lost."""
        self._is_closed = True
        asyncio.get_running_loop().remove_reader(self._sock.fileno())
        self._sock.close()

    def statistics(self) -> tuple[int, dict[int, int]]:
        """Nothing is dropped here; replies that were not sent, by errno."""
        return 0, self._batch.statistics().send_errors

    def _read_batch(self) -> None:
        self._is_reading = True
        try:
            for wire, address, control in self._batch.serve(self._processor.table):
                deliver = functools.partial(self._answered, address, control)
                self._answer(wire, address, control, deliver)
        finally:
            self._is_reading = False
            self._send()

    def _answered(self, address: bytes, control: bytes, reply: bytes | None) -> None:
        self._pending -= 1
        if reply is None or self._is_closed:
            return
        self._out.append((reply, address, control))
        if not self._is_reading:
            self._send()

    def _send(self) -> None:
        if self._out:
            self._batch.send(self._out)
            self._out.clear()
        self._processor.flush()


def batches_in(sock: socket.socket) -> int:
    """How many batches may lie in a socket's receive buffer, at most, with one more that shows the end.

    Who closes a port takes no more than these, or a client that goes on asking could keep it open.
    """
    size = sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    return size // (_LEAST_TRUE_SIZE * BATCH_LEN) + 2


def make_udp(
    sockets: Sequence[socket.socket],
    processor: QueryProcessor,
    spawn: eager.Spawn,
    clock: Callable[[], float],
) -> UdpListener:
    """Answer at an address: in threads where the compiled fast path is there, else on the loop."""
    if IMPLEMENTATION == "rust":
        from hsdns.server.workers import UdpWorkers  # noqa: PLC0415 - it needs the compiled module

        return UdpWorkers(sockets, processor, spawn, clock)
    return UdpServer(sockets[0], processor, spawn, clock)
