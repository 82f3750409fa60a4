"""What is kept of what changes have replaced, and for how long."""

from __future__ import annotations

import pytest

from hsdns.cluster.replaced import Need, Replaced


def replaced(*needs: Need) -> Replaced:
    made = Replaced()
    made.open()
    made.keep(made, needs)
    return made


def change(found: Replaced, *times: float, key: str = "web") -> None:
    """Changes of a key at some times; its value before each is the time of the one before."""
    before = "none"
    for time in times:
        found.clock = lambda time=time: time  # type: ignore[misc]
        found.begin()
        found.note("services", key, before)
        before = f"of {time:g}"


TIMES = (1.0, 2.0, 3.0, 4.0, 5.0)
VALUES = {
    0.5: "none",
    1.0: "of 1",
    1.5: "of 1",
    2.0: "of 2",
    2.5: "of 2",
    4.999: "of 4",
    5.0: "newest",
}


def test_several_needs() -> None:
    found = replaced(Need(0.5))
    change(found, *TIMES)
    other = object()
    found.keep(other, [Need(5.5)])
    change(found, 6.0, 7.0)
    assert [found.at("services", "web", each, "newest") for each in (0.5, 5.5)] == ["none"] * 2
    assert len(found) == 2
    found.keep(found, ())
    change(found, 8.0, key="db")
    assert (len(found), found.at("services", "web", 5.5, "newest")) == (2, "none")
    found.keep(other, ())
    assert (len(found), found.is_kept) == (0, False)


@pytest.mark.parametrize(
    ("time", "first"), [(0.0, 1.0), (1.0, 2.0), (4.5, 5.0), (5.0, None), (9.0, None)]
)
def test_first_after(time: float, first: float | None) -> None:
    found = replaced(Need(0.0, 100.0))
    change(found, *TIMES)
    assert found.first_after(time) == first
