from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from hsdns.cli.command import FlagError
from hsdns.load.cli.load import Load
from hsdns.load.cli.settings import (
    LoadSettings,
    PodSettings,
    in_words,
    longest_timeout,
    pod_questions,
    read_settings,
)
from hsdns.load.errors import LoadError
from hsdns.load.limits import Limit
from hsdns.load.plan import DOH, DOT, GET, TCP, StreamPlan
from hsdns.load.pods import FORMS, RESOLVERS
from hsdns.load.questions import Questions
from hsdns.load.schedule import Portion, Schedule, Stage
from hsdns.load.target import Target
from hsdns.plugins.kubernetes import Kubernetes
from tests.load.captures import SECOND, packet, pcap
from tests.load.clusters import with_block
from tests.load.test_replay import WEB, query


def flags(words: str | Sequence[str]) -> Load:
    found = Load.parse(words.split() if isinstance(words, str) else list(words))
    assert found is not None
    return found


def settings(words: str | Sequence[str]) -> LoadSettings:
    return read_settings(flags(words))


def test_defaults() -> None:
    given = flags("-queries q.txt")
    assert read_settings(given) == LoadSettings(
        flags=given,
        targets=[Target("127.0.0.1 port 53", "127.0.0.1", 53)],
        schedule=Schedule((Stage(10, 1000, 1000),), "even", 1, 1),
        timeout=2.0,
        sockets=4,
        wait=0.0,
        churn=0.0,
        churn_kinds={"renumber": 1},
        probes=0.0,
        zipf=0.0,
        limits=[],
        mix=None,
        api=None,
        portion=Portion(),
        streams=None,
        pods=None,
        replay=None,
        knee=None,
    )


def test_all() -> None:
    given = flags(
        "-server 192.0.2.1 -server b=[::1]:54 -i-own-this 192.0.2.1 -p 1053 -rate 5..10:1s,7 -time 3s -arrival burst=2 -seed 9 -edns 1232 "
        "-timeout 1s -sockets 2 -verify -slack 50ms -source synthetic -api [::1]:8001 -churn 2.5 -churn-kinds scale=2,ready=1 -probes 30 -wait 4s "
        "-fail-if stale>0 -mix srv=1 -zipf 1.5 -keep-going -live none -start-at +30s"
    )  # fmt: skip
    assert read_settings(given) == LoadSettings(
        flags=given,
        targets=[Target("192.0.2.1 port 1053", "192.0.2.1", 1053), Target("b", "::1", 54)],
        schedule=Schedule((Stage(1, 5, 10), Stage(2, 7, 7)), "burst", 2, 9),
        timeout=1.0,
        sockets=2,
        wait=4.0,
        churn=2.5,
        churn_kinds={"scale": 2, "ready": 1},
        probes=30.0,
        zipf=1.5,
        limits=[Limit("stale>0", "stale", ">", 0.0, "")],
        mix={"srv": 1},
        api=("::1", 8001),
        portion=Portion(),
        streams=None,
        pods=None,
        replay=None,
        knee=None,
    )
    assert (given.edns, given.slack, given.verify, given.keep_going) == (1232, 0.05, True, True)


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
        ("-queries q -transport doq", '-transport needs udp, tcp, dot or doh, found "doq"; did you mean "dot"?'),
        ("-queries q -transport carrier", '-transport needs udp, tcp, dot or doh, found "carrier"'),
        ("-queries q -retry-tcp -transport tcp", "-retry-tcp is for answers over UDP, and -transport is tcp; leave one of them out"),
        ("-queries q -tls-insecure -retry-tcp", "-tls-insecure needs -transport dot or doh"),
        ("-queries q -sockets 2 -transport dot", "-sockets is for UDP, and -transport is dot; -connections says how many there are"),
        ("-queries q -connections 2", "-connections needs -transport tcp or dot or doh, or -retry-tcp"),
        ("-queries q -idle 2s -transport udp", "-idle needs -transport tcp or dot or doh, or -retry-tcp"),
        ("-queries q -tls-name a -transport tcp", "-tls-name needs -transport dot or doh"),
        ("-queries q -doh-path /q -transport dot", "-doh-path needs -transport doh"),
        ("-queries q -transport dot -tls-insecure -tls-ca a", "-tls-insecure trusts any certificate, -tls-ca only some; leave one of them out"),
        ("-queries q -transport tcp -idle soon", '-idle needs a time such as 10s, found "soon"'),
        ("-queries q -transport doh -doh-path q", '-doh-path needs a path such as /dns-query, found "q"'),
        ("-queries q -transport doh -doh-path /q{?dns}", '-doh-path: leave {?dns} out of "/q{?dns}"; the query is added where it belongs'),
        ("-queries q -transport doh -doh-method put", '-doh-method needs post or get, found "put"'),
        ("-queries q -transport tcp -pipeline 0", '-pipeline needs a number from 1 to 60000, found "0"'),
        ("-queries q -speed 2", "-speed needs -replay"),
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


