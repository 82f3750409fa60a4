"""The benchmark of the fixtures: what it measures, not how much."""

from __future__ import annotations

import pytest

from loadtest.fixtures import SETTLED, Found, lines, run


@pytest.mark.slow
@pytest.mark.sockets
def test_fixtures_leave_nothing() -> None:
    found = run("test_use", SETTLED + 5)
    assert len(found.times) == SETTLED + 5
    assert (found.files, found.threads, found.objects) == (0, 0, 0)


def test_what_is_read_is_the_difference() -> None:
    names = "files", "threads", "blocks", "objects"
    first, last = (dict(zip(names, range(at, at + 4), strict=True)) for at in (1, 5))
    text = str({"times": [0.5, 0.25], "left": [first, {**last, "blocks": 100}]}).replace("'", '"')
    assert Found.read(text) == Found([0.5, 0.25], files=4, threads=4, objects=4, blocks=97)


def test_lines() -> None:
    used = Found([0.25, 0.003, 0.002, 0.004], files=0, threads=0, objects=0, blocks=3000)
    assert lines(1010, used, used._replace(blocks=1000)) == [
        "| ms until the first one of a process serves | 250 |",
        "| ms until a further one serves: median, p99, worst | 3.0, 4.0, 4.0 |",
        "| open files, threads and objects of hsdns that 1,010 leave | 0, 0, 0 |",
        "| blocks of memory that each leaves | 2.00 |",
    ]
