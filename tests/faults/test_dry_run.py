"""Rules on queries of the past: which would have been hit, and what is not known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.faults.dry_run import BESIDE, DryRun, Past
from hsdns.faults.selector import UNKNOWN
from tests.faults.queries import asked, make_rule, time_of

# A second between them, the first one long after the rule was read; "hit": the answer table had the reply.
QUERIES = """
a.test A 10.0.0.1#5 @1000
a.test AAAA 10.0.0.1#5 @1001 hit
b.test A tcp 10.0.0.2#7 @1002
b.test A tcp 10.0.0.2#7 @1003 hit
a.test A dot 10.0.0.1#9 @1004
a.test A udp 10.0.0.2#5 to=127.0.0.2 @1005
""".strip().splitlines()
NTH = 'the first of these queries are the first that "nth" counts'
FLOW = "a five-tuple that was used before the first of these queries counts as new"
NO_TIME = "how long the start would take is not known; it is taken as no time"


def tried(
    text: str, queries: list[str] = QUERIES, *, is_drawn: bool = False
) -> tuple[str, int, list[str]]:
    trial = DryRun(make_rule(text), is_drawn=is_drawn)
    found = []
    for each in queries:
        words = each.removesuffix(" hit")
        found.append(trial.see(Past(time_of(words), asked(words), words != each)))
    return "".join("1" if bite else "0" for bite in found), trial.may, list(trial.unforeseen())


@pytest.mark.parametrize(
    ("text", "hits", "notes"),
    [
        ("drop", "111111", []),
        ("drop type AAAA", "010000", []),
        ("drop transport tcp", "001100", []),
        ("drop asked 127.0.0.2", "000001", []),
        ("drop after 2s before 4s", "001100", []),
        ("drop for 3s", "111000", []),
        ("drop times 2", "110000", []),
        ("drop pod shop/web-0", "110010", []),
        ("drop nth 2", "000110", [NTH]),
        ("drop flow second 1s", "010100", [FLOW]),
        ("drop flow new 4s", "000011", [FLOW]),
        ("drop share 0.5", "100111", []),
        ("truncate", "110001", []),
        ("hang", "001110", [BESIDE["connection"]]),
        ("hang times 1", "001100", [BESIDE["connection"]]),
        ("hang transport dot", "000010", [BESIDE["connection"]]),
        ("refuse nth 2", "000010", [BESIDE["connection"], NTH]),
        ("queue-full", "100001", [BESIDE["miss"]]),
        ("queue-full client 10.0.0.2", "000001", [BESIDE["miss"]]),
        ("die 2s", "110000", [NO_TIME]),
        ("die 2s after 1s", "011000", [NO_TIME]),
        ("restart", "000000", [NO_TIME]),
        ("die 2s pending 5", "000000", ["how many queries waited at a time is not known, so none is counted as hit"]),
    ],
)  # fmt: skip
def test_queries(text: str, hits: str, notes: list[str]) -> None:
    assert tried(text) == (hits, 0, notes)


def test_a_seed_that_is_drawn() -> None:
    sentence = "another seed than 1 hits others; without one it is drawn anew"
    assert tried("drop share 0.5", is_drawn=True)[2] == [sentence]
    assert tried("drop type A", is_drawn=True)[2] == []


@pytest.mark.parametrize(
    ("text", "hits", "may"),
    [
        ("drop asked 127.0.0.2", "0", 1),
        ("drop not asked 127.0.0.2", "0", 1),
        ("drop asked 127.0.0.2 type AAAA", "0", 0),
        ("drop type A", "1", 0),
    ],
)
def test_an_address_that_is_not_known(text: str, hits: str, may: int) -> None:
    note = 'the address that a query was sent to is not known, so "asked" is left open'
    found = tried(text, [f"a.test A to={UNKNOWN}"])
    assert found == (hits, may, [note] if may else [])


def test_what_is_about_no_query() -> None:
    rule = make_rule("drop")

    class Elsewhere(type(rule.action)):  # type: ignore[misc]  # a class that is computed
        about = "elsewhere"

    rule.action = Elsewhere()
    trial = DryRun(rule, is_drawn=False)
    assert trial.see(Past(0.0, asked("a.test"), False)) is None
    assert list(trial.unforeseen()) == ['"drop" is not about queries, so none is hit']


def test_what_only_a_reply_shows() -> None:
    rule = make_rule("drop type A")

    class Late(type(rule.action)):  # type: ignore[misc]  # a class that is computed
        counts_late = True

    rule.action = Late()
    trial = DryRun(rule, is_drawn=False)
    found = [trial.see(Past(0.0, asked(each), False)) for each in ("a.test", "a.test AAAA")]
    assert (found, trial.may) == ([None, None], 1)
    (sentence,) = trial.unforeseen()
    assert sentence.startswith("what the replies would have been is not known")


SOME = st.lists(st.sampled_from([each.split(" @")[0] for each in QUERIES]), max_size=30)


@given(SOME, st.sampled_from(["share 0.3", "nth 2", "flow first", "times 3", "share 0.5 after 5s"]))
def test_a_rule_that_stood_would_have_done_the_same(queries: list[str], text: str) -> None:
    """With the same seed, hit for hit, so also the digest is the same."""
    rule, standing = make_rule(f"delay normal 1s 1s {text}"), make_rule(f"delay normal 1s 1s {text}", begun=7.0)  # fmt: skip
    trial = DryRun(rule, is_drawn=False)
    for age, each in enumerate(queries):
        found = trial.see(Past(500.0 + age, asked(each), False))
        bite = standing.decide(asked(each), 7.0 + age)
        assert (found and found.line) == (bite and bite.line)
    assert rule.digest == standing.digest
