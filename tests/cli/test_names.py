"""`hsdns names` of an API server; sessions/names.md has the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsdns.cli import main
from tests.plugins.kubernetes.test_watch import ApiThread, service


@pytest.mark.sockets
def test_an_api_server(no_server: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It watches until the cluster has been read; the snapshot is not written."""
    with ApiThread() as running:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
        running.apply(namespace, service("web", "10.96.7.7"))
        block = f"kubernetes {{\nendpoint {running.api.url}\nsnapshot {no_server}/state\n}}"
        Path("Corefile").write_text(f"cluster.local {{\n{block}\n}}\n")
        assert main(["names", "-conf", "Corefile"]) == 0
    printed = capsys.readouterr()
    assert "web.shop.svc.cluster.local. 5 IN A 10.96.7.7\n" in printed.out
    assert printed.err == ""
    assert not Path("state").exists()
