"""UDP in threads that answer from the answer table: one thread for each worker, each with a socket of its own.

Path: steps 1, 2 and 7 for UDP with a compiled fast path; udp.py does them on the loop without one.
Rule 1: a thread is one call into compiled code that needs no Python: it receives, looks up and sends in batches.
Rule 2: a query that a thread cannot answer waits in one of two queues, from which the loop answers it
        (udp.py).
Rule 3: the table can be replaced between two batches (a reload); sockets and threads stay.
Rule 4: if the number of workers changes, the old workers pass queries that they cannot answer to the new workers at
        their address, so that they close as soon as they have answered the queries in progress, and lose none.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any

from hsdns import eager
from hsdns.fastpath._native import Batch, MissQueue, Worker
from hsdns.query import QueryProcessor
from hsdns.server.udp import UdpListener, batches_in


class UdpWorkers(UdpListener):
    """The workers of one address; the first socket is the one that was bound first."""

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        processor: QueryProcessor,
        spawn: eager.Spawn,
        clock: Callable[[], float],
    ) -> None:
        self._first, self._others = MissQueue(), MissQueue()
        queues = self._first, self._others
        super().__init__(sockets, processor, spawn, clock, queues)
        self.successor: UdpWorkers | None = None
        self._workers = [
            Worker(sock.fileno(), self.is_wildcard, self._others, index, self._first)
            for index, sock in enumerate(sockets)
        ]
        self._senders = self._workers
        self._threads = [
            threading.Thread(target=worker.run, name=f"udp worker {index}", daemon=True)
            for index, worker in enumerate(self._workers)
        ]
        self._exchange_table()

    def start(self) -> None:
        """Start answering."""
        for thread in self._threads:
            thread.start()
        for queue in (self._first, self._others):
            asyncio.get_running_loop().add_reader(queue.fileno(), self._take)

    def drain_to(self, successor: UdpListener) -> None:
        """Pass queries that are not in progress to the workers that succeed these."""
        assert isinstance(successor, UdpWorkers), "there is one kind in a process"
        self.successor = successor

    def stop_reading(self) -> None:
        """End the threads, process the datagrams that have already arrived, and no more; replies are still sent."""
        self._end_threads()
        if self._is_closed:
            return
        for index, sock in enumerate(self.sockets):
            self._empty(index, sock)
        while self._has_waiting():
            self._take()

    def close(self) -> None:
        """End the threads and close the sockets; queries in progress get no reply."""
        self._end_threads()
        self._is_closed = True
        for queue in (self._first, self._others):
            asyncio.get_running_loop().remove_reader(queue.fileno())
        for sock in self.sockets:
            sock.close()

    def statistics(self) -> tuple[int, dict[int, int]]:
        """The number of dropped queries, because too many waited, and of replies that were not sent, by errno."""
        errors: dict[int, int] = {}
        for worker in self._workers:
            for code, count in worker.statistics().send_errors.items():
                errors[code] = errors.get(code, 0) + count
        return self._count_drops(), errors

    def _end_threads(self) -> None:
        for worker, sock in zip(self._workers, self.sockets, strict=True):
            worker.stop()
            # Linux returns ENOTCONN, and still wakes the thread that waits for datagrams (net/ipv4/af_inet.c).
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RD)
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def _empty(self, index: int, sock: socket.socket) -> None:
        """Answer on the loop the datagrams in a socket that no thread reads any more."""
        sock.setblocking(False)
        batch = Batch(sock.fileno(), self.is_wildcard)
        for _ in range(batches_in(sock)):
            received = batch.statistics().received
            misses = batch.serve(self.processor.table)  # type: ignore[arg-type]  # as in _exchange_table
            self._answer_all((index, *miss) for miss in misses)
            if batch.statistics().received == received:
                break

    def _exchange_table(self) -> None:
        table: Any = self.processor.table  # always the compiled table here
        for worker in self._workers:
            worker.exchange(table)

    def _answer_known(
        self, index: int, wire: bytes, address: bytes, control: bytes, now: float
    ) -> bool:
        return self.successor is None and super()._answer_known(index, wire, address, control, now)

    def _answer(self, index: int, wire: bytes, address: bytes, control: bytes) -> None:
        if not address:  # the kernel's sign that the socket was shut down
            return
        if self.successor is not None:
            self.successor._answer(0, wire, address, control)
        else:
            super()._answer(index, wire, address, control)
