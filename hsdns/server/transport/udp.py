"""UDP on the event loop, and what both kinds of UDP listeners do with the queries that the answer table cannot answer.

Path: steps 1, 2 and 7 for UDP, and the way from a miss of the answer table to query.py.
Rule 1: an error affects the query that caused it, never the others of its batch.
Rule 2: the replies of one iteration of the loop are sent together; replies that are completed later are sent at the end
        of the iteration in which they are completed.
Rule 3: misses wait in a queue that is bounded and fair between clients (fastpath/miss_queue.py), and shorter under
        lasting overload (admission.py).  Each iteration of the loop answers them for TURN seconds, and at most
        BATCH_LEN; then TCP, timers, health checks and all other tasks run.  The number of queries that wait for data
        from elsewhere is bounded, too (admission.py).  Queries beyond these bounds are dropped and counted, as if
        the network had dropped them.  Names of Services have a queue of their own, and half of the time: a cluster has
        a limited number of them, and once answered they are in the answer table, but a client can invent any number of
        other names.
Rule 4: a miss that has waited is looked up in the answer table again: after a change, all clients that query a name
        miss until the first query is answered, so the chain answers only once for all of them.  A query that is found
        in the table then does not use up its client's turn in the queue.
Rule 5: replies about Services that compiled code makes (answer_table/writer.py) need no chain.

On the loop:
Rule 1: each iteration of the loop reads datagrams, for READING seconds at most, and answers at once those that the
        answer table can answer.  The others wait in a queue like that of the workers, from which later iterations
        answer them.  It reads until the kernel's buffer is empty, because that is not fair: a query
        in it waits behind those of all other clients.  For the same reason it is read again between misses, and between
        the steps of connections (admission.py), AGAIN seconds after the last time.  Not after each: each reading lets
        go of the interpreter for a moment, and the watch thread, which gets it only if it is awake in that moment, then
        waits anew for its time slice.
Rule 2: the processor can be replaced between two batches (a reload); the socket stays.
Rule 3: a datagram that cannot be sent is dropped and counted, as if the network had dropped it.

UDP in threads that answer from the answer table: one thread for each worker, each with a socket of its own:
Rule 1: a thread is one call into compiled code that needs no Python: it receives, looks up and sends in batches.
Rule 2: a query that a thread cannot answer waits in one of two queues, from which the loop answers it
        (udp.py).
Rule 3: the table can be replaced between two batches (a reload); sockets and threads stay.
Rule 4: a query that a thread sends to an upstream is pending until its reply is sent, by compiled code.
Rule 5: if the number of workers changes, the old workers pass queries that they cannot answer to the new workers at
        their address, so that they close as soon as they have answered the queries in progress, and lose none.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import socket
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from hsdns import eager
from hsdns.chain import Endpoint
from hsdns.fastpath import Batch, MissQueue
from hsdns.fastpath.miss_queue import client_of
from hsdns.query import QueryProcessor
from hsdns.server.transport.admission import NO_FAULTS, Admission, PendingQueries, QueueBound
from hsdns.server.transport.sockets import asked_endpoint, client_endpoint, leave_port

log = logging.getLogger("hsdns.server")

BATCH_LEN: Final = 64  # datagrams in one iteration of the loop
KNOWN: Final = 16  # a client's queries in its turn, if the table can answer them by now: as costly as one for the chain
TURN: Final = 0.0005  # seconds
_LEAST_TRUE_SIZE: Final = 512  # octets; Linux charges more of its buffer for any datagram

Miss = tuple[int, bytes, bytes, bytes]  # index of the sender, query, client's address, control data


class UdpListener:
    """Answers at one UDP address; `faults` has the effects of rules of faults on it.

    A subclass has the queue for the names of Services, and the one for all other names: the MissQueue of a twin.
    """

    faults = NO_FAULTS
    _waiting: tuple[Any, Any]

    def __init__(
        self, sockets: Sequence[socket.socket], processor: QueryProcessor, shared: Admission
    ) -> None:
        spawn, clock = shared[:2]
        self.sockets = list(sockets)
        self.local = Endpoint(*self.sock.getsockname()[:2])
        self._bounds = QueueBound(clock()), QueueBound(clock())
        self._pending = PendingQueries()
        self._refused = 0  # because too many were pending
        self._has_left = False  # misses at the end of the last iteration
        self._processor = processor
        self._spawn = spawn
        self._clock = clock
        self._senders: Sequence[Any] = ()  # for each socket a Batch or a Worker
        self._last: list[Batch] = []  # those of stop_reading()
        self._out: list[list[tuple[bytes, bytes, bytes]]] = [[] for _ in self.sockets]
        self._is_collecting = False
        self._late = 0  # replies to send at the end of the iteration
        self._is_closed = False  # the number of the socket may belong to another one then

    @property
    def sock(self) -> socket.socket:
        """The socket that was bound first, for its options; only this listener reads it."""
        return self.sockets[0]

    @property
    def pending(self) -> int:
        """The number of queries that wait for data from elsewhere."""
        return self._pending.total + self._late

    @property
    def is_wildcard(self) -> bool:
        """Whether it is bound to all addresses, so that each datagram reports the local one that it was sent to."""
        return self.local.address in ("0.0.0.0", "::")

    @property
    def processor(self) -> QueryProcessor:
        """The query processor; it may be replaced between two batches."""
        return self._processor

    @processor.setter
    def processor(self, processor: QueryProcessor) -> None:
        self._processor = processor
        self._exchange_table()

    def start(self) -> None:
        """Start reading."""
        raise NotImplementedError

    def drain_to(self, successor: UdpListener) -> None:
        """Pass queries that are not in progress to a successor at the same address, if possible."""

    def stop_reading(self) -> None:
        """Process the datagrams that have already arrived, and no more; replies are still sent."""
        for sock in self.sockets:
            leave_port(sock)
        self._end_reading()
        if self._is_closed:
            return
        for index, sock in enumerate(self.sockets):
            self._empty(index, sock)
        while self._has_waiting():
            self._take()

    def close(self) -> None:
        """Stop reading and close the sockets; queries in progress get no reply."""
        self._end_reading()
        self._is_closed = True
        for sock in self.sockets:
            sock.close()

    def _end_reading(self) -> None:
        """Read no more from the sockets."""

    def _empty(self, index: int, sock: socket.socket) -> None:
        """Answer the datagrams in a socket that is not read any more."""
        sock.setblocking(False)
        batch = Batch(sock.fileno(), self.is_wildcard)
        self._last.append(batch)
        for _ in range(batches_in(sock)):
            received = batch.statistics().received
            misses = batch.serve(self.processor.table)
            self._answer_all((index, *miss) for miss in misses)
            if batch.statistics().received == received:
                break

    def kill(self) -> None:
        """Close at once."""
        self.close()

    def statistics(self) -> tuple[int, dict[int, int]]:
        """The number of dropped queries, because too many waited, and of replies that were not sent, by errno."""
        errors: dict[int, int] = {}
        for sender in (*self._senders, *self._last):
            for code, count in sender.statistics().send_errors.items():
                errors[code] = errors.get(code, 0) + count
        return sum(each.dropped for each in self._waiting) + self._refused, errors

    def _has_waiting(self) -> bool:
        """Whether any query waits."""
        return any(len(each) for each in self._waiting)

    def _exchange_table(self) -> None:
        """Use the processor's table from the next batch on."""

    def _read_again(self) -> None:
        """Read between two misses, if it was not done for some time."""

    def _take(self) -> None:
        """Answer waiting queries in one iteration of the loop."""
        self._answer_all(self._turn())

    def _turn(self) -> Iterator[Miss]:
        now = self._clock()
        middle, end, has_left = now + TURN / 2, now + TURN, False
        for queue, bound, until in zip(self._waiting, self._bounds, (middle, end), strict=True):
            answered = known = 0
            while answered < BATCH_LEN and now < until:
                taken: list[Miss] = queue.take(1)
                if not taken:
                    break
                if self._has_left and self._answer_known(taken[0], now):
                    known += 1
                    if known % KNOWN:
                        queue.give_turn_back()
                elif not self._answer_made(taken[0], now):
                    yield taken[0]
                    self._read_again()
                answered += 1
                now = self._clock()
            left = len(queue)
            has_left |= left > 0
            capacity = bound.note(now, answered, left, queue.dropped)
            if capacity is not None:
                queue.set_capacity(capacity)
        self._has_left = has_left

    def _answer_all(self, misses: Iterable[Miss]) -> None:
        """Answer misses, and send the replies that are ready at once."""
        self._is_collecting = True
        try:
            for miss in misses:
                self._answer(miss)
        finally:
            self._is_collecting = False
            self._send()

    def _answer_known(self, miss: Miss, now: float) -> bool:
        """Answer from the answer table; return False if it cannot answer by now."""
        index, wire, address, control = miss
        lookup = self._processor.lookup
        reply = lookup and lookup(wire, client=address, limit=None, now=now)
        if reply:
            self._out[index].append((reply, address, control))
        return bool(reply)

    def _answer_made(self, miss: Miss, now: float) -> bool:
        """Answer with a reply that needs no chain; return False if there is none."""
        return (
            self.faults.shed is None
            and self._processor.make(miss[1], now)
            and self._answer_known(miss, now)
        )

    def _answer(self, miss: Miss) -> None:
        index, wire, address, control = miss
        shed, owner, before = self.faults.shed, client_of(address), self._pending.total
        try:
            client = client_endpoint(address)
            local = asked_endpoint(control, self.local) if control else self.local
            if (
                shed is not None and shed(self._processor.server, client, local)
            ) or not self._pending.add(owner):
                self._refused += 1
                return
            eager.start(
                self._processor.answer(wire, client, local, "udp", self._clock()),
                functools.partial(self._deliver, index, address, control),
                self._spawn,
            )
        except Exception:
            if self._pending.total > before:  # the reply has not been delivered
                self._pending.remove(owner)
            log.exception("a query over UDP is lost to an error outside of the handlers")

    def _deliver(self, index: int, address: bytes, control: bytes, reply: bytes | None) -> None:
        self._pending.remove(client_of(address))
        if reply is None or self._is_closed:
            return
        self._out[index].append((reply, address, control))
        if not self._is_collecting:
            if not self._late:
                asyncio.get_running_loop().call_soon(self._send)
            self._late += 1  # pending until it is sent, because the socket might be closed before

    def _send(self) -> None:
        self._late = 0
        for sender, out in zip(self._senders, self._out, strict=True):
            if out and not self._is_closed:
                sender.send(out)
            out.clear()
        self._processor.flush()


