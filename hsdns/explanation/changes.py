"""Finds the smallest set of changes with which the server's own code finds a missing name.

Path: explain.py, for a name that does not exist -> here -> scene.py answers.
Rule 1: every possible change is a candidate (candidates.py); only a set that makes the name exist is reported.
Rule 2: the smallest such set is reported, and among sets of equal size the one with the first candidates.  A set larger
        than MOST_TOGETHER is only minimal: it needs each of its changes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import combinations
from typing import Final, NamedTuple

from hsdns.explanation.scene import Replay, Scene
from hsdns.wire.name import Name

MOST_TOGETHER: Final = 3  # changes; all sets up to this size are tried


class Change(NamedTuple):
    """One possible change: `place` is an object or the Corefile, `make` changes it in a scene."""

    place: str
    cause: str
    needed: str
    make: Callable[[Scene], Scene]


class Lacking(NamedTuple):
    """The changes that a missing name needs, and the scene that they apply to."""

    scene: Scene
    changes: tuple[Change, ...] = ()

    def made(self, left_out: int | None = None) -> Scene:
        """The scene after the changes, or after all but one of them."""
        return made(self.scene, [each for at, each in enumerate(self.changes) if at != left_out])


def made(scene: Scene, changes: Sequence[Change]) -> Scene:
    """The scene after some changes."""
    for change in changes:
        scene = change.make(scene)
    return scene


async def smallest(
    replay: Replay,
    scene: Scene,
    options: Iterable[Change | None],
    qname: Name,
    qtype: int,
    pause: Callable[[], Awaitable[None]],
) -> tuple[Change, ...]:
    """The smallest set of changes with which the name exists; empty if there is none.

    `pause` is awaited between two trials, and for each None in the options.
    """
    candidates: list[Change] = []
    for option in options:
        if option is None:
            await pause()
        else:
            candidates.append(option)
    if not candidates:
        return ()
    for count in range(1, min(MOST_TOGETHER, len(candidates)) + 1):
        for chosen in combinations(candidates, count):
            await pause()
            if replay.exists(made(scene, chosen), qname, qtype):
                return chosen
    if not replay.exists(made(scene, candidates), qname, qtype):
        return ()
    left = list(candidates)
    for change in reversed(candidates):
        await pause()
        without = [each for each in left if each is not change]
        if replay.exists(made(scene, without), qname, qtype):
            left = without
    return tuple(left)
