import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.load.send.sender import IDS, LEAST_WINDOW, RUN, InFlight, sockets_for, window_for


@given(
    sockets=st.integers(1, 3),
    events=st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.integers(0, 40)), max_size=40),
)
def test_each_query_is_answered_or_lost_once(
    sockets: int, events: list[tuple[int, bool, int]]
) -> None:
    in_flight = InFlight(sockets, timeout=10)
    now, count, waiting, lost, answered = 0, 0, {}, [], []
    for passed, sends, which in events:
        now += passed
        lost += in_flight.lost(now)
        if sends:
            place = in_flight.place()
            assert in_flight.begin(*place, (count, now, now)) is None
            waiting[count] = place
            count += 1
        elif which in waiting:
            found = in_flight.answered(*waiting[which])
            if found is not None:
                answered.append(found)
                assert now - found[2] < 10
    lost += in_flight.lost(1 << 62)
    assert sorted(number for number, _, _ in lost + answered) == list(range(count))
    assert len(in_flight) == 0


def test_places() -> None:
    in_flight = InFlight(2, 10, [IDS - 1, 5])
    places = [in_flight.place() for _ in range(3 * RUN)]
    assert places[:2] == [(0, IDS - 1), (0, 0)]
    assert places[RUN : RUN + 2] == [(1, 5), (1, 6)]
    assert places[2 * RUN] == (0, RUN - 1)


@pytest.mark.parametrize("sockets", [1, 3])
def test_no_place_comes_twice_before_all_have_come(sockets: int) -> None:
    in_flight = InFlight(sockets, 10, [7] * sockets)
    places = [in_flight.place() for _ in range(sockets * IDS + 1)]
    assert len(set(places)) == sockets * IDS
    assert places[-1] == places[0]


def test_an_id_that_is_used_again() -> None:
    in_flight = InFlight(1, 10)
    places = [in_flight.place() for _ in range(IDS + 1)]
    assert places[0] == places[IDS]
    assert in_flight.begin(*places[0], (1, 0, 0)) is None
    assert in_flight.begin(*places[IDS], (2, 5, 5)) == (1, 0, 0)
    assert in_flight.answered(*places[0]) == (2, 5, 5)
    assert in_flight.lost(1 << 62) == []


def test_a_reply_to_nothing() -> None:
    in_flight = InFlight(1, 10)
    assert in_flight.answered(0, 7) is None
    assert in_flight.late == 1


def test_a_place_that_is_needed_again() -> None:
    in_flight = InFlight(100, 10, window=3)
    places = [in_flight.place() for _ in range(5)]
    before = [in_flight.begin(*place, (number, 0, 0)) for number, place in enumerate(places)]
    assert before == [None, None, None, (0, 0, 0), (1, 0, 0)]
    assert len(in_flight) == 3
    assert [in_flight.answered(*place) for place in places] == [None, None, *((number, 0, 0) for number in (2, 3, 4))]  # fmt: skip
    assert in_flight.late == 2
    assert len(in_flight) == 0
    assert in_flight.lost(1 << 62) == []


@given(
    sockets=st.sampled_from([1, 3, 10_000]),
    window=st.sampled_from([RUN, 100, 0]),
    before=st.integers(0, 70_000),
    count=st.integers(1, 40),
)
def test_each_of_the_last_queries_is_told_by_its_reply(
    sockets: int, window: int, before: int, count: int
) -> None:
    ids = sockets * IDS
    in_flight = InFlight(sockets, 10, [9] * sockets, window or count)
    in_flight._next = ids - before  # near the place at which the IDs begin again
    places = []
    for number in range(count):
        places.append(in_flight.place())
        in_flight.begin(*places[-1], (number, 0, 0))
    kept = range(max(0, count - (window or count)), count)
    answered = {number: in_flight.answered(*place) for number, place in enumerate(places)}
    assert {number for number, found in answered.items() if found is not None} == set(kept)
    assert all(answered[number] == (number, 0, 0) for number in kept)


@pytest.mark.parametrize(
    ("fastest", "timeout", "least", "sockets"),
    [(100, 2, 1, 1), (100, 2, 4, 4), (30_000, 2, 1, 3), (100_000, 2, 4, 10)],
)
def test_sockets(fastest: float, timeout: float, least: int, sockets: int) -> None:
    assert sockets_for(fastest, timeout, least) == sockets


@pytest.mark.parametrize(
    ("fastest", "timeout", "burst", "window"),
    [(100, 2, 1, LEAST_WINDOW), (100_000, 2, 1, 600_001), (100, 2, 100_000, 100_600)],
)
def test_window(fastest: float, timeout: float, burst: int, window: int) -> None:
    assert window_for(fastest, timeout, burst) == window
