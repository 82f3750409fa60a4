import pytest

from hsdns.cli.flags import FlagError, parse_flags
from hsdns.load.cli.settings import FLAGS, LoadSettings, PodSettings, read_settings
from hsdns.load.errors import LoadError
from hsdns.load.limits import Limit
from hsdns.load.pods import FORMS, RESOLVERS
from hsdns.load.schedule import Portion, Schedule, Stage
from hsdns.load.target import Target


def settings(text: str) -> LoadSettings:
    return read_settings(parse_flags(text.split(), FLAGS))


def test_defaults() -> None:
    assert settings("-queries q.txt") == LoadSettings(
        targets=[Target("127.0.0.1 port 53", "127.0.0.1", 53)],
        schedule=Schedule((Stage(10, 1000, 1000),), "even", 1, 1),
        seed=1,
        edns=0,
        timeout=2.0,
        sockets=4,
        verifies=False,
        slack=0.1,
        api=None,
        churn=0.0,
        churn_api=False,
        churn_kinds={"renumber": 1},
        probes=0.0,
        wait=0.0,
        limits=[],
        mix=None,
        zipf=0.0,
        queries="q.txt",
        keeps_going=False,
        live="line",
        portion=Portion(),
        start_at="",
        job="",
        knee=None,
    )


def test_all() -> None:
    found = settings(
        "-server 192.0.2.1 -server b=[::1]:54 -i-own-this 192.0.2.1 -p 1053 -rate 5..10:1s,7 -time 3s -arrival burst=2 -seed 9 -edns 1232 "
        "-timeout 1s -sockets 2 -verify -slack 50ms -source synthetic -api [::1]:8001 -churn 2.5 -churn-kinds scale=2,ready=1 -probes 30 -wait 4s "
        "-fail-if stale>0 -mix srv=1 -zipf 1.5 -keep-going -live none -start-at +30s"
    )
    assert found == LoadSettings(
        targets=[Target("192.0.2.1 port 1053", "192.0.2.1", 1053), Target("b", "::1", 54)],
        schedule=Schedule((Stage(1, 5, 10), Stage(2, 7, 7)), "burst", 2, 9),
        seed=9,
        edns=1232,
        timeout=1.0,
        sockets=2,
        verifies=True,
        slack=0.05,
        api=("::1", 8001),
        churn=2.5,
        churn_api=False,
        churn_kinds={"scale": 2, "ready": 1},
        probes=30.0,
        wait=4.0,
        limits=[Limit("stale>0", "stale", ">", 0.0, "")],
        mix={"srv": 1},
        zipf=1.5,
        queries="",
        keeps_going=True,
        live="none",
        portion=Portion(),
        start_at="+30s",
        job="",
        knee=None,
    )


def test_pods() -> None:
    found = settings(
        "-source synthetic -pods 20 -resolvers go=1,musl=3 -forms full -external www.example.com a.test. "
        "-resolv-options ndots:2 timeout:1 rotate -node-search node.test -mix service=1,external=2 -sockets 3"
    )
    assert found.pods == PodSettings(
        20, {"go": 1, "musl": 3}, {"full": 1}, ["www.example.com", "a.test."],
        {"ndots": "2", "timeout": "1", "rotate": ""}, ["node.test"], {"service": 1, "external": 2},
    )  # fmt: skip
    assert (found.schedule.arrival, found.timeout, found.sockets, found.mix) == (
        "poisson",
        1.0,
        3,
        None,
    )
    usual = settings("-source synthetic -pods 1 -arrival even")
    assert usual.pods == PodSettings(1, dict(RESOLVERS), dict(FORMS), [], {}, [], None)
    assert (usual.schedule.arrival, usual.timeout, usual.sockets) == ("even", 5.0, 64)


