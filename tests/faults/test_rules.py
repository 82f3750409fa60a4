"""Rules: names, order, ends, counts, which queries each hits, in order, and which it would have hit in the past."""

from __future__ import annotations

import json
import logging
import sys
from collections import deque
from random import Random
from threading import Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.chain import Endpoint
from hsdns.faults import dry_run, selector
from hsdns.faults import rules as module
from hsdns.faults.dry_run import DryRun, Past, never_matches
from hsdns.faults.rules import Bite, Rule, RuleError, Rules, hits_metric
from hsdns.faults.selector import UNKNOWN, Asked, Zone
from hsdns.faults.state import StateAction, decisive, earlier_for, needs
from hsdns.faults.words import read_rule
from hsdns.metrics import Registry
from hsdns.wire.name import Name
from tests.faults.queries import PODS, SERVERS, asked, make_rule, marks, table, time_of
from tests.support.plugins.requests import make_request

NAMES = ("web.test", "api.test", "x.web.test")


class Set:
    """Rules with their metric; `spent` counts what on_spent() was called for."""

    def __init__(self, *texts: str) -> None:
        self.metrics = Registry()
        self.rules = Rules(Random(1), hits_metric(self.metrics))
        self.spent = 0
        self.rules.on_spent = self._count
        for text in texts:
            self.add(text)

    def add(self, text: str, now: float = 0.0) -> str:
        rule = self.rules.make(read_rule(text.split(), SERVERS), now, 600.0)
        self.rules.add(rule)
        return rule.name

    def decide(self, query: str, now: float = 0.0) -> str:
        return " ".join(bite.rule.name for bite in self.rules.decide(asked(query), now))

    @property
    def hits(self) -> dict[tuple[str, ...], float]:
        return hits_metric(self.metrics).values

    def _count(self) -> None:
        self.spent += 1


def test_names() -> None:
    found = Set()
    assert [found.add(f"drop type {each}") for each in ("A", "AAAA")] == ["drop-1", "drop-2"]
    assert found.add("delay 1s named slow") == "slow"
    found.rules.remove("drop-1")
    assert found.add("drop type SRV") == "drop-3"  # the counts of drop-1 are still known


def test_seed_is_drawn_where_none_is_given() -> None:
    seeds = [next(iter(Set("drop").rules.standing.values())).seed for _ in range(2)]
    assert seeds[0] == seeds[1] > 0
    assert next(iter(Set("drop seed 7").rules.standing.values())).seed == 7


def test_order_is_that_of_coming() -> None:
    found = Set("delay 1s type A named a", "rcode SERVFAIL named b", "ttl 5 type A named c")
    assert found.decide("x. A") == "a b c"
    assert found.decide("x. SRV") == "b"
    assert [each.name for each in found.rules.all] == ["a", "b", "c"]
    assert [(number, line["rule"]) for number, line in found.rules.lines] == [
        (1, "a"), (2, "b"), (3, "c"), (4, "b"),
    ]  # fmt: skip
    assert found.hits == {("a",): 1, ("b",): 2, ("c",): 1}


def test_ends() -> None:
    found = Set("drop for 10s named a", "drop type A times 1 named b", "drop type SRV named c")
    assert found.rules.next_end == 10.0
    assert found.decide("x. A", 9.0) == "a b"
    assert found.spent == 1
    assert [each.name for each in found.rules.expire(9.0)] == ["b"]
    assert [each.name for each in found.rules.expire(10.0)] == ["a"]
    assert found.decide("x. A", 10.0) == ""
    assert found.rules.next_end == 600.0
    assert [(each.name, each.ended, each.hits) for each in found.rules.all] == [
        ("b", "spent", 1), ("a", "expired", 1), ("c", "", 0),
    ]  # fmt: skip
    assert [each.name for each in found.rules.clear()] == ["c"]
    assert found.rules.next_end is None


@pytest.mark.parametrize(("row", "sentence"), table("exclusive"))
def test_rules_that_exclude_each_other(row: str, sentence: str) -> None:
    standing, text = row.split(" ; ")
    found = Set(standing)
    if sentence == "-":
        found.add(text)
        return
    with pytest.raises(RuleError) as caught:
        found.add(text)
    assert str(caught.value) == sentence
    assert list(found.rules.standing) == ["a"]


