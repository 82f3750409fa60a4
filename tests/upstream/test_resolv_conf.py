from __future__ import annotations

import pytest

from hsdns.upstream.resolv_conf import nameservers


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", [], id="empty"),
        pytest.param("nameserver 10.0.0.1\n", ["10.0.0.1"], id="one"),
        pytest.param(
            "search a b\nnameserver 10.0.0.1\noptions ndots:5\n\tnameserver\t::1 # x",
            ["10.0.0.1", "::1"],
            id="among-others",
        ),
        pytest.param("#nameserver 10.0.0.1\n;nameserver 10.0.0.2\n", [], id="comments"),
        pytest.param("nameserver\n", [], id="without-address"),
        pytest.param(
            "".join(f"nameserver 10.0.0.{k}\n" for k in range(5)),
            [f"10.0.0.{k}" for k in range(5)],
            id="more-than-three",
        ),
        pytest.param("nameserver 10.0.0.1\r\n", ["10.0.0.1"], id="crlf"),
    ],
)
def test_nameservers(text: str, expected: list[str]) -> None:
    assert nameservers(text) == expected