NEEDS = "-source synthetic"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "what is to be asked? add -queries FILE, -replay FILE, or a cluster whose names are asked: -source or -conf"),
        ("-queries q -live all", '-live needs line, screen or none, found "all"'),
        ("-queries q -live screen", "-live screen: standard error is no terminal; leave it out for a log"),
        ("-queries q -part 3", '-part needs an index and a count such as 0/8, found "3"'),
        ("-queries q -part 0/2 -job load", "-part: the Job of -job says which portion this is; leave one of them out"),
        (f"{NEEDS} -part 0/2 -api [::1]:1", "-part: each generator would make up a cluster of its own for -api; leave one of them out"),
        ("-queries q -verify", "-verify needs -source or -conf"),
        ("-queries q -slack 1s", "-slack needs -verify"),
        (f"{NEEDS} -churn 5", "-churn needs -api or -churn-api"),
        (f"{NEEDS} -churn-api", "-churn-api needs -churn"),
        (f"{NEEDS} -churn-api -churn 1", "-churn-api needs -conf, a Corefile that says which API server; -api serves a simulated cluster instead"),
        ("-conf C -churn-api -churn 1 -part 0/2", "-churn-api: each generator would change a namespace of its own; leave -part and -job out"),
        (f"{NEEDS} -churn-kinds scale=1", "-churn-kinds needs -churn"),
        (f"{NEEDS} -probes 5", "-probes needs -verify"),
        (f"{NEEDS} -verify -probes 5 -transport tcp", "-probes asks over UDP, and this load is over connections; leave it out"),
        (f"{NEEDS} -verify -probes x", '-probes needs a number from 0 to 100000, found "x"'),
        ("-queries q -mix srv=1", "-mix needs -source or -conf"),
        (f"{NEEDS} -queries q -zipf 1", "-zipf draws names of a cluster, -queries asks those of a file in order; leave one of them out"),
        (f"{NEEDS} -zipf x", '-zipf needs a number from 0 to 10, found "x"'),
        (f"{NEEDS} -api 8001", '-api needs an address and a port such as 127.0.0.1:8001, found "8001"'),
        (f"{NEEDS} -api x:99999", '-api needs an address and a port such as 127.0.0.1:8001, found "x:99999"'),
        ("-queries q -pods 5", "-pods needs -source or -conf"),
        (f"{NEEDS} -queries q -pods 5", "-queries asks what is in a file, -pods look up names of a cluster; leave one of them out"),
        (f"{NEEDS} -pods 5 -edns 1232", "-edns is for all queries, but resolvers have their own ways: -resolv-options edns0 is for glibc; leave one of them out"),
        (f"{NEEDS} -pods 5 -timeout 1s", "-timeout is for queries, but resolvers have their own: -resolv-options timeout:2; leave one of them out"),
        (f"{NEEDS} -pods 5 -transport tcp", "-transport is for queries, and pods use UDP, and TCP as their resolvers do; leave it out"),
        (f"{NEEDS} -forms full", "-forms needs -pods"),
        (f"{NEEDS} -pods 0", "-pods needs a number from 1 to 100000, found \"0\""),
        (f"{NEEDS} -pods 5 -external a..b", "-external: \"a..b\" is no name: label b'' has 0 octets, allowed are 1 to 63"),
        (f"{NEEDS} -pods 5 -resolv-options ndots", "-resolv-options: \"ndots\" is no option of resolv.conf; there are ndots:NUMBER, timeout:NUMBER, attempts:NUMBER, rotate, single-request, single-request-reopen, use-vc, edns0, trust-ad, no-aaaa, no-reload"),
        ("-queries q -timeout 0", "-timeout 0s: every query would be lost at once; give it a time such as 2s"),
        ("-queries q -time soon", '-time needs a time such as 10s, found "soon"'),
        ("-queries q -server 8.8.8.8", "8.8.8.8 is neither loopback nor private: load there is an attack unless the server is yours; if it is, add -i-own-this 8.8.8.8"),
        ("-queries q -rate 200000", "-rate: 200000 queries a second are above the ceiling of 100000; -max-rate 200000 lifts it"),
        ("-queries q -time 2h", "-time: 2h0m0s is above the ceiling of 1h0m0s; -max-time 2h0m0s lifts it"),
        ("-queries q -fail-if knee<5000", '-fail-if: "knee" needs -find-knee, which searches for it'),
        ("-queries q -fail-if lookup.failed>0", '-fail-if: "lookup.failed" needs -pods, which look names up'),
        ("-queries q -fail-if stale>0", '-fail-if: "stale" needs -verify, which judges the answers'),
        ("-queries q -sockets 0", '-sockets needs a number from 1 to 20000, found "0"'),
        ("-quereis q", 'unknown flag -quereis; did you mean "-queries"?'),
    ],
)  # fmt: skip
def test_bad_input(text: str, sentence: str) -> None:
    with pytest.raises((FlagError, LoadError)) as error:
        settings(text)
    assert str(error.value) == sentence


def test_ceilings_are_lifted() -> None:
    found = settings("-queries q -rate 200000 -max-rate 200000 -time 2h -max-time 2h")
    assert found.schedule.stages == (Stage(7200, 200_000, 200_000),)


@pytest.mark.parametrize(
    ("words", "probes"),
    [
        ("-verify -churn 5 -api [::1]:0", 200),
        ("-verify -churn 5 -api [::1]:0 -probes 0", 0),
        ("-churn 5 -api [::1]:0", 0),
        ("-verify", 0),
    ],
)
def test_changes_of_its_own_are_followed(words: str, probes: float) -> None:
    assert settings(f"{NEEDS} -rate 100..2000 {words}").probes == probes


@pytest.mark.parametrize(
    ("text", "metric"),
    [
        ("-queries q -find-knee -fail-if knee<5000", "knee"),
        ("-pods 10 -source synthetic -fail-if lookup.p99>5s", "lookup.p99"),
    ],
)
def test_limits_on_what_is_measured_only_then(text: str, metric: str) -> None:
    assert [limit.metric for limit in settings(text).limits] == [metric]
