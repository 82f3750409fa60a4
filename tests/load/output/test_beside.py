from xml.etree import ElementTree

from hsdns.load.output import beside
from hsdns.load.output.columns import columns
from tests.load.test_report import of_server, results

GOOD, STALE = of_server(results()), of_server(results(lost=2, stale=True))


def classes(text: str) -> list[str]:
    """The classes of the lines of servers in a drawing that is well-formed."""
    tree = ElementTree.fromstring(text)
    assert tree.attrib["aria-label"]
    assert "nan" not in text
    return [
        each.attrib["class"] for each in tree.iter() if each.get("class", "").startswith("server")
    ]


def test_a_line_for_each_server() -> None:
    assert classes(beside.slowest([GOOD, STALE])) == ["server s0", "server s1"]


def test_only_stale_servers_have_a_line_of_ages() -> None:
    assert classes(beside.ages([columns(GOOD), columns(STALE), []])) == ["server s1"]


def test_nothing_to_draw() -> None:
    assert beside.slowest([of_server(results(lost=200))]) == ""
    assert beside.ages([columns(GOOD)]) == ""


def test_more_servers_than_lines_that_look_different() -> None:
    assert beside.style(beside.LINES) == beside.style(0)
