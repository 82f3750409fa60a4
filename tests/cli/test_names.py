"""`hsdns names`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hsdns.cli import main
from tests.cli.test_running_server import VERSION, chunked, listening, reply
from tests.plugins.kubernetes.test_watch import ApiThread, service

SHOP = """
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.96.7.7, ports: [{name: http, protocol: TCP, port: 80}]}
"""
LISTED = [
    "web.shop.svc.cluster.local. 30 IN A 10.96.7.7",
    "web.shop.svc.cluster.local. 30 IN SRV 0 100 80 web.shop.svc.cluster.local.",
    "_http._tcp.web.shop.svc.cluster.local. 30 IN A 10.96.7.7",
    "_http._tcp.web.shop.svc.cluster.local. 30 IN SRV 0 100 80 web.shop.svc.cluster.local.",
    "7.7.96.10.in-addr.arpa. 30 IN PTR web.shop.svc.cluster.local.",
]


@pytest.fixture(autouse=True)
def folder(no_server: Path) -> Path:
    """A folder with a manifest, where no server runs."""
    Path("shop.yaml").write_text(SHOP)
    return no_server


def run(line: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str], str]:
    status = main(["names", *line.split()])
    captured = capsys.readouterr()
    return status, captured.out.splitlines(), captured.err


# What the demo cluster has on purpose: the example of rule HS131.
SKIPPED = 'plugin/kubernetes: Service broken/address: externalName "10.1.9.9" is not a domain name; the Service is skipped\n'


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    status, lines, errors = run("-source manifests shop.yaml", capsys)
    assert (status, errors) == (0, "")
    assert [line for line in lines if "web" in line] == LISTED
    assert 'dns-version.cluster.local. 28800 IN TXT "1.1.0"' in lines
    assert (
        lines[-1] == "; A-B-C-D.NAMESPACE.pod.cluster.local. A A.B.C.D: any address (pods insecure)"
    )


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    """An array as a whole, and an object in each line."""
    status, lines, _ = run("-source manifests shop.yaml -o json", capsys)
    assert status == 0
    found = json.loads("\n".join(lines))
    assert found == [json.loads(line.removesuffix(",")) for line in lines[1:-1]]
    assert {
        "name": "_http._tcp.web.shop.svc.cluster.local.",
        "type": "SRV",
        "ttl": 30,
        "records": ["0 100 80 web.shop.svc.cluster.local."],
        "zone": "cluster.local.",
    } in found
    _, text, _ = run("-source manifests shop.yaml", capsys)
    assert sum(len(each["records"]) for each in found) == len(text) - 1  # without the comment


def test_demo(capsys: pytest.CaptureFixture[str]) -> None:
    status, lines, errors = run("", capsys)
    assert (status, errors) == (0, SKIPPED)
    assert "mail.shop.svc.cluster.local. 30 IN CNAME mail.example.org." in lines


def test_synthetic(capsys: pytest.CaptureFixture[str]) -> None:
    status, lines, _ = run("-source synthetic services=20 endpoints=3", capsys)
    assert status == 0
    assert len({line.split(".")[0] for line in lines if line.startswith("svc-")}) >= 20


def test_every_block_of_a_corefile(capsys: pytest.CaptureFixture[str]) -> None:
    Path("other.yaml").write_text(SHOP.replace("web", "api"))
    Path("Corefile").write_text(
        "a.test:5301 {\nkubernetes a.test {\nsource manifests shop.yaml\n}\n}\n"
        "b.test:5302 {\nbind 127.0.0.1\nkubernetes b.test {\nttl 7\nsource manifests other.yaml\n}\n}\n"
        ".:5303 {\nwhoami\n}\n"
    )
    status, lines, errors = run("-conf Corefile", capsys)
    assert (status, errors) == (0, "")
    assert "web.shop.svc.a.test. 5 IN A 10.96.7.7" in lines
    assert "api.shop.svc.b.test. 7 IN A 10.96.7.7" in lines
    assert not [line for line in lines if line.startswith("web.shop.svc.b.test.")]
    assert run("-conf Corefile -source manifests shop.yaml", capsys)[1] != lines


@pytest.mark.sockets
def test_an_api_server(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """It watches until the cluster has been read; the snapshot is not written."""
    with ApiThread() as running:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
        running.apply(namespace, service("web", "10.96.7.7"))
        Path("Corefile").write_text(
            "cluster.local {\n"
            f"kubernetes {{\nendpoint {running.api.url}\nsnapshot {tmp_path}/state\n}}\n}}\n"
        )
        status, lines, errors = run("-conf Corefile", capsys)
    assert (status, errors) == (0, "")
    assert "web.shop.svc.cluster.local. 5 IN A 10.96.7.7" in lines
    assert not Path("state").exists()


def test_a_cluster_that_is_away(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hsdns.cli.offline.WAIT", 0.0)
    Path("Corefile").write_text(
        "cluster.local {\nkubernetes {\nendpoint http://127.0.0.1:1\n}\n}\n"
    )
    status, lines, errors = run("-conf Corefile", capsys)
    assert (status, lines) == (1, [])
    assert errors.endswith(
        "the cluster could not be read within 0 seconds, from http://127.0.0.1:1\n"
    )


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("-o yaml", '-o needs text or json, found "yaml"'),
        ("-p 53", "unknown flag -p; hsdns names -h lists the flags"),
        ("-source manifest x", '-source: unknown source "manifest"; did you mean "manifests"?'),
        ("-conf Corefile.none", "Corefile.none: there is no kubernetes block, so there are no names to list"),
        ("-control c -conf Corefile", "-control and -conf exclude each other; leave one out"),
        ("-control c -source manifests x", "-control and -source exclude each other; leave one out"),
        ("-conf nope", "nope:1:1: cannot read the Corefile: No such file or directory"),
    ],
)  # fmt: skip
def test_error(line: str, error: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("Corefile.none").write_text(".:5303 {\nwhoami\n}\n")
    status, lines, errors = run(line, capsys)
    assert (status, lines) == (1, [])
    assert errors.startswith(error)


def test_a_file_that_is_wrong_makes_the_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    """The names of the others are listed."""
    Path("wrong.yaml").write_text("kind: [\n")
    status, lines, errors = run("-source manifests shop.yaml wrong.yaml", capsys)
    assert status == 1
    assert [line for line in lines if "web" in line] == LISTED
    assert "wrong.yaml" in errors


# --- a server that runs ---


WEB = b'{"name":"web.shop.svc.cluster.local.","type":"A","ttl":30,"records":["10.96.7.7"],"zone":"cluster.local."}\n'
OPEN_ENDED = b'{"open_ended":"any address"}\n'


@pytest.mark.sockets
@pytest.mark.parametrize("words", ["", "-control hsdns/7.sock"])
@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("text", ["web.shop.svc.cluster.local. 30 IN A 10.96.7.7", "; any address"]),
        ("json", ["[", json.dumps(json.loads(WEB)), "]"]),
    ],
)
def test_a_server_that_runs(
    words: str, output: str, expected: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "hsdns").mkdir(mode=0o700)
    with listening(folder / "hsdns" / "7.sock", names=chunked(WEB, OPEN_ENDED)):
        status, lines, errors = run(f"{words} -o {output}", capsys)
    assert (status, lines) == (0, expected)
    path = "hsdns/7.sock" if words else folder / "hsdns" / "7.sock"
    assert errors == f"the names of the server with process ID 7, at {path}\n"


@pytest.mark.sockets
def test_a_cluster_that_the_server_has_not_read(capsys: pytest.CaptureFixture[str]) -> None:
    with listening(Path("c"), names=chunked(b'{"problem":"not read yet"}\n')):
        status, lines, errors = run("-control c", capsys)
    assert (status, lines, errors.splitlines()[1:]) == (1, [], ["not read yet"])


@pytest.mark.sockets
@pytest.mark.parametrize(
    ("pages", "error"),
    [
        ({"names": chunked(WEB, whole=False)}, "the server at c ended before all of /v1/names was read; ask again"),
        ({"names": reply(b'{"error":"no names"}', "404 Not Found")}, "no names"),
        ({"version": reply(VERSION.replace(b"v1", b"v0"))}, "the server at c is hsdns 9.9.9, whose control door has v0, v2;"),
    ],
)  # fmt: skip
def test_a_server_that_cannot_be_asked(
    pages: dict[str, bytes], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with listening(Path("c"), **pages):
        status, _, errors = run("-control c", capsys)
    assert status == 2
    assert errors.splitlines()[-1].startswith(error)


def test_no_server_where_one_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("-control c", capsys) == (
        2, [], "there is no control socket c; start the server with -control c\n",
    )  # fmt: skip


def test_the_demo_cluster_where_none_runs(capsys: pytest.CaptureFixture[str]) -> None:
    status, lines, errors = run("", capsys)
    assert (status, errors) == (0, SKIPPED)
    assert any(line.startswith("consul-server.default.svc.cluster.local.") for line in lines)
