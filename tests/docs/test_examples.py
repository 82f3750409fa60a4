"""Every Corefile in the documentation starts, and every `$ hsdns ...` prints what the documentation says.

A fenced block with `title="NAME"` is also a file of that name, for the blocks of the same page that need it.  Before a
Corefile is started it is set up as it stands.  Then what would reach beyond loopback, or needs a certain port, is
replaced: ports, bound addresses, upstreams, the cluster's manifests and the lameduck period.
"""

import asyncio
import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from threading import Timer
from typing import NamedTuple

import pytest

from hsdns.assemble import Configuration, assemble
from hsdns.corefile.tree import Corefile, Directive, Line, ServerBlock, Token
from hsdns.plugins import ORDER
from hsdns.server.lifecycle import Server
from loadtest.ports import free_port
from tests.support.clients.command import ENVIRON, HSDNS, run_command
from tests.support.plugins.corefiles import parsed

pytestmark = pytest.mark.usefixtures("folder")

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "hsdns" / "demo"
PAGES = [
    *sorted((ROOT / "docs").rglob("*.md")),
    *(
        ROOT / f"tests/docs/{name}.md"
        for name in ("explain", "faults", "lint", "resolve", "serve", "sidecar")
    ),
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
]

FENCE = re.compile(
    r"^(?P<mark>```+)(?P<language>\w*)(?P<rest>[^\n]*)\n(?P<body>.*?)^(?P=mark)$",
    re.DOTALL | re.MULTILINE,
)
TITLE = re.compile(r'title="([^"]+)"')
DEADLINE = 15.0  # seconds for a command to print what the page says
DEFAULT_HTTP_PORT = {"health": "8080", "ready": "8181", "prometheus": "9153", "pprof": "6053"}
# What a page may name without showing it, as cert-manager writes it.
TLS_FILES = {
    "tls.crt": "server.pem",
    "tls.key": "server.key",
    "ca.crt": "ca.pem",
    "GeoLite2-City.mmdb": "../../scenarios/geoip/places.mmdb",
}


class Fence(NamedTuple):
    page: Path
    line: int
    language: str
    title: str | None
    body: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT).as_posix()}:{self.line}"

    @property
    def commands(self) -> Iterator[tuple[str, str]]:
        """Each command of a console, and what it prints."""
        for part in self.body.split("$ ")[1:]:
            command, _, printed = part.partition("\n")
            yield command, printed.strip("\n")


def fences(page: Path) -> Iterator[Fence]:
    text = page.read_text()
    for match in FENCE.finditer(text):
        title = TITLE.search(match["rest"])
        line = text.count("\n", 0, match.start()) + 1
        yield Fence(page, line, match["language"], title and title[1], match["body"])


FENCES = [fence for page in PAGES for fence in fences(page)]
COREFILES = [fence for fence in FENCES if fence.language == "corefile"]
CONSOLES = [
    fence
    for fence in FENCES
    if fence.language == "console"
    and "$ hsdns" in fence.body
    # Those of a running server: tests/docs/test_consoles.py.
    and "lab.sock" not in fence.body
    and fence.page.name != "record.md"
]


def write_files(page: Path) -> None:
    for name, source in TLS_FILES.items():
        Path(name).write_bytes((ROOT / "tests" / "data" / "tls" / source).read_bytes())
    for fence in fences(page):
        if fence.title:
            Path(fence.title).parent.mkdir(parents=True, exist_ok=True)
            Path(fence.title).write_text(fence.body)


def read(fence: Fence) -> Corefile:
    return parsed(fence.body, fence.title or "Corefile")


# --- Corefiles ---


class Loopback:
    """Changes a Corefile so that it starts on any machine and speaks to loopback only."""

    def __init__(self) -> None:
        self.ports: dict[str, str] = {}
        self.hosts: dict[str, str] = {}

    def corefile(self, corefile: Corefile) -> Corefile:
        blocks = tuple(
            ServerBlock(
                tuple(self._key(key) for key in block.keys),
                tuple(self._directive(directive) for directive in block.directives),
            )
            for block in corefile.blocks
        )
        return Corefile(corefile.path, blocks, (), corefile.digest)

    def port(self, port: str) -> str:
        return self.ports.setdefault(port, str(free_port()))

    def host(self, host: str) -> str:
        return self.hosts.setdefault(host, f"127.0.0.{len(self.hosts) + 1}")

    def _key(self, key: Token) -> Token:
        zone, colon, port = key.text.rpartition(":")
        return key._replace(text=f"{zone}:{self.port(port)}") if colon and port.isdigit() else key

    def _directive(self, directive: Directive) -> Directive:
        token, name, lines = directive.name, directive.name.text, list(directive.lines)
        args = [each.text for each in directive.args]
        if name in DEFAULT_HTTP_PORT:
            port = args[0].rpartition(":")[2] if args else DEFAULT_HTTP_PORT[name]
            args = [f"127.0.0.1:{self.port(port)}"]
            at_once = (token._replace(text="0s"),)
            lines = [each._replace(args=at_once) if each.name.text == "lameduck" else each for each in lines]  # fmt: skip
        elif name == "bind":
            args = [self.host(each) for each in args]
            lines = [each for each in lines if each.name.text != "except"]
        elif name == "forward":
            scheme = "tls://" if args[1].startswith("tls://") else ""
            args[1:] = [f"{scheme}127.0.0.1:{self.port('upstream')}"]
        elif name == "kubernetes":
            words = [token._replace(text=each) for each in ("source", "manifests", str(DEMO))]
            sources = [each for each in lines if each.name.text == "source"]
            synthetic = [each for each in sources if each.args[0].text == "synthetic"]
            others = [each for each in lines if each.name.text != "source"]
            lines = [*(synthetic or [Line(words[0], tuple(words[1:]))]), *others]
        else:
            return directive
        made = tuple(token._replace(text=each) for each in args)
        return Directive(token, made, tuple(lines) or None)


