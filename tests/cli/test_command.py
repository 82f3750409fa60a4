"""A command whose fields are its flags: parsing, help, errors and exit status."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from functools import partial
from operator import attrgetter
from pathlib import Path

import pytest

from hsdns import cli
from hsdns.cli import SUBCOMMANDS
from hsdns.cli.command import ANY, Command, Flag, FlagError, flag, parse_flags, read_time, say
from hsdns.cli.commands import Completion, bash, described_commands, fish, zsh
from hsdns.cli.coredns import Coredns
from hsdns.cli.serve import Serve
from hsdns.errors import OperatorError
from loadtest.ports import free_port
from tests.cli.test_fault import RULE
from tests.cli.test_output import COURSE
from tests.cli.test_record import BEGIN
from tests.cli.test_running_server import chunked, listening
from tests.cli.test_top import PICTURE
from tests.load.servers import server
from tests.support.tables import columns, values

TABLES = Path(__file__).with_name("tables.txt")


class Show(Command):
    """A command with a flag of each type."""

    name = "show"
    forms = "NAME [FLAG...]"
    most_words = ANY
    bad = 3
    interrupted = ("interrupted", 4)

    no_code: bool = flag(False, "run nothing")
    from_: str | None = flag(None, "a file", "FILE")
    port: int = flag(53, "a port", "PORT", name="dns.port", alias="p", low=1)
    source: list[str] | None = flag(None, "a source", "NAME...")
    every: float = flag(1.0, "a time", "TIME", time="10s")
    o: str = flag("text", "a format", "FORMAT", choices=("text", "json", "sarif"))

    def run(self) -> int:
        if self.words == ["stop"]:
            raise KeyboardInterrupt
        if self.words == ["fail"]:
            raise OperatorError("it failed")
        self.exclusive("from", "source")
        values = (self.no_code, self.from_, self.port, self.source, self.every, self.o)
        say(*values, sorted(self.given))
        return 0


@pytest.mark.parametrize(("line", "status", "printed"), values(TABLES, "run"))
def test_run(line: str, status: int, printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert Show.main(line.split()) == status
    assert "".join(capsys.readouterr()) == printed


# What is known of each command comes from its parser and its help, and the conventions hold for all of them.

TABLE = Path(__file__).with_name("conventions.txt")
COMMANDS = {command.name or "hsdns": command for command in described_commands()}
SERVICE = (
    "{apiVersion: v1, kind: Service, metadata: {name: %s, namespace: shop}, spec: {type: %s}}\n"
)
# How a command is run: variables of the environment, and flags.
WAYS = {
    "coloured": ["FORCE_COLOR"], "plain": ["FORCE_COLOR NO_COLOR"], "json": ["FORCE_COLOR", "-o", "json"],
}  # fmt: skip


def test_all_commands() -> None:
    assert list(COMMANDS) == ["hsdns", *SUBCOMMANDS]
    assert COMMANDS["hsdns"].usage == ("hsdns COMMAND [FLAG...]", "hsdns [FLAG...]")
    assert COMMANDS["hsdns"].words == (*SUBCOMMANDS, "help", "version")
    assert COMMANDS["serve"].flags == Serve.flags()
    assert [each.values[0] for each in values(TABLE, "commands")] == list(COMMANDS)


@pytest.mark.sockets
@pytest.mark.parametrize(("name", "output", "colour", "yes", "no", "unknown"), values(TABLE, "commands"))  # fmt: skip
def test_conventions(
    name: str, output: str, colour: str, yes: str, no: str, unknown: str,
    no_server: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    command, first = COMMANDS[name], [name] * (name != "hsdns")
    of = cli.find_command(command.name or "coredns")
    assert [cli.main(each) for each in ([*first, "--help"], [*first, "-h"], ["help", *first])] == [
        0
    ] * 3
    shown = capsys.readouterr().out
    assert sorted(re.findall(r"^  --?(\S+)", shown, re.MULTILINE)) == sorted([*command.flags] * 3)
    assert cli.main([*first, "--hepl"]) == 2
    assert 'did you mean "--help"?' in capsys.readouterr().err
    try:
        parsed = of.parse(["--", "-x"])
        assert parsed is not None
        assert parsed.words == ["-x"]
    except FlagError as error:
        assert 'unexpected word "-x"' in str(error)
    assert ("o" in command.flags) is (output not in ("-", "always"))
    (no_server / "web.yaml").write_text(SERVICE % ("web", "ClusterIP, clusterIP: 10.96.7.7"))
    (no_server / "wrong.yaml").write_text(SERVICE % ("db", "ExternalName, externalName: 10.1.2.3"))
    (no_server / "bad.Corefile").write_text(". {\n    nothing\n}\n")
    (no_server / "queries").write_text("a.org A\n")
    lines = {
        "top?once=1": PICTURE,
        "faults": RULE,
        "replay": COURSE,
        "server": {"dashboard": "http://127.0.0.1/"},
    }
    pages = {each: chunked(json.dumps(line).encode() + b"\n") for each, line in lines.items()}
    printed = dict.fromkeys(WAYS, "")
    with server() as answering, listening(Path("c"), watch=chunked(*BEGIN), **pages):
        ports = {"OPEN": str(answering), "CLOSED": str(free_port())}
        for status, line in enumerate((yes, no, unknown)):
            words = re.sub("OPEN|CLOSED", lambda found: ports[found[0]], line).split()
            for way, (variables, *more) in WAYS.items() if line != "-" else ():
                Path("out.rec").unlink(missing_ok=True)
                for each in ("FORCE_COLOR", "NO_COLOR"):
                    monkeypatch.setenv(each, "1" * (each in variables))
                assert cli.main([*words, *(more if "o" in command.flags else [])]) == status, line
                text = capsys.readouterr().out
                printed[way] += text
                if way == "json" and output != "-" and text:
                    for part in text.splitlines() if output == "lines" else [text]:
                        json.loads(part)
    assert ("\x1b[" in printed["coloured"]) is (colour == "colour")
    assert "\x1b" not in printed["plain"] + printed["json"]
    assert printed["json"] or output in ("-", "running")


def test_flags_mean_the_same_everywhere() -> None:
    known = dict(map(attrgetter("values"), columns(TABLE, "one meaning")))
    for name, command in COMMANDS.items():
        found = {each: flag.argument for each, flag in command.flags.items() if each in known}
        assert found == {each: known[each] for each in found}, name


# Completion as each shell does it; a shell that is not installed is skipped.

SERVE = next(command for command in described_commands() if command.name == "serve")
PLAIN = next(command for command in described_commands() if not command.name)
# What stands on the line, and what is offered for its last word. Files of the folder: Corefile and a folder "shop".
CASES = [
    pytest.param("", {*SUBCOMMANDS, "help", "version"}, id="commands"),
    pytest.param("ser", {"serve"}, id="command"),
    pytest.param("-", {f"-{name}" for name in PLAIN.flags}, id="flags"),
    pytest.param("-conf ", {"Corefile", "shop/"}, id="file"),
    pytest.param("--conf C", {"Corefile"}, id="begun-file"),
    pytest.param("-p ", set(), id="number"),
    pytest.param("serve -", {f"-{name}" for name in SERVE.flags}, id="flags-of-a-command"),
    pytest.param("serve --quiet -so", {"-source"}, id="flag"),
    pytest.param("serve --so", {"--source"}, id="long-flag"),
    pytest.param("serve --source de", {"demo"}, id="value-of-a-long-flag"),
    pytest.param("serve --source manifests sh", {"shop/"}, id="files-of-a-list"),
    pytest.param("serve -o ", {"text", "json"}, id="choices"),
    pytest.param("completion ", set(Completion.suggested), id="shells"),
    pytest.param("man ser", {"serve"}, id="page"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "Corefile").touch()
    (tmp_path / "shop").mkdir()
    return tmp_path


def needs(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is not installed")


def output(folder: Path, *words: str) -> set[str]:
    found = subprocess.run(
        words, cwd=folder, check=False, capture_output=True, text=True, timeout=60,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder), "TERM": "dumb"},
    )  # fmt: skip
    assert (found.returncode, found.stderr) == (0, "")
    return {line.rstrip() for line in found.stdout.splitlines() if line.strip()}


@needs("bash")
@pytest.mark.parametrize(("line", "expected"), CASES)
def test_bash(line: str, expected: set[str], folder: Path) -> None:
    """What the function offers; where it leaves files to readline, those are added as readline would."""
    words = ["hsdns", *line.split(" ")]
    script = f"""{bash(described_commands())}
