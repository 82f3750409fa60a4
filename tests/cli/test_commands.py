"""What is known of each command comes from its parser and its help."""

from __future__ import annotations

from hsdns.cli import SUBCOMMANDS
from hsdns.cli.command import Flag
from hsdns.cli.commands import described_commands, takes_file, values
from hsdns.cli.serve import Serve
from hsdns.sources import SOURCES


def test_all_commands() -> None:
    found = {command.name: command for command in described_commands()}
    assert list(found) == ["", *SUBCOMMANDS]
    assert found[""].usage == ("hsdns COMMAND [FLAG...]", "hsdns [FLAG...]")
    assert found[""].words == tuple(SUBCOMMANDS)
    assert found["serve"].usage == ("hsdns serve [FLAG...]",)
    assert found["serve"].flags == Serve.flags()
    for name, command in found.items():
        assert command.title == "-".join(["hsdns", *name.split()])
        assert command.usage
        assert all(form.startswith(f"hsdns {name}".strip()) for form in command.usage)
        assert {"h", "help"} <= set(command.flags)


def test_flags_that_take_files() -> None:
    assert takes_file(Flag(str, "", "FILE"))
    assert takes_file(Serve.flags()["source"])
    assert not takes_file(Flag(int, "", "PORT"))
    assert values(Serve.flags()["source"]) == tuple(SOURCES)
    assert values(Flag(str, "", "FILE")) == ()
    assert not takes_file(Flag(list, "", "ADDRESS..."))
