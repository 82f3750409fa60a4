"""The queue of misses: whose turn it is, who loses, and that it is bounded."""

from __future__ import annotations

import socket
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.fastpath.control import write_address
from hsdns.fastpath.miss_queue import OCTETS_PER_MISS, client_of
from tests.fastpath.test_entry import modules
from tests.support.tables import values

TABLES = Path(__file__).with_name("tables.txt")


def address(host: str, port: int = 4000) -> bytes:
    if ":" in host:
        return write_address(socket.AF_INET6, (host, port, 0, 0))
    return write_address(socket.AF_INET, (host, port))


A, B, C, D = (address(f"192.0.2.{number}") for number in range(1, 5))
CLIENTS = {"a": A, "b": B, "c": C, "d": D}


def offered(text: str) -> list[tuple[bytes, bytes, bytes]]:
    """Misses like `a1 b1 a2`: the client, and which of its queries."""
    return [(each.encode(), CLIENTS[each[0]], b"") for each in text.split()]


def taken(queue: Any, most: int = 100) -> str:
    return " ".join(query.decode() for _, query, _, _ in queue.take(most))


ROWS = [
    pytest.param(8, ["a1 a2 a3"], "a1 a2 a3", 0, id="one-client-in-order"),
    pytest.param(8, ["a1 a2 a3 b1 c1 c2"], "a1 b1 c1 a2 c2 a3", 0, id="turns"),
    pytest.param(8, ["a1 a2", "b1", "a3"], "a1 b1 a2 a3", 0, id="turns-over-batches"),
    pytest.param(3, ["a1 a2 a3 a4 a5"], "a1 a2 a3", 2, id="alone-it-loses-its-newest"),
    pytest.param(3, ["a1 a2 a3 b1"], "a1 b1 a2", 1, id="the-heaviest-loses-its-newest"),
    pytest.param(4, ["a1 a2 a3 b1 b2"], "a1 b1 a2 b2", 1, id="down-to-equal-shares"),
    pytest.param(4, ["a1 a2 b1 b2 a3 b3"], "a1 b1 a2 b2", 2, id="among-equals-who-asks-loses"),
    pytest.param(4, ["a1 a2 b1 b2 c1"], "a1 b1 c1", 1, id="a-third-one-gets-in"),
    pytest.param(3, ["a1 b1 c1 d1"], "a1 b1 c1", 1, id="no-room-for-a-fourth"),
    pytest.param(0, ["a1"], "", 1, id="no-room"),
]


@pytest.mark.parametrize(("capacity", "batches", "expected", "dropped"), ROWS)
def test_turns_and_drops(
    twin: ModuleType, capacity: int, batches: list[str], expected: str, dropped: int
) -> None:
    queue = twin.MissQueue(capacity)
    for batch in batches:
        queue.offer(0, offered(batch))
    found = taken(queue)
    if "c1" in expected and capacity == 4:  # of two equal ones either may lose
        found = " ".join(each for each in found.split() if each[1] == "1")
    assert found == expected
    assert (queue.dropped, len(queue)) == (dropped, 0)


@pytest.mark.parametrize(("offers", "expected"), values(TABLES, "a turn is given back"))
def test_a_turn_is_given_back(twin: ModuleType, offers: str, expected: str) -> None:
    queue = twin.MissQueue(8)
    queue.give_turn_back()  # nothing was taken yet
    queue.offer(0, offered(offers))
    first = taken(queue, 1)
    queue.give_turn_back()
    assert f"{first} {taken(queue)}".strip() == expected


def test_a_turn_is_not_given_back_when_another_client_has_come(twin: ModuleType) -> None:
    queue = twin.MissQueue(8)
    queue.offer(3, offered("a1 b1 a2"))
    assert queue.take(1) == [(3, b"a1", A, b"")]
    queue.offer(0, offered("c1"))
    queue.give_turn_back()
    assert taken(queue) == "b1 a2 c1"


