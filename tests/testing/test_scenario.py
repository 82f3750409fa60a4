from pathlib import Path

import pytest

from hsdns.fault_scenarios.scenario import names
from hsdns.testing import Cluster, ClusterError
from tests.testing.asking import ask, ask_web

pytestmark = pytest.mark.sockets

SCENARIO = Path(__file__).with_name("scenario.toml").read_text()


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = tmp_path / "late.toml"
    path.write_text(SCENARIO)
    return str(path)


def test_steps_are_done_when_the_test_comes_to_them(cluster: Cluster, path: str) -> None:
    with cluster.scenario(path) as scenario:
        host = scenario.host
        assert host == "web.shop.svc.cluster.local"
        found = {}
        for seconds in (0, 5, 10, 5, 20):
            scenario.advance(seconds)
            found[scenario.time] = ask(cluster, host)
        assert found == {
            0: ["10.96.7.7"], 5: ["NXDOMAIN"], 15: ["NXDOMAIN"], 20: ["10.0.0.9"], 40: ["10.0.0.9"],
        }  # fmt: skip
        assert repr(scenario) == "<Scenario late at second 40 of 60>"
        assert {name: int(fault.hits) for name, fault in scenario.faults.items()} == {"denied": 2, "old": 2}  # fmt: skip
    assert ask(cluster, host) == ["NXDOMAIN"], "the Service is deleted, and no rule is left"
    assert "seed 3 named old" in scenario.faults["old"].rule


def test_a_rule_that_was_never_hit_fails_the_test(cluster: Cluster, path: str) -> None:
    with pytest.raises(AssertionError) as raised, cluster.scenario(path) as scenario:
        ask(cluster, scenario.host)
    assert str(raised.value).splitlines() == [
        'the rule "denied" of the scenario late was never hit',
        "the fault hit 0 of 1 query: nxdomain name web.shop.svc.cluster.local. after 5s",
        f"  {cluster.queries[0]}",
    ]
    with pytest.raises(KeyError), cluster.scenario(path):
        raise KeyError
    assert ask(cluster, "web.shop.svc.cluster.local") == ["10.96.7.7"]


def test_it_is_about_another_name(cluster: Cluster, path: str) -> None:
    cluster.service("web", headless=True).endpoints("10.0.0.1")
    with cluster.scenario(path, about="web.default.svc.cluster.local") as scenario:
        assert scenario.host == "web.default.svc.cluster.local"
        assert ask_web(cluster) == "10.0.0.1"
        scenario.advance(5)
        assert ask_web(cluster) == "NXDOMAIN"
        assert ask(cluster, "web.shop.svc.cluster.local") == ["NXDOMAIN"], "it has no such object"
        assert len(cluster.queries) == 3
    assert scenario.faults["denied"].hits == 1


@pytest.mark.parametrize("name", names())
def test_all_that_can_be_played(cluster: Cluster, name: str) -> None:
    """Their rules stand, and end; that they bite is shown with clients, in tests/fault_scenarios."""
    try:
        scenario = cluster.scenario(name)
    except ClusterError as refused:
        assert str(refused).endswith(f"; hsdns fault run {name} plays it")
        return
    try:
        with scenario:
            scenario.advance(scenario.seconds)
    except AssertionError as never:
        assert "was never hit" in str(never)
    assert ask(cluster, scenario.host)
    assert not cluster.queries[-1].faults
