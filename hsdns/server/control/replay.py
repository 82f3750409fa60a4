"""The position of a replay, and its commands: /v1/replay.

Path: routes.py -> here -> sources/replay.py, in the watch thread.
Rule: when a command is answered, replies to queries already contain its changes.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, Final

import msgspec

from hsdns.corefile.tree import did_you_mean
from hsdns.http_page import Asked, HttpRefusal
from hsdns.server.control.door import Door, kubernetes_blocks, to_line
from hsdns.sources.replay import MAX_SPEED, Course, Replay

WAIT: Final = 10.0  # seconds to wait for the watch thread
MOST: Final = 1_000_000  # changes in one step
NO_REPLAY: Final = (
    "this server replays no recording; start one with hsdns serve -source replay FILE"
)
COMMANDS: Final = ("pause", "run", "step", "speed")


class Command(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a POST: the command, and the number of changes in a step or the new speed."""

    command: str
    count: int | None = None
    speed: float | None = None


async def replay(door: Door, asked: Asked) -> AsyncGenerator[bytes, None]:
    """Report the position of each replay; with POST, after a command to all of them."""
    instance = door.serving()
    blocks = kubernetes_blocks(instance)
    sources = {id(each.source): each.source for each in blocks if isinstance(each.source, Replay)}
    if not sources:
        raise HttpRefusal(404, NO_REPLAY)
    for source in sources.values():
        if not source.is_loaded:
            raise HttpRefusal(404, f"{source.path} could not be read when the server started")
    act = _read(asked.body) if asked.method == "POST" else Replay.course
    in_watch = instance.runtime.in_watch
    try:
        found = [await in_watch(act(source), WAIT) for source in sources.values()]
    except TimeoutError:
        raise HttpRefusal(503, "the replay is busy; ask again in a moment") from None
    for course in found:
        yield to_line(course._asdict())


def _read(body: bytes) -> Callable[[Replay], Coroutine[Any, Any, Course]]:
    """The action of a command on a replay; raise HttpRefusal."""
    try:
        given = msgspec.json.decode(body, type=Command)
    except msgspec.DecodeError as error:
        raise HttpRefusal(400, f'a command is {{"command": "step", "count": 1}}: {error}') from None
    name, count, speed = given.command, given.count, given.speed
    if name not in COMMANDS:
        hint = did_you_mean(name, COMMANDS) or f"; there are {', '.join(COMMANDS)}"
        raise HttpRefusal(400, f'"{name}" is no command of a replay{hint}')
    if count is not None and name != "step":
        raise HttpRefusal(400, f"{name} takes no count; step does")
    if speed is not None and name != "speed":
        raise HttpRefusal(400, f"{name} takes no speed; speed does")
    if name == "step":
        steps = 1 if count is None else count
        if not 1 <= steps <= MOST:
            raise HttpRefusal(400, f"step takes a number of changes from 1 to {MOST}, not {steps}")
        return lambda source: source.step(steps)
    if name == "speed":
        if speed is None or not 0 <= speed <= MAX_SPEED:
            raise HttpRefusal(400, f"speed takes a number from 0, for no waiting, to {MAX_SPEED}")
        factor = speed
        return lambda source: source.set_speed(factor)
    return Replay.pause if name == "pause" else Replay.run
