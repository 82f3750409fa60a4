from __future__ import annotations

from typing import Any

from hsdns.plugins.rewrite import Rewrite
from hsdns.wire.message import Reply
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import Answers, make_request, next_with, reply, section
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import set_up


def started(text: str, runtime: FakeRuntime | None = None) -> Rewrite:
    plugin = set_up(Rewrite, text)
    finish(plugin.start(runtime or FakeRuntime()))
    return plugin


def ask(
    text: str, below: Answers | Reply, qname: str = "a.b.", *args: Any, **options: Any
) -> Reply:
    answers = below if isinstance(below, Answers) else next_with(below)
    return finish(started(text).handle(make_request(qname, *args, **options), answers))


def test_a_fresh_reply_stays_fresh() -> None:
    below = reply(["c.d. 1 IN A 192.0.2.1"], fresh=True, still_holds=lambda: True)
    found = ask("rewrite name a.b c.d", below)
    assert found.fresh
    assert found.still_holds is below.still_holds


def test_later_messages_of_a_transfer() -> None:
    following = iter([reply(["x.c.d. 1 IN A 192.0.2.1"]).answer, reply(["c.d. 1 IN NS x."]).answer])
    below = reply(["c.d. 1 IN NS x."], following=following)
    found = ask("rewrite name a.b c.d", below, "a.b.", "AXFR")
    assert section(found.answer) == ["a.b. 1 IN NS x."]
    assert found.following is not None
    assert [section(each) for each in found.following] == [
        ["x.a.b. 1 IN A 192.0.2.1"],
        ["a.b. 1 IN NS x."],
    ]
