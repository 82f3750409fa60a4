import msgspec
import pytest
from msgspec.structs import replace

from hsdns.load.histogram import Histogram
from hsdns.load.output.columns import columns
from hsdns.load.output.topics import TOPICS, Part
from hsdns.load.report import ServerReport
from hsdns.load.results import lookups_report
from tests.load.output.test_columns import WHOLE, lengthened
from tests.load.output.test_connection_plot import FOUND as CONNECTED
from tests.load.output.test_lookup_text import FEW
from tests.load.output.test_spread import GOOD, NOTHING
from tests.load.test_report import of_server, report, results


def part(server: ServerReport, servers: int = 1) -> Part:
    found = columns(server)
    return Part("hsdns", report(results()), server, found, [found], servers)


def test_subjects_of_a_server() -> None:
    lookups = lookups_report(FEW, Histogram(), refused=False)
    whole = replace(WHOLE, lookups=lookups, propagation=GOOD, connections=CONNECTED)
    assert [title for title, draw in TOPICS if draw(part(whole))] == [title for title, _ in TOPICS]
    assert "By resolver" in dict(TOPICS)["Lookups"](part(whole))


@pytest.mark.parametrize(
    ("server", "absent"),
    [
        (of_server(results(), slack=None), {"Right or wrong", "Until changes show", "Lookups", "Connections"}),
        (
            of_server(type(results())([], 0)),
            {"Answers", "Latency over time", "Latency against the slowest share", "Right or wrong", "Until changes show", "Second by second", "Kinds of names", "Lookups", "Connections"},
        ),
    ],
)  # fmt: skip
def test_subjects_that_a_server_has_nothing_of(server: ServerReport, absent: set[str]) -> None:
    assert {title for title, draw in TOPICS if not draw(part(server))} == absent


def test_plots_of_several_servers_are_told_apart() -> None:
    drawn = dict(TOPICS)["Answers"]
    assert 'aria-label="Answers"' in drawn(part(WHOLE))
    assert 'aria-label="Answers: hsdns"' in drawn(part(WHOLE, 2))


def test_servers_share_the_rows_of_the_tables() -> None:
    seconds = dict(TOPICS)["Second by second"]
    long = lengthened(WHOLE, 600)
    assert "Table of 600 seconds" in seconds(part(long))
    assert "100 more seconds are in the JSON report." in seconds(part(long, 2))


def test_changes_that_were_followed() -> None:
    draw = dict(TOPICS)["Until changes show"]
    text = draw(part(msgspec.structs.replace(WHOLE, propagation=GOOD)))
    assert "2 changes were followed until they showed, 0 more for less than a second." in text
    assert "<figure" in text
    assert "removed: last old answer" in text
    assert "<figure" not in draw(part(msgspec.structs.replace(WHOLE, propagation=NOTHING)))
