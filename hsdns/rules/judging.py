"""Reads files, and runs all checks over their objects: returns the findings, without silenced ones.

Path: lint/cli.py, doctor/cli.py (names and contents of files) -> read_files() -> judge() -> output.py, diagnosis.py.
Rule 1: findings are sorted by file, line and column.
Rule 2: a silence without effect or without a reason is itself a finding.
Rule 3: without `preview`, preview rules find nothing, and silences of them are not checked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from hsdns.cluster.controllers.document import two_clusters
from hsdns.corefile.lexer import Source
from hsdns.corefile.mounted import COREFILE, ConfigMap, Mounted, corefiles
from hsdns.corefile.tree import CorefileError, Position, did_you_mean
from hsdns.rules.checks import MODULES
from hsdns.rules.corefile_text import CorefileText
from hsdns.rules.objects import CHECKS, Manifest, Objects, mapping_at
from hsdns.rules.rule import Edit, Finding, Remark, previews, rules
from hsdns.rules.silence import ANNOTATION, NO_FILE, Silence, SilenceFile, SilencePattern, comments
from hsdns.sources.file_text import MAX_FILE_LEN
from hsdns.sources.manifest_file import LeftOut, ObjectRead, read_items, read_objects
from hsdns.sources.manifest_folder import EXTENSIONS
from hsdns.sources.manifest_yaml import field_node

# Reads files to check: returns manifests, Corefiles, silences, and what could not be read.
#
# Rule 1: a value that the API server would refuse is a finding; a file that is not a manifest is reported as not
#         checked.
# Rule 2: everything else is still checked.


_BLOCK: Final = re.compile(r"[^\s{][^\n]*\{[ \t]*(#.*)?")
_TEMPLATE: Final = re.compile(rb"\{\{-?\s*[.$(a-z]")


class Files(NamedTuple):
    """The content of files; `unread` are sentences about unchecked files, `left_out` about what other programs write.

    These are unrendered templates, and objects with tags of such a program.
    """

    objects: Objects
    silences: list[Silence]
    unread: list[str]
    left_out: list[str]


def read_files(
    files: Iterable[tuple[str, bytes]],
    *,
    is_whole: bool = False,
    has_places: bool = True,
    patched: frozenset[tuple[str, str]] = frozenset(),
) -> Files:
    """Read files, given by name and content; `patched` are kinds and names of objects that something else changes.

    Without `has_places`, findings of objects in JSON have only the lines of the objects.
    """
    manifests: list[Manifest] = []
    texts: list[CorefileText] = []
    silences: list[Silence] = []
    unread: list[str] = []
    left_out: list[str] = []
    partial: set[str] = set()
    for file, content in files:
        silences += comments(content, file)
        if len(content) > MAX_FILE_LEN:
            unread.append(f"{file}:1: the file is longer than {MAX_FILE_LEN} octets; split it")
        elif is_corefile(file, content):
            texts.append(CorefileText(Source(content.decode("utf-8", "replace"), file)))
        else:
            read = read_objects(content, file)
            found, problems, without = _manifests(read, file, content, has_places=has_places)
            left_out += without
            if without or problems:
                partial.add(os.path.dirname(file))
            if problems and _TEMPLATE.search(content):
                left_out.append(
                    f"{file}: it is a template that was not rendered; check what helm template prints: "
                    "helm template CHART | hsdns lint -"
                )
                problems = []
            manifests += found
            unread += problems
    namespaces = [each for each in manifests if each.kind == "Namespace"]
    mixed = two_clusters(
        (each.name, str(each.metadata.get("uid") or ""), f"{each.file}:{each.at('').line}")
        for each in namespaces
    )
    unread += filter(None, [mixed])
    silences += (silence for each in manifests for silence in _annotations(each))
    texts += corefiles_of(manifests)
    objects = Objects(manifests, texts, is_whole=is_whole, patched=patched, partial=partial)
    return Files(objects, silences, unread, left_out)


def read_dump(name: str, items: Iterable[bytes], line: int) -> Files:
    """Read the objects in JSON of a dump, as read_files() would read its text."""
    read = read_items(items, name, line)
    found, unread, left_out = _manifests(read, name, None, has_places=False)
    silences = [silence for each in found for silence in _annotations(each)]
    return Files(Objects(found, corefiles_of(found)), silences, unread, left_out)


def is_corefile(file: str, content: bytes) -> bool:
    """Whether a file is a Corefile, by its name or else by its first line."""
    name = os.path.basename(file)
    if name.startswith(COREFILE) or name.lower().endswith(".corefile"):
        return True
    if name.endswith(EXTENSIONS):
        return False
    for line in content[:4096].decode("utf-8", "replace").splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            return _BLOCK.fullmatch(line.rstrip()) is not None and ": " not in line
    return False


def _manifests(
    read: Iterable[ObjectRead], file: str, content: bytes | None, *, has_places: bool = True
) -> tuple[list[Manifest], list[str], list[str]]:
    """The manifests, what is wrong, and what is left out; without `content`, each stands in a line of its own."""
    found, problems, left_out = [], [], []
    for each in read:
        if each.problem is not None and "{{" in str(each.problem):
            problems.append(f"{file}:{each.problem.line}: {each.problem}")  # a template
        elif each.item is not None and (each.problem is None or each.problem.fault is not None):
            if isinstance(each.item.head.kind, str):
                is_placed = (
                    has_places or each.item.node is not None or each.item.head.kind == "ConfigMap"
                )
                found.append(Manifest(each, file, _whole(each, content) if is_placed else None))
        elif isinstance(each.problem, LeftOut):
            left_out.append(f"{file}:{each.problem.line}: {each.problem}")
        elif each.problem is not None:
            problems.append(f"{file}:{each.problem.line}: {each.problem}")
        else:
            left_out += [f"{file}:{line}: {remark}" for line, remark in each.remarks]
    return found, problems, left_out


def _whole(read: ObjectRead, content: bytes | None) -> bytes:
    """The text of the file, or as much of it as has the object in its line."""
    if content is not None or read.item is None:
        return content or b""
    return b"\n" * (read.line - 1) + bytes(read.item.value)


# The fields with the spec of a Pod that may mount a Corefile, by kind.
_PODS: Final = {
    "Pod": "spec",
    "DaemonSet": "spec.template.spec",
    "Deployment": "spec.template.spec",
    "StatefulSet": "spec.template.spec",
}
_SERVER: Final = ".server"  # a value with server blocks, for an import that other files have


def corefiles_of(manifests: Sequence[Manifest]) -> list[CorefileText]:
    """The Corefiles of ConfigMaps with what they import, and server blocks that none of them imports."""
    written = [each for each in manifests if each.kind == "ConfigMap"]
    spaces = {each.namespace for each in written if COREFILE in _values(each)}
    config_maps = [
        _config_map(each)
        for each in written
        if each.namespace in spaces
        or (spaces and "" in (each.namespace, *spaces))
        or any(key.endswith(_SERVER) for key in _values(each))
    ]
    pods = [
        (each.namespace, mapping_at(each.content, _PODS[each.kind]))
        for each in manifests
        if each.kind in _PODS and (each.namespace in spaces or "" in (each.namespace, *spaces))
    ]
    found = [
        CorefileText(mounted.source, mounted)
        for mounted in corefiles(config_maps, pods if spaces else ())
    ]
    used = {id(source) for each in found if each.blocks for source in each.used}
    rest = (each.values.items() for each in config_maps)
    return [
        *found,
        *(
            CorefileText(source)
            for values in rest
            for key, source in values
            if key.endswith(_SERVER) and id(source) not in used
        ),
    ]


def corefile_in(file: str, content: bytes) -> Mounted:
    """The Corefile of the ConfigMap in a file of manifests; raise CorefileError."""
    manifests, problems, left_out = _manifests(read_objects(content, file), file, content)
    every = [each.mounted for each in corefiles_of(manifests) if each.mounted is not None]
    found = [each for each in every if each.main.name == _USUAL] if len(every) > 1 else every
    if len(found) == 1:
        return found[0]
    what = ", ".join(sorted({each.kind for each in manifests})) or "; ".join([*problems, *left_out])
    raise CorefileError(
        Position(file, 1, 1),
        f"this is not a Corefile, but a manifest ({what or 'empty'}) in which no ConfigMap has a value {COREFILE}"
        if not every
        else f"several ConfigMaps have a value {COREFILE}, and none is called {_USUAL}; write one of them to a file",
    )


_USUAL: Final = "coredns"  # the name of the ConfigMap in most clusters


def _values(manifest: Manifest) -> dict[str, Any]:
    return mapping_at(manifest.content, "data")


def _config_map(manifest: Manifest) -> ConfigMap:
    values = _values(manifest)
    found = {
        key: _source(manifest, key, text) for key, text in values.items() if isinstance(text, str)
    }
    return ConfigMap(manifest.namespace, manifest.name, found)


def _source(manifest: Manifest, key: str, text: str) -> Source:
    """A value of a ConfigMap, and where its text begins."""
    node = field_node(manifest.node, f"data[{key}]")
    place = manifest.at(f"data[{key}]")
    lines = (manifest.whole or b"").decode("utf-8", "replace").removeprefix("\ufeff").split("\n")
    if getattr(node, "style", None) != "|":
        rest = lines[place.line : place.line + len(text)]
        raw = "\n".join((lines[place.line - 1][place.column - 1 :], *rest))
        words = _words(raw, getattr(node, "style", None) or "", text, place)
        return Source(text, manifest.file, place.line, place.column - 1, str(manifest), words)
    first = next((at for at, each in enumerate(text.split("\n")) if each.strip()), 0)
    written = lines[place.line + first] if place.line + first < len(lines) else ""
    wanted = text.split("\n")[first]
    indent = len(written) - len(written.lstrip()) - (len(wanted) - len(wanted.lstrip()))
    return Source(text, manifest.file, place.line + 1, max(indent, 0), str(manifest))


# The characters of strings by their style, and those that are white space or stand for nothing.
_CHARACTERS: Final = {
    '"': re.compile(r"\\(?:u[dD][89ABab]..\\u....|x..|u....|U.{8}|\r?\n|.)|[^\\]", re.DOTALL),
    "'": re.compile(r"''|.", re.DOTALL),
}
_ANY: Final = re.compile(r".", re.DOTALL)
_SPACE: Final = re.compile(
    r"\s|\\(?:[nrtvf _NLP\t\r\n]|(?:x|u00)(?:0[9A-Da-d]|20|85|[Aa]0))|\\\r\n"
)


def _words(
    raw: str, style: str, text: str, start: Position
) -> dict[tuple[int, int], tuple[int, int]]:
    """Where the words of a text are in a file by where they are in the text; `raw` is the file from `start` on."""
    _, line, column = start
    if style == ">":
        raw, line, column = raw.partition("\n")[2], line + 1, 1
    elif style:
        raw, column = raw[1:], column + 1
    quote = style if style in _CHARACTERS else ""
    written = (each[0] for each in _CHARACTERS.get(style, _ANY).finditer(raw))
    found: dict[tuple[int, int], tuple[int, int]] = {}
    row, at, is_within = 1, 1, False
    for each in text:
        if not each.isspace():
            place, shown = (line, column), next(written, "")
            while _SPACE.fullmatch(shown):
                line, column = (line + 1, 1) if "\n" in shown else (line, column + len(shown))
                place, shown = (line, column), next(written, "")
            if shown in ("", quote) or (len(shown) == 1 and shown != each):
                return {}
            if not is_within:
                found[row, at] = place
            column += len(shown)
        is_within = not each.isspace()
        row, at = (row + 1, 1) if each == "\n" else (row, at + 1)
    return found


def _annotations(manifest: Manifest) -> Iterator[Silence]:
    for key, reason in manifest.annotations.items():
        if key.startswith(ANNOTATION):
            place = manifest.at(f"metadata.annotations[{key}]")
            code = key.removeprefix(ANNOTATION)
            yield Silence(place, place, place, 0, str(manifest), code, reason.strip())


WITHOUT_EFFECT: Final = "HS003"
WITHOUT_REASON: Final = "HS004"


class Judgement(NamedTuple):
    """The findings, and those that silences removed."""

    findings: list[Finding]
    silenced: list[Finding]


def judge(
    objects: Objects,
    silences: Iterable[Silence] = (),
    filed: SilenceFile = NO_FILE,
    *,
    preview: bool = False,
) -> Judgement:
    """Run all checks, with `preview` also those of new rules; `filed` has the silences of a file."""
    assert MODULES, "their import enters the checks"
    known = rules()
    left_out = frozenset() if preview else previews()
    found = [
        Finding(known[code], remark.level or known[code].level, remark)
        for code, function in CHECKS.items()
        if code not in left_out
        for remark in function(objects)
    ]
    listed = [each for each in silences if each.code not in left_out or not each.reason]
    patterns = [each for each in filed.patterns if each.code not in left_out or not each.reason]
    used: set[Silence | SilencePattern] = set()
    shown, silenced = [], []
    for each in found:
        silence = next((one for one in listed if _is_about(one, each, objects)), None)
        pattern = next((one for one in patterns if one.silences(each.rule.code, each.remark)), None)
        used |= {one for one in (silence, pattern) if one is not None}
        if silence is not None:
            silenced.append(each._replace(silenced=silence.reason))
        elif pattern is not None:
            silenced.append(each._replace(silenced=pattern.reason, is_outside=True))
        else:
            shown.append(each)
    remarks = [
        *_of_silences([each for each in listed if each not in used]),
        *_of_patterns([each for each in patterns if each not in used], filed, objects),
    ]
    for code, remark in remarks:
        shown.append(Finding(known[code], known[code].level, remark))
    return Judgement(sorted(shown, key=_order), silenced)


def _order(finding: Finding) -> tuple[object, ...]:
    return (*finding.remark.position, finding.rule.code, finding.message)


def _is_about(silence: Silence, finding: Finding, objects: Objects) -> bool:
    remark = finding.remark
    if silence.code != finding.rule.code or silence.at.file != remark.position.file:
        return False
    if not silence.reason:
        return False
    if silence.place:
        return silence.place == remark.place
    if silence.line == remark.position.line:
        return True
    return any(
        str(each) == remark.place
        and each.file == silence.at.file
        and each.at("").line == silence.line
        for each in objects.manifests
        if remark.place
    )


def _unused(code: str, reason: str, write: str, where: str, otherwise: str) -> tuple[str, str]:
    """The rule about a silence without effect, and the sentence; `where` nothing is found, `otherwise` for no rule."""
    if code not in rules():
        hint = did_you_mean(code, rules()) or otherwise
        return WITHOUT_EFFECT, f'there is no rule "{code}"{hint}'
    if not reason:
        return WITHOUT_REASON, f"{code} is silenced without a reason, so it is not; {write}"
    return WITHOUT_EFFECT, f"nothing {where}, so the silence has no effect; remove it"


def _of_silences(unused: Iterable[Silence]) -> Iterator[tuple[str, Remark]]:
    for each in unused:
        code, sentence = _unused(
            each.code,
            each.reason,
            "write the reason after the code",
            f"here is found by {each.code}",
            "; write # hsdns: ignore CODE REASON",
        )
        is_repaired = not each.place and each.reason and each.code in rules()
        edit = Edit(each.start, each.end, "") if is_repaired else None
        yield code, Remark(each.at, each.place, "", sentence, edit=edit)


def _of_patterns(
    unused: Iterable[SilencePattern], filed: SilenceFile, objects: Objects
) -> Iterator[tuple[str, Remark]]:
    for each in unused:
        if each.code not in rules() or not each.reason or filed.is_due(each, objects):
            named = (("object", each.object), ("path", each.path))
            parts = " and ".join(f'{word} "{text}"' for word, text in named if text)
            where = f"is found by {each.code} for {parts}"
            code, sentence = _unused(
                each.code, each.reason, "write one as reason", where, "; hsdns rule lists them"
            )
            yield code, Remark(each.at, "", "", sentence)
