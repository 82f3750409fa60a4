from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hsdns.chain import Request
from hsdns.cluster.freshness import Dependencies, NoCounters
from hsdns.corefile.properties import compile_pattern
from hsdns.plugins.rewrite import Rewrite
from hsdns.rewriting.rule import Matcher, RewriteName, exact, prefix, regex, suffix
from hsdns.wire.edns import Edns
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


# --- CNAME ---


def test_a_cname_target_is_resolved_through_this_server() -> None:
    runtime, asked = FakeRuntime(), []

    def resolve(request: Request) -> Reply:
        asked.append(request)
        return reply(["new. 3 IN MX 1 x."], tc=True)

    runtime.resolver = resolve
    plugin = started("rewrite continue name a.b c.d\nrewrite cname old new", runtime)
    request = make_request("a.b.", "MX", edns=Edns(1232, do=True), depth=2)
    dependencies = Dependencies(NoCounters())
    below = next_with(reply(["c.d. 9 IN CNAME old.", "old. 9 IN MX 1 y."], aa=True))
    found = finish(plugin.handle(request.replace(dependencies=dependencies), below))
    assert found == reply(["a.b. 9 IN CNAME new.", "new. 3 IN MX 1 x."], aa=True, tc=True)
    assert [each.query.qname.to_text() for each in asked] == ["new."]
    assert (asked[0].query.qtype, asked[0].query.edns, asked[0].depth) == (
        15,
        Edns(1232, do=True),
        3,
    )
    assert not dependencies.is_cacheable


def test_a_reply_without_cname_is_cacheable() -> None:
    dependencies = Dependencies(NoCounters())
    request = make_request("a.b.").replace(dependencies=dependencies)
    finish(
        started("rewrite cname old new").handle(
            request, next_with(reply(["a.b. 1 IN A 192.0.2.1"]))
        )
    )
    assert dependencies.is_cacheable  # fmt: skip


# --- options ---


# --- zone transfers ---


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


# --- the answer table ---
