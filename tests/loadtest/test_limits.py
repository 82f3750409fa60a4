"""When the limits of the benchmarks hold, and what they read: /proc, reports of generators, replies, metrics."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import dns.message
import dns.name
import dns.zone
import pytest

from hsdns.cluster.objects import EndpointSlice
from hsdns.cluster.read_object import programming_in
from hsdns.metrics import Registry
from hsdns.sources.synthetic import SyntheticCluster
from loadtest.answering import results as answering
from loadtest.answering.cluster import CACHED_ZONE, ZONE, Cluster
from loadtest.answering.mixes import BY_KEY, DRAIN, MIXES, Mix, randomize
from loadtest.answering.results import Results, Sample
from loadtest.apiserver.objects import trigger_time
from loadtest.demo import BAD, judged, subjects
from loadtest.dns import query_of
from loadtest.figures import Spread, Verdict
from loadtest.generator.measure import Row as GeneratorRow
from loadtest.generator.measure import Search, knees_told, lateness, load_row
from loadtest.generators import Counted, counted, latencies
from loadtest.pressure import results as pressure
from loadtest.pressure.clients import Counts, read_counts
from loadtest.pressure.judge import Unseen
from loadtest.pressure.machine import CpuTimes
from loadtest.pressure.results import FIGURES, Outcome
from loadtest.pressure.rows import BY_KEY as ROWS
from loadtest.pressure.soak import PRESSERS, REWRITTEN
from loadtest.pressure.soak_result import METRIC, Scraped, between, read
from loadtest.process import BenchmarkError, Memory, memory_of, schedstat_ns
from loadtest.programs import COREDNS, NATIVE, TITLES
from loadtest.verdicts.__main__ import Ran, Told, judge, judge_freeze
from loadtest.watch import report as watch
from loadtest.watch.report import Row
from tests.support.tables import columns

TABLES = Path(__file__).with_name("tables.txt")


def value_of(word: str) -> float | None:
    return None if word == "-" else float(word)


@pytest.mark.parametrize(("given", "expected"), columns(TABLES, "the verdict of a figure, its limit and its aim"))  # fmt: skip
def test_verdict(given: str, expected: str) -> None:
    """Behind them why it holds all the same."""
    words = [*given.split(maxsplit=3), ""][:4]
    limit, at_least = words[1].removeprefix(">="), words[1][:1] == ">"
    value, most, aim = map(value_of, (words[0], limit, words[2]))
    verdict = Verdict("", value, most, aim, at_least=at_least, instead=words[3])
    assert f"{'holds' if verdict.holds else 'fails'}: {verdict.word}" == expected


def test_goals_name_what_there_is() -> None:
    sides = {side for goal in answering.GOALS for side in (goal.ours, goal.others)}
    assert {mix for mix, _ in sides} <= {*BY_KEY}
    assert {server for _, server in sides} <= {*TITLES}
    assert {goal.row for goal in pressure.GOALS} == {*ROWS}
    assert {goal.figure for goal in pressure.GOALS} <= {*FIGURES}
    parts = ("start", "latency", "return", "churn", "flood")
    assert len(watch.judge([], parts, (0, 1_000, 10_000, 15_000, 50_000))) == len(watch.GOALS)


def test_answering_judges_what_was_selected() -> None:
    samples = [Sample("hot", each, DRAIN, 0, cpu, 0.0) for each, cpu in (("hsdns", 5.0), ("echo", 4.0))]  # fmt: skip
    verdicts = answering.judge(Results(samples, []), ["hot"], ["hsdns", "echo", "knot"])
    assert [(each.value, each.word) for each in verdicts] == [
        (1.25, "holds, aim missed"),
        (None, "not measured"),
    ]


WATCHED = [
    Row("10,000 Services", "start to ready, s", 1.2, 1.0, 2),
    Row("10,000 Services", "CPU to ready, s", 0.7, 1.0, 2),
    Row("5,000 changes/s for 60 s, 10,000 Services", "resident after 10 s, MB", 100.0, 1.0, 0),
    Row("5,000 changes/s for 60 s, 10,000 Services", "resident at the end, MB", 130.0, 1.0, 0),
    Row("5,000 changes/s for 60 s, 10,000 Services", "names wrong at the end", 0.0, 7.0, 0),
]


@pytest.mark.parametrize(("given", "expected"), columns(TABLES, "verdicts of a watch"))
def test_watch(given: str, expected: str) -> None:
    verdicts = watch.judge(WATCHED, ("start", "flood", "return"), (10_000,))
    (found,) = [each for each in verdicts if f"{each.goal.figure} | {each.goal.part}" == given]
    assert f"{'-' if found.value is None else found.value} {found.word}" == expected


def pressed(server: str, **more: object) -> Outcome:
    made = Outcome("new-4k", server, Counts(1000, 1000, 1000), cpu=0.1)
    return made._replace(**more)  # type: ignore[arg-type] # whatever a test sets


def pressure_verdicts(*outcomes: Outcome) -> dict[str, tuple[float | None, float | None]]:
    found = pressure.judge(outcomes, ["new-4k"], [each.server for each in outcomes])
    return {each.goal[0].figure: (each.value, each.limit) for each in found}


def test_pressure_judges_what_there_is() -> None:
    peer = pressed(COREDNS, cpu=0.2)
    assert pressure_verdicts(pressed(NATIVE), peer)["CPU µs an answer"] == pytest.approx((100.0, 120.0))  # fmt: skip
    assert "CPU µs an answer" not in pressure_verdicts(pressed(NATIVE))
    ended = pressed(NATIVE, ended="hsdns ended with status 1", events=Spread.of([0.001]))
    assert all(value is None for value, _ in pressure_verdicts(ended, peer).values())
    slow = pressed(NATIVE, events=Spread.of([0.001, 0.150]), judged={"right": 5, "stale": 2})
    found = pressure_verdicts(slow, peer)
    assert found["event worst, ms"] == (150.0, 100.0)
    assert found["stale or wrong answers"] == (2, 0.0)


@pytest.mark.parametrize(("answered", "instead"), [(950, "answered 95%"), (949, "")])
def test_a_share_can_be_enough_instead(answered: int, instead: str) -> None:
    outcome = pressed(NATIVE, row="new-12k", pressing=Counts(1000, 1000, answered, p99_us=9e6))
    found = pressure.judge([outcome, outcome._replace(server=COREDNS)], ["new-12k"], [NATIVE, COREDNS])  # fmt: skip
    assert instead in [each.instead for each in found if each.goal[0].figure == "pressing p99, ms"]


def test_each_row_that_presses_a_server_is_in_the_soak() -> None:
    """Heavier forms of others are not; no server reads the hostile manifests, and CoreDNS has no dashboard."""
    left_out = {
        *"new-12k new-20k misses beside-large zonal-pin yaml http-heads http-streams explained".split()
    }
    assert {*PRESSERS, REWRITTEN} == {*ROWS} - left_out


@pytest.mark.parametrize(("knees", "good"), columns(TABLES, "searches for a knee of 20,000"))
def test_all_searches_have_to_find_the_knee(knees: str, good: str) -> None:
    found = [None if each == "none" else float(each) for each in knees.split()]
    lines, checked = knees_told([Search(f"said {knee}", knee) for knee in found], 20_000)
    assert sum(line.startswith("found: ") for line in lines) == int(good)
    assert checked.holds is (good == "3")


def late(generator: str, us: float | None, server: str = "C echo") -> GeneratorRow:
    return GeneratorRow(server, generator, 20_000, 20_000.0, 1, 0, 50.0, 100.0, us, us, us)


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ([late("a", 80), late("a", 49, "Knot DNS")], "holds: a at 20,000/s late by 49 µs at p99.9 (limit 50 µs; with Knot DNS)"),
        ([late("a", 2000)], "DOES NOT HOLD: a at 20,000/s late by 2.0 ms at p99.9 (limit 50 µs; with C echo)"),
        ([late("a", None), late("b", 5)], "NOT MEASURED: a at 20,000/s"),
    ],
)  # fmt: skip
def test_limits_of_the_lateness(rows: list[GeneratorRow], line: str) -> None:
    (found,) = lateness(rows, {("a", 20_000): 50.0})
    assert found.line() == line


@pytest.mark.parametrize(("given", "expected"), columns(TABLES, "the demonstration"))
def test_what_the_demonstration_expects(given: str, expected: str) -> None:
    """A server, its verdicts, and the age of the stalest answer in microseconds."""
    words, _, stalest = given.partition(" | ")
    name, *counted = words.split()
    counts = dict.fromkeys(("right", *BAD), 0) | {
        word: int(number) for word, number in (each.split("=") for each in counted)
    }
    ages = [{"name": "max", "us": None if stalest == "-" else int(stalest)}]
    verdicts = {"counts": counts, "stale_age": ages, "changes": 50}
    (subject,) = [each for each in subjects("coredns") if each.name == name]
    found = judged(subject, {"seconds": 10.0, "verdicts": verdicts})
    assert found.holds is (expected == "as expected")


STARTED = 1_767_268_800.0  # 2026-01-01T12:00:00Z


def report(words: str, since: float | None = None) -> dict[str, Any]:
    given = dict(each.split("=") for each in words.split())
    reasons = {word: int(given.pop(word)) for word in ("behind", "forgotten") if word in given}
    verdicts = {
        "counts": {word: int(given.get(word, 0)) for word in ("right", *BAD, "undecided")},
        "undecided": reasons,
        "unjudged": {},
        "changes": 50,
        "stale_age": [{"name": "max", "us": 1_500_000}],
        "episodes": [] if since is None else [
            {"since_s": 0.1, "until_s": 0.2, "count": 1}, {"since_s": since, "until_s": since + 1.5, "count": 6}
        ],
    }  # fmt: skip
    server = {"ended": given.get("ended", ""), "verdicts": verdicts}
    return {"started": "2026-01-01T12:00:00.000Z", "servers": [server]}


@pytest.mark.parametrize(("given", "broken"), columns(TABLES, "verified answers of 1,000"))
def test_verified_answers(given: str, broken: str) -> None:
    """What is reported, and the octets of the generator; the one limit that does not hold."""
    words, _, memory = given.partition(" | ")
    checked = judge(Ran(report(words), int(memory)), 1000)
    assert [each.said for each in checked if not each.holds] == ([broken] if broken else [])


@pytest.mark.parametrize(("since", "expected"), columns(TABLES, "a freeze"))
def test_a_freeze_is_found_within_5_ms(since: str, expected: str) -> None:
    error, word = expected.split()
    frozen = Told(STARTED + 9.999, STARTED + 10.002)
    old = None if since == "-" else float(since)
    found, *_ = judge_freeze(Ran(report("stale=7", old), 0, frozen))
    assert found.holds is (word == "holds")
    assert found.said.startswith("the freeze was not" if error == "-" else f"the freeze was found {error} ms")  # fmt: skip


# --- what benchmarks read, and what they ask ---


def test_proc() -> None:
    status = "Name:\thsdns\nVmPeak:\t 9 kB\nVmHWM:\t   30 kB\nVmRSS:\t   20 kB\nThreads:\t1\n"
    assert memory_of(status) == Memory(now=20 * 1024, peak=30 * 1024)
    assert memory_of("Name:\thsdns\nState:\tZ (zombie)\n") == Memory(0, 0)
    assert schedstat_ns("288560 66109 1\n") == 288560
    stat = "cpu  100 1 50 800 20 2 7 20 5 0\ncpu0 1 2 3\n"
    assert CpuTimes.of(stat) == CpuTimes(idle=820, stolen=20, all=1000)


DNSPERF = """\
> NOERROR svc-1.ns-0.svc.cluster.local A 0.000061
> NXDOMAIN absent.cluster.local A 0.001500
> T late.cluster.local A
  Queries sent:         272105
  Queries completed:    272104 (100.00%)
  Run time (s):         2.000412
