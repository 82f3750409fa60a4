"""docs/load.md: commands and the form of what they print, over connections, of pods, replays and the search for the knee."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from hsdns import cli
from hsdns.load.cli import load as load_cli
from hsdns.load.cli.settings import STREAM_FLAGS
from hsdns.load.limits import read_knee_limits
from hsdns.load.questions import Question
from hsdns.wire.iana import type_from_text
from hsdns.wire.message import RD
from hsdns.wire.name import Name
from tests.load.captures import SECOND, packet, pcap
from tests.load.servers import NAME, Ports, hsdns
from tests.load.test_replay import query, recording

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "load.md").read_text()
EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
TITLES = (
    "A plan file",
    "Over connections",
    "Pods",
    "Recordings and captures",
    "How much a server can do",
)
SECTIONS = [PAGE.partition(f"\n## {each}\n")[2].partition("\n## ")[0] for each in TITLES]
SECTIONS.append(Path(__file__).with_name("load.md").read_text())
FENCES = re.findall(r"^```text\n(.*?)^```", "".join(SECTIONS), re.DOTALL | re.MULTILINE)
COMMANDS = [each for fence in FENCES for each in fence.splitlines() if each.startswith("hsdns load")]  # fmt: skip
SHOWN = [fence for fence in FENCES if fence.startswith("$ ")]
ZONE = "shop.svc.cluster.local"
SHOP = Path(__file__).with_name("load.yaml").read_text()
ASKED = [(f"{name}.{ZONE}", qtype) for name, qtype in (("web", "A"), ("db", "A"), ("no", "AAAA"))]
pytestmark = [pytest.mark.sockets, pytest.mark.slow]


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Ports]]:
    """A folder with all files that the commands name, and a server of its manifests."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "shop").mkdir()
    (folder / "shop" / "shop.yaml").write_text(SHOP)
    queries = [query(Question(Name.from_text(f"{name}."), type_from_text(qtype), "recorded", RD, 0)) for name, qtype in ASKED]  # fmt: skip
    packets = [(at * SECOND // 100, packet(queries[at % 3], client=at % 4)) for at in range(30)]
    (folder / "dns.pcap").write_bytes(pcap(packets))
    entries = [(at / 100, "10.0.0.1", *ASKED[at % 3]) for at in range(30)]
    (folder / "shop.rec").write_bytes(recording(*entries))
    (folder / "Corefile").write_text("cluster.local {\n  kubernetes cluster.local\n}\n")
    (folder / "server").mkdir()
    with hsdns(folder / "server", "manifests", str(folder / "shop")) as found:
        (folder / "ca.pem").write_bytes(found.certificate.cert.read_bytes())
        yield folder, found


@pytest.fixture
def run(
    ports: tuple[Path, Ports], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> tuple[str, str, str]:  # fmt: skip
    """A command is run for a short time; what the page shows, and what is printed."""
    folder, found = ports
    command, _, expected = request.param.removeprefix("$ ").partition("\n")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(load_cli, "MOST_LATE", 100.0)  # the machine may have other work
    more, status, asked = "", 0, ASKED[:2]
    if "--find-knee" in command:
        more = "--rate 400 --max-rate 800 --time 100ms --timeout 5s --knee-limits loss<=50%"
        status = 2  # it is above the ceiling
    elif "--pods" in command:
        more = "--rate 100 --time 200ms"
    elif "--queries" in command or "load-first" in command:
        more, asked = "--rate 200 --time 100ms --timeout 5s", ASKED
    Path("names.txt").write_text("".join(f"{name} {qtype}\n" for name, qtype in asked))
    # A pod has the manifests in place of an API server.
    actual = command.replace("--conf Corefile", "--conf Corefile --source manifests shop/")
    actual = actual.replace("docs/examples", str(EXAMPLES))
    if "load-first.yaml" in actual:
        actual += f" --server 127.0.0.1:{found.tcp}"
    for port, own in (("1053", found.tcp), ("1853", found.dot), ("1443", found.doh)):
        actual = actual.replace(f"-p {port}", f"-p {own}")
    words = shlex.split(actual.replace("dns.example.com", NAME))[1:]
    assert cli.main([*words, *more.split()]) == status
    return command, expected, capsys.readouterr().out


@pytest.mark.parametrize("run", COMMANDS, indirect=True)
def test_commands(run: tuple[str, str, str]) -> None:
    command, _, printed = run
    assert re.search(r"^queries    (\d+) due, [1-9]\d* sent, ", printed, re.MULTILINE)
    if "--replay" not in command and ("-p 1053" not in command or "--retry-tcp" in command or "--transport" in command):  # fmt: skip
        assert "20 due, 20 sent, 20 answered, 0 lost" in printed


def form(line: str) -> str:
    """A line without its figures, shares, what is told only where there is any, and why connections ended.

    A short run ends before they have their queries.
    """
    line = re.sub(r", [\d.]+( \([\d.%]+\))? (without addresses|failed|unfinished|sent again|over TCP|sent late)", "", line)  # fmt: skip
    line = re.sub(r"ended: .*", "ended:", line).replace(" <", " ")
    line = re.sub(r"(?<![\w/])-(?!\w)|[\d.]+( (us|ms|s)\b)?", "#", line)
    return re.sub(r"\s+", " ", line).replace(" (#%)", "")


def limits_of(command: str) -> list[str]:
    """What the report says of the limits of a search; a short run has others, which no busy machine can break."""
    words = shlex.split(command)
    if "--knee-limits" not in words:
        return []
    limits = read_knee_limits(words[words.index("--knee-limits") + 1], verifies=False)
    return [f"           limits {', '.join(each.text for each in limits)}"]


@pytest.mark.parametrize("run", SHOWN, indirect=True)
def test_what_is_printed(run: tuple[str, str, str]) -> None:
    command, expected, out = run
    printed = [form(each) for each in out.splitlines()]
    told = [each for each in expected.splitlines() if each != "..."]
    assert [each for each in told if each.startswith("           limits")] == limits_of(command)
    lines = [form(each) for each in told if each not in limits_of(command)]
    assert [each for each in lines if each not in printed] == []


def test_all_flags_are_described() -> None:
    told = SECTIONS[0] + PAGE.partition("## What it refuses")[0]
    assert [each for each in STREAM_FLAGS if f"`--{each}" not in told and f" --{each}" not in told] == []  # fmt: skip
