"""What the table has for a query: the hit that would come next, found without a trace."""

from __future__ import annotations

import time
from types import ModuleType

import pytest

from hsdns.fastpath._python import Peeked
from hsdns.wire.message import Reply
from tests.fastpath.twins import CAPACITY, TableUnderTest, addresses, ask

ENTRY, DENIAL = Peeked(False, None, None), Peeked(True, None, None)


def peek(under_test: TableUnderTest, query: bytes, now: float = 0.0) -> Peeked | None:
    found: Peeked | None = under_test.table.peek(query, now=now)
    return found


def test_what_needs_the_lease(twin: ModuleType) -> None:
    under_test = TableUnderTest(twin)
    free, bound = ask("a.b."), ask("c.d.")
    under_test.store(free, addresses(free))
    under_test.store(bound, addresses(bound), dependencies=[(3, 0)])
    under_test.add_negative_zone()
    under_test.set_template()
    missing = ask("nope.cluster.local.")
    under_test.versions.renew_lease(100.0)
    assert [peek(under_test, each, 99.0) for each in (free, bound, missing)] == [ENTRY, ENTRY, DENIAL]  # fmt: skip
    assert [peek(under_test, each, 101.0) for each in (free, bound, missing)] == [ENTRY, None, None]


def test_a_reply_of_cache_until_it_expires(twin: ModuleType) -> None:
    under_test, query = TableUnderTest(twin), ask()
    began = time.monotonic()
    under_test.store(query, addresses(query), timed=(began, 30, began + 30))
    found = peek(under_test, query, began + 12)
    assert found is not None
    assert not found.is_denial
    assert (found.stored, found.expires) == pytest.approx((began, began + 30), abs=1e-6)
    assert peek(under_test, query, began + 30.5) is None


def test_nothing_is_counted_or_turned(twin: ModuleType) -> None:
    looked_at, plain = TableUnderTest(twin), TableUnderTest(twin)
    query = ask()
    for under_test in (looked_at, plain):
        under_test.store(query, addresses(query, 3), rotate=True, mark_ttl=30, log=True)
    for _ in range(5):
        assert peek(looked_at, query) == ENTRY
        assert peek(looked_at, ask("a.b.")) is None
        assert looked_at.lookup(query) == plain.lookup(query)
    assert looked_at.table.statistics() == plain.table.statistics()
    assert len(looked_at.table.take_log(9)) == 5


def test_an_entry_that_is_only_looked_at_is_evicted_first(twin: ModuleType) -> None:
    """Asked for twice it would stay when the queue of new entries is emptied."""
    under_test, query = TableUnderTest(twin, CAPACITY >> 6), ask()
    under_test.store(query, addresses(query))
    for number in range(2000):
        assert peek(under_test, query, 0.0) in (ENTRY, None)
        other = ask(f"a{number}.b.")
        under_test.store(other, Reply(answer=addresses(other).answer))
    assert peek(under_test, query) is None
