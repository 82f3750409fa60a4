"""Silences: findings that a person has accepted, and the reasons.

Path: judging.py reads those in a file, lint/rule.py a file of them -> here -> judging.py.
Rule 1: `# hsdns: ignore HS104 REASON` at the end of a line applies to that line; on a separate line to the next one, or
        to the whole object that begins there.
Rule 2: the annotation `hsdns.io/ignore-HS104: REASON` applies to its object.
Rule 3: without a reason nothing is silenced.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

import yaml

from hsdns.corefile.tree import Position, did_you_mean
from hsdns.rules.objects import Objects
from hsdns.rules.rule import Edit, Remark
from hsdns.sources.manifest_yaml import ManifestLoader

# Applies the edits of findings to the text of a file.
#
# Rule: overlapping edits are applied in separate rounds, each with a new check.


BREAK: Final = re.compile("\r\n|[\n\r\x85\u2028\u2029]")  # line breaks of YAML 1.1


def repaired(text: str, edits: Iterable[Edit]) -> str:
    """The text after all edits that do not overlap an earlier one."""
    offsets = [0, *(each.end() for each in BREAK.finditer(text)), len(text) + 1]
    placed = sorted(
        {(_offset(each.start, offsets), _offset(each.end, offsets), each.text) for each in edits}
    )
    parts, at = [], 0
    for start, end, new in placed:
        if start >= at:
            parts += [text[at:start], new]
            at = end
    return "".join([*parts, text[at:]])


def _offset(position: tuple[str, int, int], offsets: list[int]) -> int:
    _, line, column = position
    return min(offsets[min(line, len(offsets)) - 1] + column - 1, offsets[-1] - 1)


ANNOTATION: Final = "hsdns.io/ignore-"
_COMMENT: Final = re.compile(r"(.*?)(#\s*hsdns:\s*ignore\b[ \t]*(\S*)[ \t]*(.*?))\s*")


class Silence(NamedTuple):
    """A comment or an annotation: `line` is the line that it applies to, `place` the object if it is an annotation.

    `at` is the position of its first character, `start` and `end` delimit the text to remove.
    """

    at: Position
    start: Position
    end: Position
    line: int
    place: str
    code: str
    reason: str


def comments(content: bytes, file: str) -> list[Silence]:
    """The silences in the comments of a file."""
    if b"hsdns:" not in content:
        return []
    found = []
    lines = BREAK.split(content.decode("utf-8", "replace"))
    for number, text in enumerate(lines, 1):
        match = _COMMENT.fullmatch(text)
        if match is None:
            continue
        before, comment, code, reason = match.groups()
        at = start = Position(file, number, len(before) + 1)
        end = Position(file, number, len(before) + len(comment) + 1)
        about = number
        if not before.strip():
            about = _next_line(lines, number)
            start, end = Position(file, number, 1), Position(file, number + 1, 1)
        else:
            start = start._replace(column=len(before.rstrip()) + 1)
        found.append(Silence(at, start, end, about, "", code, reason))
    return found


def _next_line(lines: list[str], number: int) -> int:
    for at in range(number, len(lines)):
        text = lines[at].strip()
        if text and not text.startswith("#") and text != "---":
            return at + 1
    return number


# A file of silences: rules to silence for objects or paths, with reasons.
#
# Rule 1: an entry has `rule`, `object` or `path` or both, and `reason`; without a reason nothing is silenced.
# Rule 2: `object` and `path` are patterns of a shell; `*` also matches a "/".  An object is written as in findings, a
#         path is relative to any folder above the file.
# Rule 3: an entry has no effect if something that it applies to was checked, and its rule found nothing there.


SILENCES: Final = "silences"
KEYS: Final = ("rule", "object", "path", "reason")
_NULL: Final = "tag:yaml.org,2002:null"


class SilencePattern(NamedTuple):
    """One entry; `object` and `path` are empty if it applies to all."""

    at: Position
    code: str
    object: str
    path: str
    reason: str

    def matches(self, place: str, file: str) -> bool:
        """Whether it applies to an object, as written in findings, of a file."""
        if self.object and not fnmatchcase(place, self.object):
            return False
        return not self.path or any(
            fnmatchcase(file, each) for each in (self.path, f"*/{self.path}")
        )

    def silences(self, code: str, remark: Remark) -> bool:
        """Whether it silences a remark of a rule."""
        return (
            bool(self.reason)
            and code == self.code
            and self.matches(remark.place, remark.position.file)
        )


class SilenceFile(NamedTuple):
    """The entries; `unchecked` are codes of rules that could not find anything.

    `is_everything` if everything that the entries may apply to was checked.
    """

    patterns: Sequence[SilencePattern] = ()
    unchecked: frozenset[str] = frozenset()
    is_everything: bool = False

    def is_due(self, pattern: SilencePattern, objects: Objects) -> bool:
        """Whether to report an entry that silences nothing: it applies to something that was checked."""
        if pattern.code in self.unchecked:
            return False
        return (
            self.is_everything
            or any(pattern.matches(str(each), each.file) for each in objects.manifests)
            or any(
                pattern.matches(each.source.owner, each.source.file) for each in objects.corefiles
            )
        )


NO_FILE: Final = SilenceFile()


def read_silence_file(file: str, content: bytes) -> list[SilencePattern]:
    """The entries of a file; raise ValueError with a sentence."""
    try:
        top = yaml.compose(content, Loader=ManifestLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise ValueError(f"{file}{where}: not YAML: {error.problem}; correct the file") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{file}: not YAML ({type(error).__name__}); correct the file") from None
    if top is None or top.tag == _NULL:
        return []
    found: list[SilencePattern] = []
    for key, value in _fields(top, file, f'a mapping with the key "{SILENCES}"'):
        if key.value != SILENCES:
            raise ValueError(_unknown(file, key, (SILENCES,)))
        if value.tag == _NULL:
            continue
        if not isinstance(value, yaml.SequenceNode):
            raise ValueError(f'{_at(file, value)}: "{SILENCES}" must be a list of entries')
        found += [_entry(file, each) for each in value.value]
    return found


def _entry(file: str, node: Any) -> SilencePattern:
    values = dict.fromkeys(KEYS, "")
    at = _at(file, node)
    for key, value in _fields(node, file, f"an entry with {', '.join(KEYS)}"):
        if key.value not in KEYS:
            raise ValueError(_unknown(file, key, KEYS))
        if not isinstance(value, yaml.ScalarNode):
            raise ValueError(f'{_at(file, value)}: "{key.value}" must be a text')
        values[key.value] = "" if value.tag == _NULL else value.value.strip()
    if not values["rule"]:
        raise ValueError(f"{at}: the entry has no rule; write the code of one")
    if not values["object"] and not values["path"]:
        raise ValueError(
            f"{at}: the entry has neither object nor path; write a pattern, such as object: Service shop/*"
        )
    return SilencePattern(
        at, values["rule"], values["object"], values["path"].removeprefix("./"), values["reason"]
    )


def _fields(node: Any, file: str, what: str) -> Iterator[tuple[Any, Any]]:
    if not isinstance(node, yaml.MappingNode):
        raise ValueError(f"{_at(file, node)}: this must be {what}")
    yield from node.value


def _unknown(file: str, key: Any, known: Sequence[str]) -> str:
    hint = did_you_mean(str(key.value), known) or f"; there is {', '.join(known)}"
    return f'{_at(file, key)}: unknown key "{key.value}"{hint}'


def _at(file: str, node: Any) -> Position:
    return Position(file, node.start_mark.line + 1, node.start_mark.column + 1)
