"""`hsdns serve`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

import dns.message
import dns.query
import dns.rcode
import pytest

from hsdns.assemble import Configuration, assemble
from hsdns.cli import launch, serve
from hsdns.cli.launch import CorefileSource
from hsdns.cli.serve import Serve
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.server.host import interface_addresses
from loadtest.ports import free_port
from tests.support.tables import values

TABLES = Path(__file__).with_name("tables.txt")

ROOT = Path(__file__).resolve().parents[2]
IPV6_LOOPBACK = [
    text for texts in interface_addresses().values() for text in texts if text == "::1"
]


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The arguments of launch.serve()."""
    monkeypatch.delenv(serve.VARIABLE, raising=False)
    calls: list[dict[str, Any]] = []

    def note(source: CorefileSource, options: launch.ServeOptions) -> int:
        calls.append({"source": source, **vars(options)})
        return 0

    monkeypatch.setattr(launch, "serve", note)
    return calls


def build(call: dict[str, Any]) -> Configuration:
    """Set up what `hsdns serve` would serve."""
    return assemble(
        call["source"].load(), default_port=call["port"], source=call["objects"], warn=pytest.fail
    )


@pytest.mark.parametrize(
    ("line", "port", "hosts", "objects"),
    [
        pytest.param("", 1053, ["127.0.0.1"], None, id="demo"),
        pytest.param("-p 5300", 5300, ["127.0.0.1"], None, id="port"),
        pytest.param("--dns.port=5300", 5300, ["127.0.0.1"], None, id="dns.port"),
        pytest.param("--listen ::1", 1053, ["::1"], None, id="listen"),
        pytest.param("--listen 0.0.0.0", 1053, ["0.0.0.0"], None, id="listen-to-all"),
        pytest.param("--listen localhost", 1053, ["127.0.0.1", *IPV6_LOOPBACK], None, id="listen-to-localhost"),
        pytest.param("--source synthetic services=5", 1053, ["127.0.0.1"], ["synthetic", "services=5"], id="source"),
        pytest.param("--source synthetic services=5 --quiet", 1053, ["127.0.0.1"], ["synthetic", "services=5"], id="source-then-flag"),
    ],
)  # fmt: skip
def test_built_in_corefile(
    line: str, port: int, hosts: list[str], objects: list[str] | None, served: list[dict[str, Any]]
) -> None:
    assert Serve.main(line.split()) == 0
    (call,) = served
    found = None if call["objects"] is None else [token.text for token in call["objects"]]
    assert found == objects
    assert call["quiet"] is ("quiet" in line)
    configuration = build(call)
    assert [listener.listen[:2] for listener in configuration.listeners] == [
        (host, port) for host in hosts
    ]
    assert [plugin.name for plugin in configuration.plugins] == [
        "bind", "errors", "loadbalance", "kubernetes",
    ]  # fmt: skip


def test_given_corefile(served: list[dict[str, Any]], tmp_path: Path) -> None:
    corefile = tmp_path / "Corefile"
    corefile.write_text("example.org {\nwhoami\n}\n")
    assert Serve.main(["-conf", str(corefile)]) == 0
    (call,) = served
    assert call["source"].path == str(corefile)
    assert [plugin.name for plugin in build(call).plugins] == ["whoami"]


