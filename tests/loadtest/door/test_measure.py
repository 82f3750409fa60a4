"""The figures of the benchmark of the control door."""

from __future__ import annotations

import pytest

from hsdns.assemble import assemble
from hsdns.corefile.parser import parse
from hsdns.plugins import ORDER
from loadtest.door.measure import COREFILE, MOST_P99, Explained, chance, figures, order


def test_a_ratio_is_that_of_a_turn() -> None:
    turns = [Explained(10, 10, 10), Explained(10, 40, 40), Explained(30, 30, 30)]
    found = figures(([1, 2, 4], [1, 3, 4]), turns, [0.001, 0.003, 0.002])
    assert (found.hit_closed, found.hit_open, found.hit_ratio) == (2, 3, 1)
    assert (found.p99_quiet, found.p99_explaining, found.p99_ratio) == (20, 30, 1)
    assert (found.within, found.turns, found.explanation, found.explanations) == (2, 3, 2, 3)
    assert "|    2.00 | 3.00 |  1.00 |" in found.table()
    assert "at most 1.2 in 2 of 3 turns" in found.table()


def test_a_turn_that_is_at_the_limit_is_within_it() -> None:
    turns = [Explained(100, 100 * MOST_P99, 100), Explained(100, 100 * MOST_P99 + 1, 100)]
    assert figures(([1], [1]), turns, [0.001]).within == 1


# A sign test by hand: of 40 tosses of a fair coin, 26 or more are heads with a chance of 4.03 %, 25 or more of 7.69 %.
@pytest.mark.parametrize(
    ("within", "turns", "holds"),
    [(40, 40, True), (26, 40, True), (25, 40, None), (15, 40, None), (14, 40, False), (0, 40, False), (4, 4, None)],
)  # fmt: skip
def test_the_limit_is_judged_by_a_sign_test(within: int, turns: int, holds: bool | None) -> None:
    found = figures(([1], [1]), [Explained(1, 1, 1)], [0.001])
    assert found._replace(within=within, turns=turns).holds is holds


@pytest.mark.parametrize(("heads", "share"), [(0, 1), (1, 0.875), (2, 0.5), (3, 0.125)])
def test_chance(heads: int, share: float) -> None:
    assert chance(heads, 3) == share


def test_each_is_first_in_every_other_turn() -> None:
    assert [order(turn)[0] for turn in range(4)] == [0, 1, 0, 1]


@pytest.mark.parametrize("control", ["", "control c.sock"])
def test_corefile_is_one(control: str) -> None:
    text = COREFILE.format(port=1, control=control, services=2)
    corefile = parse("Corefile", text=text, environ={}, known_directives=ORDER)
    assert len(assemble(corefile, validating=True, warn=pytest.fail).listeners) == 1
