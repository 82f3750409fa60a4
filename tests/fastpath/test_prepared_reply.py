"""Which replies are prepared, and how many; that they are right is shown in test_table.py and test_batch.py."""

from random import Random

import pytest
from hypothesis import given

from hsdns.fastpath import _python
from hsdns.fastpath.prepared_reply import MAX_FORMS_OF_ENTRY, MAX_ROUNDS, PACE, PREPARED_REPLY_LEN
from hsdns.wire.edns import Edns
from tests import strategies
from tests.fastpath.twins import WEB, TableUnderTest, addresses, ask, to_wire


def prepared_forms(under_test: TableUnderTest) -> list[bytes]:
    """The forms that have their reply prepared, oldest first."""
    return list(under_test.table.prepared_replies.by_form)


def filled(count: int, capacity: int = 1 << 22) -> tuple[TableUnderTest, list[bytes]]:
    under_test, queries = (
        TableUnderTest(_python, capacity),
        [ask(f"n{each}.org.") for each in range(count)],
    )
    for query in queries:
        assert under_test.store(query, addresses(query), dependencies=[(1, 0)])
    return under_test, queries


COOKIE = (10, b"COOKIE78")
NOT_ECHOED = (8, b"")
UPPER = WEB.upper()
MIXED = "wEb.DEFAULT.svc.Cluster.lOCAL."


def opt(size: int, *options: tuple[int, bytes], do: bool = False) -> Edns:
    return Edns(size, do=do, options=options)


# A query, and the query in normalized form that is prepared for it.
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
    under_test = TableUnderTest(_python)
    assert under_test.store(query, addresses(query))
    for _ in range(3):
        assert prepared_forms(under_test) == ([] if form is None else [form[2:]])
        assert under_test.lookup(query) == to_wire(query, addresses(query))


def adapted(under_test: TableUnderTest, query: bytes, now: float = 0.0) -> bytes | None:
    """The prepared reply to the normalized form of a query, adapted to the query."""
    found = under_test.table.answer_normalized(query[2:], now)
    if found is None:
        return None
    parts, length, _ = found
    reply = query[:2] + b"".join(parts)
    assert len(reply) == length
    return reply


ADAPTED = {
    "mixed case": (ask(), ask(MIXED)),
    "lower case": (ask(), ask()),
    "upper case, EDNS": (ask(edns=opt(1232)), ask(UPPER, edns=opt(1232))),
    "a cookie": (ask(edns=opt(1232)), ask(edns=opt(1232, COOKIE))),
    "a cookie and mixed case": (ask(edns=opt(512, do=True)), ask(MIXED, edns=opt(512, COOKIE, do=True))),
    "another cookie than it was stored with": (ask(UPPER, edns=opt(1232, (10, bytes(8)))), ask(MIXED, edns=opt(1232, COOKIE))),
    "no cookie, stored with one": (ask(edns=opt(1232, COOKIE)), ask(UPPER, edns=opt(1232))),
    "a lowered size": (ask(edns=opt(4096)), ask(UPPER, edns=opt(4096, COOKIE))),
}  # fmt: skip


@pytest.mark.parametrize("rotate", [False, True], ids=["fixed", "rotating"])
@pytest.mark.parametrize(("stored", "asked"), ADAPTED.values(), ids=ADAPTED)
def test_adapted_replies(stored: bytes, asked: bytes, rotate: bool) -> None:
    """Reply, kind and rotation are those without prepared replies."""
    one, other = TableUnderTest(_python), TableUnderTest(_python)
    for under_test in (one, other):
        assert under_test.store(stored, addresses(stored, 3), rotate=rotate, max_payload=1232, group=3, mark_ttl=9)  # fmt: skip
    for _ in range(4):
        found = other.table.answer(asked, None, 0.0)
        assert found is not None
        reply, kind = found
        assert adapted(one, asked) == reply
        parts = one.table.answer_normalized(asked[2:], 0.0)
        assert parts is not None
        assert parts[2] == kind
        other.table.answer(asked, None, 0.0)
    other.versions.bump(1)  # another counter than those of the reply
    assert adapted(one, asked) == adapted(other, asked) is not None


