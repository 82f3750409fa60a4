import re
from xml.etree import ElementTree as ET

import pytest

from hsdns.load.outcome import (
    AGAIN,
    CLOSED,
    ENDED,
    FELL,
    LATE,
    NOT_DNS,
    NOT_OPENED,
    OPENED,
    SPENT,
    Fact,
)
from hsdns.load.output.connection_plot import TITLE, connections
from hsdns.load.results import ConnectionsReport, connections_report
from tests.load.test_connection_facts import counts

MS = 1_000_000


def told(*facts: Fact) -> ConnectionsReport:
    found = connections_report(counts(*facts))
    assert found is not None
    return found


FOUND = told(
    *[Fact(OPENED, 2 * MS)] * 3,
    Fact(OPENED, 900 * MS),
    *[Fact(ENDED, 0, SPENT)] * 3,
    Fact(ENDED, 0, CLOSED),
    Fact(NOT_OPENED, 0, "<refused>"),
    Fact(NOT_DNS, 0, "HTTP status 503"),
    Fact(AGAIN),
    Fact(LATE),
    *[Fact(FELL)] * 2,
)
NONE_OPENED = told(Fact(NOT_OPENED, 0, "refused"))


def drawing(html: str) -> ET.Element:
    (found,) = re.findall(r"<figure.*?>(<svg.*?</svg>)</figure>", html)
    return ET.fromstring(found)


def cells(html: str, caption: str) -> list[list[str]]:
    (table,) = re.findall(rf"<table><caption>{caption}</caption>(.*?)</table>", html)
    return [re.findall(r"<td>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", table)[1:]]


def test_what_is_said() -> None:
    html = connections(FOUND, [FOUND], TITLE)
    assert (
        "4 connections were opened, 4 at once at most; truncated answers that needed one: 2; queries asked again, "
        "because their connection had ended: 1; replies that came too late: 1. Set-ups run "
    ) in html
    assert cells(html, "What became of connections") == [
        [f"ended: {SPENT}", "3 (75.000%)"],
        [f"ended: {CLOSED}", "1 (25.000%)"],
        ["not opened: &lt;refused&gt;", "1 (20.000%)"],
        ["query without an answer: HTTP status 503", "1"],
    ]
    assert "<td>set up in</td><td>2.00 ms</td>" in html


def test_a_bar_and_a_row_for_each_time() -> None:
    html = connections(FOUND, [FOUND], TITLE)
    svg = drawing(html)
    hints = [each[0].text for each in svg.iter("rect")]
    assert hints == ["1.72 ms to 2.05 ms: 3", "882 ms to 1.05 s: 1"]
    rows = cells(html, "What the plot shows")
    assert [row[1:] for row in rows] == [["3", "75.0%"], ["1", "100.0%"]]
    assert [f"{row[0]}: {row[1]}" for row in rows] == hints
    (bars,) = [each.attrib["d"] for each in svg.iter("path")]
    assert bars.count("M") == 2
    texts = [each.text for each in svg.iter("text")]
    for text in ("connections", "set up in", "1 ms", "1 s", "0", "1", "2", "3"):
        assert text in texts


def test_servers_have_the_same_axes() -> None:
    faster = told(*[Fact(OPENED, MS // 5)] * 40)
    alone, beside = connections(FOUND, [FOUND], TITLE), connections(FOUND, [FOUND, faster], TITLE)
    assert "100 us" not in alone
    for each in (FOUND, faster):
        texts = [text.text for text in drawing(connections(each, [FOUND, faster], TITLE)).iter("text")]  # fmt: skip
        assert texts == [text.text for text in drawing(beside).iter("text")]
        assert {"100 us", "1 s", "40"} <= set(texts)


@pytest.mark.parametrize("found", [NONE_OPENED, told(Fact(FELL))])
def test_without_a_connection_there_is_no_plot(found: ConnectionsReport) -> None:
    html = connections(found, [found, FOUND], TITLE)
    assert "<figure" not in html
    assert "details" not in html
    assert "0 connections were opened" in html
