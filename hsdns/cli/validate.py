"""`hsdns -validate`: the errors and probable mistakes in a Corefile, as text or as JSON.

Path: cli/coredns.py -> here -> corefile/parser.py, assemble.py; starts nothing.
Rule 1: all errors are shown, not only the first; only errors make the exit status 1.
Rule 2: text goes to standard error except its last line, JSON only to standard output.
Rule 3: hints are what the rules HS203, HS210 and HS249 of `hsdns lint` find.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from hsdns.cli.command import complain, say, say_text
from hsdns.cli.launch import CorefileSource, build
from hsdns.corefile.tree import (
    CorefileError,
    Errors,
    Position,
)
from hsdns.wire import counted


class Remark(NamedTuple):
    """A sentence, and its position, if any."""

    position: Position | None
    message: str

    def __str__(self) -> str:
        return self.message if self.position is None else f"{self.position}: {self.message}"

    def as_json(self) -> dict[str, object]:
        """Return the object for `-o json`; without a position only the message."""
        place = {} if self.position is None else self.position._asdict()
        return {**place, "message": self.message}


class Findings(NamedTuple):
    """The results of a check; `server_blocks` counts those that could be read."""

    server_blocks: int
    errors: list[Remark]
    warnings: list[Remark]
    hints: list[Remark]


def validate(
    source: CorefileSource, port: int, *, as_json: bool = False, runs_code: bool = True
) -> int:
    """Set up the configuration without starting it; print the findings, and return 1 if there are errors, else 0."""
    found = check(source, port, runs_code=runs_code)
    if as_json:
        say_text(_json(source.path, found))
    else:
        _show(source.path, found)
    return 1 if found.errors else 0


def check(source: CorefileSource, port: int, *, runs_code: bool = True) -> Findings:
    """Find all errors, warnings and hints of a Corefile."""
    from hsdns.rules.checks.corefile_hints import hints
    from hsdns.rules.corefile_text import split_position

    errors = Errors(collecting=True)
    warnings: dict[str, None] = {}  # a setup repeated after an error warns again
    try:
        corefile = source.load(errors=errors)
        configuration = build(
            corefile,
            port,
            warn=warnings.setdefault,
            validating=True,
            errors=errors,
            runs_code=runs_code,
        )
    except CorefileError as error:  # the file cannot be read
        return Findings(0, [Remark(error.position, error.message)], [], [])
    except OSError as error:
        return Findings(0, [Remark(None, str(error))], [], [])
    remarks = [Remark(*split_position(sentence)) for sentence in warnings]
    wrong = [Remark(error.position, error.message) for error in errors.in_order()]
    told = {each.position for each in wrong}
    return Findings(
        len(corefile.blocks),
        wrong,
        remarks,
        [
            Remark(position, message)
            for position, message in hints(corefile, configuration)
            if position not in told
        ],
    )


def _show(path: str, found: Findings) -> None:
    for kind, remarks in (
        ("[WARNING] ", found.warnings),
        ("[HINT] ", found.hints),
        ("", found.errors),
    ):
        for remark in remarks:
            complain(f"{kind}{remark}")
    if found.errors:
        if len(found.errors) > 1:
            complain(f"{path}: {len(found.errors)} errors")
        return
    blocks = found.server_blocks
    say(f"{path}: valid, {counted(blocks, 'server block')}")


def _json(path: str, found: Findings) -> str:
    value = {
        "corefile": path,
        "valid": not found.errors,
        "server_blocks": found.server_blocks,
        "errors": [each.as_json() for each in found.errors],
        "warnings": [each.as_json() for each in found.warnings],
        "hints": [each.as_json() for each in found.hints],
    }
    return json.dumps(value, indent=2, ensure_ascii=False)
