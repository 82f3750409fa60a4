"""Which replies a sender still knows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hsdns.load.outcome import RecentReplies

MOST = 8


@given(st.lists(st.integers(0, 40), max_size=200))
def test_it_is_bounded_and_knows_what_has_come_lately(contents: list[int]) -> None:
    """Of two replies, the one that is dropped first is not the one that has come later."""
    replies, known, came = RecentReplies[int](MOST), set[int](), dict[int, int]()
    for turn, number in enumerate(contents):
        content = bytes((number,))
        found = replies.get(content)
        assert (found == number) is (number in known)
        if found is None:
            dropped = set(replies.add(content, number))
            assert dropped <= known
            known -= dropped
            assert all(came[gone] < came[stays] for gone in dropped for stays in known)
            known.add(number)
        came[number] = turn
        assert len(known) <= MOST


def test_what_comes_again_and_again_is_never_dropped() -> None:
    replies = RecentReplies[int](MOST)
    replies.add(b"often", 0)
    for number in range(1, 100):
        assert 0 not in replies.add(b"%d" % number, number)
        assert replies.get(b"often") == 0