OTHERS = {
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


@pytest.mark.parametrize(("stored", "asked"), OTHERS.values(), ids=OTHERS)
def test_queries_with_another_normalized_form(stored: bytes, asked: bytes) -> None:
    under_test = TableUnderTest(_python)
    assert under_test.store(stored, addresses(stored))
    assert prepared_forms(under_test) == [stored[2:]]
    assert adapted(under_test, asked) is None


def test_adapted_replies_end_with_their_entry() -> None:
    stored, asked = ask(edns=opt(1232)), ask(UPPER, edns=opt(1232, COOKIE))
    under_test = TableUnderTest(_python)
    assert under_test.store(stored, addresses(stored), dependencies=[(1, 0)], mark_ttl=9)
    assert adapted(under_test, asked) == to_wire(asked, addresses(asked))
    assert adapted(under_test, asked, now=float("inf")) is None  # to be marked again
    under_test.versions.bump(1)
    assert adapted(under_test, asked) is None


def test_a_reply_without_room_for_a_cookie_is_not_adapted() -> None:
    """The reply fits into 512 octets as it is; with a cookie it goes on without its last record."""
    under_test, stored = TableUnderTest(_python), ask("abcdef.org.", edns=opt(512))
    assert under_test.store(stored, addresses(stored, 29))
    [form] = prepared_forms(under_test)
    assert 512 - 12 < under_test.table.prepared_replies.by_form[form].length <= 512
    for asked in (ask("ABCdef.org.", edns=opt(512, *options)) for options in ([COOKIE], [])):
        assert adapted(under_test, asked) is None
        found = under_test.table.answer(asked, None, 0.0)
        assert found is not None
        assert found[0] == to_wire(asked, addresses(asked, 29), 512)
    assert prepared_forms(under_test) == [form]


@given(strategies.seeds)
def test_any_octets_are_answered_as_without(seed: int) -> None:
    """Damaged queries get the reply that the table gives without prepared replies."""
    chance, under_test = Random(seed), TableUnderTest(_python)
    sizes = (None, opt(1232), opt(0x0541), opt(1232, NOT_ECHOED))
    for edns in sizes:
        for qtype in (1, 65):
            query = ask(qtype=qtype, edns=edns)
            assert under_test.store(query, addresses(query, 2))
    for _ in range(50):
        edns = chance.choice([*sizes, opt(1232, COOKIE), opt(0x0541, COOKIE)])
        asked = bytearray(ask(chance.choice([WEB, UPPER, MIXED]), chance.choice([1, 65, 97]), edns=edns))  # fmt: skip
        for _ in range(chance.randrange(3)):
            at = chance.randrange(2, len(asked))
            asked[at : at + chance.randrange(2)] = chance.choice([b"", b"\0", b"A", b"\x0a", chance.randbytes(1)])  # fmt: skip
        found = adapted(under_test, bytes(asked))
        if found is not None:
            reply = under_test.table.answer(bytes(asked), None, 0.0)
            assert reply is not None
            assert found == reply[0]


def test_another_form_is_prepared_when_it_is_asked_for_again() -> None:
    under_test, first, other = TableUnderTest(_python), ask(), ask(flags=0)
    assert under_test.store(first, addresses(first))
    for wanted in ([first[2:]], [first[2:]], [first[2:], other[2:]]):
        assert prepared_forms(under_test) == wanted
        assert under_test.lookup(other) == to_wire(other, addresses(other))


def test_a_reply_that_must_be_cut_is_not_prepared() -> None:
    under_test, query = TableUnderTest(_python), ask()
    assert under_test.store(query, addresses(query, 100))
    for _ in range(4):
        assert under_test.lookup(query, 512) == to_wire(query, addresses(query, 100), 512)
    assert prepared_forms(under_test) == []


@pytest.mark.parametrize(("count", "is_prepared"), [(20, True), (60, False)])
def test_a_size_is_lowered_when_it_is_prepared(count: int, is_prepared: bool) -> None:
    """What the client takes, and the block does not give, is not prepared either."""
    under_test, query = TableUnderTest(_python), ask(edns=Edns(4096))
    assert under_test.store(query, addresses(query, count), max_payload=512)
    for _ in range(3):
        assert prepared_forms(under_test) == ([query[2:]] if is_prepared else [])
        assert under_test.lookup(query) == to_wire(ask(edns=Edns(512)), addresses(query, count))
    other = ask(edns=Edns(1232))
    assert under_test.lookup(other) == to_wire(ask(edns=Edns(512)), addresses(query, count))
    assert (other[2:] in prepared_forms(under_test)) is is_prepared


def test_an_entry_has_few_prepared_replies() -> None:
    under_test = TableUnderTest(_python)
    forms = [ask(edns=Edns(512 + each)) for each in range(3 * MAX_FORMS_OF_ENTRY)]
    assert under_test.store(forms[0], addresses(forms[0]))
    for _ in range(3):
        for form in forms:
            assert under_test.lookup(form) == to_wire(form, addresses(form))
        assert prepared_forms(under_test) == [form[2:] for form in forms[-MAX_FORMS_OF_ENTRY:]]


def test_prepared_replies_go_with_their_entry() -> None:
    for end in ("event", "stored again", "cleared"):
        under_test, queries = filled(3)
        for query in queries * 3:
            assert under_test.lookup(query) is not None
        assert len(prepared_forms(under_test)) == 3
        before = under_test.table.prepared_replies.octets
        assert before > 3 * PREPARED_REPLY_LEN
        if end == "event":
            under_test.versions.bump(1)
            assert under_test.lookup(queries[1]) is None
        elif end == "stored again":
            assert under_test.store(queries[1], addresses(queries[1], 2))
        else:
            under_test.table.clear()
        left = [] if end == "cleared" else [queries[0][2:], queries[2][2:]]
        if end == "stored again":
            left.append(queries[1][2:])
            assert prepared_forms(under_test) == left
            continue
        assert prepared_forms(under_test) == left
        assert under_test.table.prepared_replies.octets == before // 3 * len(left)


def test_prepared_replies_go_if_their_entry_is_evicted() -> None:
    under_test, queries = filled(3, 20_000)
    for query in queries * 3:
        assert under_test.lookup(query) is not None
    assert prepared_forms(under_test)
    for number in range(200):
        other = ask(f"other{number}.org.")
        assert under_test.store(other, addresses(other, 30))
        for _ in range(3):
            assert under_test.lookup(other) is not None
    assert [query for query in queries if under_test.lookup(query)] == []
    assert not {query[2:] for query in queries} & set(prepared_forms(under_test))


def test_memory_is_bounded_and_then_few_are_prepared() -> None:
    """A working set that is larger than the room is answered all the same, and hot names get in."""
    capacity = 200_000
    under_test, queries = filled(500, capacity)
    prepared_replies = under_test.table.prepared_replies
    for query in queries * 3:
        assert under_test.lookup(query) is not None
    full = prepared_forms(under_test)
    octets = under_test.table.statistics().octets
    assert capacity - 2048 < octets <= capacity
    assert 0 < len(full) < len(queries)
    last = next(query for query in queries if query[2:] not in prepared_replies.by_form)
    for number in range(2 * PACE):
        asked = number.to_bytes(2, "big") + last[2:]
        assert under_test.lookup(asked) == to_wire(asked, addresses(last))
    assert prepared_forms(under_test)[-1] == last[2:]
    assert len(set(prepared_forms(under_test)) - set(full)) < 5
    assert under_test.table.statistics().octets <= capacity
    assert under_test.table.statistics().evicted == 0


def test_entries_take_back_their_memory() -> None:
    capacity = 200_000
    under_test, queries = filled(200, capacity)
    assert len(prepared_forms(under_test)) == 200
    more = [ask(f"more{each}.org.") for each in range(200)]
    for query in more:
        assert under_test.store(query, addresses(query), dependencies=[(1, 0)])
        assert under_test.table.statistics().octets <= capacity
    assert under_test.table.statistics().evicted == 0
    assert 0 < len(prepared_forms(under_test)) < 400
    oldest_first = [
        form
        for form in (query[2:] for query in queries + more)
        if form in prepared_forms(under_test)
    ]
    assert prepared_forms(under_test) == oldest_first
    assert queries[0][2:] not in prepared_forms(under_test)
    for query in queries + more:
        assert under_test.lookup(query) == to_wire(query, addresses(query))


def test_a_flood_of_once_asked_names_leaves_the_hot_ones_prepared() -> None:
    """Also where the entries of the flood need all memory but what is set aside for prepared replies."""
    capacity = 1 << 20
    under_test, hot = filled(50, capacity)
    for query in hot * 3:
        assert under_test.lookup(query) is not None
    prepare = {query[2:] for query in hot}
    for number in range(8000):
        query = ask(f"once-{number}.org.")
        assert under_test.store(query, addresses(query), dependencies=[(1, 0)])
        if number % 5 == 0:  # a hot name is asked for once in 250 others
            query = hot[number // 5 % len(hot)]
            assert under_test.lookup(query) == to_wire(query, addresses(query))
        assert under_test.table.statistics().octets <= capacity
    assert under_test.table.statistics().evicted > 1000
    assert prepare <= set(prepared_forms(under_test))


def test_names_no_longer_asked_for_make_room() -> None:
    """Names that were hot give way to those that are."""
    capacity = 200_000
    under_test, old = filled(100, capacity)
    for query in old * 3:
        assert under_test.lookup(query) is not None
    new = [ask(f"new{number}.org.") for number in range(400)]
    for query in new:
        assert under_test.store(query, addresses(query), dependencies=[(1, 0)])
    # The one that ended the rounds of the first eviction is gone.
    assert len({query[2:] for query in old} - set(prepared_forms(under_test))) <= 1
    hot = new[:100]
    for _ in range(200):
        for query in hot:
            assert under_test.lookup(query) == to_wire(query, addresses(query))
    found = set(prepared_forms(under_test))
    assert len(found & {query[2:] for query in hot}) > 90
    assert len(found & {query[2:] for query in old}) < 40
    assert under_test.table.statistics().octets <= capacity


def test_the_work_for_one_eviction_is_bounded() -> None:
    under_test, queries = filled(3 * MAX_ROUNDS)
    for query in queries * 3:
        assert under_test.lookup(query) is not None
    prepared_replies = under_test.table.prepared_replies
    prepared_replies.shrink(prepared_replies.octets - 1)
    left = queries[MAX_ROUNDS + 1 :] + queries[:MAX_ROUNDS]
    assert prepared_forms(under_test) == [query[2:] for query in left]
