"""The flags that say who asks, as `hsdns explain` takes them; tests/cli/test_resolve.py has those of `resolve`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hsdns.cli import main

SHOP = """
apiVersion: v1
kind: Service
metadata: {name: db, namespace: shop}
spec: {clusterIP: 10.96.7.7, ports: [{name: pg, port: 5432}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web-0, namespace: shop}
spec: {dnsConfig: {options: [{name: ndots, value: "1"}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: bad, namespace: shop}
spec: {dnsConfig: {searches: [a..b]}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: all, namespace: front}
spec: {podSelector: {}, policyTypes: [Egress]}
---
apiVersion: v1
kind: Pod
metadata: {name: web-0, namespace: front}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a folder with a cluster and a resolv.conf."""
    monkeypatch.chdir(tmp_path)
    Path("shop.yaml").write_text(SHOP)
    Path("resolv.conf").write_text("nameserver 10.0.0.1\nsearch svc.cluster.local\n")
    return tmp_path


def run(line: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str], str]:
    status = main(["explain", *line.split(), "-source", "manifests", "shop.yaml"])
    captured = capsys.readouterr()
    return status, captured.out.splitlines(), captured.err


@pytest.mark.parametrize(
    ("line", "status", "first"),
    [
        ("db -from shop/web-0", 0, "NOERROR: the cluster IP of Service shop/db"),
        ("db -from shop/web-0 A -resolver go", 2, ""),
        ("db.shop -from shop/web-0", 1, 'Pod shop/web-0 with musl gets "Try again": db.shop has 1 dot'),
        ("db.shop -from shop/web-0 -ndots 2", 0, "NOERROR: the cluster IP of Service shop/db"),
        ("db -from shop/web-0 -search x.test -resolver go", 1, 'Pod shop/web-0 with go gets "server misbehaving": the search list has'),
        ("db.shop -resolv-conf resolv.conf -ndots 2 -resolver musl", 0, "NOERROR: the cluster IP of Service shop/db"),
        ("db -from front/web-0 -resolver musl", 1, 'Pod front/web-0 with musl gets "Try again": NetworkPolicy front/all allows'),
    ],
)  # fmt: skip
def test_explain(line: str, status: int, first: str, capsys: pytest.CaptureFixture[str]) -> None:
    found, lines, _ = run(line, capsys)
    assert found == status
    assert " ".join(lines[:2]).startswith(first)


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    status, lines, _ = run("db.shop -from shop/web-0 -o json", capsys)
    found = json.loads("\n".join(lines))
    asker = found["asker"]
    assert (status, found["name"], found["outcome"]) == (1, "db.shop", "does not resolve")
    assert (asker["pod"], asker["dnsPolicy"], asker["decisive"]) == (
        "shop/web-0",
        "ClusterFirst",
        "db.shop.svc.cluster.local.",
    )
    assert asker["cause"] == found["cause"]
    assert [each["resolver"] for each in asker["lookups"]] == ["glibc", "musl", "go", "c-ares"]
    assert found["needed"][0]["place"] == "Pod shop/web-0"


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("db SRV -from shop/web-0", "programs look up A and AAAA records by getaddrinfo, not SRV; hsdns lookup db SRV asks a server for it"),
        ("db -resolver muls", 'there is no model of a resolver "muls"; did you mean "musl"?'),
        ("db -from shop/web", 'the source has no pod shop/web; did you mean "shop/web-0"?'),
        ("db -from web-0", '-from needs a namespace and a pod, as in shop/web-0, found "web-0"'),
        ("nope -from shop/bad", "a name of the search list cannot be looked up: label b'' has 0 octets, allowed are 1 to 63"),
        ("db -resolver go -resolv-conf none", "none cannot be read: No such file or directory; give a resolv.conf with -resolv-conf"),
        ("db -from shop/web-0 -server 10.0.0.1", "-server is for one question, and -from for a whole lookup; leave one of them out"),
        ("db -ndots 1 -history", "-history is for one question, and -ndots for a whole lookup; leave one of them out"),
        ("db -cluster-dns 10.0.0.2", "-cluster-dns is for a pod; add -from NS/POD, or leave it out"),
        (". -from shop/web-0", '"." is not a name that can be looked up: it is the root'),
    ],
)  # fmt: skip
def test_bad_input(line: str, error: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence, and status 2."""
    assert run(line, capsys) == (2, [], error + "\n")
