from __future__ import annotations

from array import array

import msgspec
import pytest

from hsdns.load.plan import (
    DOH,
    DOT,
    TCP,
    Plan,
    StreamPlan,
    authority,
    transport_words,
)
from hsdns.load.questions import Recorded
from hsdns.load.schedule import Portion, Schedule


def test_a_portion_of_what_was_recorded() -> None:
    times, numbers = array("q", [0, 5, 5, 10**12]), array("I", [1, 0, 0, 1])
    recorded = Recorded(times.tobytes(), numbers.tobytes())
    plan = Plan(2, ("127.0.0.1", 53), [b"", b""], [], Schedule((), "recorded"), 10**9, 4, True, recorded)  # fmt: skip
    second = msgspec.structs.replace(plan, portion=Portion(1, 2))
    assert (list(second.times()), list(second.order())) == ([5, 10**12], [0, 1])


@pytest.mark.parametrize(
    ("streams", "words", "is_encrypted"),
    [
        (None, "UDP", False),
        (StreamPlan(TCP), "TCP", False),
        (StreamPlan(DOT), "DNS over TLS", True),
        (StreamPlan(DOH), "DNS over HTTPS", True),
        (StreamPlan(for_truncated=True), "UDP (TCP for what is truncated)", False),
    ],
)
def test_words(streams: StreamPlan | None, words: str, is_encrypted: bool) -> None:
    assert transport_words(streams) == words
    assert (streams is not None and streams.is_encrypted) is is_encrypted


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
