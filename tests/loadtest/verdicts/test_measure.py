"""What the report of a run under changes, and of a freeze, has to say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from loadtest.verdicts.measure import BAD, MEMORY, Ran, Told, judge, judge_freeze, load_words
from tests.load.cli.test_settings import settings

STARTED = 1_767_268_800.0  # 2026-01-01T12:00:00Z


def report(ended: str = "", since: float | None = None, **counts: int) -> dict[str, Any]:
    reasons = {word: counts.pop(word) for word in ("behind", "forgotten") if word in counts}
    verdicts = {
        "counts": {word: counts.get(word, 0) for word in ("right", *BAD, "undecided")},
        "undecided": reasons,
        "changes": 50,
        "stale_age": [{"name": "max", "us": 1_500_000}],
        "old_since_s": since,
        "old_for_s": 1.5,
    }
    return {"started": "2026-01-01T12:00:00.000Z", "servers": [{"ended": ended, "verdicts": verdicts}]}  # fmt: skip


@pytest.mark.parametrize(
    ("found", "memory", "broken"),
    [
        (report(right=999, undecided=1, behind=1), 5 << 20, None),
        (report(right=990), 0, "990 answers were judged, of 1,000"),
        (report("interrupted", right=1000), 0, "1,000 answers were judged, of 1,000"),
        (report(right=999, stale=1), 0, "1 stale, 0 early, 0 missing, 0 extra, 0 wrong; under 50 changes"),
        (report(right=980, undecided=20, behind=20), 0, "20 undecided (behind 20), 2.0000% of all, at most 1%"),
        (report(right=999, undecided=1, forgotten=1), 0, "1 answers were excused (forgotten, away, unknown, truncated)"),
        (report(right=1000), MEMORY + (1 << 20), "the generator had up to 1025 MiB, at most 1024"),
    ],
)  # fmt: skip
def test_a_run_under_changes(found: dict[str, Any], memory: int, broken: str | None) -> None:
    checked = judge(Ran(found, memory), 1000)
    assert [each.said for each in checked if not each.holds] == ([broken] if broken else [])
    assert all(each.line().startswith("holds: ") for each in checked if each.holds)


@pytest.mark.parametrize(
    ("since", "told", "error"),
    [
        (10.0, (9.999, 10.002), "0.0"),
        (10.007, (9.999, 10.002), "5.0"),
        (9.99, (9.999, 10.002), "9.0"),
    ],
)
def test_a_freeze_is_found_within_5_ms(since: float, told: tuple[float, float], error: str) -> None:
    frozen = Told(*(STARTED + each for each in told))
    found, others = judge_freeze(Ran(report(since=since, stale=7), 0, (1.0, 1.0), frozen))
    assert found.said.startswith(f"the freeze was found {error} ms from when the server was told")
    assert found.holds == (float(error) < 5.0 or error == "5.0")
    assert others.holds


@pytest.mark.parametrize(("since", "frozen"), [(None, Told(STARTED, STARTED)), (1.0, None)])
def test_a_freeze_that_was_not_found(since: float | None, frozen: Told | None) -> None:
    (found,) = judge_freeze(Ran(report(since=since), 0, (1.0, 1.0), frozen))
    assert found.line() == "DOES NOT HOLD: the freeze was not found"


def test_the_load_is_one() -> None:
    words = load_words(5300, 8001, Path("r.json"), 10, 5.0, 7, "2026-01-01T12:00:00+00:00")
    found = settings(words[words.index("load") + 1 :])
    assert (found.api, found.churn, found.flags.verify) == (("127.0.0.1", 8001), 7.0, True)
