"""Queries that wait for an answer from elsewhere: who gets in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.server.pending_queries import PendingQueries


@pytest.mark.parametrize(
    ("capacity", "asked", "admitted"),
    [
        pytest.param(4, "aaaaa", "aa", id="alone-it-gets-half"),
        pytest.param(1, "aab", "a", id="room-for-one"),
        pytest.param(9, "aaaaaabbbbbb", "aaaaabb", id="the-second-gets-half-of-the-rest"),
        pytest.param(4, "aaabcd", "aabc", id="the-first-of-a-client-while-there-is-room"),
        pytest.param(0, "a", "", id="no-room"),
        pytest.param(4, "aaa-aab", "aaab", id="room-that-is-free-again"),
    ],
)
def test_who_gets_in(capacity: int, asked: str, admitted: str) -> None:
    """`-` is the end of a query of client a."""
    pending, found = PendingQueries(capacity), ""
    for each in asked:
        if each == "-":
            pending.remove(b"a")
        elif pending.add(each.encode()):
            found += each
    assert found == admitted


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
