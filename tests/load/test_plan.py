from __future__ import annotations

from array import array
from itertools import islice

import msgspec
import pytest

from hsdns.load.plan import (
    DOH,
    DOT,
    TCP,
    Plan,
    StreamPlan,
    authority,
    read_plan,
    transport_words,
    write_plan,
)
from hsdns.load.questions import Recorded
from hsdns.load.schedule import POISSON, Schedule, Stage


def test_as_it_was_written() -> None:
    plan = Plan(
        2,
        ("127.0.0.1", 53),
        [b"\0\1"],
        [0.5],
        Schedule((Stage(1.0, 2.0, 3.0),), POISSON, 1, 7),
        10**9,
        4,
        True,
    )
    assert read_plan(write_plan(plan)) == plan
    assert list(plan.times()) == list(plan.schedule.times())
    assert list(islice(plan.order(), 3)) == [0, 0, 0]


def test_what_is_recorded() -> None:
    times, numbers = [0, 5, 5, 10**12], [1, 0, 0, 1]
    recorded = Recorded(array("q", times).tobytes(), array("I", numbers).tobytes())
    plan = Plan(
        2, ("127.0.0.1", 53), [b"", b""], [], Schedule((), "recorded"), 10**9, 4, True, recorded
    )
    for each in (plan, read_plan(write_plan(plan))):
        assert (list(each.times()), list(each.order())) == (times, numbers)
    assert msgspec.structs.replace(plan, recorded=None) != plan


def test_a_portion_of_it() -> None:
    plan = Plan(
        2, ("127.0.0.1", 53), [b"", b"", b""], [], Schedule((Stage(1.0, 6, 6),)), 10**9, 4, True
    )
    second = msgspec.structs.replace(plan, portion=(1, 2))
    assert list(second.times()) == list(plan.times())[1::2]
    assert list(islice(second.order(), 3)) == [1, 0, 2]
    assert read_plan(write_plan(second)) == second


@pytest.mark.parametrize(
    ("streams", "words", "is_encrypted"),
    [
        (StreamPlan(TCP), "TCP", False),
        (StreamPlan(DOT), "DNS over TLS", True),
        (StreamPlan(DOH), "DNS over HTTPS", True),
        (StreamPlan(for_truncated=True), "UDP (TCP for what is truncated)", False),
    ],
)
def test_words(streams: StreamPlan, words: str, is_encrypted: bool) -> None:
    assert (transport_words(streams), streams.is_encrypted) == (words, is_encrypted)


def test_udp() -> None:
    assert transport_words(None) == "UDP"


@pytest.mark.parametrize(
    ("host", "port", "text"),
    [
        ("dns.test", 443, "dns.test"),
        ("127.0.0.1", 8443, "127.0.0.1:8443"),
        ("::1", 443, "[::1]"),
        ("::1", 8443, "[::1]:8443"),
    ],
)
def test_authority(host: str, port: int, text: str) -> None:
    assert authority(host, port) == text