def batches_in(sock: socket.socket) -> int:
    """The maximum number of batches in a socket's receive buffer, plus one that shows the end.

    A listener that closes reads no more than these, because a client that goes on sending could keep it open.
    """
    size = sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    return size // (_LEAST_TRUE_SIZE * BATCH_LEN) + 2


# Seconds.  What is not read waits in the kernel's buffer, behind whoever sends most.
READING: Final = 8 * TURN
AGAIN: Final = TURN / 4  # from one reading to the next one within an iteration


class UdpServer(UdpListener):
    """Reads one bound UDP socket on the loop, and between the steps of `turns`."""

    def __init__(self, sock: socket.socket, processor: QueryProcessor, shared: Admission) -> None:
        super().__init__([sock], processor, shared)
        self._waiting = MissQueue(), MissQueue()
        self._has_next_turn = False
        self._last_read = 0.0
        self._between = shared.turns.between
        self._batch = Batch(sock.fileno(), self.is_wildcard)
        self._senders = [self._batch]

    def start(self) -> None:
        """Start reading."""
        asyncio.get_running_loop().add_reader(self.sock.fileno(), self._read_batch)
        self._between[self] = self._read_between_steps

    def _end_reading(self) -> None:
        if self._between.pop(self, None) is not None:
            asyncio.get_running_loop().remove_reader(self.sock.fileno())

    def _read_batch(self) -> None:
        self._read()
        if not self._has_next_turn and self._has_waiting():
            self._take_some()

    def _read_between_steps(self) -> None:
        self._read_again()
        if not self._has_next_turn and self._has_waiting():
            self._has_next_turn = True
            asyncio.get_running_loop().call_soon(self._take_some)

    def _read_again(self) -> None:
        if self._clock() - self._last_read >= AGAIN and self in self._between:
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
        listed: list[tuple[bytes, bytes, bytes]] = []
        others: list[tuple[bytes, bytes, bytes]] = []
        for miss in misses:
            (listed if table is not None and table.is_listed(miss[0]) else others).append(miss)
        for queue, offered in zip(self._waiting, (listed, others), strict=True):
            queue.offer(0, offered)

    def _take_some(self) -> None:
        """Answer waiting queries in this iteration of the loop; the rest in the next one."""
        try:
            self._take()
        finally:  # an error costs the misses of this iteration only
            self._has_next_turn = self._has_waiting() and not self._is_closed
            if self._has_next_turn:
                asyncio.get_running_loop().call_soon(self._take_some)


