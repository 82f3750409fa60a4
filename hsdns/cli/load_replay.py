"""The flags of `hsdns load -replay`, and the settings that they define.

Path: cli/load_flags.py -> here -> load/replay.py.
Rule: an incomplete file is refused, unless -replay-broken uses its intact part; then standard error says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from hsdns.cli.flags import Flag, FlagError
from hsdns.cli.output import complain
from hsdns.load.errors import LoadError
from hsdns.load.replay import RECORDED, Replay, read_replay
from hsdns.load.safety import MOST_RATE
from hsdns.load.schedule import Schedule, Stage

PORT: Final = 53
FASTEST: Final = 1_000_000.0
FLAGS: Final = {
    "replay": Flag(str, "recording, or pcap or pcapng file, whose queries are asked at their times", "FILE"),
    "speed": Flag(str, "how many times as fast as they were recorded (default 1)", "NUMBER"),
    "replay-port": Flag(int, f"port to which the queries of a capture went (default {PORT})", "PORT", low=1),
    "replay-broken": Flag(bool, "replay a broken file as far as it is whole"),
}  # fmt: skip
_OTHERS: Final = {
    "queries": "asks what is in another file",
    "pods": "look names up at times of their own",
    "mix": "draws names of a cluster",
    "zipf": "draws names of a cluster",
    "rate": "is that of the recording; -speed changes it",
    "arrival": "is that of the recording",
}


class ReplaySettings(NamedTuple):
    """What is replayed, and its description in the report."""

    replay: Replay
    what: str

    def schedule(self, seed: int) -> Schedule:
        """A schedule with its length and number of queries; the times themselves are those of the recording."""
        rate = self.replay.queries / self.replay.seconds
        return Schedule((Stage(self.replay.seconds, rate, rate),), RECORDED, 1, seed)


def read_replay_flags(
    flags: Mapping[str, str | int | bool | list[str]], longest: float | None
) -> ReplaySettings | None:
    """Read the flags and the file; None without -replay.  `longest` is -time, in seconds.

    Raise LoadError, FlagError or OSError.
    """
    if "replay" not in flags:
        for name in FLAGS:
            if name in flags:
                raise FlagError(f"-{name} needs -replay")
        return None
    for name, why in _OTHERS.items():
        if name in flags:
            raise FlagError(f"-{name} {why}; leave it or -replay out")
    text = str(flags.get("speed", "1"))
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 1 / FASTEST <= speed <= FASTEST:
        raise FlagError(f'-speed needs a number such as 2 or 0.5, found "{text}"')
    path = str(flags["replay"])
    port = int(str(flags.get("replay-port", PORT)))
    replay = read_replay(path, speed=speed, port=port, longest=longest)
    if replay.problem:
        if not flags.get("replay-broken"):
            told = f"-replay-broken replays the {replay.queries} queries before"
            raise LoadError(f"{replay.problem}; {told}")
        complain(f"{replay.problem}; what is before is replayed")
    most = float(str(flags.get("max-rate", MOST_RATE)))
    if replay.fastest > most:
        raise LoadError(
            f"-replay: {replay.fastest} queries in a second are above the ceiling of {most:.10g}; "
            f"-max-rate {replay.fastest} lifts it, a lower -speed stays below"
        )
    return ReplaySettings(replay, _in_words(path, replay, speed))


def _in_words(path: str, replay: Replay, speed: float) -> str:
    told = f"{replay.queries} queries of {path}, {len(replay.questions)} different ones, from {replay.clients} clients"
    told += f", at speed {speed:g}"
    if replay.left_out:
        told += "; left out: " + ", ".join(
            f"{why} {count}" for why, count in replay.left_out.items()
        )
    return told
