from random import Random

import pytest

from loadtest.answering.cluster import CACHED_ZONE, ZONE, Cluster
from loadtest.answering.mixes import BY_KEY, MIXES, Mix, fresh_names

CLUSTER = Cluster(services=300, endpoints=10)


@pytest.mark.parametrize("mix", MIXES, ids=lambda mix: mix.key)
def test_a_mix_asks_the_same_in_every_run_and_only_below_one_zone(mix: Mix) -> None:
    questions = mix.questions(CLUSTER, Random(1))
    assert questions == mix.questions(CLUSTER, Random(1))
    assert questions
    zone = CACHED_ZONE if mix.external else ZONE
    assert all(name.endswith(f".{zone}") and len(name) < 254 for name, _ in questions)


@pytest.mark.parametrize(
    ("key", "most"), [("hot", 300), ("names-1k", 1000), ("names-100k", 3000)], ids=str
)
def test_a_small_cluster_has_fewer_names(key: str, most: int) -> None:
    questions = BY_KEY[key].questions(CLUSTER, Random(1))
    assert len(questions) == len(set(questions)) == most


def test_the_search_path_of_a_pod() -> None:
    questions = BY_KEY["search"].questions(CLUSTER, Random(1))
    assert [name for name, _ in questions[:6:2]] == [
        "www.example.org.ns-0.svc.cluster.local",
        "www.example.org.svc.cluster.local",
        "www.example.org.cluster.local",
    ]
    assert {rrtype for _, rrtype in questions} == {"A", "AAAA"}


def test_the_whole_cluster_has_every_kind_of_question() -> None:
    questions = BY_KEY["cluster"].questions(CLUSTER, Random(1))
    starts = {(name.partition("-")[0], rrtype) for name, rrtype in questions}
    assert starts == {("svc", "A"), ("svc", "AAAA"), ("_http._tcp.svc", "SRV"), ("absent", "A")}


def test_fresh_names_do_not_repeat() -> None:
    names = fresh_names(Random(1), 5000) + fresh_names(Random(2), 5000)
    assert len(set(names)) == len(names)
