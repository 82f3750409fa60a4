"""Commands that look at the cluster of an API server; sessions/names.md and others have the rest."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hsdns.cli import main
from tests.plugins.kubernetes.test_watch import ApiThread, service

NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
NAME = "web.shop.svc.lab.test"


def config_map(name: str, **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "kube-system"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def kubeconfig(server: str) -> str:
    return json.dumps({
        "current-context": "lab",
        "contexts": [
            *({"name": each, "context": {"cluster": each, "user": "u"}} for each in ("lab", "gone")),
            {"name": "shop", "context": {"cluster": "lab", "user": "u", "namespace": "shop"}},
        ],
        "clusters": [
            {"name": "lab", "cluster": {"server": server}},
            {"name": "gone", "cluster": {"server": "http://127.0.0.1:1"}},
        ],
        "users": [{"name": "u", "user": {}}],
    })  # fmt: skip


# An endpoint of Service web.
BEHIND = {
    "kind": "EndpointSlice",
    "metadata": {"name": "web-1", "namespace": "shop", "labels": {"kubernetes.io/service-name": "web"}},
    "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"name": "", "port": 80}],
}  # fmt: skip


@pytest.fixture
def api(no_server: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiThread]:
    """A cluster whose DNS answers a zone of its own, and the usual kubeconfig for it."""
    with ApiThread() as running:
        running.apply(NAMESPACE, service("web", "10.96.7.7"), BEHIND)
        Path("config").write_text(kubeconfig(running.api.url))
        monkeypatch.setenv("KUBECONFIG", "config")
        yield running


COREFILE = """.:53 {
    import custom/*.override
    kubernetes lab.test in-addr.arpa {
        ttl 17
    }
    forward . 127.0.0.1:1
}
"""
# What the cluster has, what is asked, what is printed, and what standard error says.
ROWS = [
    ([config_map("coredns", Corefile=COREFILE)], f"explain {NAME}",
     f"{NAME}. 17 A 10.96.7.7", "looking at the cluster of the current context, lab, of config"),
    ([config_map("coredns", Corefile=COREFILE)], "names --context lab", f"{NAME}. 17 IN A 10.96.7.7", ""),
    ([config_map("coredns", Corefile=COREFILE)], f"resolve {NAME}. --program go --resolv-conf resolv.conf",
     f"{NAME}.: 10.96.7.7", "looking at the cluster of the current context, lab, of config"),
    ([config_map("coredns", Corefile=COREFILE), config_map("coredns-custom", **{"a.override": "rewrite name a.test " + NAME})],
     "explain a.test", "a.test. 17 A 10.96.7.7", "looking at the cluster of the current context, lab, of config"),
    ([config_map("coredns", Corefile="lab.test {\n    kubernetes\n    python evil:Handler\n}\n")],
     "names --kubeconfig config", "web.shop.svc.cluster.local. 30 IN A 10.96.7.7",
     "the Corefile of the cluster's DNS is not used, but a built-in one: it names code, in python"),
    ([config_map("coredns", Corefile="lab.test {\n    kubernetes {\n        ttl x\n    }\n}\n")], "names --context lab",
     "web.shop.svc.cluster.local. 30 IN A 10.96.7.7", "the Corefile of the cluster's DNS is not used, but a built-in one: ConfigMap kube-system/coredns:3:13: "),
    ([config_map("coredns", Corefile="lab.test {\n    import more.conf\n    kubernetes\n}\n")], "names --context lab",
     "web.shop.svc.cluster.local. 30 IN A 10.96.7.7", "the Corefile of the cluster's DNS is not used, but a built-in one: ConfigMap kube-system/coredns:2:12: nothing to import: "),
    ([config_map("coredns", Corefile="lab.test {\n    whoami\n}\n")], "names --context lab",
     "web.shop.svc.cluster.local. 30 IN A 10.96.7.7", "the Corefile of the cluster's DNS is not used, but a built-in one: it has no kubernetes block"),
    ([], "names --context lab", "web.shop.svc.cluster.local. 30 IN A 10.96.7.7",
     "the Corefile of the cluster's DNS is not used, but a built-in one: no ConfigMap has one"),
]  # fmt: skip


@pytest.mark.sockets
@pytest.mark.parametrize(("items", "words", "printed", "said"), ROWS)
def test_the_cluster_of_a_kubeconfig(
    items: list[dict[str, Any]],
    words: str,
    printed: str,
    said: str,
    api: ApiThread,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its objects, with the Corefile of its DNS and what that imports."""
    api.apply(*items)
    Path("resolv.conf").write_text("nameserver 10.96.0.10\n")
    assert main(words.split()) == 0
    found = capsys.readouterr()
    assert printed in found.out
    assert found.err.startswith(said)
    assert found.err.count("\n") == bool(said)


@pytest.mark.sockets
def test_upstreams_beside_the_corefile_of_a_cluster(
    api: ApiThread, capsys: pytest.CaptureFixture[str]
) -> None:
    api.apply(config_map("coredns", Corefile=COREFILE))
    Path("resolv.conf").write_text("nameserver 10.96.0.10\n")
    words = "--context lab --forward 192.0.2.1 --resolv-conf resolv.conf"
    assert main(["resolve", NAME, *words.split()]) == 2
    assert capsys.readouterr().err == (
        "--forward has no effect with a running server; remove it, "
        "or add a Corefile with forward, with --conf\n"
    )


@pytest.mark.sockets
def test_a_corefile_without_a_cluster(api: ApiThread, capsys: pytest.CaptureFixture[str]) -> None:
    Path("Corefile").write_text("lab.test {\n    whoami\n}\n")
    assert main(["names", "-conf", "Corefile", "-kubeconfig", "config"]) == 2
    assert capsys.readouterr().err == (
        "--kubeconfig: it needs a kubernetes block, and Corefile has none; "
        'add "kubernetes cluster.local" or leave --kubeconfig out\n'
    )


@pytest.mark.sockets
def test_a_corefile_over_another_cluster(
    api: ApiThread, capsys: pytest.CaptureFixture[str]
) -> None:
    """A kubeconfig takes the place of what its blocks read; the snapshot is not written."""
    snapshot = Path("state").absolute()
    Path("Corefile").write_text(
        f"cluster.local {{\n    kubernetes {{\n        endpoint http://127.0.0.1:1\n        snapshot {snapshot}\n    }}\n}}\n"
    )
    assert main(["names", "-conf", "Corefile", "-kubeconfig", "config"]) == 0
    found = capsys.readouterr()
    assert "web.shop.svc.cluster.local. 5 IN A 10.96.7.7\n" in found.out
    assert found.err == ""
    assert not snapshot.exists()
