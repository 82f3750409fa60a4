from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.load import plots
from hsdns.load.columns import columns
from hsdns.load.histogram import Histogram, highest_in, slot_of
from tests.load.test_columns import WHOLE, lengthened
from tests.load.test_report import report, results


@pytest.mark.parametrize(
    "drawn",
    [
        plots.answers(columns(WHOLE)),
        plots.heat(columns(WHOLE)),
        plots.slowest(WHOLE),
        plots.slowest(report(results(late=5))),
        plots.staleness(columns(WHOLE)),
        plots.staleness(columns(report(results()))),
        plots.heat(columns(lengthened(WHOLE, 1000))),
        plots.heat(columns(report(results(lost=200)))),
    ],
)
def test_drawings_are_well_formed(drawn: str) -> None:
    tree = ElementTree.fromstring(drawn)
    assert tree.attrib["role"] == "img"
    assert tree.attrib["aria-label"]
    assert "nan" not in drawn


def test_what_a_pointer_shows() -> None:
    tree = ElementTree.fromstring(plots.answers(columns(WHOLE)))
    texts = [each.text for each in tree.iter("title")]
    assert texts == ["0 s: NOERROR 98/s, lost 2/s", "1 s: NOERROR 100/s"]
    tree = ElementTree.fromstring(plots.staleness(columns(WHOLE)))
    texts = [each.text for each in tree.iter("title")]
    assert texts == ["0 s: undecided 1/s, 1 changes/s", "1 s: stale 10/s, stalest 1.00 s, 1 changes/s"]  # fmt: skip


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
