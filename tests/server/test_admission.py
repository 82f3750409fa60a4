"""What clients may take, who loses it to others, and when."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.server.transport.admission import (
    CONNECTION,
    CREDIT,
    CREDIT_A_SECOND,
    FRAME,
    MANY,
    MAX_CREDIT_WAIT,
    MAX_REMEMBERED,
    MAX_TRIES,
    PERIOD,
    SECONDS,
    STEPS,
    Credit,
    PendingQueries,
    Places,
    QueueBound,
    Shares,
    Turns,
)
from tests.support.tables import section, sections, values

TABLES = Path(__file__).with_name("tables.txt")


class Connection:
    """A connection and its transport."""

    def __init__(self, pending: int = 0, unsent: int = 0) -> None:
        self.pending = pending
        self.unsent = unsent
        self.end = ""

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def close(self) -> None:
        self.end = "closed"

    def abort(self) -> None:
        self.end = "aborted"


def take(places: Places, connection: Connection, client: str) -> bool:
    """Ask for a place for a client, which is a letter."""
    return places.take(connection, connection, f"192.0.2.{ord(client)}")


def filled(most: int, clients: str, **given: int) -> tuple[Places, list[Connection]]:
    """Places that are taken by clients, one letter each."""
    places, connections = Places(most), [Connection(**given) for _ in clients]
    for client, connection in zip(clients, connections, strict=True):
        assert take(places, connection, client)
    return places, connections


@pytest.mark.parametrize(("clients", "touched", "new", "loses"), values(TABLES, "which one makes room"))  # fmt: skip
def test_which_one_makes_room(clients: str, touched: list[int], new: str, loses: int) -> None:
    places, connections = filled(len(clients), clients)
    for index in touched:
        places.touch(connections[index])
    added = Connection()
    assert take(places, added, new)
    assert [each.end for each in connections] == [
        "closed" if index == loses else "" for index in range(len(clients))
    ]
    assert (len(places), places.closed, places.refused) == (len(clients), 1, 0)


@pytest.mark.parametrize(("clients", "new", "end"), values(TABLES, "queries in progress end only for a client with fewer"))  # fmt: skip
def test_queries_in_progress_end_only_for_a_client_with_fewer(
    clients: str, new: str, end: str
) -> None:
    places, connections = filled(3, clients, pending=1)
    added = Connection()
    assert take(places, added, new) is bool(end)
    assert Counter(each.end for each in connections) == Counter([end, "", ""])
    assert (len(places), places.refused) == (3, 0 if end else 1)


def test_the_search_is_bounded() -> None:
    places, connections = filled(MAX_TRIES + 1, "a" * (MAX_TRIES + 1), pending=1)
    connections[-1].pending = 0
    added = Connection()
    assert not take(places, added, "a")
    assert take(places, added, "a"), "the next search goes on where this one ended"


@pytest.mark.parametrize("limit", [512, 1024, 4096])
def test_a_probe_outlives_4000_silent_connections_a_second(limit: int) -> None:
    """With the places for pages of a process that may have few descriptors, though all come from one address."""
    places, probe = Shares.of(limit).pages, Connection()
    for number in range(2 * 512):
        if number == 512:
            places.take(probe, probe, "192.0.2.1")
        silent = Connection()
        places.take(silent, silent, "192.0.2.1")
        if number == 512 + 4 * 30:  # 30 ms later
            assert not probe.end
    assert probe.end == "closed", "a silent one goes in the end"


@pytest.mark.parametrize(("clients", "octets", "aborted"), values(TABLES, "the client with most octets loses connections"))  # fmt: skip
def test_the_client_with_most_octets_loses_connections(
    clients: str, octets: list[int], aborted: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hsdns.server.transport.admission.MAX_OCTETS", 100)
    places, connections = filled(len(clients), clients)
    for connection, count in zip(connections, octets, strict=True):
        places.hold(connection, 1)
        places.hold(connection, count)
    assert [index for index, each in enumerate(connections) if each.end] == aborted
    assert {connections[index].end for index in aborted} <= {"aborted"}
    assert (places.closed, len(places)) == (len(aborted), len(clients) - len(aborted))
    assert places.octets == sum(octets) - sum(octets[index] for index in aborted)
    for connection in connections:
        places.release(connection)
        places.hold(connection, 5)
    assert (places.octets, places._holding, places._sums) == (0, {}, {})


def test_any_history_keeps_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hsdns.server.transport.admission.MAX_OCTETS", 100)
    chance = random.Random(7)
    places, held = Places(20), dict[Connection, str]()
    for _ in range(5000):
        step = chance.random()
        if step < 0.6:
            connection = Connection(pending=int(chance.random() < 0.3))
            client = chance.choice("aaaabbc")
            if take(places, connection, client):
                held[connection] = client
        elif held:
            connection = chance.choice(list(held))
            if step < 0.7:
                places.hold(connection, chance.choice((0, 0, 7, 20)))
            elif step < 0.8:
                places.touch(connection)
            else:
                places.release(connection)
                del held[connection]
        held = {each: client for each, client in held.items() if not each.end}
        counts = Counter(held.values())
        assert len(places) == len(held) <= 20
        assert sorted(map(len, places._connections.values())) == sorted(counts.values())
        assert places._highest == max(counts.values(), default=0)
        assert places.octets == sum(places._sums.values()) <= 100
        assert places._sums == {one: sum(each.values()) for one, each in places._holding.items()}


class Loop:
    """Turns that the test begins, and a clock that only steps move."""

    def __init__(self) -> None:
        self.now = 0.0
        self.next: list[Callable[[], None]] = []
        self.turns = Turns(lambda: self.now, self.next.append)

    def turn(self) -> None:
        """Begin the next turn."""
        calls, self.next[:] = list(self.next), []
        for call in calls:
            call()


class Steps:
    """A connection with a number of messages that take some time each."""

    def __init__(
        self, loop: Loop, count: int, seconds: float = 0.0, client: bytes | None = None
    ) -> None:
        self.taken = self.ended = 0
        self.client = id(self).to_bytes(8, "big") if client is None else client
        self.is_closed = False
        self._loop, self._left, self._seconds = loop, count, seconds

    def step(self) -> bool:
        self.taken += 1
        self._left -= 1
        self._loop.now += self._seconds
        return self._left > 0

    def end_turn(self) -> None:
        self.ended += 1

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize(
    ("counts", "seconds", "taken"),
    [
        pytest.param((1,), 0.0, [[1]], id="at-once"),
        pytest.param((STEPS,), 0.0, [[STEPS]], id="as-many-as-a-turn-has"),
        pytest.param((STEPS + 1,), 0.0, [[STEPS], [STEPS + 1]], id="one-more"),
        pytest.param((5,), SECONDS, [[1], [2], [3]], id="long-steps"),
        pytest.param((5,), SECONDS * 0.4, [[3], [5]], id="until-the-time-is-over"),
        pytest.param((200, 1), SECONDS, [[1, 0], [2, 0], [2, 1]], id="another-waits-for-one-step"),
        pytest.param((100, 100), 0.0, [[64, 0], [96, 32], [100, 92], [100, 100]], id="in-equal-parts"),
    ],
)  # fmt: skip
def test_steps(counts: tuple[int, ...], seconds: float, taken: list[list[int]]) -> None:
    loop = Loop()
    connections = [Steps(loop, count, seconds) for count in counts]
    for connection in connections:
        loop.turns.enter(connection)
    assert [each.taken for each in connections] == taken[0]
    for expected in taken[1:]:
        loop.turn()
        assert [each.taken for each in connections] == expected


def test_what_may_not_wait_is_called_after_each_step() -> None:
    loop, connection = Loop(), None
    found: list[int] = []
    connection = Steps(loop, 3, SECONDS * 0.6)
    loop.turns.between[None] = lambda: found.append(connection.taken)
    loop.turns.enter(connection)
    assert found == [1, 2]
    loop.turn()
    assert found == [1, 2, 3]


@pytest.mark.parametrize("heavy", [1, 5, 100])
def test_more_connections_of_a_client_are_no_more_steps(heavy: int) -> None:
    """However many a client has that are busy, another one takes every second step."""
    loop = Loop()
    busy = [Steps(loop, 10_000, SECONDS, b"busy") for _ in range(heavy)]
    other = Steps(loop, 10, SECONDS, b"other")
    for connection in (*busy, other):
        loop.turns.enter(connection)
    for _ in range(20):
        loop.turn()
    assert other.taken == 10
    assert sum(each.taken for each in busy) == 11
    assert max(each.taken for each in busy) <= 2 + 11 // heavy


@pytest.mark.parametrize("fails", ["step", "end_turn"])
def test_what_fails_closes_its_connection_only(
    fails: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> bool:
        raise ValueError

    loop = Loop()
    loop.turns.enter(Steps(loop, 1, SECONDS))
    failing, other = Steps(loop, 1), Steps(loop, 1)
    monkeypatch.setattr(failing, fails, fail)
    loop.turns.enter(failing)
    loop.turns.enter(other)
    loop.turn()
    assert (failing.is_closed, other.ended, other.is_closed) == (True, 1, False)
    assert caplog.messages == ["a message cannot be handled; its connection is closed"]


MUCH = int(10 / FRAME)  # frames: 10 seconds


def test_connections_beyond_the_credit_begin_later_and_in_order() -> None:
    credit = Credit()
    waits = []
    while (wait := credit.connect("192.0.2.1", 100.0)) is not None:
        waits.append(wait)
    apart = CONNECTION / CREDIT_A_SECOND
    at_once = round(CREDIT / CONNECTION) + 1
    assert waits[:at_once] == pytest.approx([0.0] * at_once, abs=1e-9)
    later = [apart * number for number in range(1, len(waits) - at_once + 1)]
    assert waits[at_once:] == pytest.approx(later)
    assert waits[-1] == pytest.approx(MAX_CREDIT_WAIT, abs=apart)
    assert credit.connect("192.0.2.1", 100.0 + 2 * apart) == pytest.approx(
        MAX_CREDIT_WAIT, abs=3 * apart
    )
    assert credit.connect("192.0.2.2", 100.0) == 0.0
    assert credit.connect("192.0.2.1", 1000.0) == 0.0


@pytest.mark.parametrize(("charged", "comes", "waits"), values(TABLES, "client is a whole address"))
def test_client_is_a_whole_address(charged: str, comes: str, waits: bool) -> None:
    """However much its connections have cost, the next one waits for MAX_CREDIT_WAIT at most and is not refused."""
    credit = Credit()
    for _ in range(3):
        credit.charge(charged, round(CREDIT / FRAME), 0, 100.0)
    assert credit.connect(comes, 100.0) == pytest.approx(MAX_CREDIT_WAIT if waits else 0.0)
    assert credit.connect(comes, 100.0 + MAX_CREDIT_WAIT + CREDIT / CREDIT_A_SECOND) == 0.0


def test_many_addresses_of_a_network_have_one_credit() -> None:
    credit = Credit()
    for number in range(1, 1 + MANY):
        assert credit.connect("2001:db8::ffff", 100.0) == 0.0
        credit.charge(f"2001:db8::{number:x}", round(CREDIT / FRAME), 0, 100.0)
    wait = credit.connect("2001:db8::ffff", 100.0)
    assert wait is not None
    assert wait > 0
    credit.charge("2001:db8::ff", MANY * MUCH, 0, 100.0)
    assert credit.connect("2001:db8::eeee", 100.0) == pytest.approx(MAX_CREDIT_WAIT)
    assert credit.connect("2001:db8:0:1::1", 100.0) == 0.0
    assert credit.connect("192.0.2.1", 100.0) == 0.0


def test_memory_is_bounded() -> None:
    credit = Credit()
    for number in range(MAX_REMEMBERED + 10):
        credit.charge(f"10.0.{number // 256}.{number % 256}", MUCH, 0, 1.0)
    assert len(credit._left) == MAX_REMEMBERED
    assert credit.connect("10.0.0.9", 1.0) == 0.0
    assert credit.connect("10.0.0.11", 1.0) == pytest.approx(MAX_CREDIT_WAIT)


@given(st.integers(0, 20), st.lists(st.tuples(st.booleans(), st.sampled_from(b"abcd"))))
def test_it_is_bounded_and_leaves_nothing_behind(
    capacity: int, steps: list[tuple[bool, int]]
) -> None:
    pending, inside = PendingQueries(capacity), list[bytes]()
    for adds, number in steps:
        client = bytes((number,))
        if adds:
            before, own = len(inside), inside.count(client)
            is_in = pending.add(client)
            assert is_in == (own < capacity - before)
            assert is_in or before == capacity or own, "who has none gets in while there is room"
            inside += [client] * is_in
        elif client in inside:
            inside.remove(client)
            pending.remove(client)
        assert pending.total == len(inside) <= capacity
    for client in inside:
        pending.remove(client)
    assert (pending.total, pending._of) == (0, {})


QUEUE_TURN = PERIOD / 10
BOUNDS = Path(__file__).with_name("queue_bounds.txt")


@pytest.mark.parametrize("name", sections(BOUNDS))
def test_queue_bound(name: str) -> None:
    now, dropped, bound = 100.0, 0, QueueBound(100.0)
    for line in filter(None, section(BOUNDS, name).splitlines()):
        words, _, expected = line.partition(" => ")
        seconds, rate, left, *more = [*words.removeprefix("rest ").split(), "0", "0"]
        if words.startswith("rest "):
            now += float(seconds)
            continue
        given, waiting, found = dict(each.split("=") for each in more if "=" in each), int(left), []
        for _ in range(round(float(seconds) / QUEUE_TURN)):
            now += QUEUE_TURN
            waiting += round(int(given.get("grows", 0)) * QUEUE_TURN)
            dropped += int(given.get("drops", 0))
            found.append(bound.note(now, int(int(rate) * QUEUE_TURN), waiting, dropped))
        capacities = [each for each in found if each is not None]
        if expected:
            last = [] if expected == "none" else [pytest.approx(int(expected), abs=1)]
            assert capacities[-1:] == last, line
