from __future__ import annotations

import pytest

from hsdns.corefile.tree import CorefileError
from hsdns.plugins.bind import Bind
from tests.support.plugins.setup import set_up

INTERFACES = {
    "lo": ["127.0.0.1", "::1"],
    "eth0": ["10.0.0.5", "2001:db8::5", "fe80::5"],
    "dummy0": ["169.254.20.10"],
}


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        pytest.param("bind 127.0.0.1", ["127.0.0.1"], id="ipv4"),
        pytest.param("bind ::1", ["::1"], id="ipv6"),
        pytest.param("bind 169.254.20.10 10.96.0.10", ["169.254.20.10", "10.96.0.10"], id="two"),
        pytest.param("bind lo", ["127.0.0.1", "::1"], id="interface"),
        pytest.param("bind eth0", ["10.0.0.5", "2001:db8::5", "fe80::5%eth0"], id="link-local"),
        pytest.param("bind 10.9.9.9 lo", ["10.9.9.9", "127.0.0.1", "::1"], id="mixed"),
        pytest.param("bind lo\nbind dummy0", ["127.0.0.1", "::1", "169.254.20.10"], id="add-up"),
        pytest.param("bind lo 127.0.0.1 lo", ["127.0.0.1", "::1"], id="each-once"),
        pytest.param("bind lo {\n except 127.0.0.1\n}", ["::1"], id="except-address"),
        pytest.param("bind lo {\n except 0:0::1\n}", ["127.0.0.1"], id="except-other-spelling"),
        pytest.param(
            "bind lo eth0 {\n except lo fe80::5%eth0\n}",
            ["10.0.0.5", "2001:db8::5"],
            id="except-interface",
        ),
        pytest.param(
            "bind lo {\n except ::1\n}\nbind ::1", ["127.0.0.1", "::1"], id="except-is-of-its-line"
        ),
        pytest.param(
            "bind lo {\n except ::1\n except 127.0.0.1\n}", ["::1"], id="last-except-wins"
        ),
    ],
)
def test_addresses(text: str, addresses: list[str]) -> None:
    assert list(set_up(Bind, text).addresses(INTERFACES)) == addresses


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param(
            "bind eht0",
            'Corefile:2:6: "eht0" is neither an IP address nor an interface of this machine; did you mean "eth0"?',
            id="unknown",
        ),
        pytest.param(
            "bind lo {\n except 10.0.0.300\n}",
            'Corefile:3:9: "10.0.0.300" is neither an IP address nor an interface of this machine',
            id="unknown-except",
        ),
        pytest.param(
            "bind ::1 {\n except lo\n}",
            'Corefile:2:6: "bind" leaves no address to listen on; name another one or shorten "except"',
            id="nothing-left",
        ),
    ],
)
def test_addresses_that_cannot_be(text: str, error: str) -> None:
    with pytest.raises(CorefileError) as caught:
        set_up(Bind, text).addresses(INTERFACES)
    assert str(caught.value) == error
