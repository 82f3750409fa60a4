"""`hsdns replay status|pause|run|step|speed`: shows and controls the replay of a recording in a running server.

Path: argv -> here -> running_server.py -> /v1/replay of the server.
Rule: the exit status is 1 for a refused command line, 2 if no server could be reached, or it replays nothing.
"""

from __future__ import annotations

import json
from typing import Any, Final

from hsdns.cli import control_path
from hsdns.cli.flags import Flag, FlagError, leading_words, output_format, parse_flags, usage
from hsdns.cli.output import complain, say, say_text
from hsdns.cli.running_server import STATUS, Refused, ServerError, find_by
from hsdns.corefile.properties import duration_to_text
from hsdns.corefile.tree import did_you_mean

WORDS: Final = ("status", "pause", "run", "step", "speed")
PAGE: Final = "/v1/replay"
FLAGS: Final = {
    "control": control_path.CHOICE,
    "o": Flag(str, "format: text (default), or json, a line for each replay", "FORMAT"),
    "h": Flag(bool, "show this help"),
    "help": Flag(bool, "show this help", alias_of="h"),
}
USAGE: Final = """Usage: hsdns replay status [FLAG...]        show where the replay is
       hsdns replay pause [FLAG...]         stay there
       hsdns replay run [FLAG...]           go on
       hsdns replay step [NUMBER] [FLAG...] pause, and apply the next change, or so many
       hsdns replay speed NUMBER [FLAG...]  go on so many times as fast; 0 does not wait
"""


def run(words: list[str]) -> int:
    """Run `hsdns replay`; return the exit status."""
    plain, rest = leading_words(words)
    try:
        flags = parse_flags(rest, FLAGS, command="hsdns replay", commands=WORDS)
        if flags.get("h"):
            say_text(f"{USAGE}\nFlags:\n{usage(FLAGS)}")
            return 0
        output = output_format(flags)
        command = _command(plain)
        server = find_by(flags)
        body = b"" if command is None else json.dumps(command).encode()
        for course in server.lines(PAGE, "POST" if body else "GET", body):
            say(*([json.dumps(course)] if output == "json" else _text(course)))
    except FlagError as error:
        complain(error)
        return 1
    except ServerError as error:
        complain(error)
        return 1 if isinstance(error, Refused) else STATUS
    return 0


def _command(plain: list[str]) -> dict[str, Any] | None:
    """The body of a POST, None for `status`; raise FlagError."""
    name, *arguments = plain or [""]
    if name not in WORDS:
        problem = f'"{name}" is no command of hsdns replay' if name else "a command is missing"
        hint = did_you_mean(name, WORDS) or f"; there are {', '.join(WORDS)}"
        raise FlagError(f"{problem}{hint}")
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
