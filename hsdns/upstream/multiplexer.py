"""Many queries to one upstream over a few UDP sockets, without a task, a socket or a timer for each of them.

Path: upstream/exchange.py asks; udp_socket.py sends and receives.
Source: RFC 5452 (sections 4.2, 4.5, 5 and 9: what a forger must guess); CoreDNS 1.14.7 plugin/pkg/proxy persistent.go;
RFC 7873 section 3 (cookies); draft-vixie-dnsext-dns0x20-00.
Rule 1: each query has a random ID that no other outstanding query has at its socket.  A socket, with its source port,
        gives way to another one after MAX_SENT queries or MAX_AGE seconds, and is closed after its last reply.
Rule 2: a datagram with another ID or question than an outstanding query is ignored, and the query goes on waiting.
        A reply without any question (FORMERR of old servers) is passed on.  Datagrams that are ignored are counted,
        except for those with the ID of an earlier query of their socket, which are late.  From MAX_FORGED in a second
        on, the questions that they are about go over TCP for SUSPICION seconds: no one else can (a forger must name a
        question that waits, and can send no other one there).
Rule 3: identical queries that wait share one; each asker has its own time-out.  When the time-out of the first one is
        over, the query is lost: it is sent again for the others, with another ID.  Queries are identical if they differ
        only in case and cookies, which are not sent on.
Rule 4: of the queries for one name, type and class, whatever else they differ in, no two are outstanding at one socket,
        and so no more than there are sockets: a forged datagram for them has one ID to hit.  More of them wait for
        their turn, the first one first.  Those whose time is over before their turn have not been lost by the upstream.
Rule 5: with `use_caps_for_id` each query has its name in a random case, and a reply in another case goes over TCP.
Rule 6: no more than MAX_WAITING askers wait.  One more displaces the one that has waited longest: it is the least
        likely to get a reply, and a flood of names without one leaves new queries the time that a reply takes.
Rule 7: askers whose queries have ended go on one after the other, for TURN seconds, and no more than MAX_RESUMED; the
        others wait for the next iteration of the loop, and those that come meanwhile queue up behind them: each goes on
        through the chain at once, and one datagram or error may end the queries of thousands.
Rule 8: the compiled twin (native/src/forward.rs), where there is one, has sockets of its own for the same questions:
        one query of it for a question is outstanding, so here is one less.  Both know of forged replies.
Rule 9: ask() resumes no other asker, to avoid recursion: errors of others are reported in the next iteration of the
        loop.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

from hsdns.eager import Wait
from hsdns.turns import Timer
from hsdns.upstream.connection import Displaced, ProtocolViolation
from hsdns.upstream.target import UpstreamSettings
from hsdns.upstream.udp_socket import TURN
from hsdns.wire.decode import HEADER_LEN, answers_question
from hsdns.wire.encode import encode_query
from hsdns.wire.iana import OptCode
from hsdns.wire.message import Query

T = TypeVar("T")


class Deadlines(Generic[T]):
    """Items by deadline; all times in seconds of one clock."""

    def __init__(self, tick: float) -> None:
        self._tick = tick
        # By the number of the tick at whose start they are due, in the order in which they were added.
        self._items: dict[int, dict[T, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._items)

    def add(self, deadline: float, item: T) -> None:
        """Add an item."""
        self._items.setdefault(int(deadline / self._tick) + 1, {})[item] = None

    def remove(self, deadline: float, item: T) -> None:
        """Remove an item that was added with this deadline; one that is not there is ignored."""
        number = int(deadline / self._tick) + 1
        items = self._items.get(number)
        if items is not None:
            items.pop(item, None)
            if not items:
                del self._items[number]

    def take_due(self, now: float) -> list[T]:
        """Remove and return the items whose deadlines have passed, those of earlier ticks first."""
        current = int(now / self._tick)
        numbers = sorted(number for number in self._items if number <= current)
        return [item for number in numbers for item in self._items.pop(number)]


_REFILL: Final = (
    4096  # octets; a call of the kernel for each number would cost more than the number
)


class Entropy:
    """Draws from the kernel's random number generator, many at a time; `draw` returns so many random octets."""

    __slots__ = ("_at", "_draw", "_octets")

    def __init__(self, draw: Callable[[int], bytes] = os.urandom) -> None:
        self._draw = draw
        self._octets = b""
        self._at = 0

    def number(self) -> int:
        """Return a random number of 16 bits."""
        at = self._at
        if at >= len(self._octets):
            self._octets, at = self._draw(_REFILL), 0
        self._at = at + 2
        return self._octets[at] << 8 | self._octets[at + 1]


