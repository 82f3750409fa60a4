"""`hsdns replay status|pause|run|step|speed`: shows and controls the replay of a recording in a running server.

Path: argv -> here -> running_server.py -> /v1/replay of the server.
Rule: the exit status is 1 for a refused command line, 2 if no server could be reached, or it replays nothing.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

from hsdns.cli.command import ANY, flag, no_command
from hsdns.cli.flags import FORMATS, FlagError
from hsdns.cli.output import say
from hsdns.cli.running_server import ServerCommand
from hsdns.corefile.properties import duration_to_text

WORDS: Final = ("status", "pause", "run", "step", "speed")
PAGE: Final = "/v1/replay"


class Replay(ServerCommand):
    """Shows the replay after it has carried out the command."""

    name = "replay"
    forms = """hsdns replay status [FLAG...]        show where the replay is
       hsdns replay pause [FLAG...]         stay there
       hsdns replay run [FLAG...]           go on
       hsdns replay step [NUMBER] [FLAG...] pause, and apply the next change, or so many
       hsdns replay speed NUMBER [FLAG...]  go on so many times as fast; 0 does not wait"""
    most_words = ANY
    suggested = WORDS
    bad = refused = 1

    o: Annotated[
        str,
        flag("format: text (default), or json, a line for each replay", "FORMAT", choices=FORMATS),
    ] = "text"

    def run(self) -> int:
        """Send it, and print a line for each replay."""
        command = _command(self.words)
        server = self.server()
        body = b"" if command is None else json.dumps(command).encode()
        for course in server.lines(PAGE, "POST" if body else "GET", body):
            say(*([json.dumps(course)] if self.o == "json" else _text(course)))
        return 0


def _command(plain: list[str]) -> dict[str, Any] | None:
    """The body of a POST, None for `status`; raise FlagError."""
    name, *arguments = plain or [""]
    if name not in WORDS:
        raise no_command("hsdns replay", name, WORDS)
    most = 1 if name in ("step", "speed") else 0
    if len(arguments) > most:
        raise FlagError(
            f'hsdns replay {name} takes {"one number" if most else "no words"}, found "{arguments[most]}"'
        )
    if name == "status":
        return None
    if name == "speed":
        if not arguments:
            raise FlagError(
                "hsdns replay speed needs a number, such as 2, or 0 to wait for nothing"
            )
        return {"command": name, "speed": _number(name, arguments[0], float)}
    if arguments:
        return {"command": name, "count": _number(name, arguments[0], int)}
    return {"command": name}


def _number(name: str, text: str, kind: type[float]) -> float:
    try:
        return kind(text)
    except ValueError:
        raise FlagError(f'hsdns replay {name} needs a number, found "{text}"') from None


def _text(course: dict[str, Any]) -> list[str]:
    place = f"{duration_to_text(course['at'])} of {duration_to_text(course['end'])}"
    speed = "no waiting" if course["speed"] == 0 else f"speed {course['speed']:g}"
    problem = [f"  {course['problem']}"] if course["problem"] else []
    return [
        f"{course['file']}: {course['state']} at {place}, {speed}, "
        f"{course['applied']} of {course['changes']} changes, {course['objects']} objects",
        *problem,
    ]
