import pytest

from hsdns.apiserver.access import Access, server_url


@pytest.mark.parametrize(
    ("text", "secure", "url"),
    [
        pytest.param("https://10.96.0.1:443", False, "https://10.96.0.1:443", id="complete"),
        pytest.param("https://api.example.org/k8s/clusters/c-1/", True, "https://api.example.org/k8s/clusters/c-1", id="path"),
        pytest.param("http://[fd00::1]:8080/", True, "http://[fd00::1]:8080", id="ipv6"),
        pytest.param("10.96.0.1:8080", False, "http://10.96.0.1:8080", id="no-scheme"),
        pytest.param("localhost:8080", False, "http://localhost:8080", id="name-and-port"),
        pytest.param("api.example.org", True, "https://api.example.org", id="no-scheme-with-tls"),
        pytest.param("api.example.org/", True, "https://api.example.org", id="slash"),
    ],
)  # fmt: skip
def test_server_url(text: str, secure: bool, url: str) -> None:
    assert server_url(text, secure=secure) == url


@pytest.mark.parametrize(
    "text",
    ["", "/", "https://", "https://host:port", "https://host:99999", "https://host:0", "ftp://host", "host/path",
     "https://host/?a=b", "https://host/#a", "https://[fd00::1"],
)  # fmt: skip
def test_no_address(text: str) -> None:
    with pytest.raises(
        ValueError, match="is not the address of an API server; write it like https"
    ):
        server_url(text, secure=True)


def test_an_address_with_a_password_is_refused_and_not_shown() -> None:
    with pytest.raises(ValueError, match="must not contain a user name or a password") as caught:
        server_url("https://me:hunter2@host", secure=True)
    assert "hunter2" not in str(caught.value)


def test_secrets_are_in_no_repr() -> None:
    access = Access(
        "https://host",
        key=b"SECRET",
        certificate=b"SECRET",
        authorization="Bearer SECRET",
        headers=(("Impersonate-User", "SECRET"),),
        proxy="http://me:SECRET@proxy",
    )
    assert "https://host" in repr(access)
    assert "SECRET" not in repr(access)
