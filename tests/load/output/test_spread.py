from itertools import pairwise
from xml.etree import ElementTree

import pytest

from hsdns.load.output import spread
from hsdns.load.report import PropagationReport
from hsdns.load.verify.propagation import propagation_report
from tests.load.verify.test_propagation_report import QUESTIONS, shown

GOOD = propagation_report([shown(), shown(0.05, 0.04, at=101.0)], QUESTIONS, 2, 100.0)
NEVER = propagation_report([shown(None, None), shown(20.0, None)], QUESTIONS, 2, 100.0)
LATE = propagation_report([shown(70.0, 80.0)], QUESTIONS, 1, 100.0)
NOTHING = propagation_report([], QUESTIONS, 0, 100.0)


def tree(text: str) -> ElementTree.Element:
    found = ElementTree.fromstring(text)
    assert found.attrib["aria-label"]
    assert "nan" not in text
    return found


def dots(found: PropagationReport, *beside: PropagationReport) -> list[tuple[str, float]]:
    drawn = tree(spread.dots(found, [found, *beside], 10.0))
    return [(each.attrib["class"], float(each.attrib["cy"])) for each in drawn.iter("circle")]


def test_the_later_it_showed_the_higher() -> None:
    gone, shown_ = ([y for style, y in dots(GOOD) if style == each] for each in ("gone", "shown"))
    assert len(gone) == len(shown_) == 2
    assert gone[0] > gone[1]
    assert shown_[0] > shown_[1]


def test_what_never_showed_stands_above() -> None:
    never = [y for _, y in dots(NEVER)]
    assert min(never) == never[0] == never[1]
    assert min(y for _, y in dots(LATE, NEVER)) > never[0]


def test_its_label_is_above_those_of_the_scale() -> None:
    texts = list(tree(spread.dots(NEVER, [NEVER], 10.0)).iter("text"))
    left = sorted(
        float(each.attrib["y"]) for each in texts if each.attrib.get("text-anchor") == "end"
    )
    assert min(after - before for before, after in pairwise(left)) >= 11


def test_the_axis_is_that_of_all() -> None:
    assert dots(GOOD) != dots(GOOD, LATE)


@pytest.mark.parametrize("adds", [True, False])
def test_a_line_for_each_server(adds: bool) -> None:
    value = spread.first_new if adds else spread.last_old
    drawn = tree(
        spread.shares([GOOD, None, NEVER], value, adds, lambda number: f"server s{number}")
    )
    styles = [each.attrib["class"] for each in drawn.iter("path")]
    assert styles == ["server s0", "server s2"]


def test_only_changes_of_that_kind() -> None:
    only = propagation_report([shown(adds=False)], QUESTIONS, 1, 100.0)
    assert "<path" not in spread.shares([only], spread.first_new, True, lambda number: "server s0")


def test_nothing_to_draw() -> None:
    assert spread.dots(NOTHING, [NOTHING], 10.0) == ""
    assert spread.shares([NOTHING, None], spread.first_new, True, lambda number: "") == ""


def test_many_changes_are_a_small_drawing() -> None:
    many = propagation_report(
        [shown(number / 1000) for number in range(2000)], QUESTIONS, 2000, 0.0
    )
    assert len(dots(many)) <= 2 * spread.MOST
    assert len(spread.shares([many], spread.first_new, True, lambda number: "server s0")) < 20_000
