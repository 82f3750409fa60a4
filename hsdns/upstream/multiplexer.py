"""Many queries to one upstream over a few UDP sockets, without a task, a socket or a timer for each of them.

Path: upstream/exchange.py asks; udp_socket.py sends and receives.
Source: RFC 5452 (sections 4.2, 4.5 and 9: what a forger must guess); CoreDNS 1.14.7 plugin/pkg/proxy persistent.go.
Rule 1: each query has a random ID that no other outstanding query has at its socket.  A socket, with its source port,
        gives way to another one after MAX_SENT queries or MAX_AGE seconds, and is closed after its last reply.
Rule 2: a datagram with another ID or question than an outstanding query is ignored, however many there are; the query
        goes on waiting.  A reply without any question (FORMERR of old servers) is passed on.
Rule 3: identical questions that wait share one query; each asker has its own time-out.  When the time-out of the first
        one is over, the query is lost: it is sent again for the others, with another ID.
Rule 4: no more than MAX_WAITING askers wait.  One more displaces the one that has waited longest: it is the least
        likely to get a reply, and a flood of names without one leaves new queries the time that a reply takes.
Rule 5: askers whose queries have ended go on one after the other, for TURN seconds, and no more than MAX_RESUMED; the
        others wait for the next iteration of the loop, and those that come meanwhile queue up behind them: each goes on
        through the chain at once, and one datagram or error may end the queries of thousands.
Rule 6: ask() resumes no other asker, to avoid recursion: errors of others are reported in the next iteration of the
        loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from hsdns.eager import Wait
from hsdns.turns import Timer
from hsdns.upstream.deadlines import Deadlines
from hsdns.upstream.entropy import Entropy
from hsdns.upstream.faults import Displaced
from hsdns.upstream.udp_socket import TURN
from hsdns.wire.decode_reply import HEADER_LEN, answers_question
from hsdns.wire.encode import encode_query
from hsdns.wire.message import Query

MAX_PORTS: Final = 4  # sockets in use, without replaced sockets that wait for their last replies
MAX_SENT: Final = 1024  # queries from one source port
MAX_AGE: Final = 30.0  # seconds of a source port
MAX_WAITING: Final = 8192  # askers
MAX_RESUMED: Final = 64  # askers in an iteration; those that wait in tasks go on only after it
TICK: Final = 0.02  # seconds that a time-out may be late

T = TypeVar("T")


class Datagrams(Protocol):
    """A connected socket."""

    @property
    def send(self) -> Callable[[bytes], object]:
        """Send a datagram; it raises OSError."""

    def close(self) -> None:
        """Close it."""


# Opens a socket, given what takes its datagrams and its errors; raises OSError.
Open = Callable[[Callable[[bytes], None], Callable[[OSError], None]], Datagrams]


class Exchange:
    """A query without a reply yet; `content` is its message without the ID, times in seconds of the clock.

    `lost` is when no reply is expected any more, `due` the earliest of that and the askers' deadlines.
    """

    __slots__ = ("askers", "content", "due", "id", "lost", "port", "question")

    def __init__(
        self, question: bytes, content: bytes, query_id: int, port: SourcePort, lost: float
    ) -> None:
        self.question = question
        self.content = content
        self.id = query_id
        self.port = port
        self.lost = self.due = lost
        self.askers: list[tuple[Wait[bytes], float]] = []  # with their deadlines

    @property
    def is_outstanding(self) -> bool:
        """Whether a reply is still expected."""
        return self.port.outstanding.get(self.id) is self


class SourcePort:
    """A socket with the queries that have been sent from it."""

    __slots__ = ("is_retired", "opened", "outstanding", "sent", "socket", "used")

    def __init__(self, now: float) -> None:
        self.outstanding: dict[int, Exchange] = {}  # by ID
        self.opened = self.used = now
        self.sent = 0
        self.is_retired = False  # no more queries are sent from it
        self.socket: Datagrams


class Multiplexer:
    """The UDP queries to one upstream; times in seconds.

    A socket without outstanding queries is closed after `expire`, and one older than `max_age`, if not 0, is not used.
    `max_ports` limits the sockets in use.  `waits` are those of the configuration.
    """

    def __init__(
        self,
        open_socket: Open,
        clock: Callable[[], float],
        waits: set[Wait[Any]],
        *,
        expire: float,
        max_age: float = 0.0,
        max_ports: int = MAX_PORTS,
        entropy: Entropy | None = None,
    ) -> None:
        self._open = open_socket
        self._clock = clock
        self._waits = waits
        self._expire = expire
        self._max_age = min(max_age or MAX_AGE, MAX_AGE)
        self._max_ports = max_ports
        self._entropy = entropy or Entropy()
        self._ports: list[SourcePort] = []
        self._by_content: dict[bytes, Exchange] = {}
        self._deadlines: Deadlines[Exchange] = Deadlines(TICK)
        self._waiting: dict[Wait[bytes], Exchange] = {}  # the one that has waited longest first
        self._ended: deque[Callable[[], None]] = deque()  # each resumes an asker
        self._resumes_later = False  # whether it is continued in the next iteration
        self._timer: Timer | None = None
        self._ticks = False  # whether the timer is set for the next tick
        self._is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None  # cached: a system call

    def __len__(self) -> int:
        """The number of askers that wait."""
        return len(self._waiting)

    async def ask(
        self, query: Query, seconds: float, count: Callable[[bool], None] = lambda is_open: None
    ) -> bytes:
        """Send a query with a new ID; return the reply to its question.

        Raise TimeoutError after `seconds`, Displaced, or OSError.  `count` is told whether a socket was open.
        """
        now = self._clock()
        deadline = now + seconds
        content = encode_query(query, 0)[2:]
        if len(self._waiting) >= MAX_WAITING:
            self._displace()
        exchange = self._by_content.get(content)
        if exchange is None:
            exchange = self._send(query.question_wire, content, now, deadline, count)
        else:
            count(True)
            if deadline < exchange.due:
                self._deadlines.remove(exchange.due, exchange)
                exchange.due = deadline
                self._deadlines.add(deadline, exchange)
        wait: Wait[bytes] = Wait()
        exchange.askers.append((wait, deadline))
        self._waiting[wait] = exchange
        self._waits.add(wait)
        if not self._ticks:
            self._set_timer()
        try:
            if self._loop is None:
                self._loop = asyncio.get_running_loop()
            if asyncio.current_task(self._loop) is None:
                return await wait
            return await _in_task(wait, self._loop)
        finally:
            self._waits.discard(wait)
            if wait in self._waiting:  # cancelled
                self._leave(wait)

    def expire(self) -> None:
        """End expired queries and idle sockets; called by a timer while there are any."""
        now = self._clock()
        due = self._deadlines.take_due(now)
        for count, exchange in enumerate(due, start=1):
            if exchange.is_outstanding:  # one before it may have displaced it
                self._expire_exchange(exchange, now)
                self._resume(now + TURN)
            if count < len(due) and self._clock() >= now + TURN:
                for each in due[count:]:
                    self._deadlines.add(each.due, each)
                self._set_timer(0.0)
                return
        for port in tuple(self._ports):
            if not port.outstanding and now - port.used >= self._expire:
                self._retire(port)
        self._set_timer()

    def close(self) -> None:
        """Close the sockets; those with outstanding queries are closed after their last reply."""
        self._is_closed = True
        for port in tuple(self._ports):
            self._retire(port)
        self._set_timer()

    def _send(
        self,
        question: bytes,
        content: bytes,
        now: float,
        lost: float,
        count: Callable[[bool], None] = lambda is_open: None,
    ) -> Exchange:
        """Send a query for its first asker; raise OSError."""
        port = self._choose_port(now)
        count(port is not None)
        if port is None:
            port = self._open_port(now)
        number = self._entropy.number
        query_id = number()
        while query_id in port.outstanding:
            query_id = number()
        exchange = Exchange(question, content, query_id, port, lost)
        self._transmit(port, query_id.to_bytes(2, "big") + content)
        port.outstanding[query_id] = self._by_content[content] = exchange
        port.sent += 1
        port.used = now
        self._deadlines.add(lost, exchange)
        if port.sent >= MAX_SENT:
            self._retire(port)
        return exchange

    def _transmit(self, port: SourcePort, message: bytes) -> None:
        send = port.socket.send
        try:
            send(message)
        except BlockingIOError:
            pass  # lost, as it may be anywhere in the network
        except OSError as error:
            others = tuple(port.outstanding.values())
            # The error either concerns this datagram, and would be repeated, or an earlier one, and this one was not
            # sent.
            try:
                send(message)
            except BlockingIOError:
                pass
            except OSError:
                if not port.outstanding:
                    self._retire(port)
                raise
            self._end_all(others, error)
            self._resume_later()

    def _choose_port(self, now: float) -> SourcePort | None:
        """Return a socket for a query, at random; None if another one is to be opened."""
        ports = self._ports
        while ports:
            port = ports[self._entropy.number() % len(ports)] if len(ports) > 1 else ports[0]
            if now - port.opened > self._max_age or (
                not port.outstanding and now - port.used > self._expire
            ):
                self._retire(port)
            elif port.outstanding and len(ports) < self._max_ports:
                return None
            else:
                return port
        return None

    def _open_port(self, now: float) -> SourcePort:
        port = SourcePort(now)
        port.socket = self._open(
            partial(self._receive, port),
            partial(self._fail, port),
        )
        if self._is_closed:
            port.is_retired = True
        else:
            self._ports.append(port)
        return port

    def _retire(self, port: SourcePort) -> None:
        """Send no more queries from a port, and close it unless it waits for replies."""
        if port in self._ports:
            self._ports.remove(port)
        port.is_retired = True
        if not port.outstanding:
            port.socket.close()

    def _receive(self, port: SourcePort, datagram: bytes) -> None:
        if len(datagram) < HEADER_LEN:
            return
        exchange = port.outstanding.get(datagram[0] << 8 | datagram[1])
        if exchange is None or not answers_question(datagram, exchange.question):
            return
        self._ended.extend(partial(wait.succeed, datagram) for wait in self._end(exchange))
        self._resume(self._clock() + TURN)

    def _fail(self, port: SourcePort, error: OSError) -> None:
        self._end_all(tuple(port.outstanding.values()), error)
        self._resume(self._clock() + TURN)

    def _end_all(self, exchanges: tuple[Exchange, ...], error: OSError) -> None:
        """Fail the queries that may have caused an error of the kernel."""
        for exchange in exchanges:
            self._ended.extend(partial(wait.fail, error) for wait in self._end(exchange))

    def _resume(self, end: float) -> None:
        """Let askers whose queries have ended go on until this time of the clock, the others later."""
        ended = self._ended
        if self._resumes_later:
            return
        for _ in range(MAX_RESUMED):
            if not ended:
                return
            ended.popleft()()
            if self._clock() >= end:
                break
        self._resume_later()

    def _resume_later(self) -> None:
        if self._ended and not self._resumes_later:
            self._resumes_later = True
            asyncio.get_running_loop().call_soon(self._resume_rest)

    def _resume_rest(self) -> None:
        self._resumes_later = False
        self._resume(self._clock() + TURN)

    def _end(self, exchange: Exchange) -> list[Wait[bytes]]:
        """Stop waiting for a reply; remove its askers, and return them."""
        self._forget(exchange)
        waits = [wait for wait, _ in exchange.askers]
        for wait in waits:
            del self._waiting[wait]
        return waits

    def _expire_exchange(self, exchange: Exchange, now: float) -> None:
        """Time out askers past their deadlines, and send the query again for the others if it is lost."""
        rest = [each for each in exchange.askers if each[1] > now]
        if not rest:
            self._ended.extend(partial(wait.fail, TimeoutError()) for wait in self._end(exchange))
            return
        over = [wait for wait, deadline in exchange.askers if deadline <= now]
        for wait in over:
            del self._waiting[wait]
        exchange.askers = rest
        first = min(deadline for _, deadline in rest)
        if now < exchange.lost:
            exchange.due = min(exchange.lost, first)
            self._deadlines.add(exchange.due, exchange)
        else:
            self._send_again(exchange, now, first)
        self._ended.extend(partial(wait.fail, TimeoutError()) for wait in over)

    def _send_again(self, exchange: Exchange, now: float, lost: float) -> None:
        self._forget(exchange)
        try:
            again = self._send(exchange.question, exchange.content, now, lost)
        except OSError as error:
            for wait, _ in exchange.askers:
                del self._waiting[wait]
                self._ended.append(partial(wait.fail, error))
            return
        again.askers = exchange.askers
        for wait, _ in again.askers:
            self._waiting[wait] = again

    def _displace(self) -> None:
        """Give up the asker that has waited longest."""
        wait = next(iter(self._waiting))
        self._leave(wait)
        error = Displaced(f"has {MAX_WAITING} queries to answer, so the oldest is given up")
        self._ended.append(partial(wait.fail, error))
        self._resume_later()

    def _leave(self, wait: Wait[bytes]) -> None:
        """Remove an asker, and its query if no other has asked it."""
        exchange = self._waiting.pop(wait)
        exchange.askers = [each for each in exchange.askers if each[0] is not wait]
        if not exchange.askers:
            self._forget(exchange)

    def _forget(self, exchange: Exchange) -> None:
        """Expect no reply to a query any more."""
        self._deadlines.remove(exchange.due, exchange)
        del self._by_content[exchange.content]
        port = exchange.port
        del port.outstanding[exchange.id]
        if port.is_retired and not port.outstanding:
            port.socket.close()

    def _set_timer(self, tick: float = TICK) -> None:
        """Wake up after a tick if any query waits, else when an idle socket is to be closed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._ticks = bool(self._deadlines)
        if self._ticks or self._ports:
            # At least a second, so that `expire 0s` does not busy the loop.
            delay = tick if self._ticks else max(self._expire, 1.0)
            self._timer = Timer(asyncio.get_running_loop(), delay, self.expire)


def _in_task(wait: Wait[T], loop: asyncio.AbstractEventLoop) -> Awaitable[T]:
    """Return an awaitable for a task."""
    over: asyncio.Future[T] = loop.create_future()
    wait.resume = partial(_pass_on, over, wait)
    return over


def _pass_on(over: asyncio.Future[T], wait: Wait[T]) -> None:
    if over.done():  # its task was cancelled
        return
    try:
        over.set_result(wait.result())
    except asyncio.CancelledError:
        over.cancel()
    except Exception as error:
        over.set_exception(error)
