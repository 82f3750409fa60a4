import asyncio
from pathlib import Path

import pytest

from hsdns.apiserver.access import Access, Endpoint


@pytest.mark.parametrize(
    ("urls", "files", "access"),
    [
        pytest.param(["https://host"], (), Access("https://host"), id="url"),
        pytest.param(["host:8080"], (), Access("http://host:8080"), id="no-scheme"),
        pytest.param(["host"], ("c", "k", "a"), Access("https://host", "a", "c", "k"), id="tls"),
        pytest.param(["https://one", "https://two"], (), Access("https://one"), id="two"),
    ],
)
def test_access(urls: list[str], files: tuple[str, ...], access: Access) -> None:
    endpoint = Endpoint(urls, *files)
    assert endpoint.server == access.server
    assert asyncio.run(endpoint.current()) == access
    endpoint.invalidate(access)
    assert asyncio.run(endpoint.current()) == access


def test_check(tmp_path: Path) -> None:
    good = tmp_path / "pem"
    good.write_text("a PEM")
    missing = str(tmp_path / "missing")
    assert Endpoint(["https://host"], str(good), str(good), str(good)).check() == []
    assert Endpoint(["https://host", "https://two"], str(good), missing, str(good)).check() == [
        'only the first endpoint, "https://host", is used; "https://two" has no effect',
        f"cannot read {missing} for TLS: No such file or directory",
    ]
    assert Endpoint(["http://host"], missing, missing, missing).check() == [
        '"tls" has no effect on http://host; write https://'
    ]
