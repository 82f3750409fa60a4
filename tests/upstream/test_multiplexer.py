"""Many queries over a few sockets in memory; their deadlines, and random numbers."""

from __future__ import annotations

import asyncio
import errno
import functools
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from itertools import pairwise, product, takewhile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.eager import Wait, start
from hsdns.upstream import multiplexer
from hsdns.upstream.connection import Displaced
from hsdns.upstream.multiplexer import (
    MAX_FORGED,
    MAX_PORTS,
    MAX_RESUMED,
    SUSPICION,
    TICK,
    Deadlines,
    Entropy,
    Multiplexer,
)
from hsdns.upstream.target import UpstreamSettings
from hsdns.upstream.udp_socket import TURN
from hsdns.wire.edns import Edns
from hsdns.wire.iana import RRType
from hsdns.wire.message import Query
from hsdns.wire.name import Name
from tests.support.tables import section, sections

QUERIES = Path(__file__).with_name("queries.txt")
WWW = Query.ask(Name.from_text("www.example.org."), RRType.A)


def query(number: int) -> Query:
    return Query.ask(Name.from_text(f"n{number}.example.org."), RRType.A)


def reply(message: bytes) -> bytes:
    return message[:2] + b"\x81\x80" + message[4:]


class Socket:
    """A socket in memory; `errors` are raised by the next calls of send()."""

    def __init__(self, receive: Callable[[bytes], None], fail: Callable[[OSError], None]) -> None:
        self.receive, self.fail = receive, fail
        self.sent: list[bytes] = []
        self.errors: list[OSError] = []
        self.is_closed = False

    def send(self, message: bytes) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.sent.append(message)

    def close(self) -> None:
        self.is_closed = True


class Setup:
    """A multiplexer over sockets in memory; what is asked runs without a task."""

    def __init__(self, entropy: Entropy | None = None, **options: Any) -> None:
        self.now = 100.0
        self.sockets: list[Socket] = []
        self.waits: set[Wait[Any]] = set()
        self.counts: list[bool] = []
        self.results: dict[int, bytes | BaseException | None] = {}
        self.streams: list[Socket] = []
        self.forged = 0
        self.under_test = Multiplexer(
            self._open,
            lambda: self.now,
            self.waits,
            UpstreamSettings(**options),
            open_stream=self._open_stream,
            forged=self._count_forged,
            entropy=entropy,
        )

    def _count_forged(self) -> None:
        self.forged += 1

    def _open_stream(
        self, receive: Callable[[bytes], None], fail: Callable[[OSError], None]
    ) -> Socket:
        self.streams.append(Socket(receive, fail))
        return self.streams[-1]

    def _open(self, receive: Callable[[bytes], None], fail: Callable[[OSError], None]) -> Socket:
        self.sockets.append(Socket(receive, fail))
        return self.sockets[-1]

    def ask(self, asked: Query = WWW, seconds: float = 2.0) -> int:
        """Ask; return the number of the result."""
        number = len(self.results)
        self.results[number] = None

        async def asking() -> bytes | BaseException:
            try:
                return await self.under_test.ask(asked, seconds, self.counts.append)
            except Exception as error:
                return error

        start(asking(), lambda result: self.results.update({number: result}), spawn)
        return number

    @property
    def sent(self) -> list[bytes]:
        return [message for socket in self.sockets for message in socket.sent]

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.under_test.expire()

    @property
    def open(self) -> int:
        return sum(not socket.is_closed for socket in self.sockets)


def spawn(coro: Coroutine[Any, Any, Any]) -> Any:
    coro.close()
    raise AssertionError("a query needs no task")


async def in_callback(call: Callable[[], object]) -> None:
    """Call in a callback of the loop, as queries are, then let run what that has left for the next turn."""
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def run() -> None:
        try:
            call()
        except BaseException as error:
            over.set_exception(error)
        else:
            over.set_result(None)

    asyncio.get_running_loop().call_soon(run)
    await over


