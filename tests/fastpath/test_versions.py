"""Counters, their lease, and the names of a cluster."""

import importlib
import math
from collections import Counter
from collections.abc import Callable
from threading import Event, Thread, Timer
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.fastpath import versions as versions_module
from hsdns.fastpath.versions import ClusterNames, has_label
from hsdns.fastpath.versions import Versions as PythonVersions
from tests.fastpath.servers import Server
from tests.fastpath.twins import PYTHON, TableUnderTest, addresses, ask
from tests.support.coroutines.event_loops import DEADLINE


@pytest.mark.parametrize("index", [0, 1, 65535, 65536, 1 << 40, -1])
def test_counters_are_taken_modulo_their_number(twin: ModuleType, index: int) -> None:
    versions = twin.Versions()
    assert versions.SIZE == 65536
    assert versions.read(index) == 0
    versions.bump(index)
    versions.bump(index)
    assert versions.read(index) == versions.read(index % 65536) == 2
    assert sum(versions.read(other) for other in range(65536)) == 2


def test_increments_are_held_by_one_thread(twin: ModuleType) -> None:
    versions = twin.Versions()
    versions.bump(1)
    versions.hold()
    versions.bump(2)
    versions.bump(-1)
    other = Thread(target=versions.bump, args=(3,))
    other.start()
    other.join()
    assert versions.held() == [2, 65535]
    assert [versions.read(index) for index in (1, 2, 3, -1)] == [1, 1, 1, 1], "with what is held"
    versions.release()
    assert versions.held() == []
    versions.bump(2)
    assert (versions.held(), versions.read(2)) == ([], 2)


def test_each_thread_holds_its_own_increments(twin: ModuleType) -> None:
    under_test, query = TableUnderTest(twin), ask()
    versions = under_test.versions
    assert under_test.store(query, addresses(query), dependencies=[(2, 0)])
    found = []

    def other() -> None:
        versions.hold()
        versions.bump(3)
        found.append(versions.held())
        versions.release()

    versions.hold()
    versions.bump(2)
    thread = Thread(target=other)
    thread.start()
    thread.join()
    assert (found, versions.held()) == ([[3]], [2])
    versions.release()
    assert under_test.lookup(query) is None


def test_a_thread_waits_for_the_events_that_others_have_begun(twin: ModuleType) -> None:
    """Not for its own, and not for those that begin later."""
    versions, is_held, may_end = twin.Versions(), Event(), Event()
    ended: list[str] = []

    def apply() -> None:
        versions.hold()
        is_held.set()
        may_end.wait(DEADLINE)
        ended.append("event")
        versions.release()
        versions.hold()  # the next one, which never ends

    versions.settle(DEADLINE)
    versions.hold()
    versions.settle(DEADLINE)
    versions.release()
    thread = Thread(target=apply)
    thread.start()
    is_held.wait(DEADLINE)
    versions.settle(0.0)
    ended.append("impatient")
    Timer(0, may_end.set).start()
    versions.settle(DEADLINE)
    ended.append("reply")
    thread.join()
    assert ended == ["impatient", "event", "reply"]


labels = st.lists(st.sampled_from([b"\1a", b"\1b", b"\1c", b"\1d"]), max_size=6)


@given(st.lists(st.tuples(st.booleans(), labels)))
def test_labels_are_counted(steps: list[tuple[bool, list[bytes]]]) -> None:
    """A label is listed while it was added more often than removed; asked through the hashes of the Python twin."""
    names, expected = ClusterNames(), Counter[bytes]()
    names.add_service(b"default", b"web")
    for adds, some in steps:
        if adds:
            names.add_labels(b"default", b"web", some)
            expected.update(some)
        else:
            names.remove_labels(b"default", b"web", some)
            expected -= Counter(some)
        hashes = names.services[b"default"][b"web"]
        assert list(hashes) == sorted(map(hash, expected.elements()))
        assert {each for each in (b"\1a", b"\1b", b"\1e") if has_label(hashes, each)} == {
            each for each in (b"\1a", b"\1b") if expected[each]
        }


def test_a_serial_has_32_bits(twin: ModuleType) -> None:
    names = twin.ClusterNames()
    names.serial = 0xFFFFFFFF
    assert names.serial == 0xFFFFFFFF
    for wrong in (-1, 1 << 32):
        with pytest.raises(OverflowError):
            names.serial = wrong
    names.open = True
    assert names.open


