"""Connections with peers that are slow, half-open, reset, close early, answer out of order, wrongly or with garbage."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.load.stream_peers import Scene
from tests.support.effort import tries
from tests.support.tables import paragraphs

SCENES = paragraphs(Path(__file__).with_name("pool.txt"))


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.partition(":")[0])
def test_scene(scene: str) -> None:
    title, *steps = scene.split("\n")
    found, told = Scene(title.partition(":")[2]), []
    for step in steps:
        text = step.partition(" =>")[0]
        found.step(text)
        if found.transport is found.pool and text != "close":
            assert found.pool.waits == found.waits, text
        told.append(" => ".join(filter(None, (text, found.told()))))
    assert told == steps


@settings(max_examples=tries(30))
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["ask", "connect", "reply", "end", "reset", "pass", "refuse"]), st.integers(0, 5)),
        max_size=40,
    ),
    connections=st.integers(1, 3),
    pipeline=st.integers(1, 3),
    queries=st.integers(0, 3),
    idle=st.sampled_from([-1, 0, 300]),
)  # fmt: skip
def test_every_query_ends_once(
    steps: list[tuple[str, int]], connections: int, pipeline: int, queries: int, idle: int
) -> None:
    plan = f"connections={connections} pipeline={pipeline} queries={queries}"
    found, asked, ended = Scene(plan + f" idle={idle}" * (idle >= 0)), 0, []
    for word, number in steps:
        if word == "ask":
            found.step(f"ask {' '.join(str(asked + each) for each in range(number))}")
            asked += number
        elif word == "pass":
            found.step(f"pass {number * 250}")
        elif found.links:
            found.step(f"{word} {number % len(found.links)}")
        is_open = [each.connection for each in found.links if not each.is_closed]
        if idle <= 0 or not queries:
            # One that has had all its queries is closed in its own time.
            assert sum(bool(each.session.in_flight) for each in is_open) <= connections
        for each in is_open:
            assert len(each.session.in_flight) <= pipeline
            assert not queries or each.given <= queries
    for last in ("pass 2000", "pass 2000", "close"):
        found.step(last)
    ended += [number for _, number in found.answers]
    assert sorted(ended) == list(range(asked))
    assert (found.pool.waits, found.pool.counts.open) == (0, 0)
    assert all(link.is_closed for link in found.links)
