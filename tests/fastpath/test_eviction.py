"""The queues of the Python twin; what both do with them is in test_table.py."""

from hsdns.fastpath.entry import FREQUENCY, IN_MAIN, NEVER, Entry, octets_of, pack_indexes
from hsdns.fastpath.eviction import MAX_ROUNDS, Queues
from hsdns.fastpath.records import NO_ROTATION, Outline
from hsdns.fastpath.shared_header import SharedHeader, make_key
from hsdns.fastpath.versions import Versions

OUTLINE = Outline(0, (0, 0, 0), b"", (), NO_ROTATION)
SHARED = SharedHeader(
    make_key(
        OUTLINE,
        group=0,
        size=0,
        rotate=False,
        names=None,
        mark_ttl=-1,
        log=False,
        max_payload=65535,
    )
)


def entry(records: bytes = b"", indexes: tuple[int, ...] = ()) -> Entry:
    return Entry(SHARED, records, pack_indexes(indexes), NEVER)


def key(number: int) -> bytes:
    return b"key %03d" % number


OCTETS = octets_of(key(0), entry())


def filled(count: int, capacity: int = 10 * OCTETS) -> tuple[Queues, list[Entry]]:
    queues, entries = Queues(capacity, Versions()), [entry() for _ in range(count)]
    for number, each in enumerate(entries):
        queues.push(key(number), each)
    assert queues.octets == count * OCTETS
    return queues, entries


def gone(queues: Queues) -> Entry | None:
    """What is evicted next."""
    found = queues.evict()
    assert found is None or found[0] not in queues.entries
    return found and found[1]


def test_nothing_goes_where_nothing_is() -> None:
    queues, _ = filled(0)
    assert gone(queues) is None
    assert queues.octets == 0


def test_unused_entries_go_first_in_first_out() -> None:
    queues, entries = filled(5)
    assert [gone(queues) for _ in range(6)] == [*entries, None]
    assert queues.octets == 0


def test_entries_used_twice_stay_and_used_once_go() -> None:
    queues, entries = filled(4)
    entries[0].state, entries[1].state = 2, 1
    assert [gone(queues) for _ in range(2)] == [entries[1], entries[2]]
    assert entries[0].state & IN_MAIN
    # The small queue has no more than its share now, so the main one gives.
    assert [gone(queues) for _ in range(2)] == [entries[0], entries[3]]


def test_each_use_in_the_main_queue_is_a_round() -> None:
    queues, entries = filled(3)
    for each in entries:
        each.state |= FREQUENCY
    # So that the small queue has more than its share and all of them move.
    late = entry(bytes(100))
    queues.push(key(9), late)
    assert gone(queues) is late
    entries[0].state, entries[1].state = IN_MAIN | 2, IN_MAIN | 1
    assert [gone(queues) for _ in range(3)] == [entries[2], entries[1], entries[0]]


def test_entries_stored_again_soon_go_to_the_main_queue() -> None:
    queues, entries = filled(2)
    assert gone(queues) is entries[0]
    again = entry()
    queues.push(key(0), again)
    assert again.state & IN_MAIN
    other = entry()
    queues.push(key(7), other)
    assert not other.state & IN_MAIN
    queues.clear()
    assert queues.octets == 0
    assert queues.entries == {}
    forgotten = entry()
    queues.push(key(1), forgotten)
    assert not forgotten.state & IN_MAIN


def test_ghosts_are_forgotten_after_a_while() -> None:
    queues, entries = filled(60)
    for _ in range(60):
        assert gone(queues) is not None
    oldest = entry()
    queues.push(key(0), oldest)
    assert not oldest.state & IN_MAIN, "59 others left after it"
    assert entries[0] is not oldest


def test_stale_entries_go_however_often_they_were_used() -> None:
    versions = Versions()
    queues = Queues(1000, versions)
    stale, good = entry(indexes=(1,)), entry(indexes=(2,))
    for number, each in enumerate((stale, good)):
        each.state |= FREQUENCY
        queues.push(key(number), each)
    versions.bump(1)
    assert gone(queues) is stale


def test_the_work_for_one_eviction_is_bounded() -> None:
    queues, entries = filled(1000, capacity=OCTETS)
    for each in entries:
        each.state |= FREQUENCY
    assert gone(queues) is entries[MAX_ROUNDS]


def test_resizing_is_counted() -> None:
    queues, entries = filled(2)
    before = octets_of(key(0), entries[0])
    entries[0].update(SHARED, bytes(200), pack_indexes((1, 2)), NEVER)
    more = octets_of(key(0), entries[0]) - before
    assert more > 200
    queues.resize(entries[0], more)
    assert queues.octets == 2 * OCTETS + more
    while queues.evict():
        pass
    assert queues.octets == 0


def test_a_thousand_evictions_leave_ghosts_of_the_last() -> None:
    queues, _ = filled(1000)
    while gone(queues):
        pass
    again = [entry() for _ in range(1000)]
    for number, each in enumerate(again):
        queues.push(key(number), each)
    back = [number for number, each in enumerate(again) if each.state & IN_MAIN]
    assert len(back) > 0
    assert min(back) > 900
