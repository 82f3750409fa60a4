from __future__ import annotations

import asyncio

import pytest

from hsdns.chain import Request
from hsdns.plugins import ORDER
from hsdns.plugins.cancel import Cancel
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Reply, unwritten
from tests.support.plugins.requests import make_request, next_with, reply
from tests.support.plugins.setup import set_up

BELOW = reply(["below. 1 IN A 192.0.2.1"])


class Slow:
    """A `next` that waits until it is stopped, and knows that it was."""

    def __init__(self) -> None:
        self.is_stopped = False

    async def __call__(self, request: Request) -> Reply:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.is_stopped = True
            raise
        return BELOW


def test_an_answer_in_time_is_passed_on() -> None:
    assert asyncio.run(Cancel(5.0).handle(make_request("x."), next_with(BELOW))) is BELOW


def test_who_waits_is_stopped() -> None:
    slow = Slow()
    found = asyncio.run(set_up(Cancel, "cancel 1ms").handle(make_request("x."), slow))
    assert found == unwritten(Rcode.SERVFAIL, "plugin/cancel: no answer within 1ms")
    assert slow.is_stopped


def test_a_timeout_of_a_handler_is_its_own() -> None:
    async def raises(request: Request) -> Reply:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        asyncio.run(Cancel(5.0).handle(make_request("x."), raises))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("cancel", 5.001), ("cancel 1s", 1.0), ("cancel 1m30s", 90.0), ("cancel 250ms", 0.25)],
)
def test_time(text: str, seconds: float) -> None:
    assert set_up(Cancel, text).seconds == pytest.approx(seconds)


def test_it_waits_and_block_keeps_its_answer_table() -> None:
    assert Cancel.waits
    assert Cancel.cacheable


def test_what_it_answers_is_seen_by_those_who_log_and_count() -> None:
    assert all(
        ORDER.index(name) < ORDER.index("cancel") for name in ("prometheus", "errors", "log")
    )
