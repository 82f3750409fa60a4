"""Until when entries are lent."""

import pytest

from hsdns.cluster.freshness import COUNT
from hsdns.plugins.cache import LentEntries


@pytest.mark.parametrize("counter", [0, 5, COUNT - 1])
def test_an_entry_is_lent_until_it_expires_or_is_returned(counter: int) -> None:
    lent = LentEntries()
    assert not lent.take(counter, 0.0)
    lent.add(counter, 10.0)
    assert lent.take(counter, 9.5)
    assert not lent.take(counter, 9.5)
    lent.add(counter, 10.0)
    assert not lent.take(counter, 10.0)


def test_of_two_entries_with_one_counter_the_later_end_counts() -> None:
    lent = LentEntries()
    for expires in (10.0, 30.0, 20.0):
        lent.add(3, expires)
    assert lent.take(3, 25.0)
    assert not lent.take(4, 0.0)
