"""A command whose fields are its flags: parsing, help, errors and exit status."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest

from hsdns.cli.command import ANY, Command, flag, say
from hsdns.errors import OperatorError
from tests.support.tables import values

TABLES = Path(__file__).with_name("tables.txt")


class Show(Command):
    """A command with a flag of each type."""

    name = "show"
    forms = "NAME [FLAG...]"
    most_words = ANY
    bad = 3
    interrupted = ("interrupted", 4)

    no_code: Annotated[bool, flag("run nothing")] = False
    from_: Annotated[str | None, flag("a file", "FILE")] = None
    port: Annotated[int, flag("a port", "PORT", name="dns.port", alias="p", low=1)] = 53
    source: Annotated[list[str] | None, flag("a source", "NAME...")] = None
    every: Annotated[float, flag("a time", "TIME", time="10s")] = 1.0
    o: Annotated[str, flag("a format", "FORMAT", choices=("text", "json", "sarif"))] = "text"

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
