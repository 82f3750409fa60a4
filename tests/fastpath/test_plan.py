"""What is prepared, and how much of it; that it is the right reply stands in test_table.py and test_batch.py."""

from random import Random

import pytest
from hypothesis import given

from hsdns.fastpath import _python
from hsdns.fastpath.plan import MAX_PLANS, MAX_ROUNDS, PACE, PLAN_LEN
from hsdns.wire.edns import Edns
from tests import strategies
from tests.fastpath.twins import WEB, Subject, addresses, ask, to_wire


def prepared(subject: Subject) -> list[bytes]:
    """The forms that have their reply prepared, oldest first."""
    return list(subject.table.plans.by_form)


def known(count: int, capacity: int = 1 << 22) -> tuple[Subject, list[bytes]]:
    subject, queries = Subject(_python, capacity), [ask(f"n{each}.org.") for each in range(count)]
    for query in queries:
        assert subject.store(query, addresses(query), pairs=[(1, 0)])
    return subject, queries


COOKIE = (10, b"COOKIE78")
NOT_ECHOED = (8, b"")
UPPER = WEB.upper()
MIXED = "wEb.DEFAULT.svc.Cluster.lOCAL."


def opt(size: int, *options: tuple[int, bytes], do: bool = False) -> Edns:
    return Edns(size, do=do, options=options)


# What is asked, and for which query that is prepared.
PREPARED: dict[str, tuple[bytes, bytes | None]] = {
    "plain": (ask(), ask()),
    "EDNS": (ask(edns=opt(1232)), ask(edns=opt(1232))),
    "no RD": (ask(flags=0), ask(flags=0)),
    "upper case": (ask(UPPER), ask()),
    "mixed case and EDNS": (ask(MIXED, edns=opt(1232, do=True)), ask(edns=opt(1232, do=True))),
    "a cookie": (ask(edns=opt(1232, COOKIE)), ask(edns=opt(1232))),
    "a cookie and upper case": (ask(UPPER, edns=opt(1232, COOKIE)), ask(edns=opt(1232))),
    "two cookies": (ask(edns=opt(1232, COOKIE, COOKIE)), None),
    "a cookie with the server's part": (ask(edns=opt(1232, (10, bytes(24)))), None),
    "a cookie and an option that is not echoed": (ask(edns=opt(1232, NOT_ECHOED, COOKIE)), None),
    "an option that is echoed, of a cookie's length": (ask(edns=opt(1232, (12, b"12345678"))), None),
    "an option that is not echoed": (ask(edns=opt(1232, NOT_ECHOED)), ask(edns=opt(1232, NOT_ECHOED))),
    "an option that is not echoed, in upper case": (ask(UPPER, edns=opt(1232, NOT_ECHOED)), None),
    "a type that is a letter": (ask(qtype=65), ask(qtype=65)),
    "that in upper case": (ask(UPPER, qtype=65), None),
    "that with a cookie": (ask(qtype=65, edns=opt(1232, COOKIE)), None),
    "a size that is a letter": (ask(edns=opt(0x0541)), ask(edns=opt(0x0541))),
    "a size that is a lower-case letter, in upper case": (ask(UPPER, edns=opt(0x0561)), None),
}  # fmt: skip


@pytest.mark.parametrize(("query", "form"), PREPARED.values(), ids=PREPARED)
def test_forms(query: bytes, form: bytes | None) -> None:
    subject = Subject(_python)
    assert subject.store(query, addresses(query))
    for _ in range(3):
        assert prepared(subject) == ([] if form is None else [form[2:]])
        assert subject.lookup(query) == to_wire(query, addresses(query))


def alike(subject: Subject, query: bytes, now: float = 0.0) -> bytes | None:
    """What is said to a query whose form is like one that is prepared."""
    found = subject.table.answer_alike(query[2:], now)
    if found is None:
        return None
    parts, length, _ = found
    reply = query[:2] + b"".join(parts)
    assert len(reply) == length
    return reply


ALIKE = {
    "mixed case": (ask(), ask(MIXED)),
    "lower case": (ask(), ask()),
    "upper case, EDNS": (ask(edns=opt(1232)), ask(UPPER, edns=opt(1232))),
    "a cookie": (ask(edns=opt(1232)), ask(edns=opt(1232, COOKIE))),
    "a cookie and mixed case": (ask(edns=opt(512, do=True)), ask(MIXED, edns=opt(512, COOKIE, do=True))),
    "another cookie than it was learned with": (ask(UPPER, edns=opt(1232, (10, bytes(8)))), ask(MIXED, edns=opt(1232, COOKIE))),
    "no cookie, learned with one": (ask(edns=opt(1232, COOKIE)), ask(UPPER, edns=opt(1232))),
    "a lowered size": (ask(edns=opt(4096)), ask(UPPER, edns=opt(4096, COOKIE))),
}  # fmt: skip


