from __future__ import annotations

from pathlib import Path

import pytest

from hsdns.upstream.resolv_conf import nameservers, read_search_list, search_list


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", [], id="empty"),
        pytest.param("nameserver 10.0.0.1\nsearch a.lab B.lab.\n", ["a.lab.", "b.lab."], id="search"),
        pytest.param("domain a.lab b.lab\n", ["a.lab."], id="domain"),
        pytest.param("search a.lab\ndomain b.lab\n", ["b.lab."], id="the last one counts"),
        pytest.param("domain b.lab\nsearch\n", [], id="none"),
        pytest.param("domain b.lab\ndomain\n", ["b.lab."], id="no domain"),
        pytest.param("search a..b x.lab\n", ["x.lab."], id="no name"),
        pytest.param("# search a.lab\n", [], id="comment"),
    ],
)  # fmt: skip
def test_search_list(text: str, expected: list[str]) -> None:
    assert [name.to_text() for name in search_list(text)] == expected


def test_a_file_that_is_not_there_has_no_search_list(tmp_path: Path) -> None:
    path = tmp_path / "resolv.conf"
    assert read_search_list(str(path)) == ()
    path.write_text("search a.lab\n")
    assert len(read_search_list(str(path))) == 1
