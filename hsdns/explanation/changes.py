"""What would have to be true for a name to exist: the smallest set of changes that makes the server's own code find it.

Path: explain.py, for a name that does not exist -> here -> scene.py asks.
Rule 1: every change that could be missing is a candidate (candidates.py); only a set that makes the name exist is told.
Rule 2: of the sets that do, the smallest is told, and of those of one size the one whose changes come first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import combinations
from typing import Final, NamedTuple

from hsdns.explanation.scene import Replay, Scene
from hsdns.wire.name import Name

MOST_TOGETHER: Final = 4  # changes


class Change(NamedTuple):
    """One thing that may be missing: `place` is an object or the Corefile, `make` changes it in a scene."""

    place: str
    cause: str
    needed: str
    make: Callable[[Scene], Scene]


def made(scene: Scene, changes: Sequence[Change]) -> Scene:
    """The scene after some changes."""
    for change in changes:
        scene = change.make(scene)
    return scene


async def smallest(
    replay: Replay,
    scene: Scene,
    candidates: Sequence[Change],
    qname: Name,
    qtype: int,
    pause: Callable[[], Awaitable[None]],
) -> tuple[Change, ...]:
    """The smallest set of changes with which the name exists; empty if there is none."""
    for count in range(1, min(MOST_TOGETHER, len(candidates)) + 1):
        for chosen in combinations(candidates, count):
            await pause()
            if replay.exists(made(scene, chosen), qname, qtype):
                return chosen
    return ()
