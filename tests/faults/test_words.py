"""The text of rules: what it means, written again in one way, and what is wrong with it."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hsdns.faults.rules import RuleError
from hsdns.faults.words import ACTIONS, OPTIONS, SELECTORS, read_rule

RCODES = (
    "FORMERR, SERVFAIL, NXDOMAIN, NOTIMP, REFUSED, YXDOMAIN, YXRRSET, NXRRSET, NOTAUTH, NOTZONE"
)
SERVERS = ("dns://:53", "tls://:853")


def canonical(text: str) -> str:
    wanted = read_rule(text.split(), SERVERS)
    words = [wanted.action.text, wanted.selector.text]
    for name, value in (
        ("seed", wanted.seed),
        ("times", wanted.times),
        ("for", wanted.lifetime),
        ("named", wanted.name),
    ):
        words += [] if value is None else [f"{name} {value}"]
    return " ".join(filter(None, words))


ACTION_ROWS = [
    ("drop", "drop"),
    ("delay 200ms", "delay 200ms"),
    ("delay 0", "delay 0s"),
    ("delay normal 0.2s 50ms", "delay normal 200ms 50ms"),
    ("delay pareto 20ms 1.5", "delay pareto 20ms 1.5"),
    ("rcode servfail", "rcode SERVFAIL"),
    ("rcode RCODE12", "rcode RCODE12"),
    ("empty", "empty"),
    ("nodata", "nodata"),
    ("nxdomain", "nxdomain"),
    ("truncate", "truncate 0"),
    ("truncate 20", "truncate 20"),
    ("ttl 3600", "ttl 3600"),
    ("shuffle", "shuffle"),
    ("cut 1", "cut 1"),
    ("endpoints 2", "endpoints 2"),
    ("answer 192.0.2.1", "answer 192.0.2.1"),
    ("answer 2001:DB8::1", "answer 2001:db8::1"),
    ("answer api.shop.svc.cluster.local", "answer api.shop.svc.cluster.local."),
    ("freeze", "freeze"),
    ("lag 90s", "lag 1m30s"),
    ("flap 500ms", "flap 500ms"),
    ("watch away", "watch away"),
    ("watch forbidden endpointslices", "watch forbidden endpointslices"),
    ("refuse", "refuse"),
    ("hang", "hang"),
    ("slow 100", "slow 100"),
    ("reset", "reset"),
    ("reset 0", "reset 0"),
    ("reset after 5s", "reset after 5s"),
    ("queue-full", "queue-full"),
    ("restart", "restart"),
    ("die 10s", "die 10s"),
    ("die 10s pending 500 after 1m", "die 10s pending 500 after 1m0s"),
]
SELECTOR_ROWS = [
    ("name Web.test", "name Web.test."),
    ("name *.shop.svc.cluster.local.", "name *.shop.svc.cluster.local."),
    ("name below test", "name below test."),
    ("type aaaa", "type AAAA"),
    ("transport dot", "transport dot"),
    ("client 10.0.0.0/8", "client 10.0.0.0/8"),
    ("client 10.0.0.1", "client 10.0.0.1"),
    ("client 10.1.2.3/8", "client 10.0.0.0/8"),
    ("client 2001:db8::/64", "client 2001:db8::/64"),
    ("pod shop/web-0", "pod shop/web-0"),
    ("pod shop/*", "pod shop/*"),
    ("asked 10.96.0.10", "asked 10.96.0.10"),
    ("listener tls://:853", "listener tls://:853"),
    ("flow first", "flow first"),
    ("flow second 1ms", "flow second 1ms"),
    ("flow existing 5s", "flow existing 5s"),
    ("flow new 90s", "flow new 1m30s"),
    ("nth 1", "nth 1"),
    ("share .5", "share 0.5"),
    ("share 0.123456789", "share 0.123456789"),
    ("after 5s", "after 5s"),
    ("before 1m", "before 1m0s"),
    ("type A type AAAA", "type A type AAAA"),
    ("type A and nth 1", "type A nth 1"),
    ("type A or type AAAA", "type A or type AAAA"),
    ("nth 1 ( type A or type AAAA )", "nth 1 ( type A or type AAAA )"),
    ("nth 1 (type A or type AAAA)", "nth 1 ( type A or type AAAA )"),
    ("( type A nth 1 )", "type A nth 1"),
    ("not type A nth 1", "not type A nth 1"),
    ("not ( type A nth 1 )", "not ( type A nth 1 )"),
    ("type A nth 1 or type AAAA nth 2", "type A nth 1 or type AAAA nth 2"),
]
OPTION_ROWS = [
    ("seed 7", "seed 7"),
    ("times 1", "times 1"),
    ("for 10m", "for 600.0"),
    ("named lossy", "named lossy"),
    ("named x.y-1 for 1s seed 0", "seed 0 for 1.0 named x.y-1"),
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *ACTION_ROWS,
        *((f"drop {text}", f"drop {expected}") for text, expected in SELECTOR_ROWS),
        *((f"drop type A {text}", f"drop type A {expected}") for text, expected in OPTION_ROWS),
        ("drop seed 7", "drop seed 7"),
    ],
)
def test_meaning(text: str, expected: str) -> None:
    assert canonical(text) == expected
    if " for " not in expected:  # its text is that of a rule, in seconds here
        assert canonical(expected) == expected


def test_every_word_has_a_row() -> None:
    assert {text.split()[0] for text, _ in ACTION_ROWS} == set(ACTIONS)
    assert {text.split()[0] for text, _ in SELECTOR_ROWS} - {"(", "not"} == set(SELECTORS)
    assert {text.split()[0] for text, _ in OPTION_ROWS} == set(OPTIONS)


NOT_A_DURATION = "is not a duration such as 200ms or 5s, from"
ERRORS = [
    ("", 0, f"a rule begins with what it does: {', '.join(ACTIONS)}"),
    ("dorp", 0, '"dorp" is no action of a fault; did you mean "drop"?'),
    ("xyz", 0, f'"xyz" is no action of a fault; there are {", ".join(ACTIONS)}'),
    ("drop nmae x", 1, '"nmae" is no selector of a fault; did you mean "name"?'),
    ("drop named lossy sed 7", 3, '"sed" is no option of a fault; did you mean "seed"?'),
    ("drop type A named a seed 1 seed 2", 7, '"seed" is given twice'),
    ("drop name", 1, '"name" needs a domain name'),
    ("drop name a..b", 2, '"a..b" is not a domain name'),
    ("drop type AAA", 2, '"AAA" is not a record type; did you mean "AAAA"?'),
    ("drop transport ucp", 2, '"ucp" is not a transport; did you mean "udp"?'),
    ("drop client 10.0.0.300", 2, '"10.0.0.300" is not an address or a network'),
    ("drop pod web-0", 2, '"web-0" is not NAMESPACE/NAME of a pod, or NAMESPACE/*'),
    ("drop asked web", 2, '"web" is not an IP address'),
    ("drop listener dns://:54", 2, '"dns://:54" is not a listener of this server; did you mean "dns://:53"?'),
    ("drop flow old 5s", 2, '"old" is not a kind of flow; there are first, second, existing, new'),
    ("drop flow second", 2, '"second" needs a duration such as 200ms or 5s, from 0s to 168h0m0s'),
    ("drop nth 0", 2, '"0" is not a number from 1 to 1000000'),
    ("drop share 0", 2, '"0" is not a share such as 0.5, above 0, up to 1'),
    ("drop share 50%", 2, '"50%" is not a share such as 0.5, above 0, up to 1'),
    ("drop after soon", 2, f'"soon" {NOT_A_DURATION} 0s to 168h0m0s'),
    ("drop for 0", 2, f'"0" {NOT_A_DURATION} 1ms to 168h0m0s'),
    ("drop named a/b", 2, '"a/b" is not a name of at most 63 letters, digits, dots and dashes'),
    ("drop seed -1", 2, '"-1" is not a seed from 0 to 4294967295'),
    ("delay", 0, '"delay" needs a duration such as 200ms or 5s, from 0s to 1m0s'),
    ("delay 2h", 1, f'"2h" {NOT_A_DURATION} 0s to 1m0s'),
    ("delay pareto 20ms 0", 3, '"0" is not a shape above 0, up to 100'),
    ("rcode SERVFIAL", 1, '"SERVFIAL" is not an rcode of a failure; did you mean "SERVFAIL"?'),
    ("rcode NOERROR", 1, f'"NOERROR" is not an rcode of a failure; there are {RCODES}'),
    ("rcode BADVERS", 1, f'"BADVERS" is not an rcode of a failure; there are {RCODES}'),
    ("rcode 3", 1, f'"3" is not an rcode of a failure; there are {RCODES}'),
    ("ttl soon", 1, '"soon" is not a TTL from 0 to 2147483647'),
    ("answer", 0, '"answer" needs a domain name'),
    ("slow", 0, '"slow" needs a number of octets a second from 1 to 1000000'),
    ("slow fast", 1, '"fast" is not a number of octets a second from 1 to 1000000'),
    ("die 1s pending", 2, '"pending" needs a number of queries from 1 to 1000000'),
    ("drop not", 1, 'a selector is missing at the end of the rule; the selectors are name, type, transport, client, pod, asked, listener, flow, nth, share, after, before'),
    ("drop type A or for 5m", 4, 'a selector is missing before "for"; the selectors are name, type, transport, client, pod, asked, listener, flow, nth, share, after, before'),
    ("drop ( type A", 3, 'a closing bracket ")" is missing at the end of the rule'),
    ("lag", 0, '"lag" needs a duration such as 200ms or 5s, from 1ms to 168h0m0s'),
    ("watch", 0, '"watch" needs what becomes of a watch'),
    ("watch awya", 1, '"awya" is not what becomes of a watch; did you mean "away"?'),
    ("watch forbidden endpoints", 2, '"endpoints" is not a resource that is watched; did you mean "endpointslices"?'),
    ("watch away name web.test", 0, '"watch away" is about requests to the API server, which have no name; its selectors are after, before and share'),
    ("drop type A )", 3, 'a closing bracket ")" without an opening one'),
    ("drop " + "not " * 200 + "type A", 0, "a rule has at most 200 words, found 203"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "at", "sentence"), ERRORS)
def test_errors(text: str, at: int, sentence: str) -> None:
    with pytest.raises(RuleError) as caught:
        read_rule(text.split(), SERVERS)
    assert (caught.value.at, str(caught.value)) == (at, sentence)


@given(
    st.lists(
        st.sampled_from(
            [
                *ACTIONS,
                *SELECTORS,
                *OPTIONS,
                "or",
                "not",
                "(",
                ")",
                "7",
                "1s",
                "A",
                "below",
                "é",
                "0.5",
            ]
        ),
        max_size=12,
    )
)
@example(["answer", "(", "below", "a\\)b\\\\."])
def test_any_words(words: list[str]) -> None:
    """Any words are a rule whose text means the same, or a sentence."""
    try:
        wanted = read_rule(words, SERVERS)
    except RuleError as error:
        assert 0 <= error.at < max(len(words), 1)
        return
    again = read_rule(f"{wanted.action.text} {wanted.selector.text}".split(), SERVERS)
    assert (again.action.text, again.selector.text) == (wanted.action.text, wanted.selector.text)
