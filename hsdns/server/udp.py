"""UDP on the event loop: receives a batch of queries, answers it, and sends the replies.

Path: steps 1, 2 and 7 for UDP without a compiled fast path; workers.py does them in threads with one.
Rule 1: each iteration of the loop reads datagrams, for READING seconds at most, and answers at once those that the
        answer table can answer.  The others wait in a queue like that of the workers, from which later iterations
        answer them (udp_listener.py).  It reads until the kernel's buffer is empty, because that is not fair: a query
        in it waits behind those of all other clients.
Rule 2: the processor can be replaced between two batches (a reload); the socket stays.
Rule 3: a datagram that cannot be sent is dropped and counted, as if the network had dropped it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Final

from hsdns import eager
from hsdns.fastpath import Batch, MissQueue
from hsdns.query import QueryProcessor
from hsdns.server.udp_listener import BATCH_LEN, TURN, UdpListener, batches_in

# Seconds.  What is not read waits in the kernel's buffer, behind whoever sends most.
READING: Final = 8 * TURN


class UdpServer(UdpListener):
    """Reads one bound UDP socket on the loop."""

    def __init__(
        self,
        sock: socket.socket,
        processor: QueryProcessor,
        spawn: eager.Spawn,
        clock: Callable[[], float],
    ) -> None:
        self._first, self._others = MissQueue(), MissQueue()
        super().__init__([sock], processor, spawn, clock, (self._first, self._others))
        self._has_next_turn = False
        self._batch = Batch(sock.fileno(), self.is_wildcard)
        self._senders = [self._batch]

    def start(self) -> None:
        """Start reading."""
        asyncio.get_running_loop().add_reader(self.sock.fileno(), self._read_batch)

    def stop_reading(self) -> None:
        """Process the datagrams that have already arrived, and no more; replies are still sent."""
        if self._is_closed:
            return
        asyncio.get_running_loop().remove_reader(self.sock.fileno())
        for _ in range(batches_in(self.sock)):
            before = self._batch.statistics().received
            self._read_batch()
            if self._batch.statistics().received == before:
                break
        while self._has_waiting():
            self._take()

    def close(self) -> None:
        """Stop reading and close the socket; queries in progress get no reply."""
        if self._is_closed:
            return
        self._is_closed = True
        asyncio.get_running_loop().remove_reader(self.sock.fileno())
        self.sock.close()

    def statistics(self) -> tuple[int, dict[int, int]]:
        """The number of dropped queries, because too many waited, and of replies that were not sent, by errno."""
        return self._count_drops(), self._batch.statistics().send_errors

    def _read_batch(self) -> None:
        end = self._clock() + READING
        misses = self._batch.serve(self._processor.table)
        while misses:
            self._offer(misses)
            if len(misses) < BATCH_LEN // 2 or self._clock() >= end:
                break
            misses = self._batch.serve(self._processor.table)
        if not self._has_next_turn and self._has_waiting():
            self._take_some()

    def _offer(self, misses: Sequence[tuple[bytes, bytes, bytes]]) -> None:
        table = self._processor.table
        first = [] if table is None else [miss for miss in misses if table.is_listed(miss[0])]
        if not first:
            self._others.offer(0, misses)
            return
        self._first.offer(0, first)
        self._others.offer(0, [miss for miss in misses if miss not in first])

    def _take_some(self) -> None:
        """Answer waiting queries in this iteration of the loop; the rest in the next one."""
        try:
            self._take()
        finally:  # an error costs the misses of this iteration only
            self._has_next_turn = self._has_waiting() and not self._is_closed
            if self._has_next_turn:
                asyncio.get_running_loop().call_soon(self._take_some)