def leased(twin: ModuleType) -> tuple[TableUnderTest, dict[str, bytes]]:
    """A table with replies that depend on a store's counters, two that do not, and a negative zone."""
    under_test = TableUnderTest(twin)
    assert under_test.add_negative_zone() == 0
    assert under_test.set_template()
    queries = {
        "counted": ask("a.b."),
        "timeless": ask("c.d."),
        "absent": ask("x.cluster.local."),
        "cached": ask("e.f."),
        "passed on": ask("g.h."),
    }
    assert under_test.store(
        queries["counted"], addresses(queries["counted"]), dependencies=[(3, 0)]
    )
    assert under_test.store(queries["timeless"], addresses(queries["timeless"]))
    # The first counter of a timed reply is that of `cache` alone.
    for name, dependencies in (("cached", [(4, 0)]), ("passed on", [(5, 0), (3, 0)])):
        query = queries[name]
        assert under_test.store(
            query, addresses(query), dependencies=dependencies, timed=(0.0, 0, 2e9)
        )
    return under_test, queries


def answered(under_test: TableUnderTest, queries: dict[str, bytes], now: float) -> set[str]:
    """What the table answers at a time, asked often enough that replies are prepared."""
    return {
        name
        for name, query in queries.items()
        for _ in range(5)
        if under_test.lookup(query, now=now)
    }


LASTING = {"timeless", "cached"}
ALL = LASTING | {"counted", "absent", "passed on"}


def test_what_depends_on_counters_counts_until_the_lease_ends(twin: ModuleType) -> None:
    under_test, queries = leased(twin)
    assert answered(under_test, queries, 1e9) == ALL, "without a lease"
    under_test.versions.renew_lease(10.0)
    for now, expected in ((9.999, ALL), (10.0, LASTING), (11.0, LASTING)):
        assert answered(under_test, queries, now) == expected
    before = under_test.table.statistics()
    under_test.versions.renew_lease(12.0)
    assert answered(under_test, queries, 11.0) == ALL, "nothing was dropped"
    under_test.versions.bump(3)
    assert answered(under_test, queries, 11.0) == ALL - {"counted", "passed on"}
    assert (before.stale, before.evicted, before.misses) == (0, 0, 30)


@pytest.mark.sockets
def test_a_lease_counts_for_datagrams_too(server: Server) -> None:
    server.under_test, queries = leased(server.under_test.twin)
    server.bind()
    client = server.client()
    for end, expected in ((math.inf, ALL), (0.0, LASTING), (math.inf, ALL)):
        server.under_test.versions.renew_lease(end)
        for _ in range(5):
            for query in queries.values():
                client.send(query)
            misses = {query for query, _, _ in server.serve()}
            assert {name for name, query in queries.items() if query not in misses} == expected
            for _ in expected:
                client.recv(65535)


class Paused:
    """A counter whose increments are interrupted once: what a thread that reads finds at that moment."""

    def __init__(self, values: list[int], look: Callable[[], None]) -> None:
        self.values, self.look = values, look

    def __getitem__(self, index: int) -> int:
        return self.values[index]

    def __setitem__(self, index: int, value: int) -> None:
        self.look()
        self.values[index] = value
        self.look()


class Read(Paused):
    """A counter that is incremented once, after it has been read."""

    def __getitem__(self, index: int) -> int:
        value = self.values[index]
        look, self.look = self.look, lambda: None
        look()
        return value

    def __setitem__(self, index: int, value: int) -> None:
        self.values[index] = value


def test_an_increment_in_the_middle_of_a_reader_counts_later() -> None:
    """An entry of which one counter has been compared, and is incremented before the next one is."""
    under_test, query = TableUnderTest(importlib.import_module(PYTHON)), ask()
    versions = under_test.versions
    assert under_test.store(query, addresses(query), dependencies=[(4, 0), (3, 0)])
    versions.bump(7)
    versions.moved = Read(versions.moved, lambda: versions.bump(4))
    assert under_test.lookup(query) is not None, "it was valid when this began"
    assert under_test.lookup(query) is None


@pytest.mark.parametrize("written", ["values", "moved"])
def test_a_reader_in_the_middle_of_an_increment_keeps_nothing_old(written: str) -> None:
    under_test, queries = leased(importlib.import_module(PYTHON))
    versions = under_test.versions

    def look() -> None:
        for _ in range(5):
            under_test.lookup(queries["counted"])

    setattr(versions, written, Paused(getattr(versions, written), look))
    versions.bump(3)
    assert under_test.lookup(queries["counted"]) is None


def test_threads_that_write_exclude_one_another() -> None:
    versions = PythonVersions()
    held: list[bool] = []
    versions.moved = Paused(versions.moved, lambda: held.append(versions_module._WRITING.locked()))  # type: ignore[assignment]  # it stands in for a list
    versions.bump(3)
    assert held == [True, True]
    assert not versions_module._WRITING.locked()
