from hypothesis import given
from hypothesis import strategies as st

from hsdns.load.outcome import (
    ENDS,
    FAILED,
    FOUND,
    NONE,
    UNFINISHED,
    Lookup,
    Lookups,
    end_of,
    kinds_of,
    pack_lookups,
    unpack_lookups,
)
from hsdns.load.pods import FORMS, Wanted
from hsdns.resolver import MODELS
from hsdns.resolver.model import Result

COUNT = st.integers(0, 65_535)
TIME = st.integers(0, 10**12)
LOOKUPS = st.lists(
    st.builds(
        lambda *counts: Lookup._make((*counts[:8], counts[7] + counts[8], counts[7] + counts[9])),
        st.integers(0, len(MODELS) - 1), st.integers(0, len(FORMS) - 1), st.integers(0, len(ENDS) - 1),
        COUNT, COUNT, COUNT, COUNT, TIME, TIME, TIME,
    ),
    max_size=8,
)  # fmt: skip


@given(found=LOOKUPS)
def test_on_the_pipe(found: list[Lookup]) -> None:
    assert list(unpack_lookups(pack_lookups(found))) == found


def test_more_queries_than_are_counted() -> None:
    found = Lookup(0, 0, 0, 70_000, 70_000, 0, 0, 1, 2, 3)
    assert list(unpack_lookups(pack_lookups([found]))) == [
        found._replace(queries=65_535, wasted=65_535)
    ]


def facts(lookups: Lookups) -> object:
    return [
        {
            name: (+each.ends, each.latency.pairs(), each.queries.pairs(), each.sent, each.wasted, each.again, each.over_tcp)
            for name, each in parts.items()
        }
        for parts in (lookups.by_resolver, lookups.by_form)
    ], lookups.lateness.pairs()  # fmt: skip


@given(first=LOOKUPS, second=LOOKUPS)
def test_merged_are_those_of_one_run(first: list[Lookup], second: list[Lookup]) -> None:
    merged, other, one = Lookups(), Lookups(), Lookups()
    merged.add(pack_lookups(first))
    other.add(pack_lookups(second))
    merged.merge(other)
    one.add(pack_lookups(first + second))
    assert facts(merged) == facts(one)


def test_counts() -> None:
    lookups = Lookups()
    musl, full = kinds_of("musl", Wanted(0, "", "", "", "full"))
    lookups.add(
        pack_lookups(
            [
                Lookup(musl, full, ENDS.index(FOUND), 8, 6, 1, 0, 1000_000, 1250_000, 5000_000),
                Lookup(
                    musl, full, ENDS.index(UNFINISHED), 2, 0, 0, 2, 1000_000, 1000_000, 9000_000
                ),
            ]
        )
    )
    (part,) = lookups.by_resolver.values()
    assert lookups.by_resolver.keys() == {"musl"}
    assert lookups.by_form.keys() == {"full"}
    assert part.ends == {FOUND: 1, UNFINISHED: 1}
    assert part.latency.percentile(50) == 4001
    assert part.queries.pairs() == [(2, 1), (8, 1)]
    assert (part.sent, part.wasted, part.again, part.over_tcp) == (10, 6, 1, 2)
    assert lookups.lateness.pairs() == [(0, 1), (250, 1)]
    assert lookups.whole().sent == 10


def test_ends() -> None:
    errors = {
        "": FOUND,
        "Name or service not known": NONE,
        "Name has no usable address": NONE,
        "no such host": NONE,
        "Domain name not found": NONE,
        "Temporary failure in name resolution": FAILED,
        "Try again": FAILED,
        "i/o timeout": FAILED,
        "Timeout while contacting DNS servers": FAILED,
    }
    assert {
        error: end_of(Result(("10.0.0.1",) if not error else (), error, "")) for error in errors
    } == errors
