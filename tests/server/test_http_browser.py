from __future__ import annotations

import pytest

from hsdns.server.http_browser import fault_of


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        pytest.param("localhost", None, id="curl"),
        pytest.param("", None, id="HTTP/1.0"),
        ("localhost:8079", None),
        ("LOCALHOST:8079", None),
        ("dns.localhost:8079", None),
        ("127.0.0.1:8079", None),
        ("10.244.0.9:8080", None),
        ("[::1]:8079", None),
        ("localhost:8079", "http://localhost:8079"),
        ("Localhost", "http://localhost"),
        ("[fd00::1]:8079", "https://[fd00::1]:8079"),
    ],
)
def test_own(host: str, origin: str | None) -> None:
    assert fault_of(host, origin) == ""


@pytest.mark.parametrize(
    ("host", "origin", "fault"),
    [
        ("evil.example:8079", None, "the name in evil.example:8079 may be that of another site; open this address as localhost or by its IP address"),
        ("evil.example:8079", "http://evil.example:8079", "the name in evil.example:8079 may be that of another site; open this address as localhost or by its IP address"),
        ("localhost.evil.example", None, "the name in localhost.evil.example may be that of another site; open this address as localhost or by its IP address"),
        ("1.2.3.4.evil.example", None, "the name in 1.2.3.4.evil.example may be that of another site; open this address as localhost or by its IP address"),
        ("localhost@evil.example", None, "the name in localhost@evil.example may be that of another site; open this address as localhost or by its IP address"),
        ("[::1", None, "the name in [::1 may be that of another site; open this address as localhost or by its IP address"),
        ("localhost:8079", "http://evil.example", "http://evil.example is another site, and may not ask here"),
        ("localhost:8079", "http://localhost:8080", "http://localhost:8080 is another site, and may not ask here"),
        pytest.param("localhost:8079", "null", "null is another site, and may not ask here", id="a file or a sandboxed frame"),
    ],
)  # fmt: skip
def test_of_others(host: str, origin: str | None, fault: str) -> None:
    assert fault_of(host, origin) == fault


def test_any_host() -> None:
    assert fault_of("dns:9160", None, any_host=True) == ""
    assert fault_of("dns:9160", "http://dns:9160", any_host=True) == ""
    assert fault_of("dns:9160", "http://evil.example", any_host=True) == "http://evil.example is another site, and may not ask here"  # fmt: skip
