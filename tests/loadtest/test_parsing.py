"""What the benchmarks read: /proc, reports of generators, replies, metrics, and what they ask."""

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
from loadtest.answering.cluster import CACHED_ZONE, ZONE, Cluster
from loadtest.answering.mixes import MIXES, Mix, randomize
from loadtest.apiserver.objects import trigger_time
from loadtest.dns import query_of
from loadtest.generator.measure import load_row
from loadtest.generators import Counted, counted, latencies
from loadtest.pressure.clients import Counts, read_counts
from loadtest.pressure.judge import Unseen
from loadtest.pressure.machine import CpuTimes
from loadtest.pressure.soak_result import METRIC, Scraped, between, read
from loadtest.process import BenchmarkError, Memory, cpu_ticks_of, memory_of, schedstat_ns
from loadtest.verdicts.__main__ import Newest
from tests.support.tables import columns

TABLES = Path(__file__).with_name("tables.txt")


@pytest.mark.parametrize("name", ["hsdns", "x) S 1 2 3 (y"])
def test_proc(name: str) -> None:
    before = "S 1 1 1 0 -1 4194304 2000 0 0 0"
    assert cpu_ticks_of(f"42 ({name}) {before} 100 20 3 4 20 0 1 0 12345 0") == 127
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
    unseen = Unseen()
    unseen.add(7, 1.0)
    for asked, number in (each.split(":") for each in answers.split()):
        unseen.take(7, float(asked), frozenset({f"10.0.0.{number}"}))
    assert bool(unseen) is (expected == "not seen")


def shown(version: int) -> bytes:
    return b"\0\1\0\0\0\5" + b"\0\4" + bytes((172, 16, version >> 8, version & 255))


@pytest.mark.parametrize(("answers", "back"), columns(TABLES, "answers that go back"))
def test_answers_that_go_back(answers: str, back: str) -> None:
    """The Service, the newest version when it was asked for, and the version of the answer."""
    newest, listed = Newest(), answers.split(", ")
    for service, sent, version in map(str.split, listed):
        at = b"" if sent == "-" else bytes((172, 16, int(sent) >> 8, int(sent) & 255))
        newest.judge(int(service), at, b"" if version == "-" else shown(int(version)), 1.0)
    assert (newest.answers, newest.back) == (len(listed), int(back))
