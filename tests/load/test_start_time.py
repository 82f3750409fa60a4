import pytest

from hsdns.load.errors import LoadError
from hsdns.load.schedule import read_start

NOON = 1_767_268_800.0  # 2026-01-01T12:00:00Z


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("2026-01-01T12:00:00Z", NOON),
        ("2026-01-01T12:00:01.5+00:00", NOON + 1.5),
        ("2026-01-01T13:00:10+01:00", NOON + 10),
        ("+0s", NOON),
        ("+90s", NOON + 90),
        ("+1m30s", NOON + 90),
    ],
)
def test_start(text: str, start: float) -> None:
    assert read_start(text, NOON) == start


def test_from_the_start_of_a_job() -> None:
    assert read_start("+60s", NOON + 20, origin=NOON) == NOON + 60
    with pytest.raises(LoadError) as error:
        read_start("+10s", NOON + 20.25, origin=NOON)
    assert str(error.value) == (
        "-start-at +10s: that was at 2026-01-01T12:00:10Z, 10.2 s ago; "
        "give a later time, the same to all generators"
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("+soon", '-start-at: "soon" in "+soon" is no time; write one such as +30s'),
        ("noon", '-start-at: "noon" is no time with a zone; write one such as 2026-01-31T12:00:00Z, or +30s'),
        ("2026-01-01T12:00:00", '-start-at: "2026-01-01T12:00:00" is no time with a zone; write one such as 2026-01-31T12:00:00Z, or +30s'),
        ("2026-01-01T11:59:59Z", "-start-at 2026-01-01T11:59:59Z: that was at 2026-01-01T11:59:59Z, 1.0 s ago; give a later time, the same to all generators"),
        ("2026-01-03T12:00:00Z", "-start-at 2026-01-03T12:00:00Z: that is at 2026-01-03T12:00:00Z, more than a day from now"),
    ],
)  # fmt: skip
def test_bad_starts(text: str, sentence: str) -> None:
    with pytest.raises(LoadError) as error:
        read_start(text, NOON)
    assert str(error.value) == sentence
