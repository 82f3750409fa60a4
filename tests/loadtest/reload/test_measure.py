from __future__ import annotations

import pytest

from hsdns.assemble import assemble
from hsdns.corefile.parser import parse
from hsdns.plugins import ORDER
from loadtest.reload.measure import COREFILE, Outcome, reconnections

GOOD = Outcome(78_000, 0, 0, 0, 0, "[ERROR] Restart failed: Corefile:2:5: ...\n")


@pytest.mark.parametrize(
    ("found", "is_good"),
    [
        pytest.param(GOOD, True, id="good"),
        pytest.param(GOOD._replace(lost=1), False, id="lost"),
        pytest.param(GOOD._replace(resets=1), False, id="reset"),
        pytest.param(GOOD._replace(refused_probes=1), False, id="probe"),
        pytest.param(GOOD._replace(status=1), False, id="status"),
        pytest.param(GOOD._replace(sent=0), False, id="nothing-asked"),
        pytest.param(GOOD._replace(log=""), False, id="broken-file-taken"),
        pytest.param(GOOD._replace(log=GOOD.log * 2), False, id="another-failure"),
    ],
)
def test_outcome(found: Outcome, is_good: bool) -> None:
    assert found.is_good is is_good


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("  Reconnections:        0\n", 0),
        ("  Reconnections:        6\n", 6),
        ("Warning: socket: Connection reset by peer\n  Reconnections: 1\n", 2),
        ("Queries lost: 0\n", 0),
    ],
)
def test_reconnections(text: str, count: int) -> None:
    assert reconnections(text) == count


def test_corefile_is_one() -> None:
    text = COREFILE.format(
        port=1, upstream=2, health=3, ready=4, demo="hsdns/demo", turn=5, lameduck=6
    )
    corefile = parse("Corefile", text=text, environ={}, known_directives=ORDER)
    assert len(assemble(corefile, validating=True, warn=pytest.fail).listeners) == 2
