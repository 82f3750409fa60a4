"""What plugins answer, ask and log, as tests/plugins/dialogues writes it; tests/support/plugins/dialogue.py has the form."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.plugins.dialogue import cases, play

FOLDER = Path(__file__).with_name("dialogues")


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=f"{path.stem}: {title}")
        for path in sorted(FOLDER.glob("*.txt"))
        for title, case in cases(path)
    ],
)
def test_dialogue(case: str) -> None:
    played, written = play(case)
    assert played == written
