import re
from xml.etree import ElementTree as ET

from hsdns.load.histogram import Percentile
from hsdns.load.output.knee_plot import STYLES, knee
from hsdns.load.report import KneeReport, KneeStep

LATE = [Percentile("p99", 12)]


def step(rate: float, outcome: str, us: int | None) -> KneeStep:
    latency = [Percentile("p50", 100), Percentile("p99", us, "" if us else "lost")]
    return KneeStep(rate, 2, outcome, 10_000, 0 if us else 200, latency, LATE)


FOUND = KneeReport(
    True,
    2000,
    2010,
    "the knee is at 2000 queries a second: the limits hold there, and not at 2010",
    ["p99>5ms"],
    [step(1000, "held", 300), step(4000, "broken", None), step(2000, "held", 400), step(3000, "generator", 9000)],
)  # fmt: skip


def test_a_mark_for_each_step() -> None:
    html = knee(FOUND)
    (drawing,) = re.findall(r"<figure.*?>(<svg.*?</svg>)</figure>", html)
    svg = ET.fromstring(drawing)
    marks = [(each.attrib["class"], each[0].text) for each in svg.iter("path") if len(each)]
    assert marks == [
        (STYLES["held"], "1000/s: the limits held"),
        (STYLES["broken"], "4000/s: they did not"),
        (STYLES["held"], "2000/s: the limits held"),
        (STYLES["generator"], "3000/s: the generator was the limit"),
    ]
    texts = [each.text for each in svg.iter("text")]
    for text in ("1000", "2000", "4000", "queries a second", "p99"):
        assert text in texts
    assert [each for each in re.findall(r"[\d.-]+", drawing) if each == "nan"] == []


def test_the_table_has_every_step_in_order() -> None:
    rows = re.findall(r"<tr><td>(.*?)</td></tr>", knee(FOUND))
    assert [row.split("</td><td>") for row in rows] == [
        ["1000", "2 s", "held", "0", "100 us", "300 us", "12 us"],
        ["4000", "2 s", "broken", "200 (2.000%)", "100 us", "lost", "12 us"],
        ["2000", "2 s", "held", "0", "100 us", "400 us", "12 us"],
        ["3000", "2 s", "generator", "0", "100 us", "9.00 ms", "12 us"],
    ]


def test_what_was_not_found() -> None:
    assert knee(KneeReport(False, None, None, "the search did not end", ["p99>5ms"], [])) == ""
    steps = [step(1000, "broken", None)]
    html = knee(KneeReport(False, None, 1000, "the search did not end", ["p99>5ms"], steps))
    assert "the search did not end." in html
    assert "they did not" in html
    assert STYLES["held"] not in html
