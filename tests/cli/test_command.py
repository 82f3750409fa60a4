"""A command whose fields are its flags: parsing, help, errors and exit status."""

from __future__ import annotations

from typing import Annotated

import pytest

from hsdns.cli.command import ANY, Command, flag, say
from hsdns.errors import OperatorError


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


@pytest.mark.parametrize(
    ("line", "status", "printed"),
    [
        pytest.param("a", 0, "False\nNone\n53\nNone\n1.0\ntext\n[]\n", id="defaults"),
        pytest.param("a -no-code -from f -p 1 -every 2m -o json", 0, "True\nf\n1\nNone\n120.0\njson\n['dns.port', 'every', 'from', 'no-code', 'o']\n", id="all"),
        pytest.param("-source a b -dns.port=2", 0, "False\nNone\n2\n['a', 'b']\n1.0\ntext\n['dns.port', 'source']\n", id="list"),
        pytest.param("stop", 4, "interrupted\n", id="ctrl-c"),
        pytest.param("fail", 3, "it failed\n", id="error"),
        pytest.param("-p 0", 2, '-p needs a port number from 1 to 65535, found "0"\n', id="number"),
        pytest.param("-every soon", 2, '-every needs a time such as 10s, found "soon"\n', id="time"),
        pytest.param("-o jsn", 2, '-o needs text, json or sarif, found "jsn"; did you mean "json"?\n', id="choice"),
        pytest.param("-o xml -h", 0, "Usage: hsdns show NAME [FLAG...]\n\nFlags:\n  -dns.port PORT\n        a port\n  -every TIME\n        a time\n  -from FILE\n        a file\n  -h\n        show this help\n  -help\n        show this help\n  -no-code\n        run nothing\n  -o FORMAT\n        a format\n  -p PORT\n        the same as -dns.port\n  -source NAME...\n        a source\n", id="help"),
        pytest.param("-from a -source b", 2, "-from and -source exclude each other; leave one out\n", id="exclusive"),
    ],
)  # fmt: skip
def test_run(line: str, status: int, printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert Show.main(line.split()) == status
    assert "".join(capsys.readouterr()) == printed
