import json

import pytest

from loadtest.figures import Spread
from loadtest.process import BenchmarkError
from loadtest.watch.churn import Churn, Load
from loadtest.watch.latency import Latency
from loadtest.watch.report import BEGIN, END, Results, as_json, replace_section, section, table
from loadtest.watch.startup import Startup

MB = 1_000_000


def started(server: str, number: int, ready: float, late: int | None = None) -> Startup:
    return Startup(server, 1_000, number, ready, ready / 2, 0.1, 50 * MB, 60 * MB, late)


RESULTS = Results(
    {"command": "`make bench-watch`"},
    [
        started("hsdns", 0, 1.0),
        started("hsdns", 1, 3.0),
        started("hsdns", 2, 2.0, 40 * MB),
        started("CoreDNS", 0, 4.0, 80 * MB),
    ],
    [Latency("hsdns", 1_000, Spread(300, 0.001, 0.002, 0.003, 0.004), 2, 0)],
    [
        Churn("hsdns", Load(1_000, 5_000, 60), 4_999.6, None, (MB, 2 * MB, MB), 3.0, None, 0),
        Churn("CoreDNS", Load(1_000, 5_000, 60), 5_000.0, None, (MB, MB, MB), 6.0, 0.01, 4),
    ],
)


@pytest.mark.parametrize(
    "expected",
    [
        "1,000 Services | start to ready, s | 2.00 | 4.00 | 0.50",
        "1,000 Services | resident 180 s after ready, MB | 40 | 80 | 0.50",
        "write to answer, 1,000 Services | median, ms | 1.00 | | ",
        "write to answer, 1,000 Services | shown before the API server answered | 2 | |",
        "5,000 changes/s for 60 s, 1,000 Services | changes a second reached | 5,000 | 5,000 | 1.00",
        "5,000 changes/s for 60 s, 1,000 Services | most resident, every 10 s, MB | 2 | 1 | 2.00",
        "5,000 changes/s for 60 s, 1,000 Services | last change shown at most after, ms | | 10 |",
        "5,000 changes/s for 60 s, 1,000 Services | names wrong at the end | 0 | 4 | 0.00",
    ],
)
def test_row(expected: str) -> None:
    rows = [
        [cell.strip() for cell in line[1:-1].split("|")] for line in table(RESULTS).splitlines()
    ]
    wanted = [cell.strip() for cell in expected.split("|")]
    assert wanted in [row[: len(wanted)] for row in rows]


def test_columns_stand_below_each_other() -> None:
    assert len({len(line) for line in table(RESULTS).splitlines()}) == 1


def test_what_was_not_measured_has_no_row() -> None:
    assert "event to answer" not in table(RESULTS)


def test_section_tells_the_command_first() -> None:
    assert section(RESULTS).startswith("- command: `make bench-watch`\n\n| part ")


def test_json_has_every_measurement() -> None:
    found = json.loads(as_json(RESULTS))
    assert [one["ready"] for one in found["startup"]] == [1.0, 3.0, 2.0, 4.0]
    assert found["latency"][0]["delay"]["p99"] == 0.003
    assert found["churn"][1]["load"]["rate"] == 5_000


def test_section_of_a_page_is_replaced() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    once = replace_section(page, "new\n")
    assert once == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
    assert replace_section(once, "new\n") == once


@pytest.mark.parametrize(
    "page",
    ["nothing", BEGIN, f"{END} {BEGIN}", f"{BEGIN} {END} {BEGIN} {END}"],
    ids=["no marker", "no end", "wrong order", "twice"],
)
def test_page_without_a_place(page: str) -> None:
    with pytest.raises(BenchmarkError, match="once each"):
        replace_section(page, "new")