def test_remove_what_does_not_stand() -> None:
    with pytest.raises(RuleError) as caught:
        Set("drop named lossy").rules.remove("losy")
    assert str(caught.value) == 'no rule named "losy" is active; did you mean "lossy"?'


def test_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules that stand, rules that have ended with their values of the metric, and lines."""
    monkeypatch.setattr(module, "MAX_STANDING", 3)
    found = Set(*(f"drop nth {number} named r{number}" for number in (1, 2, 3)))
    with pytest.raises(RuleError) as caught:
        found.add("drop")
    assert str(caught.value) == "3 rules are active, the maximum; remove one"
    for number in range(module.MAX_ENDED + 5):
        found.rules.clear()
        found.add(f"delay 0s named s{number}")
    assert len(found.rules.ended) == module.MAX_ENDED
    assert len(found.hits) == module.MAX_ENDED + 1
    for _ in range(module.MAX_LINES + 1):
        found.decide("x. A")
    assert len(found.rules.lines) == module.MAX_LINES


class SlowLines(deque[tuple[int, dict[str, Any]]]):
    """Lets other threads run before each line."""

    def append(self, line: tuple[int, dict[str, Any]]) -> None:
        for _ in range(1000):
            pass
        super().append(line)


def test_two_threads_may_bite() -> None:
    """As rules about the watch do, beside those about queries."""
    found = Set("drop named a", "watch away named b")
    found.rules.lines = SlowLines(maxlen=module.MAX_LINES)

    def bite() -> None:
        for _ in range(300):
            found.rules.stop(found.rules.standing["b"], "services", "list", 0.0)

    thread, interval = Thread(target=bite), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        thread.start()
        seen, shown = 0, list[str]()
        for _ in range(300):
            found.decide("x. A")
            seen, lines = found.rules.after(seen)
            shown += [line["rule"] for line in lines]
        thread.join()
    finally:
        sys.setswitchinterval(interval)
    seen, lines = found.rules.after(seen)
    shown += [line["rule"] for line in lines]
    assert [number for number, _ in found.rules.lines] == [*range(1, 601)]
    assert (seen, shown.count("a"), shown.count("b")) == (600, 300, 300)


def test_a_name_may_come_again() -> None:
    found = Set("drop named a")
    found.decide("x. A")
    found.rules.clear()
    found.add("drop named a")
    assert [(each.name, each.hits) for each in found.rules.all] == [("a", 0)]
    assert found.hits == {("a",): 1}  # a counter does not go back


def test_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "hsdns.faults")
    found = Set("drop type A seed 7 for 10s named a")
    found.decide("Web.test A 10.0.0.1")
    found.decide("Web.test A 10.0.0.1")
    found.rules.expire(10.0)
    assert [record.message for record in caplog.records] == [
        'plugin/fault: the rule "a" is active for 10s: drop type A seed 7 for 10s named a',
        'plugin/fault: first hit of the rule "a": web.test. A over udp from 10.0.0.1',
        'plugin/fault: the rule "a" has ended (expired), hits: 2',
    ]


@pytest.mark.parametrize(("row", "expected"), table("ends"))
def test_end(row: str, expected: str) -> None:
    text, ages = row.split(" ; ")
    times = [100.0 + float(age) for age in ages.split()]
    rule = make_rule(text, begun=100.0)
    assert marks(rule, [asked("a. A")] * len(times), times).count("1") == rule.hits
    assert f"{rule.hits} {rule.is_over(times[-1])}".strip() == expected


def test_line() -> None:
    """What is in it does not depend on the time, nor on the client's port."""
    rule = make_rule("delay normal 1s 200ms type AAAA", seed=7)
    assert rule.decide(asked("Web.test A"), 0.5) is None
    bite = rule.decide(asked("Web.test AAAA dot 10.0.0.1#5"), 1.5)
    assert bite is not None
    assert json.dumps(bite.line) == (
        '{"rule": "r", "hit": 1, "query": 2, "client": "10.0.0.1", "transport": "dot", "name": "web.test.", '
        f'"type": "AAAA", "action": "delay normal 1s 200ms", "drawn": {bite.drawn}}}'
    )


