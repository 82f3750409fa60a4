"""Limits, of which limits.txt has a table, and the search for a knee on servers that are made up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from hsdns.load.histogram import LATE, LOST, PERCENTS, Percentile, name_of
from hsdns.load.knee import (
    BROKEN,
    GENERATOR,
    HELD,
    WIDTH,
    KneeSearch,
    Step,
    outcome_of,
    queries_for,
)
from hsdns.load.limits import (
    KNEE_LIMITS,
    Limit,
    Measured,
    aborted_by,
    figure_of,
    has_aborted,
    is_met,
    knee_rate,
    read_knee_limits,
    read_limits,
)
from tests.support.tables import columns, lines

TABLES = Path(__file__).with_name("tables.txt")
# p50 100 us, p90 200 us ...; p99.99 is lost, the highest is refused.
LATENCY = [Percentile(name_of(percent), 100 * at) for at, percent in enumerate(PERCENTS, 1)]
LATENCY[-2] = Percentile("p99.99", None, LOST)
LATENCY[-1] = Percentile("max", None, LATE)
LATENESS = [Percentile(name_of(percent), 10) for percent in PERCENTS]
MEASURED = Measured(
    {
        "loss": (1, 1000), "stale": (0, 500), "right": (490, 500), "servfail": (0, 0), "lookup.failed": (3, 300),
        "lookup.unfinished": (0, 300), "unmatched": (0, 1000),
    },
    LATENCY,
    LATENESS,
    [structs.replace(figure, us=figure.us and figure.us * 1000) for figure in LATENCY],
    (5000, 5000),
)  # fmt: skip
UNFOUND = MEASURED._replace(knee=(4000, 8000))  # it is between these


def read(text: str) -> Limit:
    """Where everything is measured that there is."""
    (limit,) = read_limits(text, verifies=True, has_pods=True, finds_knee=True)
    return limit


@pytest.mark.parametrize("row", lines(Path(__file__).with_name("limits.txt")))
def test_limit(row: str) -> None:
    """A row that begins with ? is of a knee that was not found."""
    text, expected = row.removeprefix("? ").split(" => ")
    limit, measured = read(text), UNFOUND if row[0] == "?" else MEASURED
    told = str(is_met(limit, measured)).lower()
    if row[0] == "?":
        rate = knee_rate(limit, measured)
        told += "" if rate is None else f" at {rate:g}"
        assert knee_rate(limit, MEASURED) == 5000
        assert is_met(limit, Measured({}, (), ())) is None
    assert told == expected


def test_percentiles_of_lookups_that_there_are_none_of() -> None:
    limit = read("lookup.p99>1s")
    without = MEASURED._replace(lookups=())
    assert (is_met(limit, without), figure_of(limit, without).us) == (None, None)


def test_which_limit_has_ended_a_run() -> None:
    limits = read_limits("p99>5ms:abort,p99>5ms,p99>50ms:abort", verifies=True)
    said = f"{aborted_by(limits[0])}20.0 ms over 5 s)"
    assert said == "aborted by p99>5ms (20.0 ms over 5 s)"
    assert [has_aborted(each, said) for each in limits] == [True, False, False]
    assert [has_aborted(each, "interrupted") for each in limits] == [False, False, False]


# --- the search ---

Server = Callable[[Step], str]


def carried_out(search: KneeSearch, server: Server) -> list[tuple[float, float, str]]:
    """Rates, seconds and outcomes of all steps."""
    found = []
    while (step := search.step) is not None:
        outcome = server(step)
        found.append((step.rate, step.seconds, outcome))
        search.step_ended(outcome)
    return found


def server_of(capacity: float, generator: float = float("inf")) -> Server:
    def server(step: Step) -> str:
        if step.rate > capacity:
            return BROKEN
        return GENERATOR if step.rate > generator else HELD

    return server


def search_of(first: float = 1000, ceiling: float = 100_000, queries: int = 10_000) -> KneeSearch:
    return KneeSearch(first, ceiling, queries)


def test_steps() -> None:
    search = search_of()
    steps = carried_out(search, server_of(3000))
    assert steps == [
        (1000, 10, HELD),
        (2000, 5, HELD),
        *[(4000, 3, BROKEN)] * 2,
        (2828, 4, HELD),
        *[(3363, 3, BROKEN)] * 2,
        *[(3084, 4, BROKEN)] * 2,
        (2953, 4, HELD),
        *[(3018, 4, BROKEN)] * 2,
        (2985, 4, HELD),
        *[(3001, 4, BROKEN)] * 2,
        *[(3001, 8, BROKEN)] * 2,
        (2985, 8, HELD),
    ]
    assert search.knee() == (
        True,
        2985,
        3001,
        "the knee is at 2985 queries a second: the limits hold there, and not at 3001",
    )


@pytest.mark.parametrize(("given", "expected"), columns(TABLES, "how a search ends"))
def test_ends(given: str, expected: str) -> None:
    """What the server and the generator can, and the first rate; what holds, what breaks, and a sentence."""
    capacity, generator, first = map(float, given.split())
    search = search_of(first)
    carried_out(search, server_of(capacity, generator))
    found = search.knee()
    rates = ["none" if rate is None else f"{rate:g}" for rate in (found.holds, found.breaks)]
    assert " ".join([*rates, found.sentence]) == expected
    assert found.found is found.sentence.startswith("the knee is at")


def test_a_server_that_does_as_it_likes() -> None:
    """It holds what it broke, and breaks what it held, for as long as it is asked."""
    random, search = Random(1), search_of()
    steps = carried_out(search, lambda step: random.choice([HELD, BROKEN, BROKEN, BROKEN]))
    assert len(steps) <= 200


@pytest.mark.parametrize(
    ("rate", "seconds"), [(100, 30), (1000, 10), (3333, 4), (9999, 2), (50_000, 2)]
)
def test_a_step_is_long_enough(rate: float, seconds: float) -> None:
    assert search_of(rate).step == Step(rate, seconds)


def test_a_queue_that_grows_slowly() -> None:
    """What is above the capacity waits: 20 ms are only reached in a step that is long enough."""
    lengths = []

    def server(step: Step) -> str:
        lengths.append(step.seconds)
        waits = (step.rate / 5000 - 1) * step.seconds
        return BROKEN if waits > 0.02 else HELD

    search = KneeSearch(3000, 100_000, 200, 4)
    carried_out(search, server)
    found = search.knee()
    assert found.holds is not None
    assert found.found
    assert 5012.5 / WIDTH <= found.holds <= 5012.5
    # From the first long step on all are long.
    first = lengths.index(8)
    assert set(lengths[:first]) == {4}
    assert set(lengths[first:]) == {8}
    assert len(lengths) < 35


@given(
    capacity=st.floats(20, 90_000),
    first=st.floats(1, 90_000),
    noise=st.lists(st.sampled_from([HELD, BROKEN, GENERATOR]), max_size=60),
)
def test_the_knee_is_found(capacity: float, first: float, noise: list[str]) -> None:
    """Of three runs in a row, noise spoils one at most; it makes none hold."""
    server, count = server_of(capacity), 0

    def noisy(step: Step) -> str:
        nonlocal count
        count += 1
        spoilt = noise[count // 3] if count % 3 == 0 and count // 3 < len(noise) else HELD
        return server(step) if spoilt == HELD else spoilt

    search = search_of(first)
    steps = carried_out(search, noisy)
    found = search.knee()
    assert found.found
    assert found.holds is not None
    assert found.breaks is not None
    assert found.holds <= capacity < found.breaks <= found.holds * WIDTH * 1.0001
    assert len(steps) < 120


@pytest.mark.parametrize("capacity", [700, 12_345, 61_000])
def test_with_a_noisy_server_it_is_within_two_percent(capacity: float) -> None:
    """One run in eight is spoilt, and what the server can do differs from run to run, by 0.3 % or so."""
    within = 0
    for seed in range(100):
        random, search = Random(seed), search_of()

        def server(step: Step, random: Random = random) -> str:
            if random.random() < 0.125:
                return random.choice([BROKEN, GENERATOR])
            return HELD if step.rate <= random.gauss(capacity, capacity * 0.003) else BROKEN

        carried_out(search, server)
        holds = search.knee().holds
        within += holds is not None and abs(holds / capacity - 1) < 0.02
    assert within >= 97


def measured(latency: list[Percentile], late: int = 0, lost: int = 0) -> Measured:
    lateness = [Percentile(name_of(each), late) for each in PERCENTS]
    service = [structs.replace(each, us=each.us and each.us - late) for each in latency]
    return Measured({"loss": (lost, 10_000)}, latency, lateness, service=service)


def figures(us: int | None, why: str = "") -> list[Percentile]:
    return [Percentile(name_of(percent), us, why) for percent in PERCENTS]


@pytest.mark.parametrize(("given", "expected"), columns(TABLES, "what a step is: microseconds, late by, lost and answered of 10,000"))  # fmt: skip
def test_outcome(given: str, expected: str) -> None:
    """A latency may be lost, of nothing, or the generator's; a step may be behind its schedule."""
    us, late, lost, answered, word = given.split()
    latency = figures(int(us)) if us.isdigit() else figures(None, us)
    limits = read_knee_limits(KNEE_LIMITS, verifies=False)
    found = measured(latency, int(late), int(lost))
    others = 0.06 if word == "busy" else 0.04
    kept = word != "behind"
    assert outcome_of(limits, found, answered=int(answered), kept=kept, others=others) == expected


@pytest.mark.parametrize(("limits", "queries"), columns(TABLES, "queries of a step"))
def test_queries_of_a_step(limits: str, queries: str) -> None:
    assert queries_for(read_knee_limits(limits, verifies=False)) == int(queries)
