"""Who has a place, and who loses it for another."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from hsdns.server.places import MAX_TRIES, Places
from hsdns.server.shares import Shares


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


@pytest.mark.parametrize(
    ("clients", "touched", "new", "loses"),
    [
        pytest.param("aab", [], "c", 0, id="client-with-most"),
        pytest.param("baa", [], "b", 1, id="client-with-most-for-one-that-has-some"),
        pytest.param("baa", [], "a", 1, id="its-own"),
        pytest.param("baa", [1], "c", 2, id="silent-longest"),
        pytest.param("abc", [], "d", 0, id="all-have-one"),
        pytest.param("abaabb", [], "c", 0, id="two-with-most"),
    ],
)
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


@pytest.mark.parametrize(
    ("clients", "new", "end"),
    [
        pytest.param("aaa", "b", "aborted", id="for-a-client-with-fewer"),
        pytest.param("aaa", "a", "", id="not-for-its-own"),
        pytest.param("abc", "d", "", id="not-where-all-have-one"),
    ],
)
def test_queries_in_progress_end_only_for_a_client_with_fewer(
    clients: str, new: str, end: str
) -> None:
    places, connections = filled(3, clients, pending=1)
    added = Connection()
    assert take(places, added, new) is bool(end)
    assert Counter(each.end for each in connections) == Counter([end, "", ""])
    assert (len(places), places.refused) == (3, 0 if end else 1)


def test_an_idle_one_is_found_behind_busy_ones() -> None:
    places, connections = filled(4, "abcd", pending=1)
    connections[2].pending = 0
    added = Connection()
    assert take(places, added, "e")
    assert [each.end for each in connections] == ["", "", "closed", ""]


def test_the_search_is_bounded() -> None:
    places, connections = filled(MAX_TRIES + 1, "a" * (MAX_TRIES + 1), pending=1)
    connections[-1].pending = 0
    added = Connection()
    assert not take(places, added, "a")
    assert take(places, added, "a"), "the next search goes on where this one ended"


def test_replies_that_are_not_taken_are_lost() -> None:
    places, (connection,) = filled(1, "a", unsent=5)
    added = Connection()
    assert take(places, added, "b")
    assert connection.end == "aborted"


def test_a_place_that_is_freed_is_given_again() -> None:
    places, (connection,) = filled(1, "a", pending=1)
    places.release(connection)
    places.release(connection)
    places.touch(connection)
    added = Connection()
    assert take(places, added, "b")
    assert (len(places), connection.end) == (1, "")


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


@pytest.mark.parametrize(
    ("clients", "octets", "aborted"),
    [
        pytest.param("aab", [30, 30, 41], [0], id="of-two-connections"),
        pytest.param("abbb", [35, 22, 22, 22], [1], id="in-all-and-not-of-one"),
        pytest.param("aab", [0, 60, 41], [1], id="none-without-octets"),
        pytest.param("aabb", [2, 51, 2, 46], [0, 1], id="until-an-eighth-is-free"),
        pytest.param("aaabb", [8, 20, 25, 26, 22], [0, 3], id="as-long-as-it-has-most"),
        pytest.param("aab", [30, 30, 40], [], id="just-as-many-as-allowed"),
    ],
)
def test_the_client_with_most_octets_loses_connections(
    clients: str, octets: list[int], aborted: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hsdns.server.places.MAX_OCTETS", 100)
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
    monkeypatch.setattr("hsdns.server.places.MAX_OCTETS", 100)
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
