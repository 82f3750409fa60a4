from __future__ import annotations

import pytest

from hsdns.corefile.tree import CorefileError, Position, Token
from hsdns.rewriting.option import RewriteOption, read_option
from hsdns.wire.message import Query
from tests.support.plugins.requests import make_request


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
