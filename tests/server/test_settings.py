from __future__ import annotations

from pathlib import Path

import pytest

from hsdns.assemble import assemble
from hsdns.corefile.parser import parse
from hsdns.plugins import ORDER
from hsdns.server import sockets
from hsdns.server.sockets import DEFAULT_LIMITS, Limits, Settings, settings_of

DATA = Path(__file__).parents[1] / "data" / "tls"
TLS = f"tls {DATA}/server.pem {DATA}/server.key"


def read(text: str) -> list[Settings]:
    corefile = parse("Corefile", text=text, environ={}, known_directives=ORDER)
    return [settings_of(listener) for listener in assemble(corefile, warn=pytest.fail).listeners]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(". {\nwhoami\n}", Settings(), id="nothing"),
        pytest.param(
            ". {\ntimeouts {\nread 1s\nmaxtcpqueries 5\n}\nwhoami\n}",
            Settings(Limits(1.0, 5.0, 10.0, 5)), id="limits",
        ),
        pytest.param(
            "a.org {\ntimeouts {\nread 1s\nidle 2s\n}\nwhoami\n}\nb.org {\ntimeouts {\nread 4s\n}\nwhoami\n}",
            Settings(Limits(4.0, 5.0, 2.0, -1)), id="last-block-counts",
        ),
        pytest.param(". {\nmultisocket 3\nwhoami\n}", Settings(workers=3), id="workers"),
        pytest.param(". {\nmultisocket\nwhoami\n}", Settings(workers=2), id="workers-as-cpus"),
        pytest.param(
            "a.org {\nwhoami\n}\nb.org {\nmultisocket 3\nwhoami\n}", Settings(), id="first-block-counts",
        ),
        pytest.param(f". {{\n{TLS}\nwhoami\n}}", Settings(), id="no-tls-on-plain-dns"),
        pytest.param("https://. {\nwhoami\n}", Settings(max_connections=200), id="https"),
        pytest.param(
            "https://. {\nhttps {\nmax_connections 0\n}\nwhoami\n}", Settings(max_connections=0), id="https-any",
        ),
    ],
)  # fmt: skip
def test_settings(text: str, expected: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "usable_cpus", lambda: 2)
    assert read(text) == [expected]


@pytest.mark.parametrize("scheme", ["tls", "https"])
def test_tls_of_any_block_counts_for_the_address(scheme: str) -> None:
    text = f"{scheme}://a.org {{\nwhoami\n}}\n{scheme}://b.org {{\n{TLS}\nwhoami\n}}\n"
    (found,) = read(text)
    assert found.tls is not None
    assert found.limits is DEFAULT_LIMITS


def test_one_block_with_three_schemes() -> None:
    plain, tls, https = read(f". tls://. https://. {{\n{TLS}\nwhoami\n}}\n")
    assert plain == Settings()
    assert tls.tls is https.tls is not None
    assert (tls.max_connections, https.max_connections) == (0, 200)