def in_loop(scenario: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(scenario)
    def run(**given: Any) -> None:
        asyncio.run(in_callback(functools.partial(scenario, **given)))

    return run


@in_loop
def test_ids_are_unpredictable_and_differ_from_all_outstanding_ones() -> None:
    octets = bytes((7, 1, 7, 1, 7, 1, 7, 2))  # the ID 0x0701 comes three times
    setup = Setup(entropy=Entropy(lambda count: octets), max_idle_conns=1)
    for k in range(2):
        setup.ask(query(k))
    assert [message[:2] for message in setup.sent] == [b"\7\1", b"\7\2"]
    setup.under_test.close()


@in_loop
def test_source_ports_are_unpredictable() -> None:
    """Each query goes from any of them, whatever those before it did (RFC 5452 section 9.2)."""
    setup = Setup(entropy=Entropy(random.Random(1).randbytes))
    chosen: list[int] = []
    for number in range(MAX_PORTS + 800):
        before = [len(socket.sent) for socket in setup.sockets]
        setup.ask(query(number))
        sent = [len(socket.sent) for socket in setup.sockets]
        chosen += [k for k, count in enumerate(sent) if before[k:] and count > before[k]]
    assert len(setup.sockets) == MAX_PORTS
    followed = Counter(pairwise(chosen))
    assert set(followed) == set(product(range(MAX_PORTS), repeat=2))
    assert max(followed.values()) < 2 * 800 / MAX_PORTS**2
    setup.under_test.close()


@pytest.mark.parametrize(
    "forged",
    [
        pytest.param(lambda wire: wire[:11], id="too-short"),
        pytest.param(lambda wire: wire, id="a-query"),
        pytest.param(lambda wire: bytes((wire[0] ^ 1,)) + reply(wire)[1:], id="other-id"),
        pytest.param(lambda wire: reply(wire).replace(b"\3www", b"\3ftp"), id="other-name"),
        pytest.param(lambda wire: reply(wire)[:-3] + b"\x41\0\1", id="other-type"),
        pytest.param(lambda wire: reply(wire)[:-1] + b"\3", id="other-class"),
        pytest.param(lambda wire: reply(wire)[:5] + b"\2" + reply(wire)[6:], id="two-questions"),
    ],
)
@in_loop
def test_other_messages_are_ignored_until_the_timeout(forged: Callable[[bytes], bytes]) -> None:
    setup = Setup()
    first, second = setup.ask(), setup.ask(query(1))
    one, two = setup.sockets
    for _ in range(MAX_FORGED - 2):
        one.receive(forged(one.sent[0]))
    one.receive(reply(two.sent[0]))  # right, but at another port
    assert (setup.forged, setup.streams) == (MAX_FORGED - 1, [])
    assert setup.results == {first: None, second: None}
    one.receive(reply(one.sent[0]).replace(b"www", b"wWw"))
    two.receive(b"")
    setup.pass_time(2.0 + TICK)
    assert isinstance(setup.results[first], bytes)
    assert isinstance(setup.results[second], TimeoutError)
    setup.under_test.close()


def in_case(number: int) -> Query:
    """www.example.org. in one of 2 ** 13 cases."""
    bits = iter(f"{number:013b}")
    text = "".join(
        c.upper() if c.isalpha() and next(bits) == "1" else c for c in "www.example.org."
    )
    return Query.ask(Name.from_text(text), RRType.A)


def subnet(number: int) -> tuple[int, bytes]:
    return 8, b"\0\1\x18\0\x0a" + number.to_bytes(2, "big")


@pytest.mark.parametrize(
    ("vary", "total"),
    [
        pytest.param(in_case, 1, id="case"),
        pytest.param(
            lambda k: WWW.replace(edns=Edns(1232, options=((10, k.to_bytes(8)),))), 1, id="cookie"
        ),
        pytest.param(
            lambda k: WWW.replace(edns=Edns(1232, options=(subnet(k),))), 800, id="subnet"
        ),
        pytest.param(lambda k: WWW.replace(edns=Edns(512 + k)), 800, id="payload-size"),
        pytest.param(lambda k: WWW.replace(flags=0x0100 | (k & 7) << 4), 8, id="flags"),
        pytest.param(
            lambda k: in_case(k).replace(
                edns=Edns(1232, options=(subnet(k % 100), (10, k.to_bytes(8))))
            ),
            100,
            id="all",
        ),
    ],
)
@pytest.mark.parametrize("most", [1, MAX_PORTS])
async def test_few_queries_for_one_name_wait(
    vary: Callable[[int], Query], total: int, most: int
) -> None:
    """800 questions that differ in something: one forged datagram to a known port hits with 1 in 65,536."""
    setup, answered, wanted = Setup(max_idle_conns=most), 0, WWW.question_wire
    loop = asyncio.get_running_loop()
    for asked in [*map(vary, range(800)), query(1)]:
        loop.call_soon(setup.ask, asked)
    while answered < total:
        for _ in range(800 // MAX_RESUMED + 2):
            await asyncio.sleep(0)
        sent = [(each, [wire for wire in each.sent if wanted in wire]) for each in setup.sockets]
        assert sum(len(wires) for _, wires in sent) == min(most, total - answered)
        assert all(len(wires) <= 1 for _, wires in sent)
        for socket, wires in sent:
            for wire in wires:
                socket.sent.remove(wire)
                socket.receive(reply(wire))
                answered += 1
    setup.under_test.close()
    for _ in range(800 // MAX_RESUMED + 2):
        await asyncio.sleep(0)
    assert [type(result) for result in setup.results.values()] == [bytes] * 800 + [type(None)]
    assert len(setup.counts) == 801


ERRORS = {
    "unreachable": lambda: OSError(errno.ENETUNREACH, ""),
    "refused": ConnectionRefusedError,
    "full": BlockingIOError,
}


class Script:
    """Runs the steps of queries.txt; queries are asked without a task."""

    def __init__(self, ports: int) -> None:
        self.setup = Setup(max_idle_conns=ports)
        self.messages: list[tuple[Socket, bytes]] = []  # in the order in which they were sent
        self.askers: dict[str, int] = {}
        self.waits: dict[str, Wait[Any]] = {}

    def note_messages(self) -> None:
        known = [message for _, message in self.messages]
        sent = [(socket, message) for socket in self.setup.sockets for message in socket.sent]
        self.messages += [each for each in sent if each[1] not in known]

    def state(self) -> str:
        self.note_messages()
        ended = [
            f"{who} {'reply' if isinstance(result, bytes) else type(result).__name__}"
            for who, number in self.askers.items()
            if (result := self.setup.results[number]) is not None
        ]
        words = f"{len(self.messages)} sent, {len(self.setup.under_test)} wait"
        return f"{words}: {', '.join(ended)}" if ended else words

    def step(self, word: str, *args: str) -> None:
        setup = self.setup
        match word, *args:
            case "ask", who, name, seconds:
                name, _, size = name.partition("/")
                asked = WWW if name == "www" else query(int(name[1:]))
                asked = asked.replace(edns=Edns(int(size))) if size else asked
                before = set(setup.waits)
                self.askers[who] = setup.ask(asked, float(seconds))
                for wait in setup.waits - before:
                    self.waits[who] = wait
            case "pass", seconds:
                setup.pass_time(float(seconds) + TICK)
            case "reply", number:
                socket, message = self.messages[int(number) - 1]
                socket.receive(reply(message))
            case "fail", port:
                setup.sockets[int(port) - 1].fail(ConnectionRefusedError())
            case "errors", port, *names:
                setup.sockets[int(port) - 1].errors = [ERRORS[name]() for name in names]
            case "cancel", who:
                with pytest.raises(asyncio.CancelledError) as cancelled:
                    self.waits[who].fail(asyncio.CancelledError())
                setup.results[self.askers[who]] = cancelled.value
            case "=>", *_:
                assert self.state() == " ".join(args)
        self.note_messages()

    def run(self, lines: list[list[str]]) -> None:
        for line in lines:
            self.step(*line)


@pytest.mark.parametrize("name", sections(QUERIES))
async def test_queries(name: str) -> None:
    lines = [line.split() for line in section(QUERIES, name).splitlines()]
    script = Script(int(lines[0][1]) if lines[0][0] == "ports" else MAX_PORTS)
    while lines:
        turn = [*takewhile(lambda line: line != ["later"], lines)]
        await in_callback(functools.partial(script.run, turn))
        del lines[: len(turn) + 1]
    script.setup.pass_time(100.0)
    await in_callback(script.setup.under_test.close)
    script.setup.pass_time(100.0)
    assert (len(script.setup.waits), script.setup.open) == (0, 0)
    assert not script.setup.under_test._turns, "nothing is kept of a question"


@in_loop
def test_forged_replies_are_late_ones_only_once() -> None:
    """A late reply, or a second one, is no forgery; sixteen forgeries in a second count, in more time they do not."""
    setup = Setup(max_idle_conns=1)
    setup.ask(query(1), seconds=1.0)
    setup.pass_time(1.0 + TICK)
    asked = setup.ask(seconds=100.0)
    (socket,) = setup.sockets
    for _ in range(100):
        socket.receive(reply(setup.sent[0]))
    assert setup.forged == 0
    forged = (int.from_bytes(setup.sent[1][:2], "big") ^ 1).to_bytes(2, "big") + reply(
        setup.sent[1]
    )[2:]
    while setup.now < 103.0:
        socket.receive(forged)
        setup.now += 1 / 14
    for later in (9.0, *[0.0] * (MAX_FORGED - 2), 1.0):  # the sixteenth a second after the first
        setup.now += later
        socket.receive(forged)
    assert (setup.forged > 32, setup.streams, setup.results[asked]) == (True, [], None)
    setup.under_test.close()


@pytest.mark.parametrize("is_same", [True, False], ids=["its-question", "other-question"])
@in_loop
def test_the_name_of_forged_replies_goes_over_tcp(is_same: bool) -> None:
    setup = Setup(max_idle_conns=1)
    first, second = setup.ask(), setup.ask(WWW.replace(edns=Edns(1232)))
    other = setup.ask(query(1))
    (socket,) = setup.sockets
    wire = socket.sent[0] if is_same else socket.sent[0].replace(b"www", b"ftp")
    for _ in range(MAX_FORGED):
        socket.receive(bytes((wire[0] ^ 1, wire[1])) + reply(wire)[2:].replace(b"w", b"W"))
    assert len(setup.streams) == int(is_same)
    if not is_same:
        setup.under_test.close()
        return
    socket.receive(reply(socket.sent[0]))  # what has been forged by now
    assert setup.results[first] is None
    for k in range(2):
        (stream,) = setup.streams[k:]
        stream.receive(reply(stream.sent[0]))
        assert stream.is_closed
    assert setup.results[second] == reply(setup.streams[1].sent[0])
    socket.receive(reply(socket.sent[1]))
    assert isinstance(setup.results[other], bytes)
    setup.now += SUSPICION + 1.0
    setup.ask()
    assert len(setup.streams) == 2
    setup.under_test.close()


@in_loop
def test_few_names_are_suspected_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiplexer, "MAX_SUSPECTS", 2)
    setup = Setup(max_idle_conns=1)
    for k in range(4):
        setup.ask(query(k))
        socket, wire = setup.sockets[-1], setup.sockets[-1].sent[-1]
        for _ in range(MAX_FORGED):
            socket.receive(bytes((wire[0] ^ 1, wire[1])) + reply(wire)[2:])
        setup.streams[-1].receive(reply(setup.streams[-1].sent[0]))
    for k in range(4):
        setup.ask(query(k))
    assert len(setup.streams) == 4 + 2
    setup.under_test.close()


@pytest.mark.parametrize(
    ("options", "seconds", "sockets"),
    [
        pytest.param({}, 9.0, 1, id="reused"),
        pytest.param({}, 11.0, 2, id="idle"),
        pytest.param({"expire": 100.0}, 29.0, 1, id="young"),
        pytest.param({"expire": 100.0}, 31.0, 2, id="old"),
        pytest.param({"expire": 5.0, "max_age": 8.0}, 9.0, 2, id="older-than-max_age"),
    ],
)
@in_loop
def test_ports_change_with_time(options: dict[str, Any], seconds: float, sockets: int) -> None:
    setup = Setup(**options)
    for _ in range(2):
        setup.ask()
        setup.sockets[-1].receive(reply(setup.sockets[-1].sent[-1]))
        setup.now += seconds
    assert (len(setup.sockets), setup.open) == (sockets, 1)
    setup.now += 100.0
    setup.under_test.expire()
    assert setup.open == 0


@pytest.mark.parametrize("event", ["reply", "refusal", "time-out"])
async def test_many_askers_are_divided(event: str) -> None:
    """Each goes through the chain at once; one datagram, one error or one time-out may be that of thousands."""
    setup, resumed, turns = Setup(max_idle_conns=1), list[int](), list[int]()

    class Results(dict[int, bytes | BaseException | None]):
        def update(self, result: Any) -> None:
            setup.now += TURN / 2
            resumed.extend(result)
            super().update(result)

    setup.results = Results()
    over = asyncio.Event()

    def begin() -> None:
        for k in (1, 1, 1, 2, 2):
            setup.ask(query(k))
        (socket,) = setup.sockets
        if event == "time-out":
            setup.pass_time(2.0 + TICK)
        elif event == "refusal":
            socket.fail(ConnectionRefusedError())
        else:
            for message in socket.sent:
                socket.receive(reply(message))
        setup.under_test.close()
        look()

    def look() -> None:
        if event == "time-out":
            setup.under_test.expire()
        turns.append(len(resumed))
        if len(turns) < 4:
            asyncio.get_running_loop().call_soon(look)
        else:
            over.set()

    asyncio.get_running_loop().call_soon(begin)
    await over.wait()
    assert resumed == [0, 1, 2, 3, 4]
    assert turns == [2, 4, 5, 5]
    assert (len(setup.waits), setup.open) == (0, 0)


def test_one_more_than_may_wait_displaces_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiplexer, "MAX_WAITING", 3)
    setup = Setup(max_idle_conns=1)

    def scenario() -> None:
        for k in (0, 0, 1, 2, 3):
            setup.ask(query(k))
        assert setup.results == dict.fromkeys(range(5))  # their askers go on in the next turn
        assert len(setup.under_test) == 3
        (socket,) = setup.sockets
        for message in socket.sent:
            socket.receive(reply(message))

    in_loop(scenario)()
    assert [type(result) for result in setup.results.values()] == [
        Displaced, Displaced, bytes, bytes, bytes,
    ]  # fmt: skip


DEADLINE_TICK = 0.5


@given(added=st.lists(st.floats(0, 100)), times=st.lists(st.floats(0, 102), min_size=1).map(sorted))
def test_each_is_due_once_and_at_most_a_tick_late(added: list[float], times: list[float]) -> None:
    deadlines: Deadlines[tuple[int, float]] = Deadlines(DEADLINE_TICK)
    for item in enumerate(added):
        deadlines.add(item[1], item)
    waiting = set(enumerate(added))
    for now in times:
        due = deadlines.take_due(now)
        assert len(set(due)) == len(due)
        ticks = [int(deadline / DEADLINE_TICK) for _, deadline in due]
        assert ticks == sorted(ticks)
        assert waiting.issuperset(due)
        waiting.difference_update(due)
        assert all(deadline <= now for _, deadline in due)
        assert all(deadline > now - DEADLINE_TICK for _, deadline in waiting)
    assert bool(deadlines) == bool(waiting)
