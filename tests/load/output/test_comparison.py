import msgspec

from hsdns.load.output.words import comparison, differences, shown, shown_together
from tests.load.test_report import report, results

BOTH = report(results(), frozen=results(lost=2, stale=True))


def test_figures_of_servers() -> None:
    rows = {row.label: row.cells for row in comparison(shown(BOTH))}
    assert rows["answered"] == ["200", "198"]
    assert rows["lost"] == ["0", "2 (1.000%)"]
    assert rows["latency p99.9"] == ["1.00 ms", "lost"]
    assert (rows["stale"], rows["stale by at most"]) == (["0", "10"], ["-", "1.00 s"])
    assert "wrong" not in rows
    assert "not whole" not in rows


def test_without_a_judge() -> None:
    rows = {row.label for row in comparison(shown(report(results(), slack=None)))}
    assert not rows & {"right", "stale by p50", "changes"}


def test_names_of_several_runs() -> None:
    runs = [("a", BOTH), ("b", report(results(), other=results()))]
    assert [each.name for each in shown_together(runs)] == [
        "a: 127.0.0.1 port 53",
        "frozen",
        "b: 127.0.0.1 port 53",
        "other",
    ]


def test_in_what_runs_differ() -> None:
    plan = msgspec.structs.replace(BOTH.plan, seed=8, churn=20.0)
    runs = [("a", BOTH), ("b", msgspec.structs.replace(report(results()), plan=plan))]
    found = differences(shown_together(runs))
    assert found == [
        "the runs differ in seed: a: 127.0.0.1 port 53: 7; frozen: 7; b: 127.0.0.1 port 53: 8",
        "the runs differ in changes a second: a: 127.0.0.1 port 53: 10; frozen: 10; b: 127.0.0.1 port 53: 20",
    ]
    assert differences(shown(BOTH)) == []
