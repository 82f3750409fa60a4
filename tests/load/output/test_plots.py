from collections.abc import Callable, Sequence
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.load.histogram import Histogram, highest_in, slot_of
from hsdns.load.output import plots
from hsdns.load.output.columns import columns
from hsdns.load.output.plots import Columns
from hsdns.load.report import ServerReport
from tests.load.output.test_columns import WHOLE, lengthened
from tests.load.test_report import of_server, results


def drawn(draw: Callable[[Columns, Sequence[Columns]], str], *servers: ServerReport) -> str:
    """A plot of the first of some servers, beside the others."""
    found = [columns(each) for each in servers]
    return draw(found[0], found)


@pytest.mark.parametrize(
    "text",
    [
        drawn(plots.answers, WHOLE),
        drawn(plots.heat, WHOLE),
        plots.slowest(WHOLE),
        plots.slowest(of_server(results(late=5))),
        drawn(plots.staleness, WHOLE),
        drawn(plots.staleness, of_server(results())),
        drawn(plots.heat, lengthened(WHOLE, 1000)),
        drawn(plots.heat, of_server(results(lost=200))),
    ],
)
def test_drawings_are_well_formed(text: str) -> None:
    tree = ElementTree.fromstring(text)
    assert tree.attrib["role"] == "img"
    assert tree.attrib["aria-label"]
    assert "nan" not in text


def test_what_a_pointer_shows() -> None:
    tree = ElementTree.fromstring(drawn(plots.answers, WHOLE))
    texts = [each.text for each in tree.iter("title")]
    assert texts == ["0 s: NOERROR 98/s, lost 2/s", "1 s: NOERROR 100/s"]
    tree = ElementTree.fromstring(drawn(plots.staleness, WHOLE))
    texts = [each.text for each in tree.iter("title")]
    assert texts == ["0 s: undecided 1/s, 1 changes/s", "1 s: stale 10/s, stalest 1.000 s, 1 changes/s"]  # fmt: skip


@given(values=st.lists(st.integers(0, 10**7), min_size=1, max_size=30), lost=st.integers(0, 9))
def test_the_slowest_share(values: list[int], lost: int) -> None:
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    total = len(values) + lost
    points = plots.slowest_points(histogram, lost)
    assert points[0] == (1.0, highest_in(slot_of(min(values))))
    for share, us in points:
        slower = sum(highest_in(slot_of(value)) >= us for value in values) + lost
        assert share == pytest.approx(slower / total)


@pytest.mark.parametrize("draw", [plots.answers, plots.heat, plots.staleness])
def test_plots_beside_each_other_have_the_same_axes(
    draw: Callable[[Columns, Sequence[Columns]], str],
) -> None:
    """A server with twice the answers, later and staler, changes the ticks of the one beside it."""
    busy = results(late=500, stale=True)
    busy.merge(results(late=500, stale=True))
    other = of_server(busy)
    alone, first, second = drawn(draw, WHOLE), drawn(draw, WHOLE, other), drawn(draw, other, WHOLE)
    assert ticks(first) == ticks(second)
    assert ticks(alone) != ticks(first)


def ticks(text: str) -> list[tuple[str | None, str]]:
    """The texts of a drawing that stand at an axis, with where they stand."""
    tree = ElementTree.fromstring(text)
    return [(each.text, each.get("x", "") + each.get("y", "")) for each in tree.iter("text")]
