from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hsdns.load.outcome import (
    AGAIN,
    CLOSED,
    ENDED,
    FELL,
    LATE,
    MOST_REASONS,
    NOT_DNS,
    NOT_OPENED,
    OPENED,
    OTHERS,
    RESET,
    ConnectionCounts,
    Fact,
    pack_facts,
)

FACTS = st.lists(
    st.builds(Fact, st.integers(0, FELL), st.integers(0, 10**12), st.sampled_from(["", CLOSED, "x"]))
)  # fmt: skip


def counts(*facts: Fact) -> ConnectionCounts:
    found = ConnectionCounts()
    found.add(pack_facts(facts))
    return found


def everything(found: ConnectionCounts) -> tuple[object, ...]:
    return (
        found.setup.pairs(), found.open, found.not_opened, found.ended, found.failed, found.again, found.late, found.fell
    )  # fmt: skip


def test_counts() -> None:
    found = counts(
        Fact(OPENED, 1_500_000),
        Fact(OPENED, 2_500_000),
        Fact(ENDED, 0, RESET),
        Fact(OPENED, 2_500_000),
        Fact(NOT_OPENED, 0, "connection refused"),
        Fact(AGAIN),
        Fact(LATE),
        Fact(NOT_DNS, 0, "HTTP status 503"),
        Fact(FELL),
    )
    assert (found.opened, found.open, found.most_open) == (3, 2, 2)
    assert found.setup.percentiles((50, 1)) == [2501, 1500]  # the highest of their slots
    assert (found.not_opened, found.ended) == ({"connection refused": 1}, {RESET: 1})
    assert (found.again, found.late, found.failed, found.fell) == (1, 1, {"HTTP status 503": 1}, 1)


@given(mine=FACTS, theirs=FACTS)
def test_merged_as_if_they_were_one(mine: list[Fact], theirs: list[Fact]) -> None:
    merged = counts(*mine)
    merged.merge(counts(*theirs))
    assert everything(merged) == everything(counts(*mine, *theirs))


def test_reasons_are_bounded() -> None:
    found = counts(*(Fact(NOT_DNS, 0, f"HTTP status {at}") for at in range(MOST_REASONS + 5)))
    assert len(found.failed) == MOST_REASONS + 1
    assert found.failed[OTHERS] == 5
