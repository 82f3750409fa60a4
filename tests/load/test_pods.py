from collections import Counter
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.load.pods import FORMS, RESOLVERS, Pods
from hsdns.resolver.glibc import Glibc
from tests.load.pod_plans import OUTSIDE, VAULT, WEB, plan


@pytest.mark.parametrize(
    ("target", "form", "name", "meant"),
    [
        (WEB, "name", "web", "web.shop.svc.cluster.local"),
        (WEB, "namespace", "web.shop", "web.shop.svc.cluster.local"),
        (WEB, "svc", "web.shop.svc", "web.shop.svc.cluster.local"),
        (WEB, "full", "web.shop.svc.cluster.local", "web.shop.svc.cluster.local"),
        (WEB, "absolute", "web.shop.svc.cluster.local.", "web.shop.svc.cluster.local"),
        (VAULT, "name", "v-0.vault", "v-0.vault.bank.svc.cluster.local"),
        (VAULT, "namespace", "v-0.vault.bank", "v-0.vault.bank.svc.cluster.local"),
        (OUTSIDE, "full", "www.example.com", "www.example.com"),
        (OUTSIDE, "absolute", "www.example.com.", "www.example.com"),
    ],
)
def test_forms(target: object, form: str, name: str, meant: str) -> None:
    wanted = next(Pods(plan(targets=[target], forms={form: 1})).lookups())
    assert (wanted.name, wanted.meant, wanted.form) == (name, meant, form)
    assert wanted.kind == target.kind  # type: ignore[attr-defined] # a Target


def test_a_name_outside_has_no_short_form() -> None:
    wanted = next(Pods(plan(targets=[OUTSIDE])).lookups())
    assert (wanted.name, wanted.form) == ("www.example.com", "full")


def test_only_pods_of_the_namespace_use_the_short_form() -> None:
    found = list(islice(Pods(plan(targets=[WEB, VAULT], weights=[1, 1])).lookups(), 200))
    pods = {
        name: {each.pod for each in found if each.name == name} for name in ("web", "v-0.vault")
    }
    assert pods == {"web": {0, 2, 4}, "v-0.vault": {1, 3}}


@given(seed=st.integers(0, 99), count=st.integers(1, 50))
def test_the_same_seed_gives_the_same_lookups(seed: int, count: int) -> None:
    asked = plan(
        seed=seed, count=count, forms=dict(FORMS), targets=[WEB, VAULT, OUTSIDE], weights=[3, 2, 1]
    )
    assert list(islice(Pods(asked).lookups(), 50)) == list(islice(Pods(asked).lookups(), 50))


@given(
    shares=st.dictionaries(st.sampled_from(list(RESOLVERS)), st.integers(1, 99), min_size=1),
    count=st.integers(1, 400),
)
def test_resolvers_by_their_shares(shares: dict[str, int], count: int) -> None:
    found = Counter(Pods(plan(resolvers=shares, count=count)).resolvers)
    assert found.total() == count
    for name, share in shares.items():
        assert abs(found[name] - count * share / sum(shares.values())) < 1


def test_a_resolver_is_kept_and_another_one_is_for_what_runs_beside() -> None:
    pods = Pods(plan())
    first = pods.take(3)
    second = pods.take(3)
    assert first is not second
    assert isinstance(first, Glibc)
    assert first.conf.search == (
        "bank.svc.cluster.local",
        "svc.cluster.local",
        "cluster.local",
        "node.test",
    )
    pods.release(3, first)
    assert pods.take(3) is first
