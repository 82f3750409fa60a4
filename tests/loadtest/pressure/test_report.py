import pytest

from loadtest.answering.programs import COREDNS, NATIVE
from loadtest.figures import Spread
from loadtest.pressure.clients import Counts
from loadtest.pressure.goals import judge
from loadtest.pressure.probes import Probed
from loadtest.pressure.report import BEGIN, END, outcome_rows, replaced, section, text, turned
from loadtest.pressure.results import Honest, Outcome
from loadtest.pressure.rows import BY_KEY
from loadtest.process import BenchmarkError

QUIET, PRESSED = (
    Counts(100, 100, 100, p99_us=500, all_p99_us=500),
    Counts(100, 100, 90, failed=1, p99_us=2_500, worst_us=9_000, all_p99_us=1e6),
)
OURS = Outcome(
    "existing",
    NATIVE,
    Counts(2000, 1000, 960, 10),
    Honest(QUIET, PRESSED),
    Honest(QUIET, QUIET),
    health=Probed(20, 19),
    tcp=Probed(10, 10),
    doh=Probed(10, 9),
    events=Spread.of([0.001] * 99 + [0.025]),
    judged={"right": 90, "stale": 10},
    cpu=3.21,
    memory_before=80_000_000,
    memory_after=95_000_000,
    memory_peak=101_000_000,
    late=0.0007,
)
ENDED = Outcome("existing", COREDNS, Counts(0, 0, 0), ended="CoreDNS ended with status 2:\nfatal")
ROW = BY_KEY["existing"]


def test_row() -> None:
    assert outcome_rows([OURS])[1] == [
        "hsdns, compiled",
        "95%",
        "0.5 → 1,000 (89%)",
        "0.5 → 0.5",
        "",
        "0.7",
        "1.0",
        "1.0",
        "25.0",
        "95%",
        "100%",
        "",
        "90%",
        "3.2",
        "101",
        "50% of the rate was reached; 10 of 100 answers stale; memory +15 MB",
    ]


def test_a_quiet_phase_that_was_not_quiet() -> None:
    busy = OURS._replace(cluster=Honest(QUIET._replace(all_p99_us=6_000), PRESSED))
    assert "the machine was busy before" in outcome_rows([busy])[1][-1]


def test_a_server_that_ended_says_so() -> None:
    assert outcome_rows([ENDED])[1] == ["CoreDNS", *[""] * 14, "CoreDNS ended with status 2: fatal"]


def test_the_page_has_the_tables_and_the_limits_that_fail() -> None:
    verdicts = judge([OURS, ENDED], ["existing"], [NATIVE, COREDNS])
    found = section({"command": "`make bench-pressure`"}, [ROW], [OURS, ENDED], verdicts)
    assert found.startswith("- command: `make bench-pressure`\n\n### Limits\n\n")
    assert "4 of 6 limits hold." in found
    assert (
        "| existing | stale or wrong answers | hsdns, compiled | 10 | at most | 0 | FAILS |"
        in found
    )
    assert "event p99, ms |" not in found
    assert "### existing\n\n20,000 random names a second below an existing Service.\n\n" in found


def test_on_the_page_servers_are_columns_and_empty_lines_are_left_out() -> None:
    assert turned([["server", "a", "b", "c"], ["x", "1", "", ""], ["y", "", "", "2"]]) == [
        ["server", "x", "y"],
        ["a", "1", ""],
        ["c", "", "2"],
    ]


def test_the_terminal_has_all_limits() -> None:
    verdicts = judge([OURS], ["existing"], [NATIVE])
    found = text([ROW], [OURS], verdicts)
    assert (
        found.splitlines()[0] == "existing: 20,000 random names a second below an existing Service"
    )
    assert found.count("holds") == 4


def test_replaced() -> None:
    assert replaced(f"a\n{BEGIN}\nold\n{END}\nz\n", "new") == f"a\n{BEGIN}\n\nnew\n\n{END}\nz\n"


@pytest.mark.parametrize("page", ["", f"{END}{BEGIN}", f"{BEGIN}{BEGIN}{END}"])
def test_a_page_without_its_marks(page: str) -> None:
    with pytest.raises(BenchmarkError, match="once each, in this order"):
        replaced(page, "new")
