from __future__ import annotations

from typing import Any

import pytest

from hsdns.corefile.tree import CorefileError, Position, Token
from hsdns.rewriting.option import (
    VARIABLES,
    Action,
    OptionReverted,
    RewriteOption,
    constant,
    metadata,
    read_option,
    reverted,
    subnet,
)
from hsdns.rewriting.rule import Draft, rewrite
from hsdns.wire.edns import Edns
from hsdns.wire.message import Query, Reply
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


def read(text: str) -> RewriteOption:
    """Parse the arguments after `rewrite edns0`; the first one is in column 15."""
    words, column = [], 15
    for word in text.split(" "):
        words.append(Token(word, Position("Corefile", 2, column)))
        column += len(word) + 1
    return read_option(words, stops=True)


def asked(rule: RewriteOption) -> Query:
    request = make_request("a.")
    return rule.apply(request.query, request).query


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("local set 0xffee abcd", ((0xFFEE, b"abcd"),)),
        ("Local SET 65518 0x61626364", ((0xFFEE, b"abcd"),)),
        ("local append 0177 0xAbcD", ((127, b"\xab\xcd"),)),
        ("local set 0o17 0x", ((15, b""),)),
        ("local set 0b1_1 {qtype}", ((3, b"\0\1"),)),
        ("local set 9 {protocol}", ((9, b"udp"),)),
        ("local set 9 {no/body}", None),
        ("local set 9 {qname", ((9, b"{qname"),)),
        ("local set 9 abcd revert", ((9, b"abcd"),)),
        ("local replace 9 abcd", ()),
        ("local unset 9", ()),
        ("nsid set", ((3, b""),)),
        ("nsid append revert", ((3, b""),)),
        ("nsid unset", ()),
        ("subnet set 24 56", ((8, b"\0\1\x18\0\x7f\0\0"),)),
        ("subnet append 0x8 128 revert", ((8, b"\0\1\x08\0\x7f"),)),
        ("subnet unset", ()),
    ],
)
def test_options(text: str, options: tuple[tuple[int, bytes], ...] | None) -> None:
    edns = asked(read(text)).edns
    assert (edns.options if edns is not None else None) == options


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("lokal set 1 2", '15: "lokal" is not one of: local, nsid, subnet; did you mean "local"?'),
        ("local add 1 2", '21: "add" is not one of: set, append, replace, unset'),
        ("local set 1", '21: "local set" takes CODE DATA, found 1 arguments'),
        ("local unset 1 revert", '21: "local unset" takes CODE, found 2 arguments'),
        ("nsid set x", '20: "nsid set" takes no argument, found 1 arguments'),
        ("local set 65536 x", '25: "65536" is not an option code; write 0 to 65535 or 0x0 to 0xffff'),
        ("local set -1 x", '25: "-1" is not an option code; write 0 to 65535 or 0x0 to 0xffff'),
        ("local set 1 0xabc", '27: "0xabc" is not hexadecimal; write two digits per octet'),
        ("local set 1 {qnam}", '27: "{qnam}" is not a variable; variables are qname, qtype, client_ip, client_port, protocol, server_ip, server_port and metadata labels such as plugin/name; did you mean "qname"?'),
        ("subnet set 33 56", '26: "33" is not a prefix length; allowed is 0 to 32'),
        ("subnet set 24 129", '29: "129" is not a prefix length; allowed is 0 to 128'),
    ],
)  # fmt: skip
def test_refused(text: str, error: str) -> None:
    with pytest.raises(CorefileError) as caught:
        read(text)
    assert str(caught.value) == f"Corefile:2:{error}"


@pytest.mark.parametrize(
    ("text", "echoed"), [("local set 9 x", True), ("nsid set", False), ("subnet set 24 56", False)]
)
def test_codes_that_replies_echo(text: str, echoed: bool) -> None:
    assert read(text).echoed is echoed
