"""The plan of a load in a file: YAML with a key for each flag, and stages.

Path: load.py, with the flags of settings.py -> here -> words of a command line, which the parser of flags reads.
Rule 1: a key is the name of a flag without its dash, so there is one table of both.  A flag of the command line
        replaces the key.
Rule 2: a list or a mapping is what the words of the flag are: `[a, b]` are two words, or `a,b` for a flag that takes
        one; `{a: 1}` is `a=1`.
Rule 3: `stages` replace -rate and -time; a stage may have the settings of IN_STAGE.
Rule 4: an error names the file, the line and the column of the key that it is about.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import yaml
from msgspec import structs

from hsdns.cli.command import Flag
from hsdns.corefile.tree import Position, did_you_mean
from hsdns.errors import OperatorError
from hsdns.load.cluster.names import read_mix
from hsdns.load.errors import LoadError
from hsdns.load.schedule import Stage, read_stages
from hsdns.sources.manifest_yaml import ManifestLoader

STAGES: Final = "stages"
IN_STAGE: Final = ("rate", "time", "arrival", "mix", "churn")
_FLAG: Final = re.compile(r"(?<![\w-])--?([a-z][a-z-]*)")
# Reads the words of a command line: the values of flags by name.
Parse = Callable[[list[str]], Any]


@dataclass
class PlanFile:
    """The words of a plan file by key, with their positions; an empty one is that of no file.

    `replaced` are the flags of the command line.
    """

    words: dict[str, list[str]] = field(default_factory=dict)
    places: dict[str, Position] = field(default_factory=dict)
    stages: list[PlanFile] = field(default_factory=list)
    replaced: set[str] = field(default_factory=set)

    def beside(self, given: Sequence[str]) -> list[str]:
        """The words of all keys that the words of a command line do not replace."""
        flags = (each.lstrip("-").partition("=")[0] for each in given if each.startswith("-"))
        self.replaced = set(flags)
        if "rate" in self.replaced:
            self.stages = []
        kept = self.words.keys() - self.replaced
        return [word for name in self.words if name in kept for word in self.words[name]]

    @contextmanager
    def naming(self) -> Iterator[None]:
        """Begin the message of an error with the position of the first flag in it that is a key."""
        try:
            yield
        except OperatorError as error:
            places = self.places.keys() - self.replaced
            named = [each for each in _FLAG.findall(str(error)) if each in places]
            if not named:
                raise
            known = "|".join(map(re.escape, places))
            said = re.sub(rf"(?<![\w-])--?({known})(?![\w-])", r"\1", str(error))
            raise LoadError(f"{self.places[named[0]]}: {said}") from None

    def read_stages(self, parse: Parse) -> tuple[Stage, ...]:
        """The stages; raise LoadError."""
        found: list[Stage] = []
        for each in self.stages:
            with each.naming():
                flags = parse(each.beside(()))
                arrival, burst = flags.arrival or ("", 1)
                more = {
                    "arrival": arrival,
                    "burst": burst,
                    "mix": read_mix(flags.mix) if flags.mix else {},
                    "churn": flags.churn if "churn" in flags.given else None,
                }
                stages = read_stages(flags.rate, flags.time)
                found += [structs.replace(stage, **more) for stage in stages]
            self.places = each.places | self.places
        return tuple(found)


def read_plan_file(path: str, flags: Mapping[str, Flag]) -> PlanFile:
    """Read a plan with keys that are the names of `flags`; raise LoadError or OSError."""
    with open(path, "rb") as file:
        loader = ManifestLoader(file.read())
    try:
        node = loader.get_single_node()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line, column = (mark.line + 1, mark.column + 1) if mark else (getattr(error, "line", 1), 1)
        problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise LoadError(f"{path}:{line}:{column}: {problem}") from None
    finally:
        loader.dispose()
    known = {name: each for name, each in flags.items() if not each.alias_of and name != "h"}
    return _read(path, node, known, is_stage=False)


def _read(path: str, node: Any, flags: Mapping[str, Flag], *, is_stage: bool) -> PlanFile:
    found = PlanFile()
    what, known = ("a stage", [*IN_STAGE]) if is_stage else ("a plan", [*flags, STAGES])
    if not isinstance(node, yaml.MappingNode):
        place = Position(path, 1, 1) if node is None else _position(path, node)
        raise LoadError(f"{place}: {what} has lines such as rate: 1000")
    for key, value in node.value:
        name, place = str(key.value), _position(path, key)
        if name not in known:
            meant = did_you_mean(name, known) or f"; there are {', '.join(sorted(known))}"
            raise LoadError(f'{place}: {what} has no "{name}"{meant}')
        if name in found.places:
            raise LoadError(f"{place}: {name} is given twice; remove one of them")
        found.places[name] = place
        if name == STAGES:
            listed = value.value if isinstance(value, yaml.SequenceNode) else ()
            found.stages = [_read(path, each, flags, is_stage=True) for each in listed]
            if not found.stages:
                raise LoadError(f"{place}: stages are a list of stages such as - {{rate: 1000}}")
        else:
            found.words[name] = _words(name, value, path, flags[name])
    for name in ("rate", "time") if found.stages else ():
        if name in found.places:
            raise LoadError(f"{found.places[name]}: the stages say their {name}; remove {name}")
    return found


def _words(name: str, node: Any, path: str, flag: Flag) -> list[str]:
    """The words of a command line; raise LoadError."""
    if isinstance(node, yaml.ScalarNode):
        texts = node.value.split() if flag.kind is list else [node.value]
    else:
        pairs = [each if isinstance(each, tuple) else (each,) for each in node.value]
        for part in (part for pair in pairs for part in pair):
            if not isinstance(part, yaml.ScalarNode):
                place = _position(path, part)
                raise LoadError(f"{place}: {name} is a word, or a list or mapping of words")
        texts = ["=".join(part.value for part in pair) for pair in pairs]
    if not any(texts):
        raise LoadError(f"{_position(path, node)}: {name} has no value; give it one")
    return [f"-{name}", *texts] if flag.kind is list else [f"-{name}={','.join(texts)}"]


def _position(path: str, node: Any) -> Position:
    mark = node.start_mark
    return Position(path, mark.line + 1, mark.column + 1)
