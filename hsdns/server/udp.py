"""UDP on the event loop: receives a batch of queries, answers it, and sends the replies.

Path: steps 1, 2 and 7 for UDP without a compiled fast path; workers.py does them in threads with one.
Rule 1: each iteration of the loop reads datagrams, for READING seconds at most, and answers at once those that the
        answer table can answer.  The others wait in a queue like that of the workers, from which later iterations
        answer them (udp_listener.py).  It reads until the kernel's buffer is empty, because that is not fair: a query
        in it waits behind those of all other clients.  For the same reason it is read again between misses, and between
        the steps of connections (admission.py), AGAIN seconds after the last time.  Not after each: each reading lets
        go of the interpreter for a moment, and the watch thread, which gets it only if it is awake in that moment, then
        waits anew for its time slice.
Rule 2: the processor can be replaced between two batches (a reload); the socket stays.
Rule 3: a datagram that cannot be sent is dropped and counted, as if the network had dropped it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from hsdns import eager
from hsdns.fastpath import Batch, MissQueue
from hsdns.query import QueryProcessor
from hsdns.server.admission import Turns
from hsdns.server.udp_listener import BATCH_LEN, TURN, Miss, UdpListener, batches_in

# Seconds.  What is not read waits in the kernel's buffer, behind whoever sends most.
READING: Final = 8 * TURN
AGAIN: Final = TURN / 4  # from one reading to the next one within an iteration


class UdpServer(UdpListener):
    """Reads one bound UDP socket on the loop, and between the steps of `turns`."""

    def __init__(
        self,
        sock: socket.socket,
        processor: QueryProcessor,
        spawn: eager.Spawn,
        clock: Callable[[], float],
        turns: Turns,
    ) -> None:
        self._first, self._others = MissQueue(), MissQueue()
        super().__init__([sock], processor, spawn, clock, (self._first, self._others))
        self._has_next_turn = False
        self._last_read = 0.0
        self._between = turns.between
        self._batch = Batch(sock.fileno(), self.is_wildcard)
        self._senders = [self._batch]

    def start(self) -> None:
        """Start reading."""
        asyncio.get_running_loop().add_reader(self.sock.fileno(), self._read_batch)
        self._between[self] = self._read_between_steps

    def stop_reading(self) -> None:
        """Process the datagrams that have already arrived, and no more; replies are still sent."""
        if self._is_closed:
            return
        self._end_reading()
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
        self._end_reading()
        self.sock.close()

    def _end_reading(self) -> None:
        asyncio.get_running_loop().remove_reader(self.sock.fileno())
        self._between.pop(self, None)

    def statistics(self) -> tuple[int, dict[int, int]]:
        """The number of dropped queries, because too many waited, and of replies that were not sent, by errno."""
        return self._count_drops(), self._batch.statistics().send_errors

    def _read_batch(self) -> None:
        self._read()
        if not self._has_next_turn and self._has_waiting():
            self._take_some()

    def _read_between_steps(self) -> None:
        self._read_again()
        if not self._has_next_turn and self._has_waiting():
            self._has_next_turn = True
            asyncio.get_running_loop().call_soon(self._take_some)

    def _turn(self) -> Iterator[Miss]:
        for miss in super()._turn():
            yield miss
            if self in self._between:
                self._read_again()

    def _read_again(self) -> None:
        if self._clock() - self._last_read >= AGAIN:
            self._read()

    def _read(self) -> None:
        end = self._clock() + READING
        misses = self._batch.serve(self._processor.table)
        while misses:
            self._offer(misses)
            if len(misses) < BATCH_LEN // 2 or self._clock() >= end:
                break
            misses = self._batch.serve(self._processor.table)
        self._last_read = self._clock()

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