@pytest.mark.parametrize("rotate", [False, True], ids=["fixed", "rotating"])
@pytest.mark.parametrize(("learned", "asked"), ALIKE.values(), ids=ALIKE)
def test_a_form_that_is_alike_has_the_reply(learned: bytes, asked: bytes, rotate: bool) -> None:
    """With what it counts as, and in its turn: the same as when nothing is prepared."""
    one, other = Subject(_python), Subject(_python)
    for subject in (one, other):
        assert subject.store(learned, addresses(learned, 3), rotate=rotate, max_payload=1232, group=3, mark_ttl=9)  # fmt: skip
    for _ in range(4):
        found = other.table.answer(asked, None, 0.0)
        assert found is not None
        reply, kind = found
        assert alike(one, asked) == reply
        parts = one.table.answer_alike(asked[2:], 0.0)
        assert parts is not None
        assert parts[2] == kind
        other.table.answer(asked, None, 0.0)
    other.versions.bump(1)  # another counter than those of the reply
    assert alike(one, asked) == alike(other, asked) is not None


NOT_ALIKE = {
    "another name": (ask(), ask("wec.default.svc.cluster.local.")),
    "a name of other octets": (ask("a[b.org."), ask("A{B.org.")),
    "no RD": (ask(), ask(UPPER, flags=0)),
    "no EDNS": (ask(edns=opt(1232)), ask(UPPER)),
    "EDNS": (ask(), ask(UPPER, edns=opt(1232))),
    "another size": (ask(edns=opt(1232)), ask(edns=opt(1233, COOKIE))),
    "DO": (ask(edns=opt(1232)), ask(edns=opt(1232, COOKIE, do=True))),
    "a longer cookie": (ask(edns=opt(1232)), ask(edns=opt(1232, (10, bytes(16))))),
    "two cookies": (ask(edns=opt(1232)), ask(edns=opt(1232, COOKIE, COOKIE))),
    "half a cookie": (ask(edns=opt(1232)), ask(edns=opt(1232, COOKIE))[:-4]),
    "a cookie cut off": (ask(edns=opt(1232)), ask(edns=opt(1232, COOKIE))[:-8]),
    "an octet behind the cookie": (ask(edns=opt(1232)), ask(edns=opt(1232, COOKIE)) + b"\0"),
    "a cookie without EDNS": (ask(), ask() + ask(edns=opt(1232, COOKIE))[-14:]),
    "an option that ends as none": (ask(edns=opt(1232, NOT_ECHOED)), ask(edns=opt(1232, NOT_ECHOED))[:-2] + ask(edns=opt(1232, COOKIE))[-14:]),
    "a type that is a letter": (ask(qtype=97), ask(UPPER, qtype=65)),
    "a size that is a letter": (ask(edns=opt(0x0561)), ask(edns=opt(0x0541, COOKIE))),
    "nothing": (ask(), b""),
    "an ID": (ask(), b"12"),
}  # fmt: skip


@pytest.mark.parametrize(("learned", "asked"), NOT_ALIKE.values(), ids=NOT_ALIKE)
def test_what_is_not_alike(learned: bytes, asked: bytes) -> None:
    subject = Subject(_python)
    assert subject.store(learned, addresses(learned))
    assert prepared(subject) == [learned[2:]]
    assert alike(subject, asked) is None


def test_a_form_that_is_alike_is_no_hit_once_its_entry_is_not() -> None:
    learned, asked = ask(edns=opt(1232)), ask(UPPER, edns=opt(1232, COOKIE))
    subject = Subject(_python)
    assert subject.store(learned, addresses(learned), pairs=[(1, 0)], mark_ttl=9)
    assert alike(subject, asked) == to_wire(asked, addresses(asked))
    assert alike(subject, asked, now=float("inf")) is None  # to be marked anew
    subject.versions.bump(1)
    assert alike(subject, asked) is None


def test_where_a_cookie_does_not_fit_nothing_is_alike() -> None:
    """The reply fits into 512 octets as it is; with a cookie it goes on without its last record."""
    subject, learned = Subject(_python), ask("abcdef.org.", edns=opt(512))
    assert subject.store(learned, addresses(learned, 29))
    [form] = prepared(subject)
    assert 512 - 12 < subject.table.plans.by_form[form].length <= 512
    for asked in (ask("ABCdef.org.", edns=opt(512, *options)) for options in ([COOKIE], [])):
        assert alike(subject, asked) is None
        found = subject.table.answer(asked, None, 0.0)
        assert found is not None
        assert found[0] == to_wire(asked, addresses(asked, 29), 512)
    assert prepared(subject) == [form]


