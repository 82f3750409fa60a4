"""What is sent when: schedules, plans, questions, of which questions.txt has files, and the lookups of pods."""

from __future__ import annotations

import json
from array import array
from collections import Counter
from heapq import merge
from itertools import islice
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.load.errors import LoadError
from hsdns.load.plan import Plan, StreamPlan, authority, transport_words
from hsdns.load.pods import FORMS, RESOLVERS, Pods, Target, check_names
from hsdns.load.questions import ABSENT, Question, Questions, Recorded, order, read_queries, zipf
from hsdns.load.schedule import BURST, EVEN, POISSON, SECOND, Portion, Schedule, Stage
from hsdns.resolver.glibc import Glibc
from hsdns.wire.decode import decode
from hsdns.wire.edns import Edns
from hsdns.wire.iana import RRType, type_to_text
from hsdns.wire.message import CD, RD
from hsdns.wire.name import Name
from tests.load.clusters import OUTSIDE, VAULT, WEB, plan
from tests.support.tables import columns, lines

TABLES = Path(__file__).with_name("tables.txt")
MS = SECOND // 1000


@pytest.mark.parametrize(("given", "times"), columns(TABLES, "when queries are due: stages of seconds:first-last, and the size of bursts => milliseconds"))  # fmt: skip
def test_times(given: str, times: str) -> None:
    words, _, burst = given.partition(" burst=")
    stages = [
        Stage(*map(float, each.replace("-", ":").split(":")))  # type: ignore[arg-type] # three of them
        for each in words.split()
    ]
    schedule = Schedule(tuple(stages), BURST if burst else EVEN, int(burst or 1))
    assert " ".join(str(round(time / MS)) for time in schedule.times()) == times


STAGES = st.lists(
    st.builds(Stage, st.floats(0.01, 20), st.floats(0, 300), st.floats(0, 300)),
    min_size=1,
    max_size=4,
).map(tuple)


@given(stages=STAGES, burst=st.integers(1, 7), arrival=st.sampled_from([EVEN, BURST]))
def test_as_many_as_the_area_at_any_time(
    stages: tuple[Stage, ...], burst: int, arrival: str
) -> None:
    schedule = Schedule(stages, arrival, burst if arrival == BURST else 1)
    times = list(schedule.times())
    assert times == sorted(times)
    assert all(0 <= time <= round(schedule.seconds * SECOND) for time in times)
    assert abs(len(times) - sum(stage.area for stage in stages)) <= schedule.burst + 1e-6
    begin = area = 0.0
    for stage in stages:
        begin, area = begin + stage.seconds, area + stage.area
        before = sum(time <= begin * SECOND for time in times)
        assert abs(before - area) <= schedule.burst + 1


@given(rate=st.integers(1, 2000), seed=st.integers(0, 1000))
def test_poisson_has_the_rate_and_depends_on_the_seed_alone(rate: int, seed: int) -> None:
    schedule = Schedule((Stage(1, rate, rate),), POISSON, seed=seed)
    times = list(schedule.times())
    assert times == sorted(times)
    assert times == list(schedule.times())
    assert abs(len(times) - rate) <= 8 * rate**0.5 + 8  # eight standard deviations


RATES = st.floats(0, 300)
SOME_STAGES = st.lists(st.builds(Stage, st.floats(0.1, 2), RATES, RATES), min_size=1, max_size=3)