def set_up(corefile: Corefile, warn: Callable[[str], None]) -> Configuration:
    return assemble(
        corefile,
        default_port=free_port(),
        interfaces=lambda: {"lo": ("127.0.0.1",), "eth0": ("127.0.0.2",)},
        warn=warn,
    )


@pytest.mark.parametrize("fence", COREFILES, ids=str)
def test_corefile_is_set_up_as_it_stands(fence: Fence) -> None:
    write_files(fence.page)
    configuration = set_up(read(fence), lambda sentence: None)
    assert configuration.listeners


@pytest.mark.sockets
@pytest.mark.parametrize("fence", COREFILES, ids=str)
def test_corefile_starts(fence: Fence) -> None:
    write_files(fence.page)
    corefile = Loopback().corefile(read(fence))
    build = partial(set_up, warn=lambda sentence: None)

    async def start_and_stop() -> tuple[int, int]:
        server = Server(lambda: corefile, build)
        await server.start()
        listening = len(server.addresses)
        running = asyncio.create_task(server.run())
        await server.shut_down()
        return listening, await running

    listening, status = asyncio.run(start_and_stop())
    assert listening >= 1
    assert status == 0


def test_every_plugin_page_has_a_corefile() -> None:
    shown = {fence.page.stem for fence in COREFILES if fence.page.parent.name == "plugins"}
    assert set(ORDER) - shown == set()


# --- commands ---


class Command(NamedTuple):
    words: list[str]
    expected: str

    @property
    def serves(self) -> bool:
        """Whether the command goes on until it is told to end."""
        ends = {"names", "explain", "resolve", "lint", "doctor", "rule"}
        told = {"--validate", "--version", "--plugins", "--help", "-h"}
        return not ends.intersection(self.words[:1]) and told.isdisjoint(self.words)


def commands(body: str) -> Iterator[Command]:
    """The hsdns commands of a console block with what they print; other commands and their output are skipped."""
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        line, _, output = part.partition("\n")
        while line.endswith("\\"):
            more, _, output = output.partition("\n")
            line = f"{line[:-1]} {more.removeprefix('>')}"
        words = shlex.split(line, comments=True)
        if words[0] == "hsdns":
            yield Command(words[1:], output.strip("\n"))


def as_pattern(expected: str) -> re.Pattern[str]:
    """What matches a command's output; `...` stands for anything in a line, alone on a line for any lines."""
    lines = []
    for line in expected.splitlines():
        if line == "...":
            lines.append(r"(?:.*\n)*")
        else:
            lines.append(".*".join(re.escape(part) for part in line.split("...")) + r"\n")
    return re.compile("".join(lines))


@pytest.mark.sockets
@pytest.mark.parametrize("fence", CONSOLES, ids=str)
def test_command_prints_what_the_page_says(fence: Fence) -> None:
    write_files(fence.page)
    for command in commands(fence.body):
        run(command)


def without_stalls(lines: Iterable[str]) -> Iterator[str]:
    """Leave out what the watchdog says, with its stack, when other work keeps the machine busy."""
    stalled = False
    for line in lines:
        stalled = "the event loop " in line or (stalled and line.startswith(" "))
        if not stalled:
            yield line


def run(command: Command) -> None:
    wanted = as_pattern(command.expected)
    if command.serves:
        run_server(command, wanted)
        return
    _, printed = run_command(command.words)
    assert wanted.fullmatch(printed), printed


def run_server(command: Command, wanted: re.Pattern[str]) -> None:
    port = str(free_port())
    words, shown_port = list(command.words), "1053"
    at = next((at for at, word in enumerate(words) if word.lstrip("-") in {"dns.port", "p"}), None)
    if at is None:
        words += ["-dns.port", port]
    else:
        shown_port, words[at + 1] = words[at + 1], port
    environ = {name: value for name, value in ENVIRON.items() if not name.startswith("KUBERNETES_")}
    with subprocess.Popen(
        [*HSDNS, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environ
    ) as process:
        assert process.stdout is not None
        # A server that does not print what it should would be read for ever.
        deadline = Timer(DEADLINE, process.kill)
        deadline.start()
        try:
            printed = ""
            for line in without_stalls(process.stdout):
                printed += line.replace(port, shown_port)
                if wanted.fullmatch(printed):
                    process.send_signal(signal.SIGTERM)
                    break
            process.stdout.read()
            process.wait()
        finally:
            deadline.cancel()
            process.kill()
    assert wanted.fullmatch(printed), printed