compopt() {{ [[ "$*" == "-o default" ]] && COMPREPLY=($(compgen -f -- "${{COMP_WORDS[COMP_CWORD]}}")) && leave=yes; }}
COMP_WORDS=({" ".join(repr(word) for word in words)})
COMP_CWORD={len(words) - 1}
_hsdns
for each in "${{COMPREPLY[@]}}"; do [[ -d $each ]] && each+=/; echo "$each"; done"""
    found = output(folder, "bash", "--norc", "-c", script + "\ntrue")
    assert found == expected


# An interactive zsh that writes into a file what its completion offers, and ends after the first one.
ZSH_RC = Path(__file__).with_name("zshrc").read_text()
# What types into it, on a terminal of its own.
ZSH_DRIVER = """
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'source ./rc'
zpty -r shell shown '*READY*'
zpty -n -w shell "hsdns $1"$'\t'
zpty -r shell shown '*DONE*'
zpty -d shell
if [[ -e offered ]]; then cat offered; fi
"""


@needs("zsh")
@pytest.mark.slow
@pytest.mark.parametrize(("line", "expected"), CASES)
def test_zsh(line: str, expected: set[str], folder: Path) -> None:
    (folder / "script").write_text(zsh(described_commands()))
    (folder / "rc").write_text(ZSH_RC)
    (folder / "driver").write_text(ZSH_DRIVER)
    found = output(folder, "zsh", "-f", "driver", line) - {"script", "rc", "driver"}
    assert found == {each.rstrip("/") for each in expected}


@needs("fish")
@pytest.mark.parametrize(("line", "expected"), CASES)
def test_fish(line: str, expected: set[str], folder: Path) -> None:
    (folder / "script").write_text(fish(described_commands()))
    found = output(folder, "fish", "-N", "-c", f"source script; complete -C 'hsdns {line}'")
    offered = {each.partition("\t")[0] for each in found}
    assert offered - {"script"} == expected


@pytest.mark.parametrize("shell", Completion.suggested)
def test_each_command_and_flag_is_in_the_script(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert script == {"bash": bash, "zsh": zsh, "fish": fish}[shell](described_commands())
    for command in described_commands():
        assert command.name in script
        for name in command.flags:
            assert f"-{name}" in script or f"-o {name}" in script or f"-s {name}" in script


KNOWN = {
    "conf": Flag(str, "Corefile to load", "FILE"),
    "dns.port": Flag(int, "a port", "PORT"),
    "p": Flag(int, "the same", "PORT", alias_of="dns.port"),
    "quiet": Flag(bool, "say less"),
    "source": Flag(list, "a source", "NAME [ARGUMENT...]"),
}


@pytest.mark.parametrize(("line", "found"), columns(TABLES, "flags that are read"))
def test_parse(line: str, found: str) -> None:
    assert parse_flags(line.split(), KNOWN) == json.loads(found)


@pytest.mark.parametrize(("line", "error"), columns(TABLES, "flags that are refused"))
def test_error(line: str, error: str) -> None:
    with pytest.raises(FlagError) as caught:
        parse_flags(line.split(), KNOWN)
    assert str(caught.value) == error


@pytest.mark.parametrize(
    ("text", "is_zero", "seconds"),
    [("1500ms", False, 1.5), ("1m30s", True, 90.0), ("0s", True, 0.0)],
)
def test_times(text: str, is_zero: bool, seconds: float) -> None:
    assert read_time("timeout", text, "30s", is_zero=is_zero) == seconds


@pytest.mark.parametrize(("text", "is_zero"), [("soon", True), ("-1s", True), ("0s", False), ("", True)])  # fmt: skip
def test_bad_times(text: str, is_zero: bool) -> None:
    with pytest.raises(FlagError) as error:
        read_time("timeout", text, "30s", is_zero=is_zero)
    assert str(error.value) == f'--timeout needs a time such as 30s, found "{text}"'


# Dispatch of arguments to commands.


@pytest.mark.parametrize(("line", "command", "words"), values(TABLES, "main"))
@pytest.mark.parametrize("given", [True, False], ids=["argv", "sys.argv"])
def test_main(
    line: str, command: str, words: list[str], given: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, list[str]]] = []

    def record(name: str, words: list[str]) -> int:
        seen.append((name, words))
        return 7

    monkeypatch.setattr(Coredns, "main", partial(record, "coredns"))
    monkeypatch.setattr(Serve, "main", partial(record, "serve"))
    monkeypatch.setattr(sys, "argv", ["hsdns", *line.split()])
    assert cli.main(line.split() if given else None) == 7
    assert seen == [(command, words)]


@pytest.mark.parametrize(("program", "is_terminal", "has_corefile", "is_shown"), values(TABLES, "without words"))  # fmt: skip
def test_without_words(
    program: str, is_terminal: bool, has_corefile: bool, is_shown: bool,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path,
) -> None:  # fmt: skip
    """A person sees the commands; an image, a service or a folder with a Corefile is served."""
    monkeypatch.chdir(tmp_path)
    if has_corefile:
        Path("Corefile").write_text(". {\n    whoami\n}\n")
    monkeypatch.setattr(sys, "argv", [f"/usr/bin/{program}"])
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: is_terminal)
    monkeypatch.setattr(Coredns, "main", lambda words: 7)
    assert cli.main() == (0 if is_shown else 7)
    printed = capsys.readouterr().out
    assert all((f"hsdns {name}" in printed) is is_shown for name in cli.SUBCOMMANDS)
    assert max(map(len, printed.splitlines()), default=0) <= 80


# How a shell leaves a command without an output that takes something: the exit status, and standard error.
FULL = "cannot write to standard output: No space left on device; redirect it to another file\n"
TAKES_NOTHING = {
    '3> >(:); wait $!; exec "$@" >&3': (1, ""), '"$@" >/dev/full': (2, FULL), '"$@" <&- >&-': (0, ""),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("line", ["-h", "rule"])
@pytest.mark.parametrize("where", TAKES_NOTHING)
def test_standard_output_that_takes_nothing(line: str, where: str, unbuffered: str) -> None:
    """As in `hsdns -h | head -1`, on a full disk, or closed: no traceback, and one sentence at most."""
    words = ["bash", "-c", f"exec {where}", "", sys.executable, "-m", "hsdns", line]
    env = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    ended = subprocess.run(words, env=env, stderr=subprocess.PIPE, text=True, check=False)
    assert (ended.returncode, ended.stderr) == TAKES_NOTHING[where]


INTERRUPTED = """
import asyncio, signal, sys
from hsdns import cli
def find_command(name):
    async def run():
        signal.raise_signal(signal.SIGINT)
        sys.exit(3)  # the work that goes on without an await
    asyncio.run(run())
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv = ["hsdns", "top"]
cli.find_command = find_command
cli.main()
"""


def test_ctrl_c_ends_a_command_at_once() -> None:
    """It is ended by the signal, without a traceback, and not at the next await."""
    words = [sys.executable, "-c", INTERRUPTED]
    ended = subprocess.run(words, stderr=subprocess.PIPE, timeout=20, check=False)
    assert (ended.returncode, ended.stderr) == (-signal.SIGINT, b"")
