"""The figures of the benchmark of the control door."""

from __future__ import annotations

import pytest

from hsdns.assemble import assemble
from hsdns.corefile.parser import parse
from hsdns.plugins import ORDER
from loadtest.door.measure import COREFILE, MOST_P99, Explained, figures, order


def test_a_ratio_is_that_of_a_turn() -> None:
    turns = [Explained(10, 10, 10), Explained(10, 40, 40), Explained(30, 30, 30)]
    found = figures(([1, 2, 4], [1, 3, 4]), turns, [0.001, 0.003, 0.002])
    assert (found.hit_closed, found.hit_open, found.hit_ratio) == (2, 3, 1)
    assert (found.p99_quiet, found.p99_explaining, found.p99_ratio) == (20, 30, 1)
    assert (found.p99_noise, found.explanation, found.explanations) == (1, 2, 3)
    assert found.is_good
    assert found.can_tell
    assert not found._replace(p99_ratio=MOST_P99 + 0.01).is_good
    assert not found._replace(p99_noise=MOST_P99 + 0.01).can_tell
    assert "|    2.00 | 3.00 |  1.00 |" in found.table()
    assert "their p99 differed 1.00 times" in found.table()


def test_noise_is_how_much_the_rounds_without_differ() -> None:
    assert [Explained(*each).noise for each in ((10, 1, 20), (20, 1, 10), (5, 9, 5))] == [2, 2, 1]


def test_each_is_first_in_every_other_turn() -> None:
    assert [order(turn)[0] for turn in range(4)] == [0, 1, 0, 1]


@pytest.mark.parametrize("control", ["", "control c.sock"])
def test_corefile_is_one(control: str) -> None:
    text = COREFILE.format(port=1, control=control, services=2)
    corefile = parse("Corefile", text=text, environ={}, known_directives=ORDER)
    assert len(assemble(corefile, validating=True, warn=pytest.fail).listeners) == 1
