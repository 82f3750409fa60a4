from __future__ import annotations

from pathlib import Path
from typing import Any

from loadtest.pressure.clients import Counts, OverTcp, Tools, read_counts
from loadtest.pressure.corefile import Ports
from loadtest.steady import counts_of, load_words, write_names
from tests.load.cli.test_settings import settings

REPORT: dict[str, Any] = {
    "servers": [
        {
            "counts": {"due": 10, "sent": 9, "answered": 7, "rcodes": {"NOERROR": 4, "SERVFAIL": 2, "REFUSED": 1}},
            "latency": [{"name": "p50", "us": 80}, {"name": "p99", "us": None}, {"name": "max", "us": 900}],
        }
    ]
}  # fmt: skip


def test_the_counts_of_a_report() -> None:
    assert Counts(**counts_of(REPORT)) == Counts(10, 9, 7, 3, 80, 0, 900)  # type: ignore[arg-type] # whole ones


def test_a_report_in_place_of_counts() -> None:
    assert read_counts('{"servers": [%s]}' % str(REPORT["servers"][0]).replace("'", '"').replace("None", "null")).answered == 7  # fmt: skip # noqa: UP031 - braces


def test_the_words_are_those_of_the_command(tmp_path: Path) -> None:
    names = write_names(tmp_path / "names", ["a.example", "b.example"])
    assert names.read_text() == "a.example A\nb.example A\n"
    words = load_words(5300, names, 2.5, 7200)
    found = settings(words[words.index("load") + 1 :])
    assert (found.schedule.seconds, found.schedule.fastest) == (7200.0, 2.5)
    assert found.flags.keep_going


def test_over_tcp_no_name_is_asked_for_twice(tmp_path: Path) -> None:
    tools = Tools(Path("asker"), Path("up"), tmp_path, "")
    presser = OverTcp("large.example", 20)
    found = []
    for _ in range(2):
        words = presser.words(tools, Ports(1, 2, 3, 4, 5, 6, 7), 1.5)
        load = settings(words[words.index("load") + 1 :])
        assert load.streams is not None
        assert load.streams.connections == 1
        found += (tmp_path / "over-tcp.names").read_text().splitlines()
    assert len(set(found)) == 60
    assert all(line.endswith(".large.example A") for line in found)