@given(strategies.seeds)
def test_octets_that_are_alike_are_answered_as_without(seed: int) -> None:
    """Whatever is damaged: what is said is what the table says without it."""
    chance, subject = Random(seed), Subject(_python)
    sizes = (None, opt(1232), opt(0x0541), opt(1232, NOT_ECHOED))
    for edns in sizes:
        for qtype in (1, 65):
            query = ask(qtype=qtype, edns=edns)
            assert subject.store(query, addresses(query, 2))
    for _ in range(50):
        edns = chance.choice([*sizes, opt(1232, COOKIE), opt(0x0541, COOKIE)])
        asked = bytearray(ask(chance.choice([WEB, UPPER, MIXED]), chance.choice([1, 65, 97]), edns=edns))  # fmt: skip
        for _ in range(chance.randrange(3)):
            at = chance.randrange(2, len(asked))
            asked[at : at + chance.randrange(2)] = chance.choice([b"", b"\0", b"A", b"\x0a", chance.randbytes(1)])  # fmt: skip
        found = alike(subject, bytes(asked))
        if found is not None:
            reply = subject.table.answer(bytes(asked), None, 0.0)
            assert reply is not None
            assert found == reply[0]


def test_another_form_is_prepared_when_it_is_asked_for_again() -> None:
    subject, first, other = Subject(_python), ask(), ask(flags=0)
    assert subject.store(first, addresses(first))
    for wanted in ([first[2:]], [first[2:]], [first[2:], other[2:]]):
        assert prepared(subject) == wanted
        assert subject.lookup(other) == to_wire(other, addresses(other))


def test_what_is_cut_is_not_prepared() -> None:
    subject, query = Subject(_python), ask()
    assert subject.store(query, addresses(query, 100))
    for _ in range(4):
        assert subject.lookup(query, 512) == to_wire(query, addresses(query, 100), 512)
    assert prepared(subject) == []


@pytest.mark.parametrize(("count", "is_prepared"), [(20, True), (60, False)])
def test_a_size_is_lowered_when_it_is_prepared(count: int, is_prepared: bool) -> None:
    """What the client takes, and the block does not give, is not prepared either."""
    subject, query = Subject(_python), ask(edns=Edns(4096))
    assert subject.store(query, addresses(query, count), max_payload=512)
    for _ in range(3):
        assert prepared(subject) == ([query[2:]] if is_prepared else [])
        assert subject.lookup(query) == to_wire(ask(edns=Edns(512)), addresses(query, count))
    other = ask(edns=Edns(1232))
    assert subject.lookup(other) == to_wire(ask(edns=Edns(512)), addresses(query, count))
    assert (other[2:] in prepared(subject)) is is_prepared


def test_an_entry_has_few() -> None:
    subject = Subject(_python)
    forms = [ask(edns=Edns(512 + each)) for each in range(3 * MAX_PLANS)]
    assert subject.store(forms[0], addresses(forms[0]))
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
            assert subject.store(queries[1], addresses(queries[1], 2))
        else:
            subject.table.clear()
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
        assert subject.store(other, addresses(other, 30))
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
        assert subject.store(query, addresses(query), pairs=[(1, 0)])
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


def test_a_flood_of_once_asked_names_leaves_the_hot_ones_prepared() -> None:
    """Also where the entries of the flood need all memory but what is set aside for prepared replies."""
    capacity = 1 << 20
    subject, hot = known(50, capacity)
    for query in hot * 3:
        assert subject.lookup(query) is not None
    prepare = {query[2:] for query in hot}
    for number in range(8000):
        query = ask(f"once-{number}.org.")
        assert subject.store(query, addresses(query), pairs=[(1, 0)])
        if number % 5 == 0:  # a hot name is asked for once in 250 others
            query = hot[number // 5 % len(hot)]
            assert subject.lookup(query) == to_wire(query, addresses(query))
        assert subject.table.statistics().octets <= capacity
    assert subject.table.statistics().evicted > 1000
    assert prepare <= set(prepared(subject))


def test_what_is_no_longer_asked_for_makes_room() -> None:
    """Names that were hot give way to those that are."""
    capacity = 200_000
    subject, old = known(100, capacity)
    for query in old * 3:
        assert subject.lookup(query) is not None
    new = [ask(f"new{number}.org.") for number in range(400)]
    for query in new:
        assert subject.store(query, addresses(query), pairs=[(1, 0)])
    # The one that ended the rounds of the first eviction is gone.
    assert len({query[2:] for query in old} - set(prepared(subject))) <= 1
    hot = new[:100]
    for _ in range(200):
        for query in hot:
            assert subject.lookup(query) == to_wire(query, addresses(query))
    found = set(prepared(subject))
    assert len(found & {query[2:] for query in hot}) > 90
    assert len(found & {query[2:] for query in old}) < 40
    assert subject.table.statistics().octets <= capacity


def test_the_work_for_one_eviction_is_bounded() -> None:
    subject, queries = known(3 * MAX_ROUNDS)
    for query in queries * 3:
        assert subject.lookup(query) is not None
    plans = subject.table.plans
    plans.shrink(plans.octets - 1)
    left = queries[MAX_ROUNDS + 1 :] + queries[:MAX_ROUNDS]
    assert prepared(subject) == [query[2:] for query in left]