@pytest.mark.parametrize(
    ("text", "plan", "port"),
    [
        ("", None, 53),
        ("-transport udp", None, 53),
        ("-transport tcp", StreamPlan(TCP), 53),
        ("-transport dot", StreamPlan(DOT), 853),
        ("-transport doh", StreamPlan(DOH), 443),
        ("-retry-tcp -connections 3", StreamPlan(TCP, 3, for_truncated=True), 53),
        (
            "-transport tcp -connections 3 -pipeline 1 -queries-per-connection 5 -idle 2s",
            StreamPlan(TCP, 3, 1, 5, 2_000_000_000),
            53,
        ),
        ("-transport dot -tls-ca a.pem -tls-name dns.test", StreamPlan(DOT, tls_ca="a.pem", tls_name="dns.test"), 853),
        (
            "-transport doh -tls-insecure -doh-path /q?x=1 -doh-method GET -idle 0s",
            StreamPlan(DOH, idle=0, tls_insecure=True, path="/q?x=1", method=GET),
            443,
        ),
    ],
)  # fmt: skip
def test_connections(text: str, plan: StreamPlan | None, port: int) -> None:
    found = settings(f"-queries q {text}")
    assert (found.streams, found.targets[0].port) == (plan, port)


POD_SETTINGS = PodSettings(3, {"glibc": 2, "go": 1}, {"full": 1}, ["a.test"], {"ndots": "2"}, ["node.test"], None)  # fmt: skip


def questions(settings: PodSettings, blocks: int = 1) -> Questions:
    async def choose(block: Kubernetes) -> Questions:
        return pod_questions(settings, [block] * blocks, 0.0, 5)

    found = with_block(choose)
    assert isinstance(found, Questions)
    return found


def test_the_pods_of_a_cluster() -> None:
    found = questions(POD_SETTINGS)
    assert (found.all, found.seed) == ([], 5)
    plan = found.pods
    assert plan is not None
    assert (plan.count, plan.namespaces, plan.domain, plan.seed) == (
        3,
        ["ns-0"],
        "cluster.local",
        5,
    )
    assert plan.resolv_confs == [
        "search ns-0.svc.cluster.local svc.cluster.local cluster.local node.test\n"
        "nameserver 192.0.2.53\noptions ndots:2\n"
    ]
    assert len(plan.targets) == len(plan.weights) == 2 + 2 + 8 + 4 + 1
    assert in_words(plan) == (
        "lookups of 3 pods (glibc 2, go 1) in 1 namespaces, 17 names: service, headless, endpoint, absent, external"
    )


def test_more_than_one_cluster() -> None:
    with pytest.raises(LoadError) as error:
        questions(POD_SETTINGS, blocks=2)
    assert str(error.value) == (
        "-pods needs one kubernetes block, but the Corefile has 2; leave one in it"
    )


@pytest.mark.parametrize(
    ("resolvers", "options", "seconds"),
    [
        (["glibc", "c-ares"], {}, 5.0),
        (["c-ares"], {}, 2.0),
        (["musl", "go"], {"timeout": "1"}, 1.0),
    ],
)
def test_when_a_query_is_lost(
    resolvers: list[str], options: dict[str, str], seconds: float
) -> None:
    found = POD_SETTINGS._replace(resolvers=dict.fromkeys(resolvers, 1), options=options)
    assert longest_timeout(found) == seconds


WHOLE = pcap([(at * SECOND, packet(query(WEB), client=at)) for at in range(1, 4)])


def replayed(path: Path, octets: bytes, more: str = "") -> LoadSettings:
    path.write_bytes(octets)
    return settings(f"-replay {path} {more}")


def test_a_recording(tmp_path: Path) -> None:
    path = tmp_path / "c"
    found = replayed(path, WHOLE, "-speed 2")
    assert found.schedule == Schedule((Stage(1.0, 3.0, 3.0),), "recorded", 1, 1)
    assert found.replay is not None
    assert found.replay.what == f"3 queries of {path}, 1 different ones, from 3 clients, at speed 2"
    cut = replayed(path, WHOLE, "-time 1500ms")
    assert cut.replay is not None
    assert cut.replay.what == (
        f"2 queries of {path}, 1 different ones, from 2 clients, at speed 1; left out: after -time 1"
    )


def test_a_broken_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c"
    with pytest.raises(LoadError) as error:
        replayed(path, WHOLE[:-1])
    assert str(error.value) == (
        f"{path} ends in packet 3; -replay-broken replays the 2 queries before"
    )
    found = replayed(path, WHOLE[:-1], "-replay-broken")
    assert found.replay is not None
    assert found.replay.replay.queries == 2
    assert capsys.readouterr().err == f"{path} ends in packet 3; what is before is replayed\n"


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ("-speed 0", '-speed needs a number such as 2 or 0.5, found "0"'),
        ("-speed fast", '-speed needs a number such as 2 or 0.5, found "fast"'),
        ("-queries q", "-queries asks what is in another file; leave it or -replay out"),
        ("-rate 5", "-rate is that of the recording; -speed changes it; leave it or -replay out"),
        ("-arrival even", "-arrival is that of the recording; leave it or -replay out"),
        ("-source synthetic -zipf 1", "-zipf draws names of a cluster; leave it or -replay out"),
        ("-source synthetic -pods 1", "-pods look names up at times of their own; leave it or -replay out"),
        ("-max-rate 2 -speed 5", "-replay: 3 queries in a second are above the ceiling of 2; -max-rate 3 lifts it, a lower -speed stays below"),
        ("-max-time 1s", "-time: 2s is above the ceiling of 1s; -max-time 2s lifts it"),
    ],
)  # fmt: skip
def test_what_does_not_fit_a_recording(tmp_path: Path, more: str, sentence: str) -> None:
    with pytest.raises((FlagError, LoadError)) as error:
        replayed(tmp_path / "c", WHOLE, more)
    assert str(error.value) == sentence
