"""Generators that meet: what the coordinator decides, how well clocks are known, and meetings on loopback."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hsdns.load.errors import LoadError
from hsdns.load.generators import meeting
from hsdns.load.generators.barrier import LEAD, Asked, Barrier, Clock, Told, digest
from hsdns.load.generators.meeting import Coordinator, Meeting, Place
from hsdns.load.schedule import SECOND, Portion
from tests.support.effort import tries
from tests.support.tables import columns

TABLES = Path(__file__).with_name("meetings.txt")
PLANS = {"+": {"rate": 5, "seed": 7}, "+B": {"rate": 5, "seed": 8}}


@pytest.mark.parametrize(("events", "expected"), columns(TABLES, "meetings"))
def test_what_the_coordinator_tells(events: str, expected: str) -> None:
    barrier, now, told = Barrier(3, 0), 0, Told(0)
    for word in events.split():
        part, parts, what = re.fullmatch(r"(\d+)(?:/(\d))?(\D*)", word).groups()  # type: ignore[union-attr] # all match
        if what == "s":
            now += int(part) * SECOND
        elif what == "x":
            barrier.left(part)
        else:
            failed = "no names" if what == "!" else ""
            asked = Asked(int(part), int(parts or 3), PLANS.get(what), failed)
            told = barrier.answer(asked, word.rstrip("+B!"), now)
    begin = f"begins at {told.begin // SECOND} s" if told.begin else ""
    assert (told.failed or begin or told.awaited) == expected


@settings(max_examples=tries(3))
@given(st.randoms(use_true_random=False))
def test_a_hundred_begin_within_what_is_known_of_their_clocks(random: Random) -> None:
    """Each has a clock of its own, and each question and answer a way of its own."""
    barrier, now, told = Barrier(100, 0), 0, Told(0)
    ahead = [random.randint(-(1 << 60), 1 << 60) for _ in range(100)]
    clocks = [Clock() for _ in ahead]
    plans: list[dict[str, Any] | None] = [None, {}, {}]
    for plan in plans:
        for part, clock in enumerate(clocks):
            there, back = (random.randint(0, 10 ** random.randint(3, 10)) for _ in range(2))
            told = barrier.answer(Asked(part, 100, plan), part, now)
            received = now + back + ahead[part]
            clock.add(now - there + ahead[part], told, received)
            now += random.randint(0, SECOND // 100)
    assert told.begin >= LEAD
    for part, clock in enumerate(clocks):
        known = clock.report(f"{part}/100")
        assert abs(clock.ahead - ahead[part]) <= known.within_us * 1000
        assert abs(known.ahead_us * 1000 - clock.ahead) <= 512


def test_a_digest_depends_on_each_value_and_not_on_their_order() -> None:
    assert digest({"a": 1, "b": [b"x"]}) == digest({"b": [b"x"], "a": 1})
    assert digest({"a": 1, "b": [b"x"]}) != digest({"a": 1, "b": [b"y"]})


def meet(count: int, ready: Callable[[int], None]) -> tuple[list[str], list[Meeting]]:
    """Let generators meet in threads; what each has raised, and those that know the begin."""
    raised, found = [""] * count, []

    def live(part: int, place: Place) -> None:
        try:
            with Meeting(Portion(part, count), lambda: place, print, lambda: None) as known:
                ready(part)
                known.begin({})
                found.append(known)
        except LoadError as error:
            raised[part] = str(error)

    with Coordinator(("127.0.0.1", 0), count) as coordinator:
        threads = [threading.Thread(target=live, args=(part, coordinator.place)) for part in range(count)]  # fmt: skip
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    return raised, found


@pytest.mark.sockets
@pytest.mark.slow
def test_a_hundred_on_loopback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They have one clock, so what each takes for the difference is how far off it is."""
    monkeypatch.setattr(meeting, "BETWEEN", 0.0)
    raised, found = meet(100, lambda part: None)
    assert (set(raised), len(found)) == ({""}, 100)
    assert len({each.start for each in found}) == 1
    begins = [(each._clock.ahead, 1000 * each.clock().within_us) for each in found]
    assert all(abs(ahead) <= within for ahead, within in begins)
    assert "is ready; waiting for part " in capsys.readouterr().out


@pytest.mark.sockets
def test_a_failure_is_that_of_all() -> None:
    def ready(part: int) -> None:
        if part == 1:
            raise LoadError("no names")

    assert meet(3, ready) == (["part 1/3 has failed: no names", "no names", "part 1/3 has failed: no names"], [])  # fmt: skip


@pytest.mark.sockets
def test_who_still_prepares_is_interrupted() -> None:
    interrupted = threading.Event()
    coordinator = Coordinator(("127.0.0.1", 0), 2)

    def live() -> None:
        with Meeting(Portion(1, 2), lambda: coordinator.place, print, interrupted.set):
            coordinator.barrier.answer(Asked(0, 2), "", 0)
            coordinator.barrier.left("")
            interrupted.wait()
            raise KeyboardInterrupt

    with pytest.raises(LoadError, match=r"^part 0/2 has ended before the load began; "):
        live()
    coordinator.__exit__()
    with pytest.raises(LoadError, match=r"^--coordinate: part 0 cannot listen on 192.0.2.1 port 1: "):  # fmt: skip
        Coordinator(("192.0.2.1", 1), 2)
