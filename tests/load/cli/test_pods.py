"""The flags of pods are tested with the others, in test_load_flags.py; here is what they say of a cluster."""

import pytest

from hsdns.load.cli.settings import PodSettings, in_words, longest_timeout, pod_questions
from hsdns.load.errors import LoadError
from hsdns.load.questions import Questions
from hsdns.plugins.kubernetes import Kubernetes
from tests.load.clusters import with_block

SETTINGS = PodSettings(3, {"glibc": 2, "go": 1}, {"full": 1}, ["a.test"], {"ndots": "2"}, ["node.test"], None)  # fmt: skip


def questions(settings: PodSettings, blocks: int = 1) -> Questions:
    async def choose(block: Kubernetes) -> Questions:
        return pod_questions(settings, [block] * blocks, 0.0, 5)

    found = with_block(choose)
    assert isinstance(found, Questions)
    return found


def test_the_pods_of_a_cluster() -> None:
    found = questions(SETTINGS)
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
        questions(SETTINGS, blocks=2)
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
    settings = SETTINGS._replace(resolvers=dict.fromkeys(resolvers, 1), options=options)
    assert longest_timeout(settings) == seconds
