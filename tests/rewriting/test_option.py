from __future__ import annotations

from typing import Any

import pytest

from hsdns.rewriting.option import (
    VARIABLES,
    Action,
    OptionReverted,
    RewriteOption,
    constant,
    metadata,
    reverted,
    subnet,
)
from hsdns.rewriting.rule import Draft, rewrite
from hsdns.wire.edns import Edns
from hsdns.wire.message import Reply
from hsdns.wire.name import Name
from tests.support.plugins.requests import make_request

Options = tuple[tuple[int, bytes], ...]
NONE: Options = ()
ONE: Options = ((10, b"cookie"), (9, b"old"))
TWO: Options = ((9, b"old"), (9, b"older"))


def apply(rule: RewriteOption, edns: Edns | None, **options: Any) -> tuple[Edns | None, Any, bool]:
    request = make_request("a.b.", edns=edns, **options)
    step = rule.apply(request.query, request)
    return step.query.edns, step.undo, step.is_done


@pytest.mark.parametrize(
    ("action", "is_single", "before", "after", "is_done"),
    [
        ("set", False, NONE, ((9, b"new"),), True),
        ("set", False, ONE, ((10, b"cookie"), (9, b"new")), True),
        ("set", False, TWO, ((9, b"new"), (9, b"older")), True),
        ("replace", False, NONE, NONE, False),
        ("replace", False, TWO, ((9, b"new"), (9, b"older")), True),
        ("append", False, NONE, ((9, b"new"),), True),
        ("append", False, ONE, (*ONE, (9, b"new")), True),
        ("append", True, ONE, ONE, False),
        ("append", True, NONE, ((9, b"new"),), True),
        ("unset", False, TWO, NONE, True),
        ("unset", False, NONE, NONE, True),
        ("unset", False, ONE, ((10, b"cookie"),), True),
    ],
)
def test_actions(
    action: str, is_single: bool, before: Options, after: Options, is_done: bool
) -> None:
    for reverts in (False, True):
        rule = RewriteOption(
            Action(action), 9, constant(b"new"), is_single=is_single, reverts=reverts
        )
        edns, undo, done = apply(rule, Edns(1400, do=True, options=before))
        assert edns == Edns(1400, do=True, options=after)
        assert done is is_done
        if not reverts:
            assert undo == ()
        elif action == "append" and before == ONE and not is_single:
            # The first option of the code goes, as in CoreDNS, and not the one that came in.
            assert reverted(edns, undo).options == ((10, b"cookie"), (9, b"new"))
        elif action != "unset":
            assert reverted(edns, undo) == Edns(1400, do=True, options=before)
    rule = RewriteOption(Action(action), 9, constant(b"new"), is_single=is_single)
    assert apply(rule, None)[0] == Edns(4096, options=() if action in ("replace", "unset") else ((9, b"new"),))  # fmt: skip
    assert not rule.is_pure
    assert rule.affected_names(Name.from_text("b.")) is None


def test_only_reverted_options_are_restored() -> None:
    first = RewriteOption(Action.SET, 9, constant(b"1"))
    second = RewriteOption(Action.REPLACE, 9, constant(b"2"), reverts=True)
    request = make_request("a.b.")
    one = first.apply(request.query, request)
    two = second.apply(one.query, request)
    assert two.query.edns == Edns(4096, options=((9, b"2"),))
    assert reverted(two.query.edns, (*one.undo, *two.undo)) == Edns(4096, options=((9, b"1"),))


@pytest.mark.parametrize(
    ("rule", "before", "after"),
    [
        (OptionReverted(9, None), TWO, ((9, b"older"),)),
        (OptionReverted(8, None), TWO, TWO),
        (OptionReverted(9, b"x"), TWO, ((9, b"x"), (9, b"older"))),
        (OptionReverted(8, b"x"), TWO, TWO),
        (OptionReverted(9, None), None, None),
        (OptionReverted(9, b"x"), None, None),
    ],
)
def test_options_of_an_upstream(
    rule: OptionReverted, before: Options | None, after: Options | None
) -> None:
    draft = Draft(Reply(edns_options=before))
    assert list(rewrite(draft, [rule])) == []
    assert draft.to_reply() == Reply(edns_options=after)


@pytest.mark.parametrize(
    ("word", "data"),
    [
        ("qname", b"A.b."),
        ("qtype", b"\0\x0f"),
        ("client_ip", bytes((192, 0, 2, 1))),
        ("client_port", (40000).to_bytes(2, "big")),
        ("protocol", b"tcp"),
        ("server_ip", bytes((127, 0, 0, 1))),
        ("server_port", b"\0\x35"),
    ],
)
def test_variables(word: str, data: bytes) -> None:
    request = make_request("A.b.", "MX", client="192.0.2.1", protocol="tcp")
    assert VARIABLES[word](request.query, request) == data


def test_variable_of_ipv6() -> None:
    request = make_request("a.", client="fe80::1%eth0")
    assert VARIABLES["client_ip"](request.query, request) == bytes.fromhex("fe80" + "0" * 26 + "01")


@pytest.mark.parametrize(
    ("known", "data"),
    [(None, None), ({}, None), ({"a/b": str}, None), ({"a/b": lambda: "é"}, "é".encode())],
)
def test_metadata(known: Any, data: bytes | None) -> None:
    request = make_request("a.").replace(metadata=known)
    assert metadata("a/b")(request.query, request) == data
    rule = RewriteOption(Action.SET, 9, metadata("a/b"))
    step = rule.apply(request.query, request)
    assert step.is_done is (data is not None)
    assert (step.query.edns is None) is (data is None)  # the query is not touched then


@pytest.mark.parametrize(
    ("client", "bits", "data"),
    [
        ("192.0.2.129", (24, 56), "0001 18 00 c00002"),
        ("192.0.2.129", (25, 56), "0001 19 00 c0000280"),
        ("192.0.2.129", (0, 56), "0001 00 00"),
        ("192.0.2.129", (32, 56), "0001 20 00 c0000281"),
        ("2001:db8:1:2ff::1", (24, 56), "0002 38 00 20010db8000102"),
        ("2001:db8:1:2ff::1", (24, 128), "0002 80 00 20010db8000102ff0000000000000001"),
        ("fe80::1%eth0", (24, 16), "0002 10 00 fe80"),
    ],
)
def test_subnet(client: str, bits: tuple[int, int], data: str) -> None:
    request = make_request("a.", client=client)
    assert subnet(*bits)(request.query, request) == bytes.fromhex(data)
