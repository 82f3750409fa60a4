"""The figures of the benchmark of the control door."""

from __future__ import annotations

import pytest

from hsdns.assemble import assemble
from hsdns.corefile.parser import parse
from hsdns.plugins import ORDER
from loadtest.door.measure import COREFILE, MOST_P99, figures, order


def test_a_ratio_is_that_of_a_turn() -> None:
    found = figures(([1, 2, 4], [1, 3, 4]), ([10, 20, 30], [10, 40, 30]), [0.001, 0.003, 0.002])
    assert (found.hit_closed, found.hit_open, found.hit_ratio) == (2, 3, 1)
    assert (found.p99_quiet, found.p99_explaining, found.p99_ratio) == (20, 30, 1)
    assert (found.explanation, found.explanations) == (2, 3)
    assert found.is_good
    assert not found._replace(p99_ratio=MOST_P99 + 0.01).is_good
    assert "|    2.00 | 3.00 |  1.00 |" in found.table()


def test_each_is_first_in_every_other_turn() -> None:
    assert [order(turn)[0] for turn in range(4)] == [0, 1, 0, 1]


@pytest.mark.parametrize("control", ["", "control c.sock"])
def test_corefile_is_one(control: str) -> None:
    text = COREFILE.format(port=1, control=control, services=2)
    corefile = parse("Corefile", text=text, environ={}, known_directives=ORDER)
    assert len(assemble(corefile, validating=True, warn=pytest.fail).listeners) == 1
