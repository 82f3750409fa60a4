from __future__ import annotations

import pytest

from loadtest.generator.cli import LATEST, PARTS, parse
from loadtest.generator.measure import COMPILED, PYTHON


def test_all_parts_by_default() -> None:
    assert parse([]).parts == PARTS
    assert parse(["--parts", "knee,udp"]).parts == ("knee", "udp")


def test_a_part_that_there_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        parse(["--parts", "udp,tcp"])
    assert "'tcp' is none of udp, connections, knee" in capsys.readouterr().err


def test_the_limits_are_those_of_the_generator() -> None:
    assert LATEST == {(COMPILED, 100_000): 50.0, (PYTHON, 30_000): 50.0}
