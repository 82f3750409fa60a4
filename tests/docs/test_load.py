"""docs/load.md, over connections: its commands against hsdns, and the form of what they print."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from hsdns import cli
from hsdns.cli import load_streams
from tests.load.stream_servers import NAME, Ports, hsdns

PAGE = Path(__file__).resolve().parents[2] / "docs" / "load.md"
SECTION = PAGE.read_text().partition("\n## Over connections\n")[2].partition("\n## ")[0]
FENCES = re.findall(r"^```text\n(.*?)^```", SECTION, re.DOTALL | re.MULTILINE)
COMMANDS = [
    line for fence in FENCES for line in fence.splitlines() if line.startswith("hsdns load")
]
SHOWN = [fence for fence in FENCES if fence.startswith("$ ")]
SHORT = ("-rate", "200", "-time", "100ms", "-timeout", "5s")


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    folder = tmp_path_factory.mktemp("hsdns")
    with hsdns(folder, "synthetic", "services=3", "endpoints=1", "headless=0") as found:
        yield found


def run(command: str, ports: Ports, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run a command of the page for a short time."""
    monkeypatch.chdir(folder)
    Path("names.txt").write_text(
        "svc-1.ns-0.svc.cluster.local A\nsvc-2.ns-0.svc.cluster.local A\nno.test A\n"
    )
    Path("ca.pem").write_bytes(ports.certificate.cert.read_bytes())
    for port, actual in (("1053", ports.tcp), ("1853", ports.dot), ("1443", ports.doh)):
        command = command.replace(f"-p {port}", f"-p {actual}")
    words = shlex.split(command.replace("dns.example.com", NAME))[1:]
    return cli.main([*words, *SHORT])


@pytest.mark.sockets
@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_commands(
    command: str, ports: Ports, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    assert run(command, ports, tmp_path, monkeypatch) == 0
    assert "20 due, 20 sent, 20 answered, 0 lost" in capsys.readouterr().out


def form(line: str) -> str:
    """A line without its figures, and without why connections ended: a short run ends before they have their queries."""
    line = re.sub(r"ended: .*", "ended:", line)
    line = re.sub(r"(?<![\w/])-(?!\w)|[\d.]+( (us|ms|s)\b)?", "#", line)
    return re.sub(r"\s+", " ", line)


@pytest.mark.sockets
@pytest.mark.slow
@pytest.mark.parametrize("shown", SHOWN)
def test_what_is_printed(
    shown: str, ports: Ports, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    command, _, expected = shown.removeprefix("$ ").partition("\n")
    assert run(command, ports, tmp_path, monkeypatch) == 0
    printed = [form(each) for each in capsys.readouterr().out.splitlines()]
    lines = [each for each in expected.splitlines() if each != "..."]
    for line in lines:
        if line.startswith(("queries", "connected", " ")):
            assert form(line) in printed


def test_all_flags_are_described() -> None:
    told = SECTION + PAGE.read_text().partition("## What it refuses")[0]
    assert [
        name for name in load_streams.FLAGS if f"`-{name}" not in told and f" -{name}" not in told
    ] == []
