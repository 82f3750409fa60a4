from __future__ import annotations

import pytest

from hsdns.server.http_browser import fault_of


def headers(host: str, origin: str | None) -> dict[str, str]:
    return {"host": host} if origin is None else {"host": host, "origin": origin}


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
    assert fault_of("GET", "/", headers(host, origin)) == ""


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
    assert fault_of("GET", "/", headers(host, origin)) == fault


def test_any_host() -> None:
    def fault(origin: str | None) -> str:
        return fault_of("GET", "/", headers("dns:9160", origin), any_host=True)

    assert fault(None) == fault("http://dns:9160") == ""
    assert (
        fault("http://evil.example") == "http://evil.example is another site, and may not ask here"
    )


@pytest.mark.parametrize(
    ("method", "path", "fetch", "is_refused"),
    [
        pytest.param("GET", "/v1/top", ("same-origin", "cors", "empty"), False, id="its own page"),
        pytest.param("GET", "/v1/top", ("none", "navigate", "document"), False, id="typed by the operator"),
        pytest.param("GET", "/", ("cross-site", "navigate", "document"), False, id="a link to the page"),
        pytest.param("GET", "/", ("same-site", "navigate", "document"), False, id="a link from another port"),
        pytest.param("POST", "/", ("cross-site", "navigate", "document"), True, id="a form"),
        pytest.param("GET", "/", ("cross-site", "navigate", "iframe"), True, id="a frame"),
        pytest.param("GET", "/v1/explain", ("cross-site", "navigate", "document"), True, id="a link to another path"),
        pytest.param("GET", "/v1/explain", ("cross-site", "no-cors", "image"), True, id="img"),
        pytest.param("GET", "/v1/explain", ("same-site", "no-cors", "image"), True, id="img of another port"),
        pytest.param("GET", "/", ("cross-site", "no-cors", "script"), True, id="script"),
        pytest.param("GET", "/", ("cross-site", None, None), True, id="site alone"),
    ],
)  # fmt: skip
def test_what_a_browser_fetches_for_other_sites(
    method: str, path: str, fetch: tuple[str | None, ...], is_refused: bool
) -> None:
    names = ("sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest")
    sent = {name: value for name, value in zip(names, fetch, strict=True) if value is not None}
    fault = fault_of(method, path, {"host": "localhost:8079", **sent})
    assert fault == (
        "another site may not ask here; it may only lead to the page at /" if is_refused else ""
    )
