"""UDP on the loop: take a batch, answer, send.

Path: steps 1, 2 and 7 for UDP where there is no compiled fast path; workers.py does them in threads where there is.
Rule 1: the loop is recv -> answer -> send, at most BATCH_LEN datagrams a turn, so that timers and TCP get theirs.
Rule 2: the processor can be exchanged between two batches (a reload); the socket stays.
Rule 3: a datagram that cannot be sent is dropped and counted, as the network would drop it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from hsdns import eager
from hsdns.fastpath import Batch
from hsdns.query import QueryProcessor
from hsdns.server.udp_listener import UdpListener, batches_in


class UdpServer(UdpListener):
    """Reads one bound UDP socket on the loop."""

    def __init__(
        self,
        sock: socket.socket,
        processor: QueryProcessor,
        spawn: eager.Spawn,
        clock: Callable[[], float],
    ) -> None:
        super().__init__([sock], processor, spawn, clock)
        self._batch = Batch(sock.fileno(), self.is_wildcard)
        self._senders = [self._batch]

    def start(self) -> None:
        """Begin to read."""
        asyncio.get_running_loop().add_reader(self.sock.fileno(), self._read_batch)

    def stop_reading(self) -> None:
        """Take what has already arrived, and no more; replies still go out."""
        if self._is_closed:
            return
        asyncio.get_running_loop().remove_reader(self.sock.fileno())
        for _ in range(batches_in(self.sock)):
            before = self._batch.statistics().received
            self._read_batch()
            if self._batch.statistics().received == before:
                break

    def close(self) -> None:
        """Stop reading and release the port; what is still being answered is lost."""
        self._is_closed = True
        asyncio.get_running_loop().remove_reader(self.sock.fileno())
        self.sock.close()

    def statistics(self) -> tuple[int, dict[int, int]]:
        """Nothing is dropped here; replies that were not sent, by errno."""
        return 0, self._batch.statistics().send_errors

    def _read_batch(self) -> None:
        self._answer_all((0, *miss) for miss in self._batch.serve(self._processor.table))
