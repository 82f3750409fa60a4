"""docs/load.md: commands and the form of what they print, over connections, of pods, replays and the search for the knee."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from hsdns import cli
from hsdns.load.cli import knee
from hsdns.load.cli.settings import STREAM_FLAGS
from hsdns.load.limits import read_knee_limits
from hsdns.load.questions import Question
from hsdns.wire.iana import RRType, type_to_text
from hsdns.wire.message import RD
from hsdns.wire.name import Name
from tests.load.captures import SECOND, packet, pcap
from tests.load.stream_servers import NAME, Ports, hsdns
from tests.load.test_replay import query, recording

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


OTHERS = ("Pods", "Recordings and captures", "How much a server can do")
IN_OTHERS = [
    fence
    for title in OTHERS
    for fence in re.findall(
        r"^```text\n(.*?)^```",
        PAGE.read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0],
        re.DOTALL | re.MULTILINE,
    )
]
OTHER_COMMANDS = [
    line for fence in IN_OTHERS for line in fence.splitlines() if line.startswith("hsdns load")
]
OTHER_SHOWN = [fence for fence in IN_OTHERS if fence.startswith("$ ")]
SHOP = """
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.96.7.7, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: db, namespace: shop}
spec: {clusterIP: None, ports: [{name: sql, port: 5432}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: db-1, namespace: shop, labels: {kubernetes.io/service-name: db}}
addressType: IPv4
endpoints: [{addresses: [10.1.0.1], conditions: {ready: true}}, {addresses: [10.1.0.2], conditions: {ready: true}}]
ports: [{name: sql, port: 5432, protocol: TCP}]
"""
ASKED = (("web", RRType.A), ("db", RRType.A), ("no", RRType.AAAA))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Ports]]:
    """A folder with all files that the commands name, and a server of its manifests."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "shop").mkdir()
    (folder / "shop" / "shop.yaml").write_text(SHOP)
    names = [f"{name}.shop.svc.cluster.local" for name, _ in ASKED]
    (folder / "names.txt").write_text(f"{names[0]} A\n{names[1]} A\n")
    found = [
        Question(Name.from_text(f"{name}."), qtype, "recorded", RD, 0)
        for name, (_, qtype) in zip(names, ASKED, strict=True)
    ]
    (folder / "dns.pcap").write_bytes(
        pcap(
            [(at * SECOND // 100, packet(query(found[at % 3]), client=at % 4)) for at in range(30)]
        )
    )
    (folder / "shop.rec").write_bytes(
        recording(
            *[
                (at / 100, "10.0.0.1", names[at % 3], type_to_text(ASKED[at % 3][1]))
                for at in range(30)
            ]
        )
    )
    (folder / "Corefile").write_text("cluster.local {\n  kubernetes cluster.local\n}\n")
    (folder / "server").mkdir()
    with hsdns(folder / "server", "manifests", str(folder / "shop")) as ports:
        yield folder, ports


def run_other(command: str, shop: tuple[Path, Ports], monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a command of the other sections for a short time; a pod in it has the manifests in place of an API server."""
    folder, ports = shop
    monkeypatch.chdir(folder)
    monkeypatch.setattr(knee, "MOST_LATE", 100.0)  # the machine may have other work
    more, status = [], 0
    if "-find-knee" in command:
        more = "-rate 400 -max-rate 800 -time 100ms -timeout 5s -knee-limits loss<=50%".split()
        status = 2  # it is above the ceiling
    elif "-pods" in command:
        more = "-rate 100 -time 200ms".split()
    if "-conf Corefile" in command:
        command = command.replace("-conf Corefile", "-conf Corefile -source manifests shop/")
    words = shlex.split(command.replace("-p 1053", f"-p {ports.tcp}"))[1:]
    assert cli.main([*words, *more]) == status


@pytest.mark.sockets
@pytest.mark.slow
@pytest.mark.parametrize("command", OTHER_COMMANDS)
def test_other_commands(
    command: str,
    shop: tuple[Path, Ports],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_other(command, shop, monkeypatch)
    assert re.search(r"^queries    \d+ due, [1-9]\d* sent, ", capsys.readouterr().out, re.MULTILINE)


def limits_of(command: str) -> list[str]:
    """What the report says of the limits of a search; a short run has others, which no busy machine can break."""
    words = shlex.split(command)
    if "-knee-limits" not in words:
        return []
    limits = read_knee_limits(words[words.index("-knee-limits") + 1], verifies=False)
    return [f"           limits {', '.join(each.text for each in limits)}"]


def other_form(line: str) -> str:
    """As form(), without what is told only where there is any, and shares of it."""
    line = re.sub(
        r", [\d.]+( \([\d.%]+\))? (without addresses|failed|unfinished|sent again|over TCP)",
        "",
        line,
    )
    return re.sub(r" \(#%\)", "", form(line)).replace("127.0.0.1 ", "")


@pytest.mark.sockets
@pytest.mark.slow
@pytest.mark.parametrize("shown", OTHER_SHOWN)
def test_what_the_others_print(
    shown: str,
    shop: tuple[Path, Ports],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command, _, expected = shown.removeprefix("$ ").partition("\n")
    run_other(command, shop, monkeypatch)
    printed = [other_form(each) for each in capsys.readouterr().out.splitlines()]
    told = [each for each in expected.splitlines() if each != "..."]
    assert [each for each in told if each.startswith("           limits")] == limits_of(command)
    lines = [other_form(each) for each in told if each not in limits_of(command)]
    assert [each for each in lines if each not in printed] == []


def test_all_flags_are_described() -> None:
    told = SECTION + PAGE.read_text().partition("## What it refuses")[0]
    assert [
        name for name in STREAM_FLAGS if f"`-{name}" not in told and f" -{name}" not in told
    ] == []
