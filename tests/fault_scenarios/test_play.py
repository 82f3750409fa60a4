"""Every scenario costs every client what its file says: the table "what must be seen" is the data of these tests."""

from __future__ import annotations

from math import inf

import pytest

from hsdns.fault_scenarios.play import Outcome, as_data, never_hit, play, resolv_conf
from hsdns.fault_scenarios.scenario import ScenarioError, Seen, load, names
from hsdns.resolver import MODELS
from tests.fault_scenarios.test_scenario import FILE, of


@pytest.mark.parametrize("name", names())
def test_each_client_sees_what_the_file_says(name: str) -> None:
    scenario = load(name)
    outcomes = [play(scenario, seen) for seen in scenario.seen]
    pairs = zip(outcomes, scenario.seen, strict=True)
    assert [line for outcome, seen in pairs for line in outcome.differences(seen)] == []
    assert never_hit(scenario, outcomes) == []
    assert {seen.client for seen in scenario.seen if seen.is_plain} == set(MODELS)


def test_what_is_measured_of_one_lookup() -> None:
    scenario = load("conntrack-race")
    found = play(scenario, scenario.seen[0])
    assert found == Outcome("glibc", 1, 5.0, 0, 0, 0.0, 4, "", {"race": 1})
    other = Seen("glibc", 0.0, 0, 4)
    assert found.differences(other) == ["glibc: seconds 5.0, and not 0.0"]
    assert found.differences(scenario.seen[0]) == []


def test_two_runs_are_the_same() -> None:
    scenario = load("lameduck-ignored")
    assert play(scenario, scenario.seen[0]) == play(scenario, scenario.seen[0])


def test_a_lookup_that_never_ends_has_no_end_in_json() -> None:
    scenario = load("tcp-blocked")
    found = play(scenario, scenario.seen[0])
    assert (found.client, found.seconds, found.failed) == ("glibc", inf, 2)
    assert as_data(found)["seconds"] is None


def test_a_rule_that_bites_no_client_is_named() -> None:
    scenario = of(FILE.replace("name web.shop.svc.cluster.local", "type TXT"))
    outcomes = [play(scenario, seen) for seen in scenario.seen]
    assert never_hit(scenario, outcomes) == ["race"]


def test_a_rule_that_the_server_refuses_is_an_error() -> None:
    scenario = of(FILE.replace('"drop name', '"drop listener dns://:54 name').replace(" listener dns://:54", "") + 'apply = "kind: Pod"\n')  # fmt: skip
    with pytest.raises(ScenarioError, match="manifests:1: "):
        play(scenario, scenario.seen[0])


def test_several_programs_ask_at_once() -> None:
    scenario = of(FILE.replace('meant = "', 'programs = 3\nmeant = "').replace("drop name", "delay 2s name"))  # fmt: skip
    found = play(scenario, scenario.seen[0])
    assert (found.lookups, found.queries, found.hits) == (3, 6 * 4, {"race": 6})


@pytest.mark.parametrize(
    ("seen", "lines"),
    [
        (Seen("glibc", 0, 0, 0), ["nameserver 127.0.0.1", "options ndots:5"]),
        (Seen("glibc", 0, 0, 0, ("use-vc", "ndots:1")), ["nameserver 127.0.0.1", "options ndots:1 use-vc"]),
        (Seen("glibc", 0, 0, 0, servers=2), ["nameserver 127.0.0.1", "nameserver 127.0.0.2", "options ndots:5"]),
    ],
)  # fmt: skip
def test_the_resolv_conf_of_a_client(seen: Seen, lines: list[str]) -> None:
    search = "search shop.svc.cluster.local svc.cluster.local cluster.local nodes.example.net"
    assert resolv_conf(load("ndots-storm"), seen, "shop").splitlines() == [search, *lines]