MAX_PORTS: Final = 4  # sockets in use, without replaced sockets that wait for their last replies
MAX_SENT: Final = 1024  # queries from one source port
MAX_AGE: Final = 30.0  # seconds of a source port
MAX_WAITING: Final = 8192  # askers
MAX_FORGED: Final = 16  # in a second
SUSPICION: Final = 60.0  # seconds
MAX_SUSPECTS: Final = 1024  # questions
MAX_RESUMED: Final = 64  # askers in an iteration; those that wait in tasks go on only after it
TICK: Final = 0.02  # seconds that a time-out may be late
_QUESTION_AT: Final = HEADER_LEN - 2  # in a message without its ID
_TAIL_LEN: Final = 4  # type and class

_NoTurn: Final = partial(
    Displaced, "has other queries for the same name to answer, so this one had no turn in time"
)


class Datagrams(Protocol):
    """A connected socket, or what sends one query over TCP as if it were one."""

    @property
    def send(self) -> Callable[[bytes], object]:
        """Send a datagram; it raises OSError."""

    def close(self) -> None:
        """Close it."""


class Suspects(Protocol):
    """The compiled twin, as far as it is about forged replies; questions are in lower case."""

    def is_suspect(self, question: bytes) -> bool:
        """Whether a question is to be asked over TCP."""

    def suspect(self, question: bytes) -> None:
        """Ask it over TCP for SUSPICION."""


# Opens a socket, given what takes its datagrams and its errors; raises OSError.
Open = Callable[[Callable[[bytes], None], Callable[[OSError], None]], Datagrams]


class Exchange:
    """A query without a reply yet; `content` is its message without the ID, times in seconds of the clock.

    `port` is None as long as it waits for its turn; `question` is in lower case, `asked` as it was sent.
    `lost` is when no reply is expected any more, `due` the earliest of that and the askers' deadlines.
    """

    __slots__ = ("asked", "askers", "content", "due", "id", "lost", "port", "question")

    def __init__(self, question: bytes, content: bytes, lost: float) -> None:
        self.question = self.asked = question
        self.content = content
        self.id = 0
        self.port: SourcePort | None = None
        self.lost = self.due = lost
        self.askers: list[tuple[Wait[bytes], float]] = []  # with their deadlines


class Turns:
    """The queries for one question: those that have been sent, and those that wait for their turn, in order."""

    __slots__ = ("sent", "waiting")

    def __init__(self) -> None:
        self.sent: list[Exchange] = []
        self.waiting: dict[Exchange, None] = {}


@dataclass(slots=True, eq=False)
class SourcePort:
    """A socket with the queries that have been sent from it."""

    opened: float
    used: float
    outstanding: dict[int, Exchange] = field(default_factory=dict)  # by ID
    sent: int = 0
    past: set[int] = field(default_factory=set)  # IDs of queries that have ended
    is_retired: bool = False  # no more queries are sent from it
    is_stream: bool = False  # it is for one query over TCP
    socket: Datagrams = field(init=False)


