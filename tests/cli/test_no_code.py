"""-no-code: what the input names is not run, neither a module of `python` nor a program of a kubeconfig."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from hsdns.cli import SUBCOMMANDS, main, offline
from hsdns.cli.commands import described_commands

NAME = "web.shop.svc.cluster.local"
KUBE = "    kubernetes cluster.local {\n        kubeconfig config\n    }\n"
COREFILE = f". {{\n    python marking:Handler\n{KUBE}}}\n"
MODULE = """
from pathlib import Path
from hsdns.plugins.python import UserHandler

Path("imported").touch()


class Handler(UserHandler):
    async def handle(self, request, next):
        return await next(request)
"""
# Of each command that can run code, a command line that would.
ROWS = {
    "": ("-validate",),
    "names": (),
    "explain": (NAME,),
    "wait": (NAME, "-server", "127.0.0.1", "-timeout", "50ms"),
    "resolve": (NAME,),
    "audit": ("-server", "127.0.0.1"),
    "load": ("-server", "127.0.0.1"),
    "doctor": ("-kubeconfig", "config", "-no-ask"),
    "lookup": (NAME, "-kubeconfig", "config"),
    "lint": ("Corefile",),
}


@pytest.fixture(autouse=True)
def folder(no_server: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline, "WAIT", 0.2)
    monkeypatch.setattr("hsdns.load.cli.cluster.PATIENCE", 0.2)
    Path("Corefile").write_text(COREFILE)
    Path("marking.py").write_text(MODULE)
    marks = ["-c", f"import pathlib; pathlib.Path({str(no_server / 'executed')!r}).touch()"]
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": marks, "interactiveMode": "Never"}  # fmt: skip
    Path("config").write_text(json.dumps({
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"exec": plugin}}],
    }))  # fmt: skip


def run(command: str, *more: str) -> int:
    conf = () if command in ("doctor", "lookup", "lint") else ("-conf", "Corefile")
    return main([*filter(None, [command]), *ROWS[command], *conf, *more])


@pytest.mark.sockets
@pytest.mark.parametrize("command", ROWS)
def test_nothing_runs(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(command, "-no-code")
    assert not Path("imported").exists()
    assert not Path("executed").exists()
    capsys.readouterr()


def test_the_rest_is_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("", "-no-code") == 0
    assert capsys.readouterr() == (
        "Corefile: valid, 1 server block\n",
        '[WARNING] Corefile:2:12: "marking:Handler" is not checked, because of --no-code\n',
    )
    Path("Corefile").write_text(COREFILE.replace("cluster.local {", "cluster.local {\n ttll 5\n"))
    assert run("", "-no-code") == 1
    assert 'unknown property "ttll"' in capsys.readouterr().err


def test_without_the_flag_it_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("") == 0
    assert Path("imported").exists()
    capsys.readouterr()


@pytest.mark.sockets
def test_why_a_cluster_is_not_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("doctor", "-no-code") == 2
    assert "config needs an exec plugin or OIDC, which --no-code does not run; use one with a token or a certificate" in capsys.readouterr().err  # fmt: skip


def test_every_command_with_a_corefile_or_a_kubeconfig_has_it() -> None:
    """A server runs what its Corefile names."""
    found = {
        each.name for each in described_commands() if each.flags.keys() & {"conf", "kubeconfig"}
    }
    assert found - {"serve"} == ROWS.keys() - {"lint"}
    assert {each.name for each in described_commands() if "no-code" in each.flags} == ROWS.keys()
    assert ROWS.keys() <= {"", *SUBCOMMANDS}
