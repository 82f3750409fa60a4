"""What is prepared, and how much of it; that it is the right reply stands in test_table.py and test_batch.py."""

import pytest

from hsdns.fastpath import _python
from hsdns.fastpath.plan import MAX_PLANS, PACE, PLAN_LEN
from hsdns.wire.edns import Edns
from tests.fastpath.twins import WEB, Subject, addresses, ask, to_wire


def prepared(subject: Subject) -> list[bytes]:
    """The forms that have their reply prepared, oldest first."""
    return list(subject.table.plans.by_form)


def known(count: int, capacity: int = 1 << 22) -> tuple[Subject, list[bytes]]:
    subject, queries = Subject(_python, capacity), [ask(f"n{each}.org.") for each in range(count)]
    for query in queries:
        assert subject.learn(query, addresses(query), pairs=[(1, 0)])
    return subject, queries


PREPARED = {
    "plain": (ask(), True),
    "EDNS": (ask(edns=Edns(1232)), True),
    "no RD": (ask(flags=0), True),
    "upper case": (ask(WEB.upper()), False),
    "a cookie": (ask(edns=Edns(1232, options=((10, b"12345678"),))), False),
    "an option that is not echoed": (ask(edns=Edns(1232, options=((8, b""),))), True),
}


@pytest.mark.parametrize(("query", "is_prepared"), PREPARED.values(), ids=PREPARED)
def test_forms(query: bytes, is_prepared: bool) -> None:
    subject = Subject(_python)
    assert subject.learn(query, addresses(query))
    wanted = [query[2:]] if is_prepared else []
    for _ in range(3):
        assert prepared(subject) == wanted
        assert subject.lookup(query) == to_wire(query, addresses(query))


def test_another_form_is_prepared_when_it_is_asked_for_again() -> None:
    subject, first, other = Subject(_python), ask(), ask(flags=0)
    assert subject.learn(first, addresses(first))
    for wanted in ([first[2:]], [first[2:]], [first[2:], other[2:]]):
        assert prepared(subject) == wanted
        assert subject.lookup(other) == to_wire(other, addresses(other))


def test_what_is_cut_is_not_prepared() -> None:
    subject, query = Subject(_python), ask()
    assert subject.learn(query, addresses(query, 100))
    for _ in range(4):
        assert subject.lookup(query, 512) == to_wire(query, addresses(query, 100), 512)
    assert prepared(subject) == []


@pytest.mark.parametrize(("count", "is_prepared"), [(20, True), (60, False)])
def test_a_size_is_lowered_when_it_is_prepared(count: int, is_prepared: bool) -> None:
    """What the client takes, and the block does not give, is not prepared either."""
    subject, query = Subject(_python), ask(edns=Edns(4096))
    assert subject.learn(query, addresses(query, count), max_payload=512)
    for _ in range(3):
        assert prepared(subject) == ([query[2:]] if is_prepared else [])
        assert subject.lookup(query) == to_wire(ask(edns=Edns(512)), addresses(query, count))
    other = ask(edns=Edns(1232))
    assert subject.lookup(other) == to_wire(ask(edns=Edns(512)), addresses(query, count))
    assert (other[2:] in prepared(subject)) is is_prepared


def test_an_entry_has_few() -> None:
    subject = Subject(_python)
    forms = [ask(edns=Edns(512 + each)) for each in range(3 * MAX_PLANS)]
    assert subject.learn(forms[0], addresses(forms[0]))
    for _ in range(3):
        for form in forms:
            assert subject.lookup(form) == to_wire(form, addresses(form))
        assert prepared(subject) == [form[2:] for form in forms[-MAX_PLANS:]]


def test_they_go_with_their_entry() -> None:
    for end in ("event", "learned anew", "forgotten"):
        subject, queries = known(3)
        for query in queries * 3:
            assert subject.lookup(query) is not None
        assert len(prepared(subject)) == 3
        before = subject.table.plans.octets
        assert before > 3 * PLAN_LEN
        if end == "event":
            subject.versions.bump(1)
            assert subject.lookup(queries[1]) is None
        elif end == "learned anew":
            assert subject.learn(queries[1], addresses(queries[1], 2))
        else:
            subject.table.forget_all()
        left = [] if end == "forgotten" else [queries[0][2:], queries[2][2:]]
        if end == "learned anew":
            left.append(queries[1][2:])
            assert prepared(subject) == left
            continue
        assert prepared(subject) == left
        assert subject.table.plans.octets == before // 3 * len(left)


def test_they_go_when_their_entry_is_evicted() -> None:
    subject, queries = known(3, 20_000)
    for query in queries * 3:
        assert subject.lookup(query) is not None
    assert prepared(subject)
    for number in range(200):
        other = ask(f"other{number}.org.")
        assert subject.learn(other, addresses(other, 30))
        for _ in range(3):
            assert subject.lookup(other) is not None
    assert [query for query in queries if subject.lookup(query)] == []
    assert not {query[2:] for query in queries} & set(prepared(subject))


def test_their_room_is_bounded_and_then_few_are_made() -> None:
    """A working set that is larger than the room is answered all the same, and hot names get in."""
    capacity = 200_000
    subject, queries = known(500, capacity)
    plans = subject.table.plans
    for query in queries * 3:
        assert subject.lookup(query) is not None
    full = prepared(subject)
    octets = subject.table.statistics().octets
    assert capacity - 2048 < octets <= capacity
    assert 0 < len(full) < len(queries)
    last = next(query for query in queries if query[2:] not in plans.by_form)
    for number in range(2 * PACE):
        asked = number.to_bytes(2, "big") + last[2:]
        assert subject.lookup(asked) == to_wire(asked, addresses(last))
    assert prepared(subject)[-1] == last[2:]
    assert len(set(prepared(subject)) - set(full)) < 5
    assert subject.table.statistics().octets <= capacity
    assert subject.table.statistics().evicted == 0


def test_entries_take_their_room_back() -> None:
    capacity = 200_000
    subject, queries = known(200, capacity)
    assert len(prepared(subject)) == 200
    more = [ask(f"more{each}.org.") for each in range(200)]
    for query in more:
        assert subject.learn(query, addresses(query), pairs=[(1, 0)])
        assert subject.table.statistics().octets <= capacity
    assert subject.table.statistics().evicted == 0
    assert 0 < len(prepared(subject)) < 400
    oldest_first = [
        form for form in (query[2:] for query in queries + more) if form in prepared(subject)
    ]
    assert prepared(subject) == oldest_first
    assert queries[0][2:] not in prepared(subject)
    for query in queries + more:
        assert subject.lookup(query) == to_wire(query, addresses(query))