def log_of(rule: Rule, queries: list[str]) -> bytes:
    found = [rule.decide(asked(each), float(at)) for at, each in enumerate(queries)]
    return b"".join(json.dumps(each.line).encode() + b"\n" for each in found if each is not None)


@given(
    st.sampled_from(["drop share 0.3", "delay pareto 1ms 2 share 0.7", "shuffle nth 2 or share 0.2"]),
    st.integers(0, 2**32 - 1),
    st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(["A", "AAAA"])), max_size=60),
)  # fmt: skip
def test_seed_decides(text: str, seed: int, questions: list[tuple[str, str]]) -> None:
    queries = [" ".join(each) for each in questions]
    one, two = (make_rule(text, seed) for _ in range(2))
    log = log_of(one, queries)
    assert log_of(two, queries) == log
    assert (one.digest, one.hits, one.seen) == (two.digest, two.hits, len(queries))


def test_nth_remembers_so_many_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that came first is forgotten."""
    monkeypatch.setattr(selector, "MAX_REMEMBERED", 2)
    for names, expected in (("abb", True), ("abca", False)):
        rule = make_rule("drop nth 2")
        hits = [rule.selector.matches(asked(f"{name}. A"), 0.0, Random(1)) for name in names]
        assert hits[-1] is expected


def test_foresee_changes_nothing() -> None:
    rule = make_rule("drop type A share 0.5 for 10s")
    assert [rule.foresee(asked(f"a. {each}"), 1.0) for each in ("A", "SRV")] == [None, False]
    assert rule.foresee(asked("a. A"), 10.0) is False
    assert make_rule("truncate").foresee(asked("a. A tcp"), 0.0) is False
    assert (rule.seen, rule.hits, rule.digest) == (0, 0, make_rule("drop").digest)


def test_a_rule_at_work_is_not_spent() -> None:
    rule = make_rule("die 5s for 10s")
    rule.is_at_work = True
    assert rule.strike().line == {"rule": "r", "hit": 1, "query": 1, "action": "die 5s"}
    assert (rule.is_over(1.0), rule.is_over(10.0)) == ("", "expired")
    rule.is_at_work = False
    assert (rule.is_over(1.0), rule.is_lifted(1.0), rule.is_lifted(10.0)) == ("spent", False, True)


@pytest.mark.parametrize(("row", "expected"), table("moments"))
def test_moments(row: str, expected: str) -> None:
    """A change in the instant of the beginning is not in its state."""
    text, times = row.split(" ; ")
    action = make_rule(text).action
    assert isinstance(action, StateAction)
    found = [action.moment(10.0, float(now)) for now in times.split()]
    assert " ".join("-" if each is None else f"{each:g}" for each in found) == expected
    assert found[0] is not None
    assert found[0] < 10.0


def test_the_oldest_state_answers() -> None:
    rules = [make_rule(each, begun=10.0) for each in ("lag 5s", "flap 1s", "freeze", "drop")]
    bites = [Bite(each, None, {}) for each in rules]
    found = earlier_for(bites, 21.5)
    assert found is not None
    assert [each.rule.action.text for each in decisive(bites, found, 21.5)] == ["freeze"]
    assert [each.rule.action.text for each in decisive(bites, found, 20.5)] == ["flap 1s", "freeze"]
    assert earlier_for(bites[1:2] + bites[3:], 21.5) is None
    assert [(round(each.since, 6), each.window) for each in needs(rules)] == [
        (10.0, 5.0), (10.0, 0.0), (10.0, 0.0),
    ]  # fmt: skip


def test_a_hit_is_counted_late() -> None:
    rule = make_rule("freeze")
    bite = rule.decide(asked("web.test"), 0.0)
    assert bite is not None
    assert (rule.hits, rule.seen) == (0, 1)
    before = rule.digest
    rule.count(bite)
    assert (rule.hits, bite.line["hit"], bite.line["query"]) == (1, 1, 1)
    assert rule.digest != before


# --- selectors ---


def dropped(selectors: str, queries: str, seed: int = 1) -> str:
    each = queries.split(" | ")
    return marks(
        make_rule(f"drop {selectors}", seed), list(map(asked, each)), list(map(time_of, each))
    )


@pytest.mark.parametrize(("row", "hits"), table("hits"))
def test_queries(row: str, hits: str) -> None:
    text, queries = row.split(" ; ")
    assert dropped(text, queries) == hits


def test_share_is_drawn_for_what_comes_so_far() -> None:
    """The queries of another type do not change which ones are chosen."""
    alone = dropped("type AAAA share 0.5", " | ".join(["a. AAAA"] * 40), seed=7)
    mixed = dropped("type AAAA share 0.5", " | ".join(["a. AAAA | a. A"] * 40), seed=7)
    assert mixed[::2] == alone
    assert set(mixed[1::2]) == {"0"}
    assert 10 < alone.count("1") < 30
    assert dropped("type AAAA share 0.5", " | ".join(["a. AAAA"] * 40), seed=8) != alone


@pytest.mark.parametrize(
    ("text", "queries", "hits"),
    [
        ("nth 1", "a. | b. | c. | b. | a.", "11101"),
        ("flow first", "x. 10.0.0.1#1 | x. 10.0.0.1#2 | x. 10.0.0.2 | x. 10.0.0.1#2 | x. 10.0.0.1#1", "11101"),
    ],
)  # fmt: skip
def test_what_is_remembered_is_bounded(
    text: str, queries: str, hits: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was seen first is forgotten, and is new when it comes again."""
    monkeypatch.setattr(selector, "MAX_REMEMBERED", 2)
    assert dropped(text, queries) == hits


