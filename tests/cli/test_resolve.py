"""`hsdns resolve`: what it takes, and its exit status."""

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
spec:
  dnsConfig: {options: [{name: ndots, value: "1"}]}
  containers: [{name: web, image: web}]
"""
COREFILE = """cluster.local {
kubernetes {
source manifests shop.yaml
}
}
. {
template ANY ANY {
rcode NXDOMAIN
}
}
"""
RESOLV_CONF = "nameserver 10.96.0.10\nsearch shop.svc.cluster.local\noptions ndots:5\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a folder with a cluster and a resolv.conf."""
    monkeypatch.chdir(tmp_path)
    Path("shop.yaml").write_text(SHOP)
    Path("Corefile").write_text(COREFILE)
    Path("resolv.conf").write_text(RESOLV_CONF)
    return tmp_path


def run(line: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str], str]:
    status = main(["resolve", *line.split()])
    captured = capsys.readouterr()
    return status, captured.out.splitlines(), captured.err


@pytest.mark.parametrize(
    ("line", "status", "last"),
    [
        ("db -conf Corefile -resolv-conf resolv.conf -resolver go", 0,
         "   0.000  db: 10.96.7.7: db.shop.svc.cluster.local has addresses"),
        ("db A -conf Corefile -resolv-conf resolv.conf -resolver c-ares", 0,
         "   0.000  db: 10.96.7.7: db.shop.svc.cluster.local has addresses"),
        ("db -conf Corefile -resolv-conf resolv.conf", 0, "resolves with all: glibc, musl, go, c-ares"),
        ("no -conf Corefile -resolv-conf resolv.conf", 1, "resolves with none of glibc, musl, go, c-ares"),
        ("db.shop -conf Corefile -from shop/web-0", 1, "resolves with glibc, go, c-ares, but not with musl"),
        ("db.shop -conf Corefile -from shop/web-0 -ndots 2", 0, "resolves with all: glibc, musl, go, c-ares"),
        ("db -conf Corefile -resolv-conf resolv.conf -search x.test,y.test", 1,
         "resolves with none of glibc, musl, go, c-ares"),
        ("db.shop -resolv-conf resolv.conf -search svc.cluster.local -source manifests shop.yaml", 0,
         "resolves with all: glibc, musl, go, c-ares"),
    ],
)  # fmt: skip
def test_status(line: str, status: int, last: str, capsys: pytest.CaptureFixture[str]) -> None:
    found, lines, errors = run(line, capsys)
    assert (found, lines[-1], errors) == (status, last, "")
    assert max(map(len, lines)) < 80


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    _, lines, _ = run("db -conf Corefile -from shop/web-0 -resolver musl -o json", capsys)
    found = json.loads("\n".join(lines))
    assert found["types"] == ["A", "AAAA"]
    assert "ndots:1" in found["resolv_conf"]
    [musl] = found["resolvers"]
    assert (musl["addresses"], musl["error"], musl["seconds"]) == (["10.96.7.7"], None, 0.0)
    assert [(each["name"], each["type"]) for each in musl["queries"]] == [
        ("db.shop.svc.cluster.local", "A"),
        ("db.shop.svc.cluster.local", "AAAA"),
    ]


def test_the_demo_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("frontend -resolv-conf resolv.conf", capsys)[0] == 0


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("", "hsdns resolve needs a name, and may have a type: hsdns resolve NAME [TYPE]"),
        ("db A A", "hsdns resolve needs a name, and may have a type: hsdns resolve NAME [TYPE]"),
        ("a..b", "\"a..b\" is not a name that can be looked up: label b'' has 0 octets, allowed are 1 to 63"),
        (".", '"." is not a name that can be looked up: it is the root'),
        ("db XYZ", '"XYZ" is not a record type'),
        ("db MX", "programs look up A and AAAA records by getaddrinfo, not MX; hsdns lookup db MX asks a server for it"),
        ("db -resolver muls", 'there is no model of a resolver "muls"; did you mean "musl"?'),
        ("db -resolver x", 'there is no model of a resolver "x"; there are glibc, musl, musl-1.2.3, go, c-ares'),
        ("db -o yaml", '-o needs text or json, found "yaml"'),
        ("db -ndots 16", '-ndots needs a number from 0 to 15, found "16"'),
        ("db -zz", "unknown flag -zz; hsdns resolve -h lists the flags"),
        ("db -p 53", "-p is the port of -server; add -server ADDRESS, or leave -p out"),
        ("db -server dns -resolv-conf resolv.conf", '-server needs an IP address, found "dns"'),
        ("db -server ::1 -conf Corefile",
         "-server asks a running server, so -conf has no effect; leave one of them out"),
        ("db -conf Corefile -forward 192.0.2.1", "-forward has no effect with -conf; write forward in the Corefile"),
        ("db -resolv-conf none", "none cannot be read: No such file or directory; give a resolv.conf with -resolv-conf"),
        ("db -source manifests none -resolv-conf resolv.conf",
         'source manifests: there is no file or folder "none"; correct the path or create it'),
        ("db -resolv-conf resolv.conf -search a..b -conf Corefile",
         "a name of the search list cannot be looked up: label b'' has 0 octets, allowed are 1 to 63"),
        ("db -conf none -resolv-conf resolv.conf", "none:1:1: cannot read the Corefile: No such file or directory"),
        ("db -conf tls -resolv-conf resolv.conf",
         "tls: no server block answers plain DNS, so no resolver can ask it"),
    ],
)  # fmt: skip
def test_bad_input(line: str, error: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence, and status 2."""
    Path("tls").write_text("https://. {\nwhoami\n}\n")
    assert run(line, capsys) == (2, [], error + "\n")
