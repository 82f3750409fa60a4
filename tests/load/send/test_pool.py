"""Connections with peers that are slow, half-open, reset, close early, answer out of order, wrongly or with garbage.

pool.txt has them step by step, and what UDP and connections do together; here is which socket and ID a query has.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hsdns.load.send.connection import FramedSession
from hsdns.load.send.loop import Query
from hsdns.load.send.udp import IDS, LEAST_WINDOW, RUN, sockets_for, window_for
from hsdns.wire.framing import frame
from tests.load.stream_peers import OCTETS, Scene
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


def test_ids_of_a_connection() -> None:
    """One that waits is not used again; one that is free again is used last: its reply may come twice."""
    session, queries = FramedSession(), [Query(OCTETS, at, 0, 0) for at in range(7)]
    assert [session.ask(each) for each in queries[:3]] == [0, 1, 2]
    replies = [bytes((0, key)) + b"\x84\0" + bytes(8) for key in (2, 0)]
    found = session.feed(b"".join(map(frame, replies)))
    assert [(each.query, each.message) for each in found] == [(queries[2], replies[0]), (queries[0], replies[1])]  # fmt: skip
    assert session.ask(queries[3]) == 3
    session._next = IDS - 1
    assert [session.ask(each) for each in queries[4:]] == [IDS - 1, 0, 2]


def test_sockets_and_ids_over_udp() -> None:
    """RUN queries from one socket, then as many from the next, with IDs in order from its first."""
    scene = Scene("udp", first_ids=(IDS - 1, 5))
    scene.step(f"ask {' '.join(map(str, range(2 * RUN + 1)))}")
    ids = [[int.from_bytes(each[:2], "big") for each in socket.sent] for socket in scene.sockets]
    assert ids == [[IDS - 1, *range(RUN)], [*range(5, 5 + RUN)]]


def test_how_many_sockets_and_queries_a_rate_needs() -> None:
    given = [(100, 2, 1), (100, 2, 4), (30_000, 2, 1), (100_000, 2, 4)]
    assert [sockets_for(*each) for each in given] == [1, 4, 3, 10]
    bursts = [(100, 2, 1), (100_000, 2, 1), (100, 2, 100_000)]
    assert [window_for(*each) for each in bursts] == [LEAST_WINDOW, 600_001, 100_600]
