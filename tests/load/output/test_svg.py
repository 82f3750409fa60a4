from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.load.output import svg
from hsdns.load.output.svg import Scale


@pytest.mark.parametrize(
    ("scale", "value", "place"),
    [
        (Scale(0, 10, 100, 200), 5, 150),
        (Scale(0, 10, 200, 100), 5, 150),
        (Scale(0, 10, 100, 200), 20, 200),
        (Scale(0, 10, 100, 200), -1, 100),
        (Scale(1, 1000, 0, 300, log=True), 10, 100),
        (Scale(1, 1000, 0, 300, log=True), 0, 0),
    ],
)
def test_scale(scale: Scale, value: float, place: float) -> None:
    assert scale(value) == pytest.approx(place)


@pytest.mark.parametrize(
    ("low", "high", "most", "found"),
    [
        (0, 100, 5, [0, 20, 40, 60, 80, 100]),
        (0, 1, 5, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (0, 3150, 5, [0, 1000, 2000, 3000]),
        (0, 28, 10, [0, 5, 10, 15, 20, 25]),
    ],
)
def test_ticks(low: float, high: float, most: int, found: list[float]) -> None:
    assert svg.ticks(low, high, most) == pytest.approx(found)


@given(high=st.floats(0.01, 1e9), most=st.integers(1, 12))
def test_ticks_are_few_and_inside(high: float, most: int) -> None:
    found = svg.ticks(0, high, most)
    assert 1 <= len(found) <= most + 2
    assert all(0 <= each <= high * 1.000001 for each in found)


@pytest.mark.parametrize(
    ("low", "high", "found"),
    [(5, 500, (1, 1000)), (10, 100, (10, 100)), (3, 4, (1, 10)), (10, 10, (10, 100))],
)
def test_decades(low: float, high: float, found: tuple[float, float]) -> None:
    assert svg.decades(low, high) == pytest.approx(found)
    assert svg.log_ticks(*found)[0] == found[0]


def test_a_line_with_gaps() -> None:
    points = [(0.0, 1.0), (2.0, 3.0), None, (4.0, 5.0), None]
    assert svg.polyline(points, "p50") == (
        '<path class="p50" fill="none" d="M0.0 1.0L2.0 3.0"/><circle class="p50" cx="4.0" cy="5.0" r="2.5"/>'
    )
    assert svg.polyline([None], "p50") == ""


def test_rectangles() -> None:
    assert svg.rectangles([(1, 2, 3, 4)], "x") == '<path class="x" d="M1.0 2.0h3.0v4.0h-3.0z"/>'
    assert svg.rectangles([], "x") == ""


def test_drawing() -> None:
    scale = Scale(0, 1, 0, 10)
    parts = [
        svg.axis_x(scale, [(0, "<0>")], 90, "a & b"),
        svg.axis_y(scale, [(1, "1")], "y"),
        svg.hints([(1, 2, "5 < 6")], 90),
    ]
    tree = ElementTree.fromstring(svg.drawing(100, 'a "title"', "what <it> shows", parts))
    assert tree.attrib["aria-label"] == 'a "title"'
    assert [each.text for each in tree.iter("text")] == ["<0>", "a & b", "1", "y"]
    assert [each.text for each in tree.iter("title")] == ["5 < 6"]
    assert tree[0].text == "what <it> shows"
