"""Single values: the borders of what is valid.  Whole objects are in test_validation.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hsdns.cluster.controllers import defaults
from hsdns.cluster.controllers.defaults import Refused


@pytest.mark.parametrize(
    ("check", "valid", "refused"),
    [
        pytest.param(defaults.check_label, ["a", "1a", "a" * 63], ["", "a" * 64, "-a", "a-", "A", "a.b", "a\n"], id="label"),
        pytest.param(defaults.check_name, ["a.b-c", "a" * 253], ["", "a" * 254, "a..b", ".a", "a.", "a-.b", "A"], id="name"),
        pytest.param(defaults.check_domain, ["a", "a.b.", "a" * 64 + ".b"], ["", ".", "a..", "a_b", "http://a", "a/b", "a:80", "A.b", "a b"], id="domain"),
        pytest.param(defaults.check_address, ["10.0.0.1", "fd00::1", "::ffff:10.0.0.1"], ["", "10.0.0", "10.0.0.01", "10.0.0.1/8", "fe80::1%eth0", "a"], id="address"),
        pytest.param(defaults.check_endpoint_address, ["10.0.0.1", "224.0.1.0", "fd00::1", "ff05::2"], ["0.0.0.0", "127.1.2.3", "169.254.0.1", "224.0.0.255", "::", "::1", "fe80::1", "febf::1", "ff12::1", "::ffff:127.0.0.1"], id="endpoint-address"),
        pytest.param(defaults.check_port, [1, 65_535], [0, -1, 65_536, 2**40], id="port"),
        pytest.param(defaults.check_port_name, ["a", "1a", "a-1-b", "a" * 15], ["", "1", "-a", "a-", "a--b", "A", "a" * 16, "8080"], id="port-name"),
    ],
)  # fmt: skip
def test_border(check: Callable[[str, Any], None], valid: list[Any], refused: list[Any]) -> None:
    for value in valid:
        check("field", value)
    for value in refused:
        with pytest.raises(Refused, match=r"^field: "):
            check("field", value)


@pytest.mark.parametrize("key", ["a", "A.b_c-d", "a.example/b", "a" * 63])
@pytest.mark.parametrize("value", ["", "a", "1.A_b", "a" * 63])
def test_valid_labels(key: str, value: str) -> None:
    defaults.check_labels("labels", {key: value})


@pytest.mark.parametrize("label", [("", "a"), ("-a", ""), ("a b", ""), ("/a", ""), ("a/b/c", ""), ("a" * 64, ""), ("a", "-"), ("a", "b c"), ("a", "a" * 64), ("a", "é")])  # fmt: skip
def test_invalid_labels(label: tuple[str, str]) -> None:
    with pytest.raises(Refused):
        defaults.check_labels("labels", dict([label]))


@pytest.mark.parametrize(
    ("address", "family"),
    [("10.0.0.1", "IPv4"), ("::ffff:10.0.0.1", "IPv4"), ("fd00::1", "IPv6")],
)
def test_family(address: str, family: str) -> None:
    defaults.check_endpoint_address("field", address, family)
    other = "IPv4" if family == "IPv6" else "IPv6"
    with pytest.raises(Refused, match=rf"^field: .* is not an {other} address"):
        defaults.check_endpoint_address("field", address, other)
