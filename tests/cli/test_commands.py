"""What is known of each command comes from its parser and its help, and the conventions hold for all of them."""

from __future__ import annotations

import json
import re
from operator import attrgetter
from pathlib import Path

import pytest

from hsdns import cli
from hsdns.cli import SUBCOMMANDS
from hsdns.cli.command import FlagError
from hsdns.cli.commands import described_commands
from hsdns.cli.serve import Serve
from loadtest.ports import free_port
from tests.cli.test_fault import RULE
from tests.cli.test_output import COURSE
from tests.cli.test_record import BEGIN
from tests.cli.test_running_server import chunked, listening
from tests.cli.test_top import PICTURE
from tests.load.servers import server
from tests.support.tables import columns, values

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
    assert COMMANDS["hsdns"].words == tuple(SUBCOMMANDS)
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
    assert sorted(re.findall(r"^  -(\S+)", shown, re.MULTILINE)) == sorted([*command.flags] * 3)
    assert cli.main([*first, "--hepl"]) == 2
    assert 'did you mean "-help"?' in capsys.readouterr().err
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
    assert printed["json"] or output == "-"


def test_flags_mean_the_same_everywhere() -> None:
    known = dict(map(attrgetter("values"), columns(TABLE, "one meaning")))
    for name, command in COMMANDS.items():
        found = {each: flag.argument for each, flag in command.flags.items() if each in known}
        assert found == {each: known[each] for each in found}, name
