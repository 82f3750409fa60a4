"""Threads that answer known questions by themselves: one for each worker, each with a socket of its own.

Path: steps 1, 2 and 7 for UDP where the compiled fast path is there; udp.py does the same on the loop where it is not.
Rule 1: a thread is one call into compiled code that needs no Python: it receives, looks up, sends, in batches.
Rule 2: what a thread does not know waits in one queue, bounded; the loop takes it from there, BATCH_LEN a turn, so that
        timers and TCP get theirs.  What comes while the queue is full is dropped and counted, as the network would.
Rule 3: the table can be exchanged between two batches (a reload); sockets and threads stay.
Rule 4: workers whose number changes leave an heir at their address: it answers what they do not know, so that they are
        done when what they have in work is, and lose nothing when they close.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any

from hsdns import eager
from hsdns.fastpath._native import Batch, MissQueue, Worker
from hsdns.query import QueryProcessor
from hsdns.server.udp import BATCH_LEN, UdpListener, batches_in


class UdpWorkers(UdpListener):
    """The workers of one address; the first socket is the one that was bound first."""

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        processor: QueryProcessor,
        spawn: eager.Spawn,
        clock: Callable[[], float],
    ) -> None:
        super().__init__(sockets[0], processor, spawn, clock)
        self.heir: UdpWorkers | None = None
        self._sockets = list(sockets)
        self._queue = MissQueue()
        self._workers = [
            Worker(sock.fileno(), self.is_wildcard, self._queue, index)
            for index, sock in enumerate(sockets)
        ]
        self._threads = [
            threading.Thread(target=worker.run, name=f"udp worker {index}", daemon=True)
            for index, worker in enumerate(self._workers)
        ]
        self._out: list[list[tuple[bytes, bytes, bytes]]] = [[] for _ in self._workers]
        self._is_taking = False
        self._exchange()

    @property
    def sockets(self) -> list[socket.socket]:
        """The sockets of the workers."""
        return self._sockets

    def start(self) -> None:
        """Begin to answer."""
        for thread in self._threads:
            thread.start()
        asyncio.get_running_loop().add_reader(self._queue.fileno(), self._take)

    def leave_to(self, heir: UdpListener) -> None:
        """Let other workers at the same address answer what these would begin from now on."""
        assert isinstance(heir, UdpWorkers), "there is one kind in a process"
        self.heir = heir

    def stop_reading(self) -> None:
        """End the threads, take what has already arrived, and no more; replies still go out."""
        self._end_threads()
        if self._is_closed:
            return
        for index, sock in enumerate(self._sockets):
            self._drain(index, sock)
        while self._take():
            pass

    def close(self) -> None:
        """End the threads and give the port back; what is still being answered is lost."""
        self._end_threads()
        self._is_closed = True
        asyncio.get_running_loop().remove_reader(self._queue.fileno())
        for sock in self._sockets:
            sock.close()

    def _end_threads(self) -> None:
        for worker, sock in zip(self._workers, self._sockets, strict=True):
            worker.stop()
            # Linux says ENOTCONN to this, and wakes whoever waits for datagrams all the same (net/ipv4/af_inet.c).
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RD)
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def _drain(self, index: int, sock: socket.socket) -> None:
        """Answer on the loop what lies in a socket that no thread reads any more."""
        sock.setblocking(False)
        batch = Batch(sock.fileno(), self.is_wildcard)
        for _ in range(batches_in(sock)):
            received = batch.statistics().received
            for wire, address, control in batch.serve(self.processor.table):  # type: ignore[arg-type]  # as in _exchange
                self._ask(index, wire, address, control)
            if batch.statistics().received == received:
                break

    def _exchange(self) -> None:
        table: Any = self.processor.table  # the compiled twin's, here
        for worker in self._workers:
            worker.exchange(table)

    def statistics(self) -> tuple[int, dict[int, int]]:
        """Datagrams that were dropped because the queue was full, and replies that were not sent, by errno."""
        errors: dict[int, int] = {}
        for worker in self._workers:
            for code, count in worker.statistics().send_errors.items():
                errors[code] = errors.get(code, 0) + count
        return self._queue.dropped, errors

    def _take(self) -> bool:
        """Answer what the workers did not know; tell whether there was anything."""
        self._is_taking = True
        taken = self._queue.take(BATCH_LEN)
        try:
            for index, wire, address, control in taken:
                self._ask(index, wire, address, control)
        finally:
            self._is_taking = False
            self._send()
        return bool(taken)

    def _ask(self, index: int, wire: bytes, address: bytes, control: bytes) -> None:
        if not address:  # that is how the kernel says that the socket was shut down
            return
        if self.heir is not None:
            self.heir._ask(0, wire, address, control)
        else:
            deliver = functools.partial(self._answered, index, address, control)
            self._answer(wire, address, control, deliver)

    def _answered(self, index: int, address: bytes, control: bytes, reply: bytes | None) -> None:
        self._pending -= 1
        if reply is not None and not self._is_closed:
            self._out[index].append((reply, address, control))
            if not self._is_taking:
                self._send()

    def _send(self) -> None:
        for worker, out in zip(self._workers, self._out, strict=True):
            if out:
                worker.send(out)
                out.clear()
        self.processor.flush()