def unread(server: str, client: str, local: str = "127.0.0.1", protocol: str = "tcp") -> Asked:
    return Asked.unread(server, protocol, Endpoint(client, 5), Endpoint(local, 53), PODS.get)


CONNECTIONS = [
    unread(SERVERS[0], "10.0.0.1"),
    unread(SERVERS[1], "10.0.0.2"),
    unread(SERVERS[2], "192.0.2.9"),
    unread(SERVERS[0], "10.9.0.9", "127.0.0.2"),
]
# Over TCP there is no queue.
MISSES = [
    unread(SERVERS[0], client, protocol=protocol)
    for client, protocol in (("10.0.0.1", "udp"), ("10.0.0.2", "udp"), ("10.0.0.1", "tcp"))
]


@pytest.mark.parametrize(("text", "hits"), [*table("connections"), *table("misses")])
def test_connections_and_misses(text: str, hits: str) -> None:
    """One a second."""
    come = MISSES if text.startswith("queue-full") else CONNECTIONS
    assert marks(make_rule(text), come, [float(age) for age in range(len(come))]) == hits


@pytest.mark.parametrize(("row", "expected"), table("foreseen"))
def test_foreseen(row: str, expected: str) -> None:
    text, query = row.split(" ; ")
    found = read_rule(f"drop {text}".split(), SERVERS).selector.foresee(asked(query), 0.0)
    assert str(found) == expected


ZONES = {
    "root": Zone("dns://:53", Name.from_text("."), [Name.from_text("cluster.local.")]),
    "cluster": Zone("dns://:53", Name.from_text("cluster.local."), []),
    "tls": Zone("tls://:853", Name.from_text("."), []),
}


@pytest.mark.parametrize(("text", "expected"), table("zones"))
def test_zones(text: str, expected: str) -> None:
    """Names at the apex of a deeper zone are of both, because of DS."""
    found = read_rule(f"drop {text.replace('any', '')}".split(), SERVERS).selector
    assert " ".join(name for name, zone in ZONES.items() if found.touches(zone)) == expected


@pytest.mark.parametrize(
    ("server", "protocol", "transport"),
    [("dns://:53", "udp", "udp"), ("dns://127.0.0.1:53", "tcp", "tcp"), ("tls://:853", "tcp", "dot"), ("https://:443", "tcp", "doh")],
)  # fmt: skip
def test_what_a_rule_sees_of_a_request(server: str, protocol: str, transport: str) -> None:
    request = make_request("Web.test", "AAAA", server=server, protocol=protocol, client="10.0.0.1")
    assert Asked.of(request, PODS.get) == Asked(
        Name.from_text("Web.test."), 28, transport, Endpoint("10.0.0.1", 40000), "127.0.0.1", server, PODS.get
    )  # fmt: skip