class UdpWorkers(UdpListener):
    """The workers of one address; the first socket is the one that was bound first."""

    def __init__(
        self, sockets: Sequence[socket.socket], processor: QueryProcessor, shared: Admission
    ) -> None:
        # Not in pure Python.
        from hsdns.fastpath._native import MissQueue, Worker  # noqa: PLC0415 - as said

        super().__init__(sockets, processor, shared)
        first, others = self._waiting = MissQueue(), MissQueue()
        self.successor: UdpWorkers | None = None
        self._workers = [
            Worker(sock.fileno(), self.is_wildcard, others, index, first)
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
        for queue in self._waiting:
            asyncio.get_running_loop().add_reader(queue.fileno(), self._take)

    @property
    def pending(self) -> int:
        """The number of queries that wait for data from elsewhere."""
        return super().pending + sum(worker.pending for worker in self._workers)

    def drain_to(self, successor: UdpListener) -> None:
        """Pass queries that are not in progress to the workers that succeed these."""
        assert isinstance(successor, UdpWorkers), "there is one kind in a process"
        self.successor = successor

    def close(self) -> None:
        """End the threads and close the sockets; queries in progress get no reply."""
        for worker in self._workers:
            worker.close()
        super().close()
        for queue in self._waiting:
            asyncio.get_running_loop().remove_reader(queue.fileno())

    def _end_reading(self) -> None:
        for worker, sock in zip(self._workers, self.sockets, strict=True):
            worker.stop()
            # Linux returns ENOTCONN, and still wakes the thread that waits for datagrams (net/ipv4/af_inet.c).
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RD)
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def _exchange_table(self) -> None:
        table: Any = self.processor.table  # always the compiled table here
        for worker in self._workers:
            worker.exchange(table)

    def _answer_known(self, miss: Miss, now: float) -> bool:
        return self.successor is None and super()._answer_known(miss, now)

    def _answer(self, miss: Miss) -> None:
        if not miss[2]:  # the kernel's sign that the socket was shut down
            return
        if self.successor is not None:
            self.successor._answer((0, *miss[1:]))
        else:
            super()._answer(miss)
