from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.chain import Request
from hsdns.cluster.freshness import Dependencies, NoCounters
from hsdns.corefile.properties import compile_pattern
from hsdns.plugins.rewrite import Rewrite
from hsdns.rewriting.rule import Matcher, RewriteName, exact, prefix, regex, suffix
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import RR, Query, Reply
from hsdns.wire.name import Name
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import Answers, make_request, next_with, reply, section
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import set_up

REFUSED = Reply(rcode=Rcode.REFUSED)


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


LABELS = st.lists(st.binary(min_size=1, max_size=5), min_size=1, max_size=3)


@given(LABELS, st.sampled_from(["exact", "suffix", "prefix", "regex"]))
def test_a_reply_has_the_queried_name_again(labels: list[bytes], way: str) -> None:
    """With any octets in the name; the reply has them in lower case."""
    asked = Name.from_labels([*labels, b"from", b"test"])
    text = asked.lowered().to_text()
    ways: dict[str, Matcher] = {
        "exact": exact(text),
        "suffix": suffix(".from.test."),
        "prefix": prefix(text.partition(".from.test.")[0] + "."),
        "regex": regex(compile_pattern(r"^.*\.from\.test\.$")),
    }
    to = {"suffix": ".to.test.", "prefix": "to."}.get(way, "www.to.test.")
    plugin = Rewrite([RewriteName(ways[way], to, automatic=True)])
    query = Query.ask(asked, RRType.CNAME)
    seen: list[Name] = []

    async def below(request: Request) -> Reply:
        qname = request.query.qname
        seen.append(qname)
        return Reply(answer=(RR(qname, RRType.CNAME, 1, qname.wire),))

    found = finish(plugin.handle(make_request(".").replace(query=query), below))
    assert seen[0] != asked
    assert found.answer == (RR(asked.lowered(), RRType.CNAME, 1, asked.lower),)


@pytest.mark.parametrize(
    ("found", "is_cacheable"), [("a.b. 9 IN CNAME old.", False), ("a.b. 1 IN A 192.0.2.1", True)]
)
def test_a_reply_with_another_target_is_not_for_the_answer_table(
    found: str, is_cacheable: bool
) -> None:
    dependencies, runtime = Dependencies(NoCounters()), FakeRuntime()
    runtime.resolver = lambda request: Reply()
    request = make_request("a.b.").replace(dependencies=dependencies)
    finish(started("rewrite cname old new", runtime).handle(request, next_with(reply([found]))))
    assert dependencies.is_cacheable is is_cacheable


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
