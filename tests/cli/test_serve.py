"""`hsdns serve`."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import dns.message
import dns.query
import pytest

from hsdns.assemble import Configuration, assemble
from hsdns.cli import launch, serve
from hsdns.cli.coredns import version_text
from hsdns.corefile.parser import parse
from hsdns.server.cpus import usable_cpus
from loadtest.ports import free_port

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The arguments of launch.serve()."""
    calls: list[dict[str, Any]] = []

    def note(source: launch.CorefileSource, port: int, **options: Any) -> int:
        calls.append({"source": source, "port": port, **options})
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
        pytest.param("-listen ::1", 1053, ["::1"], None, id="listen"),
        pytest.param("-listen 0.0.0.0", 1053, ["0.0.0.0"], None, id="listen-to-all"),
        pytest.param("--source synthetic services=5", 1053, ["127.0.0.1"], ["synthetic", "services=5"], id="source"),
        pytest.param("-source synthetic services=5 -quiet", 1053, ["127.0.0.1"], ["synthetic", "services=5"], id="source-then-flag"),
    ],
)  # fmt: skip
def test_built_in_corefile(
    line: str,
    port: int,
    hosts: list[str],
    objects: list[str] | None,
    served: list[dict[str, Any]],
) -> None:
    assert serve.run(line.split()) == 0
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
    assert serve.run(["-conf", str(corefile)]) == 0
    (call,) = served
    assert call["source"].path == str(corefile)
    assert [plugin.name for plugin in build(call).plugins] == ["whoami"]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        pytest.param("-soruce demo", 'unknown flag -soruce; did you mean "-source"?', id="unknown"),
        pytest.param("-source", "-source needs NAME [ARGUMENT...]", id="no-source"),
        pytest.param("-p port", '-p needs a port number from 0 to 65535, found "port"', id="port"),
        pytest.param(
            "-listen ::1 -conf Corefile", "-listen and -conf exclude each other; write bind in the Corefile",
            id="listen-and-conf",
        ),
        pytest.param("manifests", 'unexpected word "manifests"; flags begin with a dash, hsdns serve -h lists them', id="word"),
    ],
)  # fmt: skip
def test_error(
    line: str, error: str, served: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert serve.run(line.split()) == 1
    assert capsys.readouterr() == ("", f"{error}\n")
    assert not served


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_names_every_flag(
    flag: str, served: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert serve.run(["-source", "manifests", "-", flag]) == 0  # and nothing is read
    printed = capsys.readouterr().out
    for name in serve.FLAGS:
        assert f"\n  -{name}" in printed
    assert not served


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("plain", id="plain"),
        pytest.param("with space", id="space"),
        pytest.param('with"quote', id="quote"),
    ],
)
def test_quoted_path_is_one_word(path: str) -> None:
    text = f". {{\nhosts {serve._quoted(path)}\n}}"
    corefile = parse("x", text=text, environ={}, known_directives=["hosts"])
    assert [token.text for token in corefile.blocks[0].directives[0].args] == [path]


# --- the process ---


@pytest.mark.sockets
@pytest.mark.parametrize(
    ("words", "line", "error"),
    [
        pytest.param(
            "-source manifests {path}/a", "",
            'source manifests: there is no file or folder "{path}/a"; correct the path or create it', id="path",
        ),
        pytest.param(
            "-conf {path}/Corefile", "source manifests a",
            'source manifests: there is no file or folder "{path}/a"; correct the path or create it', id="path-in-Corefile",
        ),
        pytest.param(
            "-conf {path}/Corefile", "kubeconfig {path}/a",
            "cannot read kubeconfig {path}/a: No such file or directory; correct the path or its permissions",
            id="kubeconfig",
        ),
    ],
)  # fmt: skip
def test_a_source_that_is_not_there_ends_it(
    words: str,
    line: str,
    error: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(launch, "set_up_logging", lambda: None)  # it would last
    line = line.format(path=tmp_path)
    (tmp_path / "Corefile").write_text(f". {{\nkubernetes cluster.local {{\n{line}\n}}\n}}\n")
    assert serve.run(["-p", str(free_port()), *words.format(path=tmp_path).split()]) == 1
    assert capsys.readouterr() == ("", error.format(path=tmp_path) + "\n")


@pytest.mark.sockets
@pytest.mark.slow
def test_process_over_standard_input() -> None:
    port = free_port()
    text = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {clusterIP: 10.96.0.7}\n"
    with subprocess.Popen(
        [sys.executable, "-m", "hsdns", "serve", "-p", str(port), "--source", "manifests", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(text)
            process.stdin.close()
            assert process.stdout.readline() == f".:{port} on 127.0.0.1\n"
            query = dns.message.make_query("web.default.svc.cluster.local", "A")
            reply = dns.query.tcp(query, "127.0.0.1", timeout=5, port=port)
            assert [rdata.to_text() for rdata in reply.answer[0]] == ["10.96.0.7"]
        finally:
            process.kill()


@pytest.mark.sockets
@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "first", "is_demo"),
    [
        pytest.param([], r"kubernetes cluster\.local\. in-addr\.arpa\. ip6\.arpa\.: \d+ Services, \d+ endpoint addresses, \d+ namespaces?", True, id="demo"),
        pytest.param(
            ["-source", "synthetic", "services=7"],
            r"kubernetes cluster\.local\. in-addr\.arpa\. ip6\.arpa\.: 7 Services, \d+ endpoint addresses, \d+ namespaces?",
            False,
            id="synthetic",
        ),
    ],
)  # fmt: skip
def test_process(source: list[str], first: str, is_demo: bool) -> None:
    """It prints what it serves, and for the demo cluster queries with the answers that it really gives."""
    port = free_port()
    with subprocess.Popen(
        [sys.executable, "-m", "hsdns", "serve", "-p", str(port), *source],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        try:
            assert process.stdout is not None
            printed = [process.stdout.readline().rstrip("\n") for _ in range(5)]
            assert printed[:3] == [f".:{port} on 127.0.0.1", *version_text().splitlines()]
            assert printed[3] == launch.fast_path_line(usable_cpus())
            assert re.fullmatch(first, printed[4])
            if is_demo:
                while printed[-1] != "Several records come in any order.  Stop with Ctrl-C.":
                    printed.append(process.stdout.readline().rstrip("\n"))
                _check_examples(printed, port)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.communicate(timeout=10)
            finally:
                process.kill()
    assert process.returncode == 0


def _check_examples(printed: list[str], port: int) -> None:
    asked = 0
    at = 0
    while at < len(printed):
        words = printed[at].split()
        at += 1
        if words[:1] != ["dig"]:
            continue
        assert words[1:5] == ["@127.0.0.1", "-p", str(port), "+short"]
        expected = []
        while printed[at].startswith("    "):
            expected.append(printed[at].strip())
            at += 1
        reply = dns.query.tcp(
            dns.message.make_query(words[5], words[6]), "127.0.0.1", timeout=5, port=port
        )
        got = [rdata.to_text() for rrset in reply.answer for rdata in rrset]
        assert sorted(got) == sorted(expected) != []
        asked += 1
    assert asked == len(serve.EXAMPLES)
