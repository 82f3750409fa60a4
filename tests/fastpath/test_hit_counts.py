"""The cells of the Python twin; what both count is in test_table.py."""

from threading import Thread

import pytest

from hsdns.fastpath import hit_counts
from hsdns.fastpath.hit_counts import (
    CACHE_HIT,
    CACHE_MISS,
    CELLS,
    DO,
    IPV6,
    LENGTH_SHIFT,
    MAX_KINDS,
    TCP,
    HitCounter,
    kind_of,
)
from hsdns.metrics import TIME_BUCKETS


def number(group: int, size: int, length: int, do: int) -> int:
    return kind_of(group, size) | length << LENGTH_SHIFT | do * DO


def test_places_of_cells() -> None:
    assert (hit_counts.CELL_IPV6, hit_counts.CELL_DO, hit_counts.CELL_REQUEST_SIZES) == (1, 2, 3)
    assert (
        hit_counts.CELL_REQUEST_SUM,
        hit_counts.CELL_REPLY_SIZES,
        hit_counts.CELL_REPLY_SUM,
    ) == (18, 19, 34)
    assert (hit_counts.CELL_TIMES, hit_counts.CELL_TIME_SUM) == (35, 52)
    assert (hit_counts.CELL_CACHE_HITS, hit_counts.CELL_CACHE_MISSES, CELLS) == (53, 54, 55)


@pytest.mark.parametrize("at", range(len(TIME_BUCKETS)))
@pytest.mark.parametrize("more", [0, 1], ids=["at the bound", "above"])
def test_durations(at: int, more: int) -> None:
    counts = HitCounter()
    nanoseconds = round(TIME_BUCKETS[at] * 1e9) + more
    counts.add([number(1, 2, 3, 0)] * 2, nanoseconds)
    [(_, _, cells)] = counts.take_counts()
    assert cells[35:52] == [2 * (each == at + more) for each in range(17)]
    assert cells[52] == 2 * nanoseconds


def test_a_batch_of_many_kinds() -> None:
    counts = HitCounter()
    kinds = [
        number(3, 500, 40, 1), number(3, 500, 40, 1) | IPV6 | CACHE_HIT, number(3, 90, 512, 0) | CACHE_MISS,
        number(3, 90, 512, 0) | TCP, number(4, 0xFFFFFFFF, 17, 0),
    ]  # fmt: skip
    counts.add(kinds, 1000)
    counts.add(kinds, 3)
    rows = {(group, is_tcp): cells for group, is_tcp, cells in counts.take_counts()}
    assert set(rows) == {(3, False), (3, True), (4, False)}
    udp = rows[3, False]
    assert udp[:3] == [4, 2, 4]
    assert (udp[18], udp[34], udp[52]) == (2 * (40 + 40 + 512), 2 * (500 + 500 + 90), 3 * 1003)
    assert udp[53:] == [2, 2]
    assert rows[4, False][34] == 2 * 0xFFFFFFFF
    assert counts.take_counts() == []


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
