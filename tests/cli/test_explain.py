"""`hsdns explain`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from hsdns.cli import main
from tests.plugins.kubernetes.test_watch import ApiThread, service

SHOP = """
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.96.7.7, ports: [{name: http, protocol: TCP, port: 80}]}
"""
WEB = "web.shop.svc.cluster.local"
PAGE = Path(__file__).parents[1] / "docs" / "explain.md"


@pytest.fixture(autouse=True)
def folder(no_server: Path) -> Path:
    """A folder with a manifest, where no server runs."""
    Path("shop.yaml").write_text(SHOP)
    return no_server


def run(line: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str], str]:
    status = main(["explain", *line.split()])
    captured = capsys.readouterr()
    return status, captured.out.splitlines(), captured.err


@pytest.mark.sockets
def test_access_that_is_denied_is_not_a_cluster_without_endpoints(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It does not wait for a permission that is missing."""
    with ApiThread() as running:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
        running.apply(namespace, service("web", "None"))
        running.api.cluster.revoke("endpointslices")
        Path("Corefile").write_text(
            f"cluster.local {{\nkubernetes {{\nendpoint {running.api.url}\n}}\n}}\n"
        )
        for words in (["explain", WEB], ["resolve", WEB, "-program", "go"]):
            assert main([*words, "-conf", "Corefile"]) == 2
            captured = capsys.readouterr()
            shown = re.search(r'title="denied.txt"\n(.*?)\n```', PAGE.read_text(), re.DOTALL)
            assert shown is not None
            assert shown[1] in " ".join(captured.out.split())
            assert captured.err == (
                "no right to list endpointslices in the whole cluster or in namespaces default and shop (403), "
                "so which names are missing is not known\n"
            )
        assert main(["names", "-conf", "Corefile", "-n", "shop"]) == 0


@pytest.mark.parametrize(
    ("tty", "environ", "coloured"),
    [(True, {}, True), (True, {"NO_COLOR": "1"}, False), (False, {}, False)],
)
def test_colours(
    tty: bool,
    environ: dict[str, str],
    coloured: bool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: tty)
    _, lines, _ = run(f"{WEB} --source manifests shop.yaml", capsys)
    assert lines[0].startswith("\x1b") is coloured


# What repairs each case of the page that does not resolve.
REPAIRED = {
    "not-ready": ("clusterIP: None", "clusterIP: None, publishNotReadyAddresses: true"),
    "service-name": ("serviceName: db", "serviceName: db-svc"),
    "selector": ("selector: {name: x}", "selector: {app: x}"),
    "tolerate": ("clusterIP: None", "clusterIP: None, publishNotReadyAddresses: true"),
    "port-name": ('{name: ""', "{name: http"),
    "hostname": ("subdomain: web", "subdomain: web, hostname: web-7d4b9-x2x5k"),
    "external-name": ("ExternalName, externalName: 10.1.2.3", "ClusterIP, clusterIP: 10.96.7.7"),
    "import": ("ready: false", "ready: true"),
    "ndots": ('value: "1"', 'value: "2"'),
    "long": ("      - monitoring.services.datacenter-3.internal.example.org\n", ""),
    "searches": ("n1.example, ", ""),
    "policies": (
        "[{protocol: UDP, port: 53}]",
        "[{protocol: UDP, port: 53}, {protocol: TCP, port: 53}]",
    ),
}


@pytest.mark.parametrize("case", REPAIRED)
def test_what_the_page_says_is_the_cause(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = PAGE.read_text()
    found = re.search(
        rf'title="{case}\.yaml"\n(.*?)```.*?\$ hsdns explain ([^\n]*)', text, re.DOTALL
    )
    assert found is not None
    manifest, line = found[1], found[2]
    Path(f"{case}.yaml").write_text(manifest)
    for title, corefile in re.findall(r'```corefile title="([^"]+)"\n(.*?)```', text, re.DOTALL):
        Path(title).write_text(corefile)
    assert run(line, capsys)[0] == 1
    broken, repaired = REPAIRED[case]
    assert broken in manifest
    Path(f"{case}.yaml").write_text(manifest.replace(broken, repaired))
    status, lines, errors = run(line, capsys)
    assert (status, errors) == (0, "")
    assert lines[0].startswith("NOERROR: ")
    assert not any("for the program to find it" in each for each in lines)
    assert not any("for the name to exist" in each for each in lines)