def test_the_environment_has_the_default_of_listen(
    served: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(serve.VARIABLE, "0.0.0.0")
    assert (Serve.main([]), Serve.main(["-listen", "::1"])) == (0, 0)
    hosts = [build(call).listeners[0].listen.host for call in served]
    assert hosts == ["0.0.0.0", "::1"]


def test_the_image_listens_on_all_addresses() -> None:
    assert f"\nENV {serve.VARIABLE}=0.0.0.0\n" in (ROOT / "Dockerfile").read_text()


@pytest.mark.parametrize(("line", "directives"), values(TABLES, "flags for directives"))
def test_flags_for_directives(
    line: str, directives: list[str], served: list[dict[str, Any]]
) -> None:
    assert Serve.main(line.split()) == 0
    names = [plugin.name for plugin in build(served[0]).plugins]
    for directive in ("log", "loop", "forward"):
        assert (directive in names) is (directive in directives)


@pytest.mark.parametrize(("line", "source", "expected"), values(TABLES, "changes of files are shown"))  # fmt: skip
def test_changes_of_files_are_shown(
    line: str, source: str, expected: bool, served: list[dict[str, Any]]
) -> None:
    assert Serve.main(line.split()) == 0
    (call,) = served
    configuration = build(call)
    call["check"](configuration)
    (plugin,) = (each for each in configuration.plugins if isinstance(each, Kubernetes))
    assert str(plugin.source).startswith(source.split()[0])
    assert (plugin.show_changes is not None) is expected


@pytest.mark.parametrize(
    ("line", "expected"), [("", True), ("-faults", True), ("-faults=false", False)]
)
def test_faults(line: str, expected: bool, served: list[dict[str, Any]]) -> None:
    assert Serve.main(line.split()) == 0
    assert served[0]["faults"] is expected


@pytest.mark.parametrize(("line", "expected"), values(TABLES, "control socket"))
def test_control_socket(
    line: str,
    expected: str | None,
    served: list[dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert Serve.main(line.split()) == 0
    own = str(tmp_path / "hsdns" / f"{os.getpid()}.sock")
    assert served[0]["control"] == (own if expected == "{own}" else expected)


def test_control_address(
    served: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("HSDNS_CONTROL_TOKEN", raising=False)
    assert Serve.main(["-control", "0.0.0.0:9160"]) == 2
    assert capsys.readouterr().err.startswith("anyone who can reach 0.0.0.0:9160 could use")
    monkeypatch.setenv("HSDNS_CONTROL_TOKEN", "secret-of-16-octets")
    assert Serve.main(["-control", "0.0.0.0:9160"]) == 0
    (call,) = served
    assert (call["control"], call["control_token"]) == ("0.0.0.0:9160", "secret-of-16-octets")


def test_without_a_place_for_a_control_socket(
    served: list[dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The server runs, and says so."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "hsdns").write_text("")
    assert Serve.main([]) == 0
    assert served[0]["control"] is None
    assert capsys.readouterr().err.startswith("cannot create ")


# --- the process ---


SHOP = Path(__file__).with_name("serve.yaml").read_text()


class Process:
    """`hsdns serve` as a process; leaves with a block."""

    def __init__(self, *words: str) -> None:
        self.port = free_port()
        self.printed: list[str] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "hsdns", "serve", "-p", str(self.port), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )

    def read(self, last: str) -> list[str]:
        """What it prints up to a line."""
        assert self._process.stdout is not None
        found: list[str] = []
        while not found or found[-1] != last:
            line = self._process.stdout.readline()
            assert line, self.printed
            found.append(line.rstrip("\n"))
            self.printed.append(found[-1])
        return found

    def ask(self, qname: str, qtype: str) -> dns.message.Message:
        """The reply to a query over TCP."""
        query = dns.message.make_query(qname, qtype)
        return dns.query.tcp(query, "127.0.0.1", timeout=30, port=self.port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            rest = self._process.communicate(timeout=60)[0]
        finally:
            self._process.kill()
        self.printed += rest.splitlines()


END = "Several records come in any order.  Stop with Ctrl-C."


@pytest.mark.sockets
@pytest.mark.parametrize(("words", "line", "error"), values(TABLES, "a source that is not there ends it"))  # fmt: skip
def test_a_source_that_is_not_there_ends_it(
    words: str,
    line: str,
    error: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(launch, "set_up_logging", lambda *given: None)  # it would last
    line = line.format(path=tmp_path)
    (tmp_path / "Corefile").write_text(f". {{\nkubernetes cluster.local {{\n{line}\n}}\n}}\n")
    assert Serve.main(["-p", str(free_port()), *words.format(path=tmp_path).split()]) == 2
    assert capsys.readouterr() == ("", error.format(path=tmp_path) + "\n")


@pytest.mark.sockets
@pytest.mark.slow
def test_own_files(tmp_path: Path) -> None:
    """A change of them is a line; other names are REFUSED, and an ExternalName that leads outside is no error."""
    manifest = tmp_path / "shop.yaml"
    manifest.write_text(SHOP)
    with Process("-source", "manifests", str(manifest)) as process:
        printed = process.read(END)
        assert printed[6:10] == [
            "kubernetes cluster.local. in-addr.arpa. ip6.arpa.: 2 Services, 1 endpoint address, 1 namespace",
            "  mail.shop.svc.cluster.local: CNAME mx.example.org.",
            "  web.shop.svc.cluster.local: headless, 1 endpoint, SRV _http._tcp",
            "",
        ]
        _check_examples(printed, process)
        assert process.ask("example.org.", "A").rcode() == dns.rcode.REFUSED
        reply = process.ask("mail.shop.svc.cluster.local.", "A")
        assert (reply.rcode(), [str(rrset) for rrset in reply.answer]) == (
            dns.rcode.NOERROR, ["mail.shop.svc.cluster.local. 30 IN CNAME mx.example.org."],
        )  # fmt: skip
        manifest.write_text(SHOP.replace("10.244.0.7", "10.244.0.8"))
        assert process.read("+ 10.244.0.8 web-0.web.shop.svc.cluster.local") == [
            "- 10.244.0.7 web.shop.svc.cluster.local",
            "- 10.244.0.7 web-0.web.shop.svc.cluster.local",
            "+ 10.244.0.8 web.shop.svc.cluster.local",
            "+ 10.244.0.8 web-0.web.shop.svc.cluster.local",
        ]
    assert process.printed[-1] == "[INFO] SIGTERM: Shutting down servers then terminating"
    assert not [line for line in process.printed if "ERROR" in line]


def _check_examples(printed: list[str], process: Process) -> None:
    asked = 0
    at = 0
    while at < len(printed):
        words = printed[at].split()
        at += 1
        if words[:1] != ["dig"]:
            continue
        assert words[1:5] == ["@127.0.0.1", "-p", str(process.port), "+short"]
        expected = []
        while printed[at].startswith("    "):
            expected.append(printed[at].strip())
            at += 1
        reply = process.ask(words[5], words[6])
        got = [rdata.to_text() for rrset in reply.answer for rdata in rrset]
        assert sorted(got) == sorted(expected) != []
        asked += 1
    assert asked == 3
