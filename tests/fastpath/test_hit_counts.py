"""The cells of the Python twin; what both count is in test_table.py."""

from threading import Thread

import pytest

from hsdns.fastpath.hit_counts import (
    DO,
    LENGTH_SHIFT,
    MAX_KINDS,
    HitCounter,
    kind_of,
)
from hsdns.metrics import TIME_BUCKETS


def number(group: int, size: int, length: int, do: int) -> int:
    return kind_of(group, size) | length << LENGTH_SHIFT | do * DO


@pytest.mark.parametrize("at", range(len(TIME_BUCKETS)))
@pytest.mark.parametrize("more", [0, 1], ids=["at the bound", "above"])
def test_durations(at: int, more: int) -> None:
    counts = HitCounter()
    nanoseconds = round(TIME_BUCKETS[at] * 1e9) + more
    counts.add([number(1, 2, 3, 0)] * 2, nanoseconds)
    [(_, _, cells)] = counts.take_counts()
    assert cells[35:52] == [2 * (each == at + more) for each in range(17)]
    assert cells[52] == 2 * nanoseconds


def test_many_kinds_are_folded_and_not_lost() -> None:
    counts = HitCounter()
    for size in range(3 * MAX_KINDS):
        counts.add([number(1, size, 30, 0)], 10)
    [(_, _, cells)] = counts.take_counts()
    assert cells[0] == 3 * MAX_KINDS
    assert cells[34] == sum(range(3 * MAX_KINDS))


def test_a_scrape_beside_the_loop_loses_nothing() -> None:
    counts, found = HitCounter(), []
    kinds = [number(group, 100, 30, 0) for group in range(8)]

    def scrape() -> None:
        for _ in range(200):
            found.extend(counts.take_counts())

    thread = Thread(target=scrape)
    thread.start()
    for _ in range(2000):
        counts.add(kinds, 10)
    thread.join()
    found.extend(counts.take_counts())
    assert sum(cells[0] for _, _, cells in found) == 16_000