# --- rules on queries of the past ---

# A second between them, the first one long after the rule was read; "hit": the answer table had the reply.
QUERIES = """
a.test A 10.0.0.1#5 @1000
a.test AAAA 10.0.0.1#5 @1001 hit
b.test A tcp 10.0.0.2#7 @1002
b.test A tcp 10.0.0.2#7 @1003 hit
a.test A dot 10.0.0.1#9 @1004
a.test A udp 10.0.0.2#5 to=127.0.0.2 @1005
""".strip().splitlines()


def tried(
    text: str, queries: list[str] = QUERIES, *, is_drawn: bool = False
) -> tuple[str, int, list[str]]:
    trial = DryRun(make_rule(text), is_drawn=is_drawn)
    found = []
    for each in queries:
        words = each.removesuffix(" hit")
        found.append(trial.see(Past(time_of(words), asked(words), words != each)))
    return "".join("1" if bite else "0" for bite in found), trial.may, list(trial.unforeseen())


@pytest.mark.parametrize(("text", "expected"), table("past"))
def test_past(text: str, expected: str) -> None:
    hits, may, notes = tried(text)
    assert (" ; ".join([hits, *notes]), may) == (expected, 0)


@pytest.mark.parametrize(("text", "expected"), table("unknown address"))
def test_an_address_that_is_not_known(text: str, expected: str) -> None:
    note = 'the destination address of a query is unknown, so "asked" is not checked'
    hits, may, notes = tried(text, [f"a.test A to={UNKNOWN}"])
    assert (f"{hits} {may}", notes) == (expected, [note] if may else [])


def test_what_no_query_shows() -> None:
    assert tried("watch away") == (
        "000000",
        0,
        ['"watch away" is not about queries, so none is hit'],
    )
    late = "the replies are unknown, so every query that matches may be hit"
    assert tried("freeze type A") == ("000000", 5, [late])


SOME = st.lists(st.sampled_from([each.split(" @")[0] for each in QUERIES]), max_size=30)


@given(SOME, st.sampled_from(["share 0.3", "nth 2", "flow first", "times 3", "share 0.5 after 5s"]))
def test_a_rule_that_stood_would_have_done_the_same(queries: list[str], text: str) -> None:
    """With the same seed, hit for hit, so also the digest is the same."""
    rule, standing = (make_rule(f"delay normal 1s 1s {text}", begun=begun) for begun in (0.0, 7.0))
    trial = DryRun(rule, is_drawn=False)
    for age, each in enumerate(queries):
        found = trial.see(Past(500.0 + age, asked(each), False))
        bite = standing.decide(asked(each), 7.0 + age)
        assert (found and found.line) == (bite and bite.line)
    assert rule.digest == standing.digest


def zones(servers: list[str], *names: str) -> list[Zone]:
    return [Zone(server, Name.from_text(name), []) for server in servers for name in names]


SERVED = zones([*SERVERS[:2]], "cluster.local", "10.in-addr.arpa")
HOSTS = zones(["dns://10.0.0.10:53", "dns://[fd00::10]:53"], "cluster.local")


@pytest.mark.parametrize(("text", "why"), table("never"))
def test_rules_that_never_match(text: str, why: str) -> None:
    assert (never_matches(read_rule(text.split(), SERVERS), SERVED) or "-") == why


@pytest.mark.parametrize(("text", "why"), table("addresses"))
def test_addresses_of_listeners(text: str, why: str) -> None:
    assert (never_matches(read_rule(text.split()), HOSTS) or "-") == why
    if "exclude" not in why:
        assert never_matches(read_rule(text.split()), [*HOSTS, *SERVED]) == "", "a wildcard has any"


def test_work_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dry_run, "MAX_TRIES", 2)
    assert never_matches(read_rule("drop type A type AAAA".split()), SERVED) == ""
