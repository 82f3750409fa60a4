from __future__ import annotations

import pytest

from hsdns.chain import Endpoint
from hsdns.corefile.keys import HostPort
from hsdns.corefile.tree import CorefileError, Position, Token
from hsdns.plugins.transfer import is_from, read_endpoint

HERE = Position("Corefile", 2, 3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("192.0.2.1", "192.0.2.1:53"),
        ("192.0.2.1:5300", "192.0.2.1:5300"),
        ("2001:db8::1", "[2001:db8::1]:53"),
        ("[2001:db8::1]", "[2001:db8::1]:53"),
        ("[2001:DB8:0::1]:5300", "[2001:db8::1]:5300"),
        ("fe80::1%eth0", "[fe80::1%eth0]:53"),
    ],
)
def test_read(text: str, expected: str) -> None:
    assert str(HostPort(*read_endpoint(Token(text, HERE)))) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "*",
        "ns.example.org",
        "192.0.2.1:0",
        "192.0.2.1:65536",
        "192.0.2.0/24",
        "[192.0.2.1",
        "tls://192.0.2.1",
    ],
)
def test_no_address(text: str) -> None:
    with pytest.raises(CorefileError) as error:
        read_endpoint(Token(text, HERE))
    assert str(error.value) == (
        f'Corefile:2:3: "{text}" is not an IP address; write it as 192.0.2.1, 192.0.2.1:5300 or [2001:db8::1]:5300'
    )


@pytest.mark.parametrize(
    ("client", "addresses", "expected"),
    [
        ("192.0.2.1", ["192.0.2.1"], True),
        ("192.0.2.1", ["192.0.2.2"], False),
        ("fe80::1%2", ["fe80::1"], True),
        ("192.0.2.1", [], False),
    ],
)
def test_is_from(client: str, addresses: list[str], expected: bool) -> None:
    assert is_from(Endpoint(client, 4711), addresses) is expected
