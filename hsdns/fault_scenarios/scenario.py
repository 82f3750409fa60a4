"""A fault scenario: a known DNS failure, as a file.

Path: files/NAME.toml -> here -> play.py, fault_scenarios/cli.py, testing/.
Rule 1: a scenario is data: rules in the syntax of `hsdns fault add`, manifests, times, names, and expected results.
Rule 2: an error in a file is one sentence, with the nearest known word.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from hsdns.corefile.tree import did_you_mean
from hsdns.errors import OperatorError
from hsdns.explanation.question import TYPES, QuestionError, read_resolvers, read_through
from hsdns.faults.rules import RuleError
from hsdns.faults.state import StateAction, WatchAction
from hsdns.faults.words import read_rule
from hsdns.resolver.forwarders import class_of
from hsdns.wire.iana import type_from_text

VERSION: Final = 1
FOLDER: Final = "files"
SUFFIX: Final = ".toml"
_NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(.*)`")
_PLACE: Final = re.compile(r"(.*) - (?:at|from) `\$\.?(.*)`")
_OBJECT: Final = re.compile(r"[A-Z]\w+ [a-z0-9-]+/[a-z0-9.-]+")
T = TypeVar("T")


class ScenarioError(OperatorError, ValueError):
    """An unknown scenario or an error in its file, as a sentence."""


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of the file."""


class Step(_Part, frozen=True):
    """The actions at one second.

    `add` has rules, each with a unique name, `remove` names of rules, `apply` manifests of objects to add or replace,
    and `delete` objects such as "Service shop/web".
    """

    at: float = 0.0
    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    apply: str = ""
    delete: tuple[str, ...] = ()


class Asked(_Part, frozen=True):
    """The lookups: a name as a Pod of `namespace` writes it, `times` times, at intervals of `every` seconds.

    `meant` is the full name that has the correct addresses, `programs` the number of processes that look it up
    concurrently.  `type` is another type than those of addresses.
    """

    name: str
    meant: str
    namespace: str = "default"
    at: float = 0.0
    every: float = 1.0
    times: int = 1
    programs: int = 1
    type: str = ""

    @property
    def types(self) -> tuple[int, ...]:
        """The types; raise ValueError for an unknown one."""
        return (type_from_text(self.type),) if self.type else TYPES


class Seen(_Part, frozen=True):
    """The expected result of one client; `client` is a resolver model, `options` are the options of its resolv.conf.

    `servers` is its number of nameservers.  With `keeps_socket` it sends all queries from one UDP socket.  `cache` is a
    directive of a Corefile: the client uses a node cache with this directive.  `through` is a model of a forwarder that
    the client uses, whose `queries` count.

    `seconds` is the total delay of all lookups, inf if one never ends; `failed` and `wrong` count lookups that end with
    an error, or with incorrect addresses.  `recovered` is the time in seconds from Scenario.mended until the last of
    these ends, inf if no lookup is right after it.  `queries` is the number of queries that the client sends, `error`
    the message of its library.
    """

    client: str
    seconds: float
    failed: int
    queries: int
    options: tuple[str, ...] = ()
    servers: int = 1
    keeps_socket: bool = False
    cache: str = ""
    through: str = ""
    wrong: int = 0
    recovered: float = 0.0
    error: str = ""

    @property
    def label(self) -> str:
        """The client with its special settings."""
        parts = [self.client, *self.options]
        if self.servers > 1:
            parts.append(f"{self.servers} nameservers")
        if self.keeps_socket:
            parts.append("one socket")
        if self.cache:
            parts.append(f"behind {' '.join(self.cache.split())}")
        if self.through:
            parts.append(f"through {self.through}")
        return ", ".join(parts)

    @property
    def is_plain(self) -> bool:
        """Whether it is a client with the default settings of a Pod."""
        return self.label == self.client

    @property
    def is_direct(self) -> bool:
        """Whether it uses one nameserver, without others between: then it can also run in real time."""
        return self.servers == 1 and not (self.cache or self.through or self.options)


class Scenario(_Part, frozen=True):
    """A scenario; `seconds` is the length of its timeline, `mended` the second at which the fault ends, 0 for none.

    `manifests` are the objects of its cluster, `corefile` is the text of its Corefile, the default one if empty,
    `search` a search domain of the nodes.  `own` says why it needs its own cluster, if it cannot use another server.
    `remark` states its limits.
    """

    title: str
    story: str
    sources: tuple[str, ...]
    seconds: float
    seen: tuple[Seen, ...]
    asked: tuple[Asked, ...]
    mended: float = 0.0
    steps: tuple[Step, ...] = ()
    manifests: str = ""
    corefile: str = ""
    search: str = ""
    own: str = ""
    remark: str = ""
    name: str = ""

    @property
    def rules(self) -> tuple[str, ...]:
        """The names of all rules."""
        return tuple(name_of(rule) for step in self.steps for rule in step.add)

    @property
    def why_not_behind(self) -> str:
        """Why its rules cannot be applied to another server; "" if they can."""
        if self.own:
            return self.own
        actions = [read_rule(rule.split()).action for step in self.steps for rule in step.add]
        if any(isinstance(each, StateAction | WatchAction) for each in actions):
            return "its rules are about the state of a cluster"
        if any(step.apply or step.delete for step in self.steps):
            return "objects of its cluster change"
        return ""

    def about(self, name: str) -> Scenario:
        """Return the same scenario for another name, with a trailing dot, of another server."""
        own, other = (each.removesuffix(".") for each in (self.asked[0].meant, name))

        def changed(text: str) -> str:
            return re.sub(rf"(?<![\w.-]){re.escape(own)}\.?(?![\w-])", f"{other}.", text)

        steps = [
            msgspec.structs.replace(step, add=tuple(changed(rule) for rule in step.add))
            for step in self.steps
        ]
        asked = [
            msgspec.structs.replace(each, name=f"{other}.", meant=f"{other}.")
            for each in self.asked
            if each.meant.removesuffix(".") == own
        ]
        return msgspec.structs.replace(self, steps=tuple(steps), asked=tuple(asked))


