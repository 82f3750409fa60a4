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
from hsdns.wire.edns import ECHOED, Edns
from hsdns.wire.encode import encode
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import RR, Query, Reply, unwritten
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


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        pytest.param("rewrite name a.b c.d", "c.d. A", id="one"),
        pytest.param("rewrite name a.b c.d\nrewrite name c.d e.f", "c.d. A", id="stops"),
        pytest.param("rewrite name x.b c.d\nrewrite name a.b e.f", "e.f. A", id="first-match"),
        pytest.param(
            "rewrite continue name a.b c.d\nrewrite stop name c.d e.f\nrewrite name e.f g.h",
            "e.f. A",
            id="continues",
        ),
        pytest.param("rewrite continue type A MX\nrewrite type MX TXT", "a.b. TXT", id="type"),
        pytest.param("rewrite {\nname exact\na.b c.d\n}", "c.d. A", id="body"),
        pytest.param("rewrite stop {\nname a.b c.d\n}", "c.d. A", id="body-after-a-word"),
        pytest.param("rewrite cname x y\nrewrite name a.b c.d", "a.b. A", id="cname-rule-stops"),
    ],
)
def test_rewritten_query(text: str, asked: str) -> None:
    below = next_with(reply(aa=True))
    ask(text, below)
    query = below.requests[0].query
    expected = make_request(*asked.split()).query
    assert (query.qname, query.qtype, query.question_wire) == (
        expected.qname,
        expected.qtype,
        expected.question_wire,
    )


def test_a_query_that_no_rule_matches_is_unchanged() -> None:
    below = next_with(REFUSED)
    request = make_request("a.b.")
    assert finish(started("rewrite name x y").handle(request, below)) is REFUSED
    assert below.requests == [request]


def test_replies_are_rewritten_in_reverse_order() -> None:
    text = "rewrite continue name a.b c.d\nrewrite continue name c.d e.f\nrewrite ttl e.f 7"
    below = reply(
        ["e.f. 1 IN A 192.0.2.1"], ["f. 1 IN NS e.f."], ["x.e.f. 1 IN A 192.0.2.2"], aa=True
    )
    expected = reply(
        ["a.b. 7 IN A 192.0.2.1"], ["f. 7 IN NS a.b."], ["x.a.b. 7 IN A 192.0.2.2"], aa=True
    )
    assert ask(text, below) == expected  # fmt: skip


@pytest.mark.parametrize(
    ("text", "below", "expected"),
    [
        pytest.param(
            "rewrite rcode a.b SERVFAIL NXDOMAIN",
            unwritten(Rcode.SERVFAIL, "no"),
            Reply(rcode=Rcode.NXDOMAIN, error="no"),
            id="unwritten-is-written",
        ),
        pytest.param(
            "rewrite type A AAAA",
            unwritten(Rcode.REFUSED),
            Reply(rcode=Rcode.REFUSED),
            id="unwritten-after-stop",
        ),
        pytest.param(
            "rewrite continue type A AAAA",
            unwritten(Rcode.REFUSED),
            unwritten(Rcode.REFUSED),
            id="unwritten-without-reply-rules",
        ),
        pytest.param(
            "rewrite rcode a.b NOERROR REFUSED",
            Reply(dropped=True),
            Reply(dropped=True),
            id="dropped",
        ),
        pytest.param(
            "rewrite name regex ^(.*)\\.b\\.$ {1}..b",
            REFUSED,
            unwritten(Rcode.SERVFAIL, "invalid name after rewrite: a..b."),
            id="no-name",
        ),
        pytest.param(
            "rewrite name regex a c answer name ^c .",
            reply(["c. 1 IN A 192.0.2.1"]),
            reply([". 1 IN A 192.0.2.1"]),
            id="root",
        ),
        pytest.param(
            "rewrite name regex a c answer name ^c ..",
            reply(["c. 1 IN A 192.0.2.1"]),
            unwritten(Rcode.SERVFAIL, "invalid name after rewrite: .."),
            id="invalid-name-in-the-reply",
        ),
    ],
)
def test_replies(text: str, below: Reply, expected: Reply) -> None:
    assert ask(text, below) == expected


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


