"""Explanations of what a runtime's plugins answer: handlers that wait, and the watch of a cluster."""

from __future__ import annotations

import asyncio

import pytest

from hsdns.eager import Wait
from hsdns.explanation.question import read_question
from hsdns.explanation.report import Explanation
from hsdns.plugins.whoami import Whoami
from hsdns.server.explaining import make_explainer
from hsdns.server.runtime import Turn
from hsdns.wire.message import Reply
from tests.server.test_runtime import make_runtime
from tests.support.coroutines.event_loops import run


def explain(text: str) -> Explanation:
    async def case() -> Explanation:
        runtime = make_runtime(text)
        assert runtime.configuration is not None
        pause = Turn(runtime.clock).end_if_long
        explainer = make_explainer(runtime.configuration, runtime, asks=True, pause=pause)
        return await explainer.explain(*read_question("a.test"), 0.0)

    return run(case())


def test_a_handler_that_waits_for_a_callback(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it waits for is understood by eager.start() only."""

    async def handle(self: object, request: object, following: object) -> Reply:
        wait: Wait[Reply] = Wait()
        asyncio.get_running_loop().call_soon(wait.succeed, Reply())
        return await wait

    monkeypatch.setattr(Whoami, "handle", handle)
    assert explain(".:5301 {\nwhoami\n}\n").rcode == "NOERROR"


def test_a_query_that_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    async def handle(self: object, request: object, following: object) -> Reply:
        wait: Wait[Reply] = Wait()
        asyncio.get_running_loop().call_soon(wait.fail, asyncio.CancelledError())
        return await wait

    monkeypatch.setattr(Whoami, "handle", handle)
    assert explain(".:5301 {\nwhoami\n}\n").rcode == "SERVFAIL"