@dataclass(eq=False)
class Multiplexer:
    """The UDP queries to one upstream; times in seconds.

    A socket without outstanding queries is closed after `expire`, and one older than `max_age` is not used.
    `open_stream` is for questions that go over TCP, one query each; `waits` are those of the configuration; `forged`
    counts a datagram that is no reply to any query.
    """

    open_socket: Open
    clock: Callable[[], float]
    waits: set[Wait[Any]]
    settings: UpstreamSettings
    _: KW_ONLY
    open_stream: Open
    forged: Callable[[], object]
    entropy: Entropy | None = None

    def __post_init__(self) -> None:
        settings, self._entropy = self.settings, self.entropy or Entropy()
        self._max_age = min(settings.max_age or MAX_AGE, MAX_AGE)
        self._max_ports = min(settings.max_idle_conns or MAX_PORTS, MAX_PORTS)
        self._twin: Suspects | None = None
        self._ports: list[SourcePort] = []
        self._by_content: dict[bytes, Exchange] = {}
        self._turns: dict[bytes, Turns] = {}  # by question
        self._forged: deque[float] = deque(maxlen=MAX_FORGED)  # when the last ones came
        self._suspects: dict[bytes, float] = {}  # questions that go over TCP, and until when
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

    def share_with(self, twin: Suspects) -> None:
        """Leave one of the queries for each question to a twin."""
        self._twin, self._max_ports = twin, max(self._max_ports - 1, 1)

    async def ask(
        self, query: Query, seconds: float, count: Callable[[bool], None] = lambda is_open: None
    ) -> bytes:
        """Send a query with a new ID; return the reply to its question.

        Raise TimeoutError after `seconds`, Displaced, or OSError.  `count` is told whether a socket was open.
        """
        now = self.clock()
        deadline = now + seconds
        query = sent_on(query)
        content = encode_query(query, 0)[2:]
        if len(self._waiting) >= MAX_WAITING:
            self._displace()
        exchange = self._by_content.get(content)
        if exchange is None:
            exchange = Exchange(query.question_wire, content, deadline)
            self._start(exchange, now, count)
        else:
            count(True)
            if deadline < exchange.due:
                self._deadlines.remove(exchange.due, exchange)
                exchange.due = deadline
                self._deadlines.add(deadline, exchange)
        wait: Wait[bytes] = Wait()
        exchange.askers.append((wait, deadline))
        self._waiting[wait] = exchange
        self.waits.add(wait)
        if not self._ticks:
            self._set_timer()
        try:
            if self._loop is None:
                self._loop = asyncio.get_running_loop()
            if asyncio.current_task(self._loop) is None:
                return await wait
            return await _in_task(wait, self._loop)
        finally:
            self.waits.discard(wait)
            if wait in self._waiting:  # cancelled
                self._leave(wait)
                self._resume_later()

    def expire(self) -> None:
        """End expired queries and idle sockets; called by a timer while there are any."""
        now = self.clock()
        due = self._deadlines.take_due(now)
        for count, exchange in enumerate(due, start=1):
            # One before it may have displaced it.
            if self._by_content.get(exchange.content) is exchange:
                self._expire_exchange(exchange, now)
                self._resume(now + TURN)
            if count < len(due) and self.clock() >= now + TURN:
                for each in due[count:]:
                    self._deadlines.add(each.due, each)
                self._set_timer(0.0)
                return
        for port in tuple(self._ports):
            if not port.outstanding and now - port.used >= self.settings.expire:
                self._retire(port)
        self._set_timer()

    def close(self) -> None:
        """Close the sockets; those with outstanding queries are closed after their last reply."""
        self._is_closed = True
        for port in tuple(self._ports):
            self._retire(port)
        self._set_timer()

    def _start(
        self, exchange: Exchange, now: float, count: Callable[[bool], None] = lambda is_open: None
    ) -> None:
        """Send a query, or let it wait for its turn; raise OSError."""
        turns = self._turns.get(exchange.question)
        if turns is not None and (turns.waiting or len(turns.sent) >= self._max_ports):
            turns.waiting[exchange] = None
            count(True)
        else:
            self._send(exchange, now, count)
        self._by_content[exchange.content] = exchange
        self._deadlines.add(exchange.due, exchange)

    def _send(
        self, exchange: Exchange, now: float, count: Callable[[bool], None] = lambda is_open: None
    ) -> None:
        """Send a query with a new ID; raise OSError."""
        question, content = exchange.question, exchange.content
        turns = self._turns.get(question) or Turns()
        exchange.asked = question
        if now < self._suspects.get(question, 0.0) or (
            self._twin is not None and self._twin.is_suspect(question)
        ):
            port = SourcePort(now, now)
            port.is_stream = port.is_retired = True
            port.socket = self.open_stream(partial(self._receive, port), partial(self._fail, port))
        else:
            found = self._choose_port(now, turns.sent)
            count(found is not None)
            port = found or self._open_port(now)
            if self.settings.use_caps_for_id:
                exchange.asked = asked = self._in_random_case(question)
                content = content[:_QUESTION_AT] + asked + content[_QUESTION_AT + len(asked) :]
        number = self._entropy.number
        query_id = number()
        while query_id in port.outstanding:
            query_id = number()
        self._transmit(port, query_id.to_bytes(2, "big") + content)
        exchange.id, exchange.port = query_id, port
        port.outstanding[query_id] = exchange
        turns.sent.append(exchange)
        self._turns[question] = turns
        port.sent += 1
        port.used = now
        if port.sent >= MAX_SENT:
            self._retire(port)

    def _send_next(self, question: bytes) -> None:
        """Send the query whose turn it is."""
        turns = self._turns.get(question)
        if turns is None or not turns.waiting or len(turns.sent) >= self._max_ports:
            return
        exchange = next(iter(turns.waiting))
        del turns.waiting[exchange]
        exchange.lost = max(deadline for _, deadline in exchange.askers)
        try:
            self._send(exchange, self.clock())
        except OSError as error:
            turns.waiting[exchange] = None
            self._end_all((exchange,), error)
            self._ended.append(partial(self._send_next, question))

    def _in_random_case(self, question: bytes) -> bytes:
        number = self._entropy.number
        name = bytes(
            octet - 32 if 97 <= octet <= 122 and number() & 1 else octet
            for octet in question[:-_TAIL_LEN]
        )
        return name + question[-_TAIL_LEN:]

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

    def _choose_port(self, now: float, same: Collection[Exchange]) -> SourcePort | None:
        """Return a socket for a query, at random, without one of `same`; None if another one is to be opened."""
        while ports := self._ports:
            if same:
                taken = [each.port for each in same]
                ports = [port for port in ports if port not in taken]
                if not ports:
                    return None
            port = ports[self._entropy.number() % len(ports)] if len(ports) > 1 else ports[0]
            if now - port.opened > self._max_age or (
                not port.outstanding and now - port.used > self.settings.expire
            ):
                self._retire(port)
            elif port.outstanding and len(self._ports) < self._max_ports:
                return None
            else:
                return port
        return None

    def _open_port(self, now: float) -> SourcePort:
        port = SourcePort(now, now)
        port.socket = self.open_socket(
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
        query_id = int.from_bytes(datagram[:2], "big")
        exchange = port.outstanding.get(query_id)
        if (
            exchange is None
            or len(datagram) < HEADER_LEN
            or not answers_question(datagram, exchange.question)
        ):
            if port.is_stream:
                self._fail(port, ProtocolViolation("sent a reply to another question over TCP"))
            elif exchange is not None or query_id not in port.past:
                self._suspect_forgery(datagram, exchange)
            return
        if exchange.asked is not exchange.question:
            end = HEADER_LEN + len(exchange.asked)
            if datagram[HEADER_LEN:end] != exchange.asked:
                self.forged()
                self._go_over_tcp(exchange.question, self.clock())
                return
            datagram = datagram[:HEADER_LEN] + exchange.question + datagram[end:]
        self._end(exchange, datagram)
        self._resume(self.clock() + TURN)

    def _suspect_forgery(self, datagram: bytes, exchange: Exchange | None) -> None:
        """Count a datagram that is no reply; with many, what it is about (`exchange`, if any) goes over TCP."""
        now, times = self.clock(), self._forged
        self.forged()
        times.append(now)
        if len(times) == MAX_FORGED and now - times[0] < 1.0:
            self._go_over_tcp(exchange.question if exchange else _question_of(datagram), now)

    def _go_over_tcp(self, question: bytes, now: float) -> None:
        """Send what waits for a reply to this question, if anything, over TCP, and the next ones too."""
        turns, suspects = self._turns.get(question), self._suspects
        if turns is None:
            return
        if self._twin is not None:
            self._twin.suspect(question)
        suspects.pop(question, None)
        suspects[question] = now + SUSPICION
        if len(suspects) > MAX_SUSPECTS:
            del suspects[next(iter(suspects))]
        for exchange in tuple(turns.sent):
            if exchange.port is not None and not exchange.port.is_stream:
                self._release(exchange, exchange.port)
                self._send(exchange, now)

    def _fail(self, port: SourcePort, error: OSError) -> None:
        self._end_all(tuple(port.outstanding.values()), error)
        self._resume(self.clock() + TURN)

    def _end_all(self, exchanges: tuple[Exchange, ...], error: OSError) -> None:
        """Fail the queries that may have caused an error of the kernel."""
        for exchange in exchanges:
            self._end(exchange, error)

    def _resume(self, end: float) -> None:
        """Let askers whose queries have ended go on until this time of the clock, the others later."""
        ended = self._ended
        if self._resumes_later:
            return
        for _ in range(MAX_RESUMED):
            if not ended:
                return
            ended.popleft()()
            if self.clock() >= end:
                break
        self._resume_later()

    def _resume_later(self) -> None:
        if self._ended and not self._resumes_later:
            self._resumes_later = True
            asyncio.get_running_loop().call_soon(self._resume_rest)

    def _resume_rest(self) -> None:
        self._resumes_later = False
        self._resume(self.clock() + TURN)

    def _end(self, exchange: Exchange, outcome: bytes | OSError) -> None:
        """Stop waiting for a reply; its askers will go on with it, or with an error."""
        self._forget(exchange)
        for wait, _ in exchange.askers:
            del self._waiting[wait]
            self._ended.append(
                partial(wait.succeed, outcome)
                if isinstance(outcome, bytes)
                else partial(wait.fail, outcome)
            )

    def _expire_exchange(self, exchange: Exchange, now: float) -> None:
        """Time out askers past their deadlines, and send the query again for the others if it is lost."""
        rest = [each for each in exchange.askers if each[1] > now]
        fault = TimeoutError if exchange.port is not None else _NoTurn
        if not rest:
            self._end(exchange, fault())
            return
        over = [wait for wait, deadline in exchange.askers if deadline <= now]
        for wait in over:
            del self._waiting[wait]
        exchange.askers = rest
        first = min(deadline for _, deadline in rest)
        if exchange.port is None or now < exchange.lost:
            exchange.due = first if exchange.port is None else min(exchange.lost, first)
            self._deadlines.add(exchange.due, exchange)
        else:
            self._send_again(exchange, now, first)
        self._ended.extend(partial(wait.fail, fault()) for wait in over)

    def _send_again(self, exchange: Exchange, now: float, lost: float) -> None:
        self._forget(exchange)
        exchange.port = None
        exchange.lost = exchange.due = lost
        try:
            self._start(exchange, now)
        except OSError as error:
            for wait, _ in exchange.askers:
                del self._waiting[wait]
                self._ended.append(partial(wait.fail, error))

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
        """Expect no reply to a query any more; its turn is over."""
        self._deadlines.remove(exchange.due, exchange)
        del self._by_content[exchange.content]
        turns = self._turns[exchange.question]
        if exchange.port is None:
            del turns.waiting[exchange]
        else:
            self._release(exchange, exchange.port)
            if turns.waiting:
                self._ended.append(partial(self._send_next, exchange.question))
        if not turns.sent and not turns.waiting:
            del self._turns[exchange.question]

    def _release(self, exchange: Exchange, port: SourcePort) -> None:
        """Expect no reply to a query at its port."""
        self._turns[exchange.question].sent.remove(exchange)
        del port.outstanding[exchange.id]
        port.past.add(exchange.id)
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
            delay = tick if self._ticks else max(self.settings.expire, 1.0)
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


def sent_on(query: Query) -> Query:
    """The query for an upstream: in lower case, and without cookies, which are for one hop (RFC 7873 section 3)."""
    edns, question = query.edns, query.qname.lower + query.question_wire[-_TAIL_LEN:]
    if edns is not None and edns.options:
        options = tuple(option for option in edns.options if option[0] != OptCode.COOKIE)
        edns = edns if options == edns.options else replace(edns, options=options)
    if edns is query.edns and question == query.question_wire:
        return query
    return query.replace(question_wire=question, edns=edns)


def _question_of(datagram: bytes) -> bytes:
    """The first question of a message in lower case; any octets if it has none."""
    end = HEADER_LEN
    while end < len(datagram) and datagram[end]:
        end += 1 + datagram[end]
    return datagram[HEADER_LEN : end + 1].lower() + datagram[end + 1 : end + 1 + _TAIL_LEN]