def test_octets_are_bounded(twin: ModuleType) -> None:
    queue = twin.MissQueue(2)
    queue.offer(0, [(bytes(2 * OCTETS_PER_MISS + 1), A, b"")])
    assert (len(queue), queue.dropped) == (0, 1)
    queue.offer(0, [(bytes(2 * OCTETS_PER_MISS), A, b""), (b"x", B, b"")])
    assert (len(queue), queue.dropped) == (1, 2)
    assert len(queue.take(2)[0][1]) == 2 * OCTETS_PER_MISS


@pytest.mark.parametrize(("first", "second", "same"), values(TABLES, "clients"))
def test_clients(twin: ModuleType, first: str, second: str, same: bool) -> None:
    """Two clients take turns, one does not."""
    queue = twin.MissQueue()
    one, other = address(first), address(second, 5000)
    queue.offer(0, [(b"1", one, b""), (b"2", one, b""), (b"3", other, b"")])
    assert [query for _, query, _, _ in queue.take(3)] == ([b"1", b"2", b"3"] if same else [b"1", b"3", b"2"])  # fmt: skip
    assert (client_of(one) == client_of(other)) is same


steps = st.lists(
    st.one_of(
        st.lists(st.integers(0, 5), max_size=12).map(lambda clients: ("offer", clients)),
        st.integers(0, 6).map(lambda most: ("take", most)),
    ),
    max_size=30,
)


@given(st.integers(1, 8), steps)
def test_any_offers_and_takes(capacity: int, operations: list[tuple[str, Any]]) -> None:
    """It is bounded, loses nothing while there is room, never costs a client below its share, and keeps order."""
    for twin in modules():
        queue = twin.MissQueue(capacity)
        lines: dict[int, list[int]] = {}  # what is to be in the queue, as far as the rules say
        number = 0
        for what, argument in operations:
            if what == "take":
                found = [
                    (int(query) // 1000, int(query)) for _, query, _, _ in queue.take(argument)
                ]
                waiting = sum(map(len, lines.values()))
                assert len(found) == min(argument, waiting), "it is work-conserving"
                for client, query in found:
                    assert lines[client][0] == query, "the oldest of a client first"
                    lines[client].pop(0)
                served = Counter(client for client, _ in found)
                for client, line in lines.items():
                    if line:
                        assert max(served.values(), default=0) <= served[client] + 1, "turns"
                continue
            for client in argument:
                number += 1
                query = client * 1000 + number
                dropped, before = queue.dropped, sum(map(len, lines.values()))
                queue.offer(0, [(b"%d" % query, address(f"192.0.2.{client}"), b"")])
                assert len(queue) == min(capacity, before + 1)
                assert queue.dropped - dropped == (before == capacity)
                line = lines.setdefault(client, [])
                longest = max(map(len, lines.values()))
                if before < capacity:
                    line.append(query)
                elif longest > len(line) + 1:
                    line.append(query)
                    heaviest = [each for each in lines.values() if len(each) == longest]
                    if len(heaviest) == 1:
                        heaviest[0].pop()
                    else:  # whose newest it was shows when all are taken
                        drained = queue.take(capacity)
                        kept = [int(query) for _, query, _, _ in drained]
                        lost = {each[-1] for each in heaviest} - set(kept)
                        assert len(lost) == 1
                        assert (
                            set(kept) == {each for some in lines.values() for each in some} - lost
                        )
                        lines.clear()


@pytest.mark.parametrize(("offers", "capacity", "expected"), values(TABLES, "capacity changes"))
def test_capacity_changes(twin: ModuleType, offers: str, capacity: int, expected: str) -> None:
    queue = twin.MissQueue(8)
    queue.offer(0, offered(offers))
    queue.set_capacity(capacity)
    queue.offer(0, offered("a9"))  # there is no room
    assert taken(queue) == expected
    assert queue.dropped == len(offers.split()) + 1 - len(expected.split())
    queue.set_capacity(2)
    queue.offer(0, offered("a1 a2 a3"))
    assert taken(queue) == "a1 a2"