class _File(Scenario, frozen=True, kw_only=True):
    """The content of a scenario's file."""

    version: int


def names() -> tuple[str, ...]:
    """The names of the scenarios, sorted."""
    found = (each.name for each in (files(__package__) / FOLDER).iterdir())
    return tuple(sorted(each.removesuffix(SUFFIX) for each in found if each.endswith(SUFFIX)))


def load(name: str) -> Scenario:
    """Read a scenario by its name, or by the path of a file; raise ScenarioError."""
    if name.endswith(SUFFIX):
        try:
            return read(Path(name).name.removesuffix(SUFFIX), Path(name).read_bytes(), name)
        except OSError as error:
            raise ScenarioError(f"{name} cannot be read: {error.strerror}") from None
    known = names()
    if name not in known:
        hint = did_you_mean(name, known) or "; hsdns fault scenarios lists them"
        raise ScenarioError(f'there is no fault scenario "{name}"{hint}')
    return read(name, (files(__package__) / FOLDER / f"{name}{SUFFIX}").read_bytes(), name)


def read(name: str, content: bytes, where: str) -> Scenario:
    """Read the content of a file; raise ScenarioError, in which `where` names it."""
    try:
        fields = tomllib.loads(content.decode())
    except ValueError as error:  # of TOML, or of UTF-8
        raise ScenarioError(f"{where}: it is not TOML: {error}") from None
    version = fields.get("version")
    if version != VERSION:
        said = "has no version" if version is None else f"has version {version}"
        raise ScenarioError(f"{where}: the scenario {said}, and this hsdns plays version {VERSION}")
    if "name" in fields or not _NAME.fullmatch(name):
        raise ScenarioError(f"{where}: its name is that of the file, in lower case with dashes")
    found = _convert(fields, where)
    for problem in _problems(found):
        raise ScenarioError(f"{where}: {problem}")
    steps = tuple(sorted(found.steps, key=lambda step: step.at))
    plain = {each: getattr(found, each) for each in Scenario.__struct_fields__}
    return Scenario(**plain | {"name": name, "steps": steps})


def name_of(rule: str) -> str:
    """The name in the text of a rule; raise RuleError."""
    wanted = read_rule(rule.split())
    if wanted.name is None:
        raise RuleError('it needs a name; end it with "named NAME"')
    return wanted.name


def _convert(fields: Mapping[str, Any], where: str) -> _File:
    try:
        return msgspec.convert(fields, _File)
    except msgspec.ValidationError as error:
        sentence, place = str(error), ""
        if matched := _PLACE.fullmatch(sentence):
            sentence, place = matched.groups()
        if matched := _UNKNOWN.fullmatch(sentence):
            part = place.rpartition(".")[2].partition("[")[0]
            known = _KEYS.get(part, _File.__struct_fields__)
            word = matched.group(1)
            hint = did_you_mean(word, known) or f"; there are {', '.join(known)}"
            sentence = f'"{word}" is not a key of a scenario{hint}'
        at = f" in {place}" if place else ""
        raise ScenarioError(f"{where}: {sentence[0].lower()}{sentence[1:]}{at}") from None


_KEYS: Final = {
    "steps": Step.__struct_fields__,
    "asked": Asked.__struct_fields__,
    "seen": Seen.__struct_fields__,
}


def _problems(found: Scenario) -> Iterator[str]:
    """Errors that the types do not detect."""
    if not found.asked:
        yield "no name is looked up; add [[asked]] with a name"
    standing: set[str] = set()
    all_rules: set[str] = set()
    for step in sorted(found.steps, key=lambda step: step.at):
        if not 0 <= step.at <= found.seconds:
            yield f"a step at {step.at:g} is not within its {found.seconds:g} seconds"
        for name in step.remove:
            if name not in standing:
                yield f'the step at {step.at:g} removes "{name}", which is not active{did_you_mean(name, standing)}'
            standing.discard(name)
        for rule in step.add:
            try:
                name = name_of(rule)
            except RuleError as error:
                yield f'the rule "{rule}": {error}'
                continue
            if name in all_rules:
                yield f'two rules are named "{name}"'
            standing.add(name)
            all_rules.add(name)
        for written in step.delete:
            if not _OBJECT.fullmatch(written):
                yield f'"{written}" is not an object; write it as "Service shop/web"'
    for seen in found.seen:
        try:
            read_through(seen.through)
            for asked in found.asked:
                read_resolvers(seen.client, asked.types)
        except (QuestionError, ValueError) as error:
            yield str(error)
        if seen.through and seen.cache:
            yield f"{seen.label}: cache and through are both between the client and its server; use only one"
        if class_of(seen.through).splits and seen.servers > 1:
            yield f"{seen.label}: {seen.through} asks one server of the cluster; remove servers"
