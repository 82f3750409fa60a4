"""Rules on queries of the past: which would have been hit, and what is not known.  Rules that can never match."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.faults import dry_run
from hsdns.faults.dry_run import DryRun, Past, never_matches
from hsdns.faults.selector import UNKNOWN, Zone
from hsdns.faults.words import read_rule
from hsdns.wire.name import Name
from tests.faults.queries import SERVERS, asked, make_rule, table, time_of

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
def test_queries(text: str, expected: str) -> None:
    hits, may, notes = tried(text)
    assert (" ; ".join([hits, *notes]), may) == (expected, 0)


@pytest.mark.parametrize(("text", "expected"), table("unknown address"))
def test_an_address_that_is_not_known(text: str, expected: str) -> None:
    note = 'the address that a query was sent to is not known, so "asked" is left open'
    hits, may, notes = tried(text, [f"a.test A to={UNKNOWN}"])
    assert (f"{hits} {may}", notes) == (expected, [note] if may else [])


def test_what_no_query_shows() -> None:
    assert tried("watch away") == (
        "000000",
        0,
        ['"watch away" is not about queries, so none is hit'],
    )
    late = "what the replies would have been is not known, so each query that matches is one that may be hit"
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


ZONES = zones([*SERVERS[:2]], "cluster.local", "10.in-addr.arpa")
HOSTS = zones(["dns://10.0.0.10:53", "dns://[fd00::10]:53"], "cluster.local")


@pytest.mark.parametrize(("text", "why"), table("never"))
def test_rules_that_never_match(text: str, why: str) -> None:
    assert (never_matches(read_rule(text.split(), SERVERS), ZONES) or "-") == why


@pytest.mark.parametrize(("text", "why"), table("addresses"))
def test_addresses_of_listeners(text: str, why: str) -> None:
    assert (never_matches(read_rule(text.split()), HOSTS) or "-") == why
    if "exclude" not in why:
        assert never_matches(read_rule(text.split()), [*HOSTS, *ZONES]) == "", "a wildcard has any"


def test_work_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dry_run, "MAX_TRIES", 2)
    assert never_matches(read_rule("drop type A type AAAA".split()), ZONES) == ""