@given(
    stages=SOME_STAGES,
    arrival=st.sampled_from([EVEN, POISSON, BURST]),
    burst=st.integers(1, 9),
    count=st.integers(1, 9),
    weights=st.lists(st.floats(0.1, 9), max_size=4),
    seed=st.integers(0, 9),
)
def test_the_portions_together_are_the_plan(
    stages: list[Stage], arrival: str, burst: int, count: int, weights: list[float], seed: int
) -> None:
    """The same questions at the same times, each once, and as many for each generator but for one."""
    schedule = Schedule(tuple(stages), arrival, burst, seed)
    length = len(weights) or 5
    whole = list(zip(schedule.times(), order(length, weights, seed), strict=False))
    portions = [
        list(
            zip(
                schedule.times(Portion(index, count)),
                Portion(index, count).of(order(length, weights, seed)),
                strict=False,
            )
        )
        for index in range(count)
    ]
    together = merge(*([(time, n) for n, (time, _) in enumerate(each)] for each in portions))
    assert [time for time, _ in together] == [time for time, _ in whole]
    assert [portions[n % count][n // count] for n in range(len(whole))] == whole
    assert {len(each) for each in portions} <= {len(whole) // count, -(-len(whole) // count)}


# --- plans ---


def test_a_portion_of_what_was_recorded() -> None:
    times, numbers = array("q", [0, 5, 5, 10**12]), array("I", [1, 0, 0, 1])
    recorded = Recorded(times.tobytes(), numbers.tobytes())
    plan = Plan(2, ("127.0.0.1", 53), [b"", b""], [], Schedule((), "recorded"), 10**9, 4, True, recorded)  # fmt: skip
    second = msgspec.structs.replace(plan, portion=Portion(1, 2))
    assert (list(second.times()), list(second.order())) == ([5, 10**12], [0, 1])


def test_words_of_what_is_truncated() -> None:
    assert transport_words(StreamPlan(for_truncated=True)) == "UDP (TCP for what is truncated)"


@pytest.mark.parametrize(("place", "text"), columns(TABLES, "authorities"))
def test_authority(place: str, text: str) -> None:
    host, port = place.split()
    assert authority(host, int(port)) == text


# --- questions ---

WWW = Question(Name.from_text("www.a.test."), RRType.SRV, "file")


@pytest.mark.parametrize(
    ("question", "flags", "edns"),
    [
        (WWW._replace(flags=CD), CD, Edns(4096)),
        (WWW._replace(own_edns=0), RD, None),
        (WWW._replace(own_edns=1232, do=True, flags=RD | CD), RD | CD, Edns(1232, do=True)),
    ],
)
def test_a_query_as_it_was_recorded(question: Question, flags: int, edns: Edns | None) -> None:
    query = decode(b"\0\0" + question.octets(4096))
    assert (query.flags, query.edns) == (flags, edns)


@given(weights=st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(any), seed=st.integers())
def test_drawn_by_weight(weights: list[int], seed: int) -> None:
    drawn = list(islice(order(len(weights), weights, seed), 1000))
    assert drawn == list(islice(order(len(weights), weights, seed), 1000))
    for number, count in Counter(drawn).items():
        share = weights[number] / sum(weights)
        assert share > 0
        assert abs(count - 1000 * share) <= 6 * (1000 * share * (1 - share)) ** 0.5 + 6


def test_zipf() -> None:
    assert [list(zipf(4, 1.0)), list(zipf(3, 0.0))] == [[1, 1 / 2, 1 / 3, 1 / 4], [1, 1, 1]]


def test_the_first_one_exists() -> None:
    absent = WWW._replace(group=ABSENT)
    assert Questions([absent, WWW]).first == WWW
    assert Questions([absent]).first == absent
    pods = plan(targets=[Target("x", "bank", ABSENT), VAULT])
    first = Questions([], pods=pods).first
    assert (first.name.to_text(), first.qtype, first.group) == (
        "v-0.vault.bank.svc.cluster.local.",
        RRType.A,
        "endpoint",
    )


@pytest.mark.parametrize("row", lines(Path(__file__).with_name("questions.txt")))
def test_files(row: str) -> None:
    text, expected = row.split(" => ")
    try:
        found = read_queries(json.loads(text).splitlines(keepends=True), "q.txt")
    except LoadError as error:
        assert str(error) == expected
    else:
        assert {each.group for each in found} == {"file"}
        told = [f"{each.name.to_text()} {type_to_text(each.qtype)}" for each in found]
        assert ", ".join(told) == expected


# --- pods ---


@pytest.mark.parametrize(("given", "expected"), columns(TABLES, "forms of names"))
def test_forms(given: str, expected: str) -> None:
    """Labels, namespace and kind of a target, and the form; what is looked up, and what is meant."""
    *target, _, form = given.replace(" - ", "  ").split(" ")
    wanted = next(Pods(plan(targets=[Target(*target)], forms={form: 1})).lookups())
    assert (f"{wanted.name} {wanted.meant}", wanted.form) == (expected, form)
    assert wanted.kind == target[2]


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


def test_ports_are_looked_up_by_programs_that_do_so() -> None:
    port = Target("_pg._tcp.db", "shop", "srv")
    pods = Pods(plan(targets=[port], weights=[1.0], resolvers={"go": 1, "java": 1}))
    found = list(islice(pods.lookups(), 100))
    assert {each.types for each in found} == {(RRType.SRV,)}
    assert {pods.resolvers[each.pod] for each in found} == {"go"}
    with pytest.raises(LoadError, match=r"^--mix: no pod looks up the kind srv; "):
        check_names(plan(targets=[port], weights=[1.0], resolvers={"java": 1}))


def test_a_name_that_is_too_long() -> None:
    check_names(plan())
    name = ".".join(["a" * 60] * 4)
    sentence = f'^"{name}" with a search domain has more than 255 octets: .*; remove the name or the domain$'
    with pytest.raises(LoadError, match=sentence):
        check_names(plan(targets=[OUTSIDE.__class__(name, "", "external")]))
