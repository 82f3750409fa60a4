"""Changes of simulated slices: what each kind does, and that addresses are used once."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.cluster.objects import Endpoint, EndpointSlice, ObjectMeta
from hsdns.load.cluster.changes import KINDS, Changes, read_kinds
from hsdns.load.errors import LoadError

SPARE = [f"10.1.0.{number}" for number in range(250)]


def slices(count: int = 3, endpoints: int = 2) -> list[EndpointSlice]:
    return [
        EndpointSlice(
            ObjectMeta(name=f"s-{at}"),
            "IPv4",
            [
                Endpoint([f"10.0.{at}.{number}"], hostname=f"e-{number}")
                for number in range(endpoints)
            ],
        )
        for at in range(count)
    ]


def changes(kinds: Mapping[str, int], seed: int = 1, **shape: int) -> Changes:
    return Changes(slices(**shape), kinds, seed, SPARE)


def addresses(found: EndpointSlice) -> list[str]:
    return [address for each in found.endpoints or () for address in each.addresses or ()]


def ready(found: EndpointSlice) -> list[str]:
    return [
        address
        for each in found.endpoints or ()
        if each.conditions is None or each.conditions.ready is not False
        for address in each.addresses or ()
    ]


@given(
    kinds=st.dictionaries(st.sampled_from(KINDS), st.integers(1, 5), min_size=1),
    seed=st.integers(0, 99),
    count=st.integers(1, 60),
)
def test_a_change_is_one_endpoint_of_one_slice(
    kinds: dict[str, int], seed: int, count: int
) -> None:
    found, again = changes(kinds, seed), changes(kinds, seed)
    for _ in range(count):
        before = list(found.slices)
        changed = found.next()
        assert again.next() == changed
        (at,) = [at for at, each in enumerate(found.slices) if each is not before[at]]
        assert changed is found.slices[at]
        assert changed != before[at]
        old, new = set(ready(before[at])), set(ready(changed))
        assert len(old - new) <= 1
        assert len(new - old) <= 1
        used = [address for each in found.slices for address in addresses(each)]
        assert len(used) == len(set(used))


@pytest.mark.parametrize(
    ("kind", "counts"),
    [("renumber", {2}), ("rollout", {2}), ("ready", {2}), ("kill", {0, 1, 2}), ("scale", {0, 1, 2, 3, 4})],
)  # fmt: skip
def test_how_many_endpoints_there_are(kind: str, counts: set[int]) -> None:
    found = changes({kind: 1})
    seen = {len(found.next().endpoints or ()) for _ in range(300)}
    assert seen <= counts
    if kind == "scale":
        assert seen == counts


def test_a_roll_out_replaces_each_endpoint_of_a_slice() -> None:
    found = changes({"rollout": 1}, count=5, endpoints=3)
    before = list(found.slices)
    names = {found.next().metadata.name for _ in range(3)}
    assert len(names) == 1
    (rolled,) = [at for at, each in enumerate(found.slices) if each is not before[at]]
    assert not set(addresses(before[rolled])) & set(addresses(found.slices[rolled]))
    hostnames = [each.hostname for each in found.slices[rolled].endpoints or ()]
    assert hostnames == ["e-0", "e-1", "e-2"]


def test_readiness_flips_and_comes_back() -> None:
    found = changes({"ready": 1}, count=1, endpoints=1)
    assert [ready(found.next()) for _ in range(4)] == [[], ["10.0.0.0"], [], ["10.0.0.0"]]


def test_what_was_killed_comes_back_with_another_address() -> None:
    found = changes({"kill": 1}, count=1, endpoints=1)
    assert addresses(found.next()) == []
    back = addresses(found.next())[0]
    assert back in SPARE
    assert [each.hostname for each in found.slices[0].endpoints or ()] == ["e-0"]


def test_nothing_to_change() -> None:
    with pytest.raises(LoadError) as error:
        changes({"ready": 1}, endpoints=0)
    assert str(error.value) == "-churn: a cluster without endpoints has nothing to change"


def test_kinds() -> None:
    assert read_kinds("scale=3, ready=0") == {"scale": 3, "ready": 0}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("scael=1", '-churn-kinds: "scael" is no kind of change; did you mean "scale"?'),
        ("x=1", '-churn-kinds: "x" is no kind of change; there are scale, rollout, ready, kill, renumber'),
        ("scale", '-churn-kinds: scale needs a share, such as scale=2; found ""'),
        ("scale=-1", '-churn-kinds: scale needs a share, such as scale=2; found "-1"'),
        ("scale=1,scale=2", "-churn-kinds: scale is given twice; remove one of them"),
        ("scale=0", '-churn-kinds: the shares of "scale=0" are all 0, so nothing would change'),
    ],
)  # fmt: skip
def test_bad_kinds(text: str, sentence: str) -> None:
    with pytest.raises(LoadError) as error:
        read_kinds(text)
    assert str(error.value) == sentence