"""


def test_dnsperf() -> None:
    assert counted(DNSPERF) == Counted(272105, 272104, 2.000412)
    assert latencies(DNSPERF) == [0.000061, 0.0015]
    with pytest.raises(BenchmarkError, match="Queries sent"):
        counted("Error: unable to open input file")


REPORT: dict[str, Any] = {
    "counts": {"due": 4000, "sent": 3998, "answered": 7, "lost": 3, "not_sent": 2, "rcodes": {"NOERROR": 4, "SERVFAIL": 2, "REFUSED": 1}},
    "latency": [{"name": "p50", "us": 5}, {"name": "p99", "us": None}, {"name": "max", "us": 900}],
    "lateness": [{"name": name, "us": us} for name, us in (("p50", 1), ("p99", 2), ("p99.9", 3))],
}  # fmt: skip


def test_reports_of_hsdns_load() -> None:
    found = load_row(REPORT, "Knot DNS", "hsdns load", 1000, 4.0, 0.02)
    assert (found.reached, found.cpu, found.lost, found.p50, found.p99) == (999.5, 5.0, 5, 5, None)
    assert (found.late_p50, found.late_p99, found.late_p999) == (1, 2, 3)
    assert read_counts(json.dumps({"servers": [REPORT]})) == Counts(4000, 3998, 7, 3, 5, 0, 900)


def test_counts() -> None:
    found = read_counts('{"offered": 10, "sent": 8, "answered": 6, "failed": 2}\n')
    assert (found, found.share) == (Counts(10, 8, 6, 2), 0.5)
    for text in ("", "no JSON", "[1]", '{"sent": 1}'):
        with pytest.raises(BenchmarkError, match="which are no counts"):
            read_counts(text)


def scraped(durations: dict[str, list[float]]) -> Scraped:
    """What a server says that has applied changes after some seconds each, by kind of Service."""
    metrics = Registry()
    observe = programming_in(metrics)
    for kind, listed in durations.items():
        for seconds in listed:
            observe(kind, trigger_time(1e9), 1e9 + seconds)
    metrics.fold()
    return Scraped(read(metrics.to_text().decode()))


@pytest.mark.parametrize(("given", "expected"), columns(TABLES, "applied after seconds, of Services of two kinds"))  # fmt: skip
def test_how_soon_changes_are_applied(given: str, expected: str) -> None:
    """How many, and the bounds of the 99th percentile and the worst."""
    headless, others = (
        [float(seconds) for each in part.split() for count, _, seconds in [each.partition("*")] for _ in range(int(count))]
        for part in given.split("|")
    )  # fmt: skip
    start = [3.0, 86_400.0]  # what was there when the server started
    after = scraped({"headless": start + headless, "cluster_ip": others})
    found = between(scraped({"headless": start}), after)
    bounds = [each and f"{each.above:g}-{each.most:g}" for each in (found.p99, found.worst)]
    assert f"{found.changes} {bounds} {found.unknown.removeprefix(METRIC)}".strip() == expected


# --- what is asked, and of which cluster ---

CLUSTER = Cluster(services=130, endpoints=3)


@pytest.mark.parametrize("mix", MIXES, ids=lambda mix: mix.key)
def test_a_mix_asks_the_same_in_every_run_and_only_below_one_zone(mix: Mix) -> None:
    questions = mix.questions(CLUSTER, Random(1))
    assert questions
    assert questions == mix.questions(CLUSTER, Random(1))
    zone = CACHED_ZONE if mix.external else ZONE
    assert all(name.endswith(f".{zone}") and len(name) < 254 for name, _ in questions)


def test_a_varied_query_asks_the_same_in_other_octets() -> None:
    query = query_of("svc-1.ns-0.svc.cluster.local", "SRV", edns=True)
    first, second = (randomize(query, Random(seed)) for seed in (1, 2))
    assert first != second
    for varied in (first, second):
        message = dns.message.from_wire(varied)
        assert message.question == dns.message.from_wire(query).question
        assert (message.edns, message.payload) == (0, 4096)
        assert [(int(each.otype), len(each.to_wire() or b"")) for each in message.options] == [(10, 8)]  # fmt: skip


def test_all_servers_have_the_same_cluster() -> None:
    """What is in the zone file is what hsdns and the API server make."""
    lines = "\n".join(CLUSTER.zone_lines())
    zone = dns.zone.from_text(lines, origin=f"{ZONE}.", relativize=False)

    def texts(name: str, rrtype: str) -> list[str]:
        return sorted(rdata.to_text() for rdata in zone.find_rdataset(f"{name}.", rrtype))

    objects = [*SyntheticCluster(CLUSTER.shape()).objects()]
    slices = [each for each in objects if isinstance(each, EndpointSlice)]
    for index, each in enumerate(slices):
        expected = [(endpoint.addresses or [""])[0] for endpoint in each.endpoints or ()]
        assert texts(CLUSTER.service(index), "A") == sorted(expected)
        for endpoint, address in enumerate(expected):
            assert texts(CLUSTER.pod(index, endpoint), "A") == [address]
        assert texts(CLUSTER.port(index), "SRV") == sorted(
            f"0 33 8080 {CLUSTER.pod(index, endpoint)}." for endpoint in range(len(expected))
        )


# --- which state an answer shows ---


@pytest.mark.parametrize(("answers", "expected"), columns(TABLES, "a change that is due at 1"))
def test_a_change_that_is_due_at_1(answers: str, expected: str) -> None:
    """The times of queries and the last number of the address in their answers."""
    unseen = Unseen({7: ["10.0.0.0"]})
    unseen.add(7, 1.0)
    for asked, number in (each.split(":") for each in answers.split()):
        unseen.take(7, float(asked), frozenset({f"10.0.0.{number}"}))
    assert bool(unseen) is (expected == "not seen")
