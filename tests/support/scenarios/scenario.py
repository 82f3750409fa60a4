"""Scenarios: Markdown files that say what a server is given, what it is asked and what it must answer.

Path: tests/test_scenarios.py collects the files, parse() makes a Scenario of each, the drivers play its steps.
The format is described in tests/scenarios/README.md.
"""

from __future__ import annotations

import functools
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.support.manifests.documents import documents
from tests.support.scenarios.dig import Question, parse_questions

Manifest = dict[str, Any]
NEEDS = frozenset({"sockets", "every address", "unsynced", "memory"})
FENCES = frozenset({"corefile", "yaml", "event", "dig", "packet", "advance"})
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NEEDS = re.compile(r"^needs: (.+)$", re.MULTILINE)


class ScenarioError(ValueError):
    """A scenario that cannot be read; the message begins with file and line."""


class Event(NamedTuple):
    """Objects that change, in order; `synced` releases a source that was held back."""

    line: int
    changes: tuple[tuple[str, Manifest], ...]  # "apply" or "delete", object
    synced: bool = False


class Packet(NamedTuple):
    """Bytes to send and the bytes that must come back, None for silence."""

    line: int
    sent: bytes
    expected: bytes | None
    differs: str | None = None


class Advance(NamedTuple):
    """Time that passes; only the driver with scripted time can play it."""

    line: int
    seconds: float


Step = Event | Question | Packet | Advance


@dataclass(frozen=True, slots=True)
class Scenario:
    """One file."""

    path: Path
    title: str
    corefile: str
    objects: tuple[Manifest, ...]
    steps: tuple[Step, ...]
    needs: frozenset[str]


def parse(path: Path) -> Scenario:
    """Read a scenario; raise ScenarioError."""
    text = path.read_text(encoding="utf-8")
    if not text.startswith("# "):
        raise ScenarioError(f"{path}:1: a scenario begins with a title, `# ...`")
    if "LOCAL_IPV4" in text:
        text = text.replace("LOCAL_IPV4", local_ipv4())
    text = text.replace("SCENARIO_FOLDER", str(path.parent.absolute()))
    corefiles: list[str] = []
    objects: list[Manifest] = []
    steps: list[Step] = []
    for fence in _FENCE.finditer(text):
        kind, body = fence.groups()
        line = text.count("\n", 0, fence.start(2)) + 1
        try:
            if kind == "corefile":
                corefiles.append(body)
            elif kind == "yaml":
                objects += [item for _, item in _changes(body, path.parent)]
            elif kind == "event":
                steps.append(_event(body, line, path.parent))
            elif kind == "dig":
                steps += parse_questions(body, line)
            elif kind == "packet":
                steps += _packets(body, line)
            elif kind == "advance":
                steps.append(Advance(line, float(body.strip().removesuffix("s"))))
            else:
                raise ValueError(f"{line}: a fence is one of {sorted(FENCES)}, not {kind}")
        except (ValueError, yaml.YAMLError) as error:
            raise ScenarioError(f"{path}:{error}") from error
    needs = needs_of(text)
    if not needs <= NEEDS:
        raise ScenarioError(f"{path}: needs: takes {sorted(NEEDS)}, not {sorted(needs - NEEDS)}")
    if len(corefiles) != 1 or not steps:
        raise ScenarioError(f"{path}: a scenario has one corefile fence and asks something")
    title = text.partition("\n")[0].removeprefix("# ")
    return Scenario(path, title, corefiles[0], tuple(objects), tuple(steps), needs)


def needs_of(text: str) -> frozenset[str]:
    """What the scenario says a run must have, unchecked."""
    return frozenset(word.strip() for found in _NEEDS.findall(text) for word in found.split(","))


@functools.cache
def local_ipv4() -> str:
    """The address this machine would send from; nothing is sent to find it, and 198.51.100.1 routes nowhere."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("198.51.100.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def _changes(body: str, folder: Path) -> list[tuple[str, Manifest]]:
    """Read YAML documents; `include: FILE` stands for the documents of a file beside the scenario."""
    found: list[tuple[str, Manifest]] = []
    for document in documents(body):
        if document is None:
            continue
        if "include" in document:
            found += _changes((folder / document["include"]).read_text(encoding="utf-8"), folder)
            continue
        verb = "delete" if document.pop("delete", False) else "apply"
        if "kind" not in document or "metadata" not in document:
            raise ValueError(f"an object without kind or metadata: {document}")
        metadata = document["metadata"]
        if document["kind"] != "Namespace":
            metadata.setdefault("namespace", "default")
        found.append((verb, document))
    return found


def _event(body: str, line: int, folder: Path) -> Event:
    if body.strip() == "synced: true":
        return Event(line, (), synced=True)
    return Event(line, tuple(_changes(body, folder)))


def _packets(body: str, first_line: int) -> list[Packet]:
    """Read lines `> HEX # why` and `< HEX` or `< silence`, with `differs: REASON` after them.

    A line that begins with a space goes on with the line before it.
    """
    logical: list[tuple[int, str]] = []
    for line, written in enumerate(body.splitlines(), first_line):
        text = written if written.startswith("differs:") else written.partition("#")[0].rstrip()
        if text.startswith(" ") and logical:
            logical[-1] = (logical[-1][0], logical[-1][1] + text)
        elif text:
            logical.append((line, text))
    found: list[Packet] = []
    sent: bytes | None = None
    for line, text in logical:
        mark, _, rest = text.partition(" ")
        if mark == "differs:" and found and sent is None:
            found[-1] = found[-1]._replace(differs=rest)
        elif mark == ">" and sent is None:
            sent = bytes.fromhex(rest)
        elif mark == "<" and sent is not None:
            found.append(Packet(line, sent, None if rest == "silence" else bytes.fromhex(rest)))
            sent = None
        else:
            raise ValueError(f"{line}: expected `> HEX`, then `< HEX` or `< silence`")
    if sent is not None:
        raise ValueError(f"{first_line}: the last packet has no `<` line")
    return found