def test_a_cname_that_cannot_be_resolved_is_unchanged() -> None:
    runtime = FakeRuntime()
    runtime.resolver = lambda request: Reply(dropped=True)
    below = reply(["a.b. 9 IN CNAME old."])
    plugin = started("rewrite cname old new", runtime)
    assert finish(plugin.handle(make_request("a.b."), next_with(below))) == below


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


@pytest.mark.parametrize(
    ("text", "asked", "below", "shown"),
    [
        pytest.param(
            "rewrite edns0 local set 0xffee abcd",
            None,
            Edns(4096, options=((0xFFEE, b"abcd"),)),
            ((0xFFEE, b"abcd"),),
            id="added",
        ),
        pytest.param(
            "rewrite edns0 local set 0xffee abcd revert",
            Edns(1400, do=True, options=((8, b"x"),)),
            Edns(1400, do=True, options=((8, b"x"), (0xFFEE, b"abcd"))),
            ((8, b"x"),),
            id="reverted",
        ),
        pytest.param(
            "rewrite edns0 local replace 0xffee abcd",
            Edns(1400, options=((0xFFEE, b"x"), (3, b""))),
            Edns(1400, options=((0xFFEE, b"abcd"), (3, b""))),
            ((0xFFEE, b"abcd"), (3, b"")),
            id="replaced",
        ),
    ],
)
def test_options(text: str, asked: Edns | None, below: Edns, shown: Any) -> None:
    answers = next_with(REFUSED)
    found = ask(text, answers, edns=asked)
    seen = answers.requests[0].query.edns
    assert seen is not None
    assert (seen.payload_size, seen.do, seen.options) == (
        below.payload_size,
        below.do,
        below.options,
    )
    assert seen.echoed == ECHOED | {0xFFEE}
    assert found.edns is not None
    assert (found.edns.payload_size, found.edns.options) == (below.payload_size, shown)
    assert found.replace(edns=None) == REFUSED  # fmt: skip


def test_options_on_the_wire() -> None:
    request = make_request("a.b.", edns=Edns(1400, options=((8, b"x"), (10, b"12345678"))))
    plugin = started("rewrite edns0 local set 0xffee ab")
    found = finish(plugin.handle(request, next_with(REFUSED)))
    assert encode(request.query, found, 512).endswith(
        bytes.fromhex("00 0029 0578 00000000 0012 000a 0008 3132333435363738 ffee 0002 6162")
    )
    bare = make_request("a.b.")
    found = finish(plugin.handle(bare, next_with(unwritten(Rcode.SERVFAIL))))
    assert encode(bare.query, found, 512).endswith(
        bytes.fromhex("00 0029 1000 00000000 0006 ffee 0002 6162")
    )


def test_options_of_a_rule_are_echoed_even_if_it_does_not_apply() -> None:
    text = "rewrite name a.b c.d\nrewrite edns0 local set 0xffee ab"
    found = ask(text, REFUSED, edns=Edns(1400, options=((0xFFEE, b"x"), (0xFFED, b"y"))))
    assert found.edns is not None
    assert found.edns.echoed_options() == bytes.fromhex("ffee 0001 78")


def test_no_opt_record_without_an_edns0_rule() -> None:
    assert ask("rewrite name a.b c.d", REFUSED, edns=Edns(1400)).edns is None


def test_options_of_an_upstream_are_reverted() -> None:
    below = REFUSED.replace(edns_options=((0xFFEE, b"abcd"), (3, b"")))
    found = ask("rewrite edns0 local set 0xffee abcd revert", below, edns=Edns(1400))
    assert found.edns_options == ((3, b""),)


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


@pytest.mark.parametrize(
    ("text", "cacheable", "names"),
    [
        ("rewrite name a.x b", True, ("a.x.",)),
        ("rewrite name a.y b", True, ()),
        ("rewrite name a.x b\nrewrite ttl suffix .b.x 5", True, ("a.x.", "b.x.")),
        ("rewrite name a.x b\nrewrite name regex a b", True, None),
        ("rewrite cname a b\nrewrite type ANY A\nrewrite class CH IN", True, ()),
        ("rewrite edns0 nsid unset", False, None),
    ],
)
def test_cacheable_and_names_answered_first(
    text: str, cacheable: bool, names: tuple[str, ...] | None
) -> None:
    plugin = set_up(Rewrite, text)
    assert plugin.cacheable is cacheable
    found = plugin.names_answered_first(Name.from_text("x."))
    assert found == (None if names is None else tuple(Name.from_text(each) for each in names))
